/* test_sampler.c: the chain of the sampler, one fact a test, and the whole chain against a naive one that sorts
 * everything. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/rng.h>
#include <engine/sampler.h>

/* The linker sends the sampler's draws through here. */
double __real_halo_rng_uniform(uint64_t seed, uint64_t position, uint32_t lane);
double __wrap_halo_rng_uniform(uint64_t seed, uint64_t position, uint32_t lane);

static uint32_t n_draws;
static double forced = -1; /* >= 0: what every draw gives */

double __wrap_halo_rng_uniform(uint64_t seed, uint64_t position, uint32_t lane)
{
    n_draws++;
    return forced >= 0 ? forced : __real_halo_rng_uniform(seed, position, lane);
}

static const struct halo_sampler_params plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};

static int32_t draw(uint32_t n, const float *logits, const struct halo_sampler_params *params, const int32_t *tokens,
                    uint32_t n_tokens, uint64_t position)
{
    struct halo_sampler sampler;
    float *copy = malloc(n * sizeof(*copy));
    memcpy(copy, logits, n * sizeof(*copy));
    assert_int_equal(halo_sampler_init(&sampler, n), 0);
    int32_t id = halo_sampler_draw(&sampler, params, logits, tokens, n_tokens, position);
    assert_memory_equal(copy, logits, n * sizeof(*copy)); /* the unmodified logits are reported: they must stay so */
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(sampler.counts[i], 0);
    halo_sampler_finish(&sampler);
    free(copy);
    return id;
}

/* Which ids can come out, found by walking the uniform number through [0, 1). */
static uint32_t survivors(uint32_t n, const float *logits, const struct halo_sampler_params *params,
                          const int32_t *tokens, uint32_t n_tokens)
{
    uint32_t set = 0;
    assert_true(n <= 32);
    for (int i = 0; i < 4000; i++) {
        forced = i / 4000.0;
        set |= 1u << draw(n, logits, params, tokens, n_tokens, 0);
    }
    forced = -1;
    return set;
}

/* logits of given probabilities */
static void from_probabilities(const double *p, float *logits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        logits[i] = (float)log(p[i]);
}

static const double quarters[4] = {0.4, 0.3, 0.2, 0.1};

static void greedy_draws_nothing_and_takes_the_lowest_id_on_a_tie(void **state)
{
    struct halo_sampler_params params = plain;
    float logits[6] = {1, 3, 2, 3, 3, -1};
    params.temperature = 0;
    n_draws = 0;
    for (uint64_t position = 0; position < 20; position++) {
        params.seed = position * 77;
        assert_int_equal(draw(6, logits, &params, NULL, 0, position), 1);
    }
    params.temperature = -1;
    assert_int_equal(draw(6, logits, &params, NULL, 0, 0), 1);
    assert_int_equal(n_draws, 0);
    params.temperature = 0.5;
    draw(6, logits, &params, NULL, 0, 0);
    assert_int_equal(n_draws, 1); /* exactly one otherwise */
}

static void top_k_comes_before_the_softmax(void **state)
{
    float logits[4];
    struct halo_sampler_params params = plain;
    from_probabilities(quarters, logits, 4);
    params.top_p = 0.5;
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 3); /* 0.4 is less than half */
    params.top_k = 2;                                            /* 0.4 of 0.7 is more than half */
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 1);
}

static void min_p_is_relative_to_the_best(void **state)
{
    float logits[4];
    struct halo_sampler_params params = plain;
    from_probabilities(quarters, logits, 4);
    params.min_p = 0.3; /* of 0.4: 0.12 */
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 7);
    params.min_p = 0.76;
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 1);
    params.min_p = 1;
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 1); /* the best always stays */
}

static void bias_comes_before_the_chain(void **state)
{
    float logits[4];
    struct halo_logit_bias biases[2] = {{3, 5}, {0, -10000}};
    struct halo_sampler_params params = plain;
    from_probabilities(quarters, logits, 4);
    params.top_k = 1;
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 1);
    params.biases = biases;
    params.n_biases = 1;
    assert_int_equal(survivors(4, logits, &params, NULL, 0), 8); /* it made its way past top-k */
    params.top_k = 0;
    params.n_biases = 2;
    assert_int_equal(survivors(4, logits, &params, NULL, 0) & 1, 0); /* banned */
    params.temperature = 0;
    params.n_biases = 1;
    assert_int_equal(draw(4, logits, &params, NULL, 0, 0), 3); /* greedy sees it too */
}

