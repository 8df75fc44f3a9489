/* test_gfx_rows.c: norms, rotation, activations, routing and the smaller ops, with odd widths, against plain loops in
 * double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/digest.h>
#include <kernels/op.h>

#include "gfx_fixture.h"

static const uint32_t widths[] = {1, 30, 96, 1024, 1376, 2080};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]), ROWS = 3 };

static void rmsnorm_width(uint32_t n, bool add)
{
    float *x = gfx_floats(ROWS * n, 1), *before = gfx_floats(ROWS * n, 1), *more = gfx_floats(ROWS * n, 2),
          *weight = gfx_floats(n, 3);
    float *out = gfx_zeros(ROWS * n * 4);
    const bool quantize = n % 32 == 0;
    uint8_t *act = gfx_zeros((size_t)ROWS * halo_hip_act_bytes(n)),
            *want_act = gfx_zeros((size_t)ROWS * halo_hip_act_bytes(n));
    struct halo_rmsnorm_args args = {x,    add ? more : NULL, weight, out, quantize ? act : NULL, n, 1e-5f, 1,
                                     NULL, add ? 0.75f : 1};
    gfx_run("rmsnorm", ROWS, 1, 1, &args);
    for (uint32_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (uint32_t i = r * n; i < r * n + n; i++) {
            const float want = (before[i] + (add ? more[i] : 0)) * args.x_scale;
            assert_true(x[i] == want);
            sum += (double)want * (double)want;
        }
        const double scale = 1 / sqrt(sum / n + 1e-5);
        for (uint32_t i = 0; i < n; i++)
            gfx_near((double)out[r * n + i], (double)x[r * n + i] * scale * (double)weight[i], 2e-6, 4, "rmsnorm", i);
        if (quantize)
            gfx_quantize(out + r * n, n, want_act + r * halo_hip_act_bytes(n));
    }
    assert_memory_equal(act, want_act, (size_t)ROWS * halo_hip_act_bytes(n));
    free(x);
    free(before);
    free(more);
    free(weight);
    free(out);
    free(act);
    free(want_act);
}

static void rmsnorm(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * N_WIDTHS; i++)
        rmsnorm_width(widths[i / 2], i % 2);
}

static void glu(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < N_WIDTHS; w++) {
        const uint32_t n = widths[w];
        float *gate = gfx_floats(ROWS * n, 1), *up = gfx_floats(ROWS * n, 2), *want = gfx_zeros(ROWS * n * 4);
        uint8_t *act = gfx_zeros((size_t)ROWS * halo_hip_act_bytes(n)),
                *want_act = gfx_zeros((size_t)ROWS * halo_hip_act_bytes(n));
        for (uint32_t i = 0; i < ROWS * n; i++) {
            gate[i] *= i % 5 == 0 ? 200 : 5;
            want[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
        }
        struct halo_glu_args args = {gate, up, gate, n % 32 == 0 ? act : NULL, n}; /* over its gate */
        gfx_run("glu_silu", HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), ROWS, 1, &args);
        for (uint32_t i = 0; i < ROWS * n; i++)
            gfx_near((double)gate[i], (double)want[i], 2e-6, fabs((double)want[i]) + 1, "glu", i);
        for (uint32_t r = 0; r < ROWS && n % 32 == 0; r++)
            gfx_quantize(gate + r * n, n, want_act + r * halo_hip_act_bytes(n));
        assert_memory_equal(act, want_act, (size_t)ROWS * halo_hip_act_bytes(n));
        free(gate);
        free(up);
        free(want);
        free(act);
        free(want_act);
    }
}

