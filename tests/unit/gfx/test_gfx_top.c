/* test_gfx_top.c: lists of the largest logits, launch by launch as the device makes them, against a full sort. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

static int falling(const void *a, const void *b)
{
    const struct halo_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The launches for the lists of n_rows rows: [n_rows][k], freshly allocated. `ret_n_launches` may be NULL. */
static struct halo_candidate *lists_of(const float *logits, uint32_t n, uint32_t n_rows, uint32_t k,
                                       uint32_t *ret_n_launches)
{
    struct halo_top_args args = {.logits = logits, .n = n, .k = k};
    struct halo_candidate *before = NULL;
    for (uint32_t n_launches = 1;; n_launches++) {
        uint32_t n_parts = HALO_HIP_CEIL(args.n, HALO_TOP_PART);
        args.to = malloc((size_t)n_rows * n_parts * k * sizeof(*args.to));
        memset(args.to, 0x55, (size_t)n_rows * n_parts * k * sizeof(*args.to));
        gfx_run("top", n_parts, n_rows, 1, &args);
        free(before);
        if (n_parts == 1) {
            if (ret_n_launches)
                *ret_n_launches = n_launches;
            return args.to;
        }
        args.logits = NULL;
        args.from = before = args.to;
        args.n = n_parts * k;
    }
}

static void check_list(const struct halo_candidate *have, const float *logits, uint32_t n, uint32_t k)
{
    struct halo_candidate *want = malloc(n * sizeof(*want));
    for (uint32_t i = 0; i < n; i++)
        want[i] = (struct halo_candidate){logits[i], (int32_t)i};
    qsort(want, n, sizeof(*want), falling);
    for (uint32_t i = 0; i < k; i++)
        if (have[i].id != (i < n ? want[i].id : -1) ||
            (i < n && memcmp(&have[i].logit, &want[i].logit, sizeof(float)) != 0))
            fail_msg("%u of %u: entry %u is %d (%.9g), wanted %d (%.9g)", k, n, i, have[i].id, (double)have[i].logit,
                     i < n ? want[i].id : -1, i < n ? (double)want[i].logit : 0);
    free(want);
}

/* Rows of one kind each. */
enum { RANDOM, FEW_NUMBERS, ZEROS, ALL_EQUAL, RISING, FALLING, DENORMAL, EXTREME, BEST_TOGETHER, N_KINDS };

static void fill(float *row, uint32_t n, uint32_t kind, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = gfx_random(&seed);
        switch (kind) {
        case RANDOM: row[i] = gfx_random_float(&seed) * 20; break;
        case FEW_NUMBERS: row[i] = (float)(r >> 8 & 7) - 3; break;
        case ZEROS: row[i] = r & 256 ? 0.0f : -0.0f; break;
        case ALL_EQUAL: row[i] = -2.5f; break;
        case RISING: row[i] = (float)i - 1000; break;
        case FALLING: row[i] = 1000 - (float)i; break;
        case DENORMAL: row[i] = (r & 256 ? 1.0f : -1.0f) * (float)(r >> 9 & 1023) * 0x1p-149f; break;
        case EXTREME: row[i] = r & 256 ? 0x1.fffffep127f : r & 512 ? -0x1.fffffep127f : (float)(r >> 10 & 3); break;
        default: row[i] = i >= n / 2 && i < n / 2 + 200 ? 5 + (float)(i % 10) : gfx_random_float(&seed); break;
        }
    }
}

static void every_length(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 31, 32, 33, 127, 128, 129, 1000, 8191, 8192, 8193, 16385};
    static const uint32_t counts[] = {1, 2, 40, 127, HALO_CANDIDATES_MAX};
    for (uint32_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        const uint32_t n = lengths[l];
        float *logits = gfx_zeros((size_t)N_KINDS * n * sizeof(float));
        for (uint32_t kind = 0; kind < N_KINDS; kind++)
            fill(logits + kind * n, n, kind, 17 * l + kind);
        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            struct halo_candidate *lists = lists_of(logits, n, N_KINDS, counts[c], NULL);
            for (uint32_t kind = 0; kind < N_KINDS; kind++)
                check_list(lists + kind * counts[c], logits + kind * n, n, counts[c]);
            free(lists);
        }
        struct halo_candidate one[N_KINDS];
        struct halo_top_args args = {.logits = logits, .to = one, .n = n, .k = 1};
        gfx_run("largest", 1, N_KINDS, 1, &args);
        for (uint32_t kind = 0; kind < N_KINDS; kind++)
            check_list(&one[kind], logits + kind * n, n, 1);
        free(logits);
    }
}

/* A vocabulary of a real model, and one so large that the candidates left of all parts are more than a part. */
static void real_and_larger_vocabularies(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, k, kind, n_launches;
    } rows[] = {{151936, 40, RANDOM, 2},
                {151936, HALO_CANDIDATES_MAX, BEST_TOGETHER, 2},
                {151936, 2, ALL_EQUAL, 2},
                {128256, 40, FEW_NUMBERS, 2},
                {65 * HALO_TOP_PART, HALO_CANDIDATES_MAX, RANDOM, 3},
                {65 * HALO_TOP_PART, HALO_CANDIDATES_MAX, ZEROS, 3}};
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t n_launches;
        float *logits = gfx_zeros((size_t)rows[i].n * sizeof(float));
        fill(logits, rows[i].n, rows[i].kind, i);
        struct halo_candidate *list = lists_of(logits, rows[i].n, 1, rows[i].k, &n_launches);
        assert_int_equal(n_launches, rows[i].n_launches);
        check_list(list, logits, rows[i].n, rows[i].k);
        free(list);
        free(logits);
    }
}

/* A number that is not finite, anywhere in a row: its list has no id. The row beside it is unaffected. */
static void no_number_gives_no_list(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 33, 1000, 20004};
    const float broken[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (uint32_t l = 0; l < 4; l++)
        for (uint32_t b = 0; b < 4; b++) {
            const uint32_t n = lengths[l], places[] = {0, n / 2, n - 1};
            float *logits = gfx_floats(2 * n, 3);
            struct halo_candidate one[2];
            struct halo_top_args args = {.logits = logits, .to = one, .n = n, .k = 1};
            for (uint32_t p = 0; p < 3; p++) {
                const float kept = logits[places[p]];
                logits[places[p]] = broken[b];
                struct halo_candidate *lists = lists_of(logits, n, 2, 40, NULL);
                assert_int_equal(lists[0].id, -1);
                check_list(lists + 40, logits + n, n, 40);
                free(lists);
                gfx_run("largest", 1, 2, 1, &args);
                assert_int_equal(one[0].id, -1);
                check_list(&one[1], logits + n, n, 1);
                logits[places[p]] = kept;
            }
            for (uint32_t i = 0; i < n; i++)
                logits[i] = broken[b]; /* nothing but such */
            struct halo_candidate *lists = lists_of(logits, n, 2, 40, NULL);
            assert_int_equal(lists[0].id, -1);
            check_list(lists + 40, logits + n, n, 40);
            free(lists);
            free(logits);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(real_and_larger_vocabularies),
        cmocka_unit_test(no_number_gives_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