static void penalties_count_the_prompt_within_the_window(void **state)
{
    float logits[4] = {2.0f, 1.5f, -1.0f, 0.5f};
    int32_t tokens[5] = {0, 2, 2, 3, 3}; /* the prompt's and the reply's alike */
    struct halo_sampler_params params = plain;
    params.temperature = 0;
    params.repeat_penalty = 2;
    params.repeat_window = 5;
    assert_int_equal(draw(4, logits, &params, tokens, 5, 0), 1); /* 2.0 / 2 < 1.5 */
    params.repeat_window = 4;
    assert_int_equal(draw(4, logits, &params, tokens, 5, 0), 0); /* token 0 is out of the window */
    params.repeat_window = 0;
    assert_int_equal(draw(4, logits, &params, tokens, 5, 0), 0);
    float negative[2] = {-1.0f, -1.5f};
    int32_t first[1] = {0};
    params.repeat_window = 64;
    assert_int_equal(draw(2, negative, &params, first, 1, 0),
                     1); /* -1 * 2 is worse than -1.5: a penalty never rewards */
}

static void presence_counts_once_and_frequency_each_time(void **state)
{
    float logits[3] = {2.0f, 1.0f, 0.0f};
    int32_t tokens[4] = {0, 0, 0, 1};
    struct halo_sampler_params params = plain;
    params.temperature = 0;
    params.repeat_window = 64;
    params.presence_penalty = 0.9; /* 1.1, 0.1, 0 */
    assert_int_equal(draw(3, logits, &params, tokens, 4, 0), 0);
    params.presence_penalty = 2.5; /* -0.5, -1.5, 0 */
    assert_int_equal(draw(3, logits, &params, tokens, 4, 0), 2);
    params.presence_penalty = 0;
    params.frequency_penalty = 0.5; /* 0.5, 0.5, 0: the lowest id of the tie */
    assert_int_equal(draw(3, logits, &params, tokens, 4, 0), 0);
    params.frequency_penalty = 0.51; /* 0.47, 0.49, 0 */
    assert_int_equal(draw(3, logits, &params, tokens, 4, 0), 1);
}

static void temperature_changes_no_survivor(void **state)
{
    float logits[4];
    struct halo_sampler_params params = plain;
    from_probabilities(quarters, logits, 4);
    for (int i = 0; i < 3; i++) {
        params.temperature = (double[]){0.2, 1, 3}[i];
        params.top_p = 0.65;
        params.min_p = 0;
        assert_int_equal(survivors(4, logits, &params, NULL, 0), 3);
        params.top_p = 1;
        params.min_p = 0.4;
        assert_int_equal(survivors(4, logits, &params, NULL, 0), 7);
    }
}

static double chi_square(const uint32_t *counts, const double *p, uint32_t n, uint32_t n_draws_made)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double expected = p[i] * n_draws_made;
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

static void frequencies_follow_the_probabilities(void **state)
{
    enum { N = 8, DRAWS = 200000 };
    struct halo_sampler sampler;
    float logits[N];
    double p[N], warm[N], total = 0;
    uint32_t counts[N] = {0};
    struct halo_sampler_params params = plain;
    assert_int_equal(halo_sampler_init(&sampler, N), 0);
    params.temperature = 1.7;
    params.seed = 42;
    for (uint32_t i = 0; i < N; i++) {
        logits[i] = (float)(i * 0.5 - 2);
        total += p[i] = exp(logits[i] / params.temperature);
    }
    for (uint32_t i = 0; i < N; i++)
        warm[i] = p[i] /= total;
    warm[0] *= 1.05; /* a distribution that is only a little wrong */
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[halo_sampler_draw(&sampler, &params, logits, NULL, 0, position)]++;
    double good = chi_square(counts, p, N, DRAWS), bad = chi_square(counts, warm, N, DRAWS);
    print_message(
        "chi-square with 7 degrees of freedom: %.2f; of a distribution off by 5 %% in its rarest token: %.2f\n", good,
        bad);
    assert_true(good < 35); /* one in 100,000 by chance */
    params.top_k = 4;       /* the same through the sorted path, of four */
    memset(counts, 0, sizeof(counts));
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[halo_sampler_draw(&sampler, &params, logits, NULL, 0, position)]++;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(counts[i], 0);
    double rest = p[4] + p[5] + p[6] + p[7];
    double upper[4] = {p[4] / rest, p[5] / rest, p[6] / rest, p[7] / rest};
    assert_true(chi_square(counts + 4, upper, 4, DRAWS) < 28);
    double wrong[4] = {upper[0] * 1.1, upper[1], upper[2], upper[3] - upper[0] * 0.1};
    assert_true(chi_square(counts + 4, wrong, 4, DRAWS) > 28); /* the test can tell */
    halo_sampler_finish(&sampler);
}