static void heads(void **state)
{
    (void)state;
    enum { Q = 7, K = 2, DIM = 80, ROT = 64 };
    float *q = gfx_floats(ROWS * Q * DIM, 1), *k = gfx_floats(ROWS * K * DIM, 2), *table = gfx_floats(ROWS * ROT, 3);
    float *q0 = gfx_floats(ROWS * Q * DIM, 1), *k0 = gfx_floats(ROWS * K * DIM, 2), *wq = gfx_floats(DIM, 4),
          *wk = gfx_floats(DIM, 5);
    struct halo_qk_norm_args norm = {q, k, wq, wk, Q, K, DIM, 1e-6f};
    gfx_run("qk_norm", HALO_HIP_CEIL(Q + K, HALO_HEAD_WAVES), ROWS, 1, &norm);
    for (uint32_t h = 0; h < ROWS * (Q + K); h++) {
        const bool is_q = h < ROWS * Q;
        const uint32_t at = (is_q ? h : h - ROWS * Q) * DIM;
        double sum = 0;
        for (uint32_t i = 0; i < DIM; i++)
            sum += pow((double)(is_q ? q0 : k0)[at + i], 2);
        for (uint32_t i = 0; i < DIM; i++)
            gfx_near((double)(is_q ? q : k)[at + i],
                     (double)((is_q ? q0 : k0)[at + i] * (is_q ? wq : wk)[i]) / sqrt(sum / DIM + 1e-6), 2e-6, 4,
                     "qk_norm", i);
    }
    /* q alone, without weights and with one for each head */
    float *each = gfx_floats(Q * DIM, 6);
    for (uint32_t own = 0; own < 2; own++) {
        memcpy(q0, q, ROWS * Q * DIM * 4);
        gfx_run("qk_norm", 1, ROWS, 1,
                &(struct halo_qk_norm_args){.q = q,
                                            .q_weight = own ? each : NULL,
                                            .n_head = Q,
                                            .head_dim = DIM,
                                            .eps = 1e-6f,
                                            .q_step = own ? DIM : 0});
        for (uint32_t h = 0; h < ROWS * Q; h++) {
            double sum = 0;
            for (uint32_t i = h * DIM; i < h * DIM + DIM; i++)
                sum += pow((double)q0[i], 2);
            for (uint32_t i = h * DIM; i < h * DIM + DIM; i++)
                gfx_near((double)q[i], (double)q0[i] * (own ? (double)each[i % (Q * DIM)] : 1) / sqrt(sum / DIM + 1e-6),
                         2e-6, 4, "qk_norm of q", i);
        }
    }
    free(each);
    for (uint32_t neox = 0; neox < 2; neox++) {
        memcpy(q0, q, ROWS * Q * DIM * 4);
        memcpy(k0, k, ROWS * K * DIM * 4);
        struct halo_rope_args rope = {q, k, table, Q, K, DIM, ROT};
        gfx_run(neox ? "rope_neox" : "rope_norm", HALO_HIP_CEIL(Q + K, HALO_HEAD_WAVES), ROWS, 1, &rope);
        for (uint32_t h = 0; h < ROWS * (Q + K); h++) {
            const bool is_q = h < ROWS * Q;
            const uint32_t at = (is_q ? h : h - ROWS * Q) * DIM, row = is_q ? h / Q : (h - ROWS * Q) / K;
            const float *from = (is_q ? q0 : k0) + at, *to = (is_q ? q : k) + at;
            for (uint32_t i = 0; i < ROT / 2; i++) {
                const uint32_t a = neox ? i : 2 * i, b = neox ? i + ROT / 2 : 2 * i + 1;
                const double c = (double)table[row * ROT + i], s = (double)table[row * ROT + ROT / 2 + i];
                gfx_near((double)to[a], (double)from[a] * c - (double)from[b] * s, 1e-6, 4, "rope", a);
                gfx_near((double)to[b], (double)from[a] * s + (double)from[b] * c, 1e-6, 4, "rope", b);
            }
            assert_memory_equal(from + ROT, to + ROT, (DIM - ROT) * 4);
        }
    }
    free(q);
    free(k);
    free(q0);
    free(k0);
    free(wq);
    free(wk);
    free(table);
}

/* Kinds of router logits, one for each row. */
enum {
    SPREAD,
    FEW_NUMBERS,
    EQUAL,
    ZEROS,
    TIES_LATE,
    NANS,
    ALL_NAN,
    ONE_INF,
    INFS,
    MINUS_INFS,
    ALL_MINUS_INF,
    N_ROUTES
};

static void fill_logits(float *row, uint32_t n, uint32_t kind, uint32_t seed)
{
    for (uint32_t e = 0; e < n; e++) {
        const uint32_t r = gfx_random(&seed) >> 8;
        switch (kind) {
        case FEW_NUMBERS: row[e] = (float)(r % 5) - 2; break;
        case EQUAL: row[e] = -3.25f; break;
        case ZEROS: row[e] = r % 3 == 0 ? -1 : r % 3 == 1 ? 0.0f : -0.0f; break; /* the sign of a zero says nothing */
        case TIES_LATE: row[e] = e >= n / 2 && e % 3 == 1 ? 9 : gfx_random_float(&seed); break;
        case NANS: row[e] = r % 4 == 0 ? (r & 8 ? NAN : -NAN) : gfx_random_float(&seed); break;
        case ALL_NAN: row[e] = NAN; break;
        case ONE_INF: row[e] = e == n / 3 ? INFINITY : gfx_random_float(&seed); break;
        case INFS: row[e] = r % 4 == 0 ? INFINITY : r % 4 == 1 ? -INFINITY : gfx_random_float(&seed); break;
        case MINUS_INFS: row[e] = e != n - 1 && r % 2 == 0 ? -INFINITY : gfx_random_float(&seed); break;
        case ALL_MINUS_INF: row[e] = -INFINITY; break;
        default: row[e] = gfx_random_float(&seed) * 20; break;
        }
    }
}

/* The largest that remains, ties to the lowest id, a NaN below every number. */
static uint32_t best_left(const float *logits, const bool *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t e = 0; e < n; e++)
        if (!taken[e] && (best == n || logits[e] > logits[best] || (isnan(logits[best]) && !isnan(logits[e]))))
            best = e;
    return best;
}

static void check_route(const float *choice, const float *logits, uint32_t n_expert, uint32_t n_used, bool normalise)
{
    bool *taken = gfx_zeros(n_expert);
    uint32_t *id = gfx_zeros(n_used * 4);
    double all = 0, chosen = 0;
    for (uint32_t s = 0; s < n_used; s++) {
        id[s] = best_left(logits, taken, n_expert);
        taken[id[s]] = true;
    }
    const double top = (double)logits[id[0]];
    for (uint32_t e = 0; e < n_expert; e++)
        all += exp((double)logits[e] - top);
    for (uint32_t s = 0; s < n_used; s++)
        chosen += exp((double)logits[id[s]] - top) / all;
    for (uint32_t s = 0; s < n_used; s++) {
        const double want = 2.5 * exp((double)logits[id[s]] - top) / all / (normalise ? chosen : 1);
        uint32_t have_id;
        memcpy(&have_id, choice + n_used + s, 4);
        if (have_id != id[s])
            fail_msg("%u of %u: slot %u is expert %u, wanted %u", n_used, n_expert, s, have_id, id[s]);
        if (isnan(want))
            assert_true(isnan(choice[s]));
        else /* the exponent, 40 at most, is off by half a unit in its last place */
            gfx_near((double)choice[s], want, 5e-6, want + 1e-30, "moe_route", s);
    }
    free(taken);
    free(id);
}

static void route(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_expert, n_used;
    } sizes[] = {{1, 1},   {2, 2},    {4, 4},   {8, 2},   {31, 3},  {32, 32},  {33, 1},  {33, 33},  {60, 4},   {128, 1},
                 {128, 8}, {128, 40}, {129, 8}, {160, 6}, {256, 8}, {512, 10}, {512, 1}, {512, 64}, {512, 512}};
    for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint32_t n = sizes[i / 2].n_expert, n_used = sizes[i / 2].n_used;
        float *logits = gfx_zeros((size_t)N_ROUTES * n * 4), *choice = gfx_zeros((size_t)N_ROUTES * 2 * n_used * 4);
        memset(choice, 0x55, (size_t)N_ROUTES * 2 * n_used * 4);
        for (uint32_t kind = 0; kind < N_ROUTES; kind++)
            fill_logits(logits + kind * n, n, kind, 31 * i + kind);
        struct halo_moe_route_args args = {
            .logits = logits, .choice = choice, .n_expert = n, .n_used = n_used, .normalise = i % 2, .scale = 2.5f};
        gfx_run("moe_route", N_ROUTES, 1, 1, &args);
        for (uint32_t kind = 0; kind < N_ROUTES; kind++)
            check_route(choice + kind * 2 * n_used, logits + kind * n, n, n_used, i % 2);
        free(logits);
        free(choice);
    }
}

/* Scores of experts, each gate's, and what the choice goes by: groups that are out have no order. */
struct scored {
    double score[512], order[512];
};

static double score_of(uint32_t gate, double x, double top, double all)
{
    return gate == HALO_MOE_SOFTMAX   ? exp(x - top) / all
           : gate == HALO_MOE_SIGMOID ? 1 / (1 + exp(-x))
                                      : sqrt(log1p(exp(x)));
}