/* ---- the naive chain ---- */

struct naive {
    double logit;
    int32_t id;
};

static int naive_order(const void *a, const void *b)
{
    const struct naive *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

static int naive_by_id(const void *a, const void *b)
{
    return ((const struct naive *)a)->id - ((const struct naive *)b)->id;
}

static int32_t naive_draw(uint32_t n, const float *logits, const struct halo_sampler_params *params, uint64_t position)
{
    struct naive c[512];
    double total = 0, sum = 0;
    uint32_t n_vocab = n;
    for (uint32_t i = 0; i < n; i++)
        c[i] = (struct naive){logits[i], (int32_t)i};
    qsort(c, n, sizeof(*c), naive_order);
    if (params->top_k > 0 && params->top_k < n)
        n = params->top_k;
    for (uint32_t i = 0; i < n; i++)
        total += exp(c[i].logit - c[0].logit);
    for (uint32_t i = 0; params->top_p < 1 && i < n; i++) {
        sum += exp(c[i].logit - c[0].logit);
        if (sum >= params->top_p * total)
            n = i + 1;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (params->min_p <= 0 || i == 0 || c[i].logit >= c[0].logit + log(params->min_p))
            kept = i + 1;
    double best = c[0].logit;
    if (params->top_p >= 1 && (params->top_k == 0 || params->top_k >= n_vocab))
        qsort(c, kept, sizeof(*c), naive_by_id);
    total = sum = 0;
    for (uint32_t i = 0; i < kept; i++)
        total += exp((c[i].logit - best) / params->temperature);
    double uniform = __real_halo_rng_uniform(params->seed, position, 0) * total;
    for (uint32_t i = 0; i < kept; i++) {
        sum += exp((c[i].logit - best) / params->temperature);
        if (uniform < sum)
            return c[i].id;
    }
    return c[kept - 1].id;
}

static void the_chain_equals_one_that_sorts_everything(void **state)
{
    float logits[512];
    uint32_t distinct[512] = {0}, n_distinct = 0;
    srand(3);
    for (int round = 0; round < 20000; round++) {
        uint32_t n = 2 + (uint32_t)(rand() % 510);
        for (uint32_t i = 0; i < n; i++)
            logits[i] = (float)(rand() % 200) / 16 - 6; /* many ties */
        struct halo_sampler_params params = plain;
        params.temperature = (double[]){0.1, 0.8, 1, 2.5}[rand() % 4];
        params.top_k = (uint32_t[]){0, 1, 5, 40, 100000}[rand() % 5];
        params.top_p = (double[]){1, 0.95, 0.5, 0.01, 0}[rand() % 5];
        params.min_p = (double[]){0, 0.05, 0.5}[rand() % 3];
        params.seed = (uint64_t)round;
        int32_t got = draw(n, logits, &params, NULL, 0, (uint64_t)round * 3);
        assert_int_equal(got, naive_draw(n, logits, &params, (uint64_t)round * 3));
        n_distinct += distinct[got]++ == 0;
    }
    assert_true(n_distinct > 400);
}

/* The list is made by a full sort; what it says of its own length is checked by taking no entry more. */
static void a_list_gives_what_the_row_gives(void **state)
{
    enum { N = 300 };
    float logits[N];
    uint32_t n_of_lists = 0, n_of_rows = 0;
    const struct halo_logit_bias bias = {7, 1};
    const int32_t tokens[3] = {1, 2, 3};
    srand(5);
    for (uint32_t round = 0; round < 20000; round++) {
        struct naive c[N];
        for (uint32_t i = 0; i < N; i++) {
            logits[i] = round & 1 ? rintf((float)(rand() % 9) / 4 - 1) : (float)rand() / 1e8f; /* -0 as well as 0 */
            c[i] = (struct naive){logits[i], (int32_t)i};
        }
        qsort(c, N, sizeof(*c), naive_order);
        struct halo_sampler_params params = plain;
        params.temperature = (double[]){0, 0.1, 0.8, 2.5}[rand() % 4];
        params.top_k = (uint32_t[]){0, 1, 5, 40, N - 1, N, 100000}[rand() % 7];
        params.top_p = (double[]){1, 0.95, 0.5, 0}[rand() % 4];
        params.min_p = (double[]){0, 0.05, 0.5}[rand() % 3];
        params.seed = round;
        params.repeat_window = (uint32_t)rand() % 2 * 64;
        params.repeat_penalty = rand() % 8 ? 1 : 1.1;
        params.presence_penalty = rand() % 8 ? 0 : 0.5;
        params.biases = &bias;
        params.n_biases = rand() % 8 == 0;
        bool penalised = params.repeat_window > 0 && (params.repeat_penalty != 1 || params.presence_penalty != 0);
        uint32_t n = halo_sampler_n_top(&params, N), cut = params.top_k < N ? params.top_k : 0;
        assert_int_equal(n, penalised || params.n_biases > 0 ? 0 : params.temperature <= 0 ? 1 : cut);
        n_of_lists += n > 0;
        n_of_rows += n == 0;
        if (n == 0)
            continue;
        struct halo_candidate *top = malloc(n * sizeof(*top));
        for (uint32_t i = 0; i < n; i++)
            top[i] = (struct halo_candidate){(float)c[i].logit, c[i].id};
        struct halo_sampler sampler;
        assert_int_equal(halo_sampler_init(&sampler, N), 0);
        int32_t want = draw(N, logits, &params, tokens, 3, round);
        assert_int_equal(halo_sampler_draw_top(&sampler, &params, top, round), want);
        halo_sampler_finish(&sampler);
        free(top);
    }
    assert_true(n_of_lists > 5000 && n_of_rows > 5000);
}

static void tops_equal_a_full_sort(void **state)
{
    float logits[512];
    struct halo_candidate top[64];
    srand(4);
    for (int round = 0; round < 3000; round++) {
        uint32_t n = 1 + (uint32_t)(rand() % 511), k = (uint32_t)(rand() % 65);
        struct naive c[512];
        for (uint32_t i = 0; i < n; i++) {
            logits[i] = (float)(rand() % 50) / 4;
            c[i] = (struct naive){logits[i], (int32_t)i};
        }
        qsort(c, n, sizeof(*c), naive_order);
        uint32_t got = halo_logits_top(logits, n, k, top);
        assert_int_equal(got, k < n ? k : n);
        for (uint32_t i = 0; i < got; i++)
            assert_int_equal(top[i].id, c[i].id);
        assert_int_equal(halo_logits_argmax(logits, n), c[0].id);
    }
}

static void every_kind_of_nonsense_is_seen(void **state)
{
    float logits[1000];
    for (int i = 0; i < 1000; i++)
        logits[i] = (float)i * 1e35f;
    assert_true(halo_logits_finite(logits, 1000));
    for (int at = 0; at < 1000; at += 37)
        for (int kind = 0; kind < 4; kind++) {
            float kept = logits[at];
            logits[at] = (float[]){NAN, -NAN, INFINITY, -INFINITY}[kind];
            assert_false(halo_logits_finite(logits, 1000));
            logits[at] = kept;
        }
    assert_true(halo_logits_finite(logits, 1000));
}

static void log_sum_exp_does_not_overflow(void **state)
{
    float logits[3] = {1000, 1000, -1000};
    assert_true(fabs(halo_logits_lse(logits, 3) - (1000 + log(2))) < 1e-12);
    float low[2] = {-3e38f, -3e38f};
    assert_true(isfinite(halo_logits_lse(low, 2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_draws_nothing_and_takes_the_lowest_id_on_a_tie),
        cmocka_unit_test(top_k_comes_before_the_softmax),
        cmocka_unit_test(min_p_is_relative_to_the_best),
        cmocka_unit_test(bias_comes_before_the_chain),
        cmocka_unit_test(penalties_count_the_prompt_within_the_window),
        cmocka_unit_test(presence_counts_once_and_frequency_each_time),
        cmocka_unit_test(temperature_changes_no_survivor),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(the_chain_equals_one_that_sorts_everything),
        cmocka_unit_test(a_list_gives_what_the_row_gives),
        cmocka_unit_test(tops_equal_a_full_sort),
        cmocka_unit_test(every_kind_of_nonsense_is_seen),
        cmocka_unit_test(log_sum_exp_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