static void keep_groups(struct scored *s, uint32_t n, uint32_t n_groups, uint32_t n_kept)
{
    double sums[32];
    for (uint32_t g = 0; g < n_groups; g++) {
        double best = -1e300, second = -1e300;
        for (uint32_t e = g * (n / n_groups); e < (g + 1) * (n / n_groups); e++) {
            second = fmax(second, fmin(best, s->order[e]));
            best = fmax(best, s->order[e]);
        }
        sums[g] = best + second;
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t n_better = 0;
        for (uint32_t other = 0; other < n_groups; other++)
            n_better += sums[other] > sums[g];
        for (uint32_t e = g * (n / n_groups); n_better >= n_kept && e < (g + 1) * (n / n_groups); e++)
            s->order[e] = -1e300;
    }
}

static void score_experts(struct scored *s, const struct halo_moe_route_args *args)
{
    double top = -1e300, all = 0;
    for (uint32_t e = 0; e < args->n_expert; e++)
        top = fmax(top, (double)args->logits[e]);
    for (uint32_t e = 0; e < args->n_expert; e++)
        all += exp((double)args->logits[e] - top);
    for (uint32_t e = 0; e < args->n_expert; e++) {
        s->score[e] = score_of(args->gate, (double)args->logits[e], top, all);
        s->order[e] = s->score[e] + (args->bias ? (double)args->bias[e] : 0);
    }
    if (args->n_groups > 1)
        keep_groups(s, args->n_expert, args->n_groups, args->n_groups_used);
}

static void check_scored(const struct halo_moe_route_args *args)
{
    struct scored s;
    double sum = 0;
    uint32_t ids[64];
    score_experts(&s, args);
    for (uint32_t k = 0; k < args->n_used; k++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < args->n_expert; e++)
            best = s.order[e] > s.order[best] ? e : best;
        s.order[best] = -2e300;
        ids[k] = best;
        sum += s.score[best];
    }
    for (uint32_t k = 0; k < args->n_used; k++) {
        uint32_t id;
        memcpy(&id, &args->choice[args->n_used + k], sizeof(id));
        assert_int_equal(id, ids[k]);
        double want = s.score[id] / (args->normalise ? fmax(sum, (double)HALO_MOE_SUM_MIN) : 1) * (double)args->scale;
        gfx_near((double)args->choice[k], want, 4e-6, want, "moe_route_scored", k);
    }
}

/* Logits far enough apart that rounding changes no order. */
static void route_scored(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_expert, n_used, n_groups, n_groups_used;
    } sizes[] = {{8, 2, 0, 0},   {31, 31, 1, 1},  {60, 4, 0, 0},  {64, 6, 8, 3},
                 {128, 8, 4, 2}, {160, 40, 0, 0}, {256, 8, 8, 4}, {512, 33, 0, 0}};
    for (uint32_t i = 0; i < 12 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint32_t n = sizes[i / 12].n_expert;
        float *logits = gfx_zeros(n * 4), *bias = gfx_zeros(n * 4),
              *choice = gfx_zeros((size_t)2 * sizes[i / 12].n_used * 4);
        for (uint32_t e = 0; e < n; e++) {
            logits[e] = 5.0f * (float)(e * 37 % n + (e * 37 % n) * (e * 37 % n) / (float)n) / (float)n - 3;
            bias[e] = 0.02f * (float)(e % 3);
        }
        struct halo_moe_route_args args = {.logits = logits,
                                           .choice = choice,
                                           .bias = i / 3 % 2 ? bias : NULL,
                                           .n_expert = n,
                                           .n_used = sizes[i / 12].n_used,
                                           .normalise = i / 6 % 2,
                                           .gate = i % 3,
                                           .n_groups = sizes[i / 12].n_groups,
                                           .n_groups_used = sizes[i / 12].n_groups_used,
                                           .scale = 2.5f};
        gfx_run("moe_route_scored", 1, 1, 1, &args);
        check_scored(&args);
        free(logits);
        free(bias);
        free(choice);
    }
}

/* The bits of additions in the order of the slots. Where there is no slot nothing is added, not even zero times
 * infinity: every other column of the last slot is infinite. */
static void slots(void **state)
{
    (void)state;
    static const uint32_t n_slots[] = {1, 2, 7, 8, 9, 16, 20};
    for (uint32_t i = 0; i < N_WIDTHS * 7; i++) {
        const uint32_t n = widths[i / 7], n_used = n_slots[i % 7];
        float *x = gfx_floats(ROWS * n_used * n, i), *choice = gfx_floats(ROWS * 2 * n_used, i + 1),
              *out = gfx_zeros(ROWS * n * 4), *want = gfx_zeros(ROWS * n * 4);
        for (uint32_t s = 0; s < ROWS * n_used; s++)
            for (uint32_t c = 0; c < n; c++) {
                float *sum = want + s / n_used * n + c, *value = x + s * n + c;
                *value = s % n_used == n_used - 1 && c % 2 ? INFINITY : *value;
                *sum = fmaf(choice[s / n_used * 2 * n_used + s % n_used], *value, *sum);
            }
        struct halo_moe_sum_args args = {.x = x, .choice = choice, .out = out, .n_cols = n, .n_used = n_used};
        gfx_run("moe_sum", HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), ROWS, 1, &args);
        assert_memory_equal(out, want, ROWS * n * 4);
        free(x);
        free(choice);
        free(out);
        free(want);
    }
}

static void sums(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < N_WIDTHS; w++) {
        const uint32_t n = widths[w], n_blocks = HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), index[ROWS] = {2, 2, 0};
        float *x = gfx_floats(ROWS * n, 1), *out = gfx_zeros(ROWS * n * 4);
        struct halo_gather_args gather = {x, index, out, n};
        gfx_run("gather_rows", n_blocks, ROWS, 1, &gather);
        for (uint32_t r = 0; r < ROWS; r++)
            assert_memory_equal(out + r * n, x + index[r] * n, n * 4);
        struct halo_add_args add = {out, x, ROWS * n};
        gfx_run("add", HALO_HIP_CEIL(ROWS * n, HALO_QUANTIZE_COLS), 1, 1, &add);
        for (uint32_t i = 0; i < ROWS * n; i++)
            assert_true(out[i] == x[index[i / n] * n + i % n] + x[i]);
        free(x);
        free(out);
    }
}

static void copy(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 1003, 4096, 20004};
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t n = lengths[k];
        float *from = gfx_floats(4 * n, 9 + k), *to = gfx_zeros(4 * n * 4 + 8);
        struct halo_copy_args args = {from, to, n};
        gfx_run("copy", HALO_HIP_CEIL(n, HALO_COPY_WORDS), 1, 1, &args);
        assert_memory_equal(to, from, n * 16u);
        assert_true(to[n * 4] == 0);
        free(from);
        free(to);
    }
}

/* Lists of no word, of fewer than there are threads, and of several rounds of all blocks. */
static void digest(void **state)
{
    (void)state;
    static const uint32_t lengths[HALO_DIGEST_SPANS] = {0, 1, 255, 20011};
    struct halo_digest_args args = {.to = gfx_zeros(HALO_DIGEST_SPANS * HALO_DIGEST_BLOCKS * sizeof(uint64_t))};
    for (uint32_t list = 0; list < HALO_DIGEST_SPANS; list++) {
        args.n[list] = lengths[list];
        args.from[list] = (const uint32_t *)(const void *)gfx_floats(lengths[list] > 0 ? lengths[list] : 1, 17 + list);
    }
    gfx_run("digest", HALO_DIGEST_BLOCKS, HALO_DIGEST_SPANS, 1, &args);
    for (uint32_t list = 0; list < HALO_DIGEST_SPANS; list++) {
        uint64_t want = 0, have = 0;
        for (uint32_t i = 0; i < lengths[list]; i++)
            want += halo_digest_word(args.from[list][i], i);
        for (uint32_t block = 0; block < HALO_DIGEST_BLOCKS; block++)
            have += args.to[list * HALO_DIGEST_BLOCKS + block];
        assert_true(have == want);
        free((void *)(uintptr_t)args.from[list]);
    }
    free(args.to);
}

/* What half_rows makes of rows of n. */
struct halves {
    uint16_t *half;
    float *scale;
};

static struct halves halves_zero(uint32_t n)
{
    return (struct halves){gfx_zeros((size_t)ROWS * n * 2), gfx_zeros(ROWS * 4)};
}

static void compare_halves(const struct halves *have, const float *x, uint32_t n)
{
    struct halves want = halves_zero(n);
    struct halo_half_args args = {.x = x, .half = want.half, .scale = want.scale, .n_cols = n};
    gfx_run("half_rows", ROWS, 1, 1, &args);
    assert_memory_equal(have->half, want.half, (size_t)ROWS * n * 2);
    assert_memory_equal(have->scale, want.scale, ROWS * 4);
    free(want.half);
    free(want.scale);
}

/* Norms of rows that an index picks: the bits of the f32 rows beside the halves. Large rows are scaled. */
static void halves_of_norms(void **state)
{
    (void)state;
    static const uint32_t cols[] = {32, 1376, 4096, 4128}, index[ROWS] = {2, 0, 1};
    for (uint32_t i = 0; i < sizeof(cols) / sizeof(cols[0]); i++) {
        const uint32_t n = cols[i];
        float *x = gfx_floats(ROWS * n, 1), *add = gfx_floats(ROWS * n, 2), *plain = gfx_floats(ROWS * n, 1),
              *weight = gfx_floats(n, 3), *out = gfx_zeros(ROWS * n * 4), *want = gfx_zeros(ROWS * n * 4);
        struct halves have = halves_zero(n);
        weight[n / 2] = 3e5f; /* its magnitude is beyond f16 */
        struct halo_rmsnorm_args args = {.x = x,
                                         .add = add,
                                         .weight = weight,
                                         .out = out,
                                         .n_cols = n,
                                         .eps = 1e-5f,
                                         .add_scale = 1,
                                         .x_scale = 1,
                                         .half = have.half,
                                         .half_scale = have.scale,
                                         .row_index = index};
        gfx_run("rmsnorm", ROWS, 1, 1, &args);
        compare_halves(&have, out, n);
        assert_true(have.scale[0] > 1);
        args.x = plain;
        args.out = want;
        args.half = NULL;
        args.row_index = NULL;
        gfx_run("rmsnorm", ROWS, 1, 1, &args);
        for (uint32_t r = 0; r < ROWS; r++)
            assert_memory_equal(out + r * n, want + index[r] * n, n * 4);
        void *buffers[] = {x, add, plain, weight, out, want, have.half, have.scale};
        for (uint32_t k = 0; k < sizeof(buffers) / sizeof(buffers[0]); k++)
            free(buffers[k]);
    }
}

static void halves_of_glu(void **state)
{
    (void)state;
    static const char *const names[] = {
        [HALO_GLU_SILU] = "silu",       [HALO_GLU_GELU] = "gelu",     [HALO_GLU_RELU2] = "relu2",
        [HALO_GLU_CLAMPED] = "clamped", [HALO_GLU_LINEAR] = "linear", [HALO_GLU_SIGMOID] = "sigmoid"};
    static const uint32_t cols[] = {32, 1024, 1056, 4096, 4128, HALO_GLU_HALF_COLS};
    for (uint32_t i = 0; i < 6 * sizeof(cols) / sizeof(cols[0]); i++) {
        const uint32_t n = cols[i / 6], act = i % 6;
        float *gate = gfx_floats(ROWS * n, 1), *up = gfx_floats(ROWS * n, 2), *out = gfx_zeros(ROWS * n * 4);
        struct halves have = halves_zero(n);
        gate[n - 1] = up[n - 1] = 700; /* times each other beyond f16, but for those that are limited */
        struct halo_glu_args glu = {.gate = gate, .up = act == HALO_GLU_RELU2 ? NULL : up, .out = out, .n_cols = n};
        struct halo_glu_half_args args = {
            .gate = gate, .up = glu.up, .half = have.half, .scale = have.scale, .n_cols = n};
        glu.limit = args.limit = i % 5 == 0 && glu.up ? 0.5f : 0;
        char name[40];
        snprintf(name, sizeof(name), "glu_%s", names[act]);
        gfx_run(name, HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), ROWS, 1, &glu);
        snprintf(name, sizeof(name), "glu_half_%s", names[act]);
        gfx_run(name, ROWS, 1, 1, &args);
        compare_halves(&have, out, n);
        void *buffers[] = {gate, up, out, have.half, have.scale};
        for (uint32_t k = 0; k < sizeof(buffers) / sizeof(buffers[0]); k++)
            free(buffers[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm),       cmocka_unit_test(glu),
        cmocka_unit_test(heads),         cmocka_unit_test(route),
        cmocka_unit_test(route_scored),  cmocka_unit_test(slots),
        cmocka_unit_test(sums),          cmocka_unit_test(copy),
        cmocka_unit_test(digest),        cmocka_unit_test(halves_of_norms),
        cmocka_unit_test(halves_of_glu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
