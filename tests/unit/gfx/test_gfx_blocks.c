/* test_gfx_blocks.c: residual streams, and compressed blocks of positions: made, stored, chosen and attended to,
 * against plain loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/op.h>

#include "gfx_fixture.h"

enum { PAGE = 32, N_POS = 150, DIM_MAX = 512 };
#define EPS 1e-5f

static const char *const type_names[] = {[HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8"};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* post[i], then comb[s][d] (op.h). */
static void back_of(const struct halo_streams_mix_args *a, const float *mix, double *ret)
{
    const uint32_t n = a->n;
    double *comb = ret + n;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = 2 * sigmoid((double)mix[n + i] * (double)a->scale[1] + (double)a->base[n + i]);
    for (uint32_t s = 0; s < n; s++) {
        double sum = 0;
        for (uint32_t d = 0; d < n; d++) {
            const uint32_t at = (2 + s) * n + d;
            sum += comb[n * s + d] = exp((double)mix[at] * (double)a->scale[2] + (double)a->base[at]);
        }
        for (uint32_t d = 0; d < n; d++)
            comb[n * s + d] = comb[n * s + d] / sum + (double)a->eps;
    }
    for (uint32_t turn = 1; turn < 2 * a->iterations; turn++) /* odd: over s; even: over d */
        for (uint32_t i = 0; i < n; i++) {
            double sum = (double)a->eps;
            for (uint32_t k = 0; k < n; k++)
                sum += comb[turn % 2 ? n * k + i : n * i + k];
            for (uint32_t k = 0; k < n; k++)
                comb[turn % 2 ? n * k + i : n * i + k] /= sum;
        }
}

static void streams_of(uint32_t n, uint32_t n_cols)
{
    enum { ROWS = 3 };
    const uint32_t n_mix = n * (n + 2), n_back = n * (n + 1), n_blocks = HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS);
    float *x = gfx_floats(ROWS * n * n_cols, n), *was = gfx_floats(ROWS * n * n_cols, n),
          *mix = gfx_floats(ROWS * n_mix, 2), *scale = gfx_floats(3, 3), *base = gfx_floats(n_mix, 4),
          *add = gfx_floats(ROWS * n_cols, 5), *out = gfx_zeros(ROWS * n_cols * sizeof(float)),
          *back = gfx_zeros(ROWS * n_back * sizeof(float));
    char name[32];
    struct halo_streams_mix_args args = {.x = x,
                                         .mix = mix,
                                         .scale = scale,
                                         .base = base,
                                         .out = out,
                                         .back = back,
                                         .n = n,
                                         .n_cols = n_cols,
                                         .iterations = 20,
                                         .eps = EPS};
    snprintf(name, sizeof(name), "streams_mix_n%d", n <= 4 ? 4 : 8);
    gfx_run(name, n_blocks, ROWS, 1, &args);
    struct halo_streams_add_args after = {.x = x, .back = back, .add = add, .n = n, .n_cols = n_cols};
    snprintf(name, sizeof(name), "streams_add_n%d", n <= 4 ? 4 : 8);
    gfx_run(name, n_blocks, ROWS, 1, &after);
    for (uint32_t r = 0; r < ROWS; r++) {
        double want[HALO_STREAMS_MAX * (HALO_STREAMS_MAX + 1)];
        back_of(&args, mix + r * n_mix, want);
        for (uint32_t i = 0; i < n_back; i++)
            gfx_near((double)back[r * n_back + i], want[i], 2e-6, 1, "back", i);
        for (uint32_t c = 0; c < n_cols; c++) {
            const float *column = was + (size_t)r * n * n_cols + c;
            double sum = 0;
            for (uint32_t s = 0; s < n; s++)
                sum += (sigmoid((double)mix[r * n_mix + s] * (double)scale[0] + (double)base[s]) + (double)EPS) *
                       (double)column[s * n_cols];
            gfx_near((double)out[r * n_cols + c], sum, 2e-6, 1, "mix", c);
            for (uint32_t d = 0; d < n; d++) {
                sum = want[d] * (double)add[r * n_cols + c];
                for (uint32_t s = 0; s < n; s++)
                    sum += want[n + n * s + d] * (double)column[s * n_cols];
                gfx_near((double)x[((size_t)r * n + d) * n_cols + c], sum, 4e-6, 1, "stream", c);
            }
        }
    }
    float *const all[] = {x, was, mix, scale, base, add, out, back};
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void streams(void **state)
{
    (void)state;
    streams_of(2, 70);
    streams_of(4, 1100);
    streams_of(5, 36);
    streams_of(8, 129);
}

/* One sequence in two launches, cut within a block. */
static void compress_of(uint32_t dim, uint32_t ratio, bool overlap)
{
    enum { CUT = 45 };
    const uint32_t width = overlap ? 2 * dim : dim, own = overlap ? dim : 0,
                   n_cols = HALO_HIP_CEIL(dim, HALO_COMPRESS_COLS);
    float *u = gfx_floats(N_POS * width, 1), *was = gfx_floats(N_POS * width, 1), *z = gfx_floats(N_POS * width, 2),
          *bias = gfx_floats(ratio * width, 3), *slots = gfx_floats(2 * 6 * dim, 4);
    int32_t pos[N_POS];
    for (uint32_t i = 0; i < N_POS; i++)
        pos[i] = (int32_t)i;
    for (uint32_t launch = 0; launch < 2; launch++) {
        struct halo_state_run run = {launch ? CUT : 0, launch ? N_POS - CUT : CUT};
        const uint32_t slot = 1;
        struct halo_compress_args args = {
            .state = {.base = (uint8_t *)slots, .pos = pos, .run = &run, .slot = &slot, .slot_bytes = 6 * dim * 4},
            .u = u,
            .z = z,
            .bias = bias,
            .dim = dim,
            .ratio = ratio,
            .overlap = overlap};
        gfx_run("compress", n_cols, 1, 1, &args);
    }
    for (uint32_t b = 0; b < N_POS / ratio; b++)
        for (uint32_t i = 0; i < dim; i++) {
            double sum = 0, out = 0;
            for (uint32_t k = overlap && b > 0 ? 0 : ratio; k < 2 * ratio; k++) {
                const uint32_t p = b * ratio + k - ratio, at = i + (k < ratio ? 0 : own);
                const double weight = exp((double)(z[p * width + at] + bias[k % ratio * width + at]));
                sum += weight;
                out += weight * (double)was[p * width + at];
            }
            gfx_near((double)u[((b + 1) * ratio - 1) * width + i], out / sum, 2e-6, 1, "block", b * 1000 + i);
        }
    float *const all[] = {u, was, z, bias, slots};
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void compression(void **state)
{
    (void)state;
    compress_of(40, 4, true);
    compress_of(33, 16, false);
    compress_of(8, 64, true);
}

/* A cache of rows, one for `ratio` positions of a sequence; ratio 1: a window. */
struct cache {
    enum halo_kv_type type;
    struct halo_blocks_arg blocks;
    uint32_t dim, ratio, *pages;
    double *rows; /* [n][dim], as they were stored */
};

/* Positions and first pages of the rows of a batch, for which all pages begin at 0. */
static int32_t row_pos[N_POS];
static uint32_t row_first[N_POS];

static void cache_init(struct cache *c, enum halo_kv_type type, uint32_t dim, uint32_t ratio)
{
    enum { N_PAGES = HALO_HIP_CEIL(N_POS, PAGE) };
    const uint32_t page_rows = PAGE / (ratio < PAGE ? ratio : PAGE);
    *c = (struct cache){.type = type, .dim = dim, .ratio = ratio, .pages = gfx_zeros(N_PAGES * sizeof(uint32_t))};
    c->rows = gfx_zeros(N_POS / ratio * dim * sizeof(double));
    c->blocks.ratio = ratio;
    c->blocks.page_rows = page_rows;
    c->blocks.kv =
        (struct halo_kv_arg){.page_bytes = (halo_hip_kv_head_bytes(type, dim) / PAGE * page_rows + 15) / 16 * 16,
                             .pos = row_pos,
                             .page_first = row_first,
                             .pages = c->pages,
                             .n_head_kv = 1,
                             .head_dim_k = dim,
                             .head_dim_v = dim};
    c->blocks.kv.base = gfx_zeros(N_PAGES * c->blocks.kv.page_bytes);
    memset(c->blocks.kv.base, 0xff, N_PAGES * c->blocks.kv.page_bytes); /* NaNs where nothing was written */
    for (uint32_t i = 0; i < N_PAGES; i++)
        c->pages[i] = N_PAGES - 1 - i;
    for (uint32_t i = 0; i < N_POS; i++)
        row_pos[i] = (int32_t)i;
}

/* Of all positions of a sequence: rows as they are, or normed and rotated blocks. */
static void cache_fill(struct cache *c, uint32_t n_rot, bool neox, uint32_t seed)
{
    const uint32_t dim = c->dim, half = n_rot / 2;
    float *u = gfx_floats(N_POS * dim, seed), *norm = gfx_floats(dim, seed + 1),
          *table = gfx_floats(N_POS * n_rot, seed + 2);
    char name[40];
    if (c->ratio == 1) {
        snprintf(name, sizeof(name), "kv_write_%s", type_names[c->type]);
        gfx_run(name, 1, N_POS, 1, &(struct halo_kv_write_args){c->blocks.kv, u, NULL});
    } else {
        snprintf(name, sizeof(name), "compress_store_%s", type_names[c->type]);
        gfx_run(name, N_POS, 1, 1,
                &(struct halo_compress_store_args){c->blocks, u, norm, table, dim, n_rot, neox, EPS});
    }
    for (uint32_t b = 0; b < N_POS / c->ratio; b++) {
        const uint32_t pos = (b + 1) * c->ratio - 1;
        double *row = c->rows + (size_t)b * dim, squares = 0;
        for (uint32_t i = 0; i < dim; i++) {
            row[i] = (double)u[pos * dim + i];
            squares += row[i] * row[i];
        }
        for (uint32_t i = 0; i < dim && c->ratio > 1; i++)
            row[i] *= (double)norm[i] / sqrt(squares / dim + (double)EPS);
        for (uint32_t i = 0; i < half && c->ratio > 1; i++) {
            double *x = row + dim - n_rot + (neox ? i : 2 * i), *y = x + (neox ? half : 1);
            const double cosine = (double)table[pos * n_rot + i], sine = (double)table[pos * n_rot + half + i];
            const double left = *x * cosine - *y * sine;
            *y = *x * sine + *y * cosine;
            *x = left;
        }
    }
    free(u);
    free(norm);
    free(table);
}

static void cache_finish(struct cache *c)
{
    free(c->blocks.kv.base);
    free(c->pages);
    free(c->rows);
}

static double score_of(const struct cache *keys, const float *q, const float *weight, uint32_t n_head, uint32_t block)
{
    double score = 0;
    for (uint32_t h = 0; h < n_head; h++) {
        double product = 0;
        for (uint32_t i = 0; i < keys->dim; i++)
            product += (double)q[h * keys->dim + i] * keys->rows[(size_t)block * keys->dim + i];
        score += (double)weight[h] * fmax(product, 0);
    }
    return score;
}

/* The rows see different numbers of blocks; what is chosen has scores no smaller than the best of the rest. */
static void choose_of(enum halo_kv_type type, uint32_t dim, uint32_t n_head, uint32_t top_k, uint32_t n_splits)
{
    enum { ROWS = 4, RATIO = 2, N_MOST = N_POS / RATIO };
    static const int32_t pos[ROWS] = {N_POS - 1, 61, 8, -1};
    struct cache keys;
    cache_init(&keys, type, dim, RATIO);
    cache_fill(&keys, 8, true, 20);
    float *q = gfx_floats(ROWS * n_head * dim, 5), *weight = gfx_floats(ROWS * n_head, 6);
    uint32_t *order = gfx_zeros(ROWS * N_MOST * sizeof(*order));
    int32_t *out = gfx_zeros(ROWS * top_k * sizeof(*out));
    char name[32];
    keys.blocks.kv.pos = pos;
    struct halo_block_scores_args scores = {keys.blocks, q, weight, order, n_head, N_MOST, top_k, n_splits, 1};
    struct halo_blocks_choose_args choose = {order, pos, out, N_MOST, top_k, RATIO};
    snprintf(name, sizeof(name), "block_scores_%s", type_names[type]);
    gfx_run(name, n_splits, 1, ROWS, &scores);
    gfx_run("blocks_choose", ROWS, 1, 1, &choose);
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t n = (uint32_t)(pos[r] + 1) / RATIO;
        const double bound = type == HALO_KV_Q8 ? 0.3 : type == HALO_KV_F16 ? 1e-2 : 1e-4;
        bool chosen[N_MOST] = {false};
        double worst = INFINITY, best = -INFINITY;
        for (uint32_t i = 0; i < top_k; i++) {
            const int32_t block = out[r * top_k + i];
            assert_true(i < n ? block >= 0 && block < (int32_t)n && (i == 0 || block > out[r * top_k + i - 1])
                              : block == -1);
            if (block >= 0)
                chosen[block] = true;
        }
        for (uint32_t b = 0; b < n; b++) {
            const double score = score_of(&keys, q + (size_t)r * n_head * dim, weight + r * n_head, n_head, b);
            if (chosen[b])
                worst = fmin(worst, score);
            else
                best = fmax(best, score);
        }
        assert_true(worst >= best - bound);
    }
    cache_finish(&keys);
    free(q);
    free(weight);
    free(order);
    free(out);
}

/* Of equal scores the first blocks; numbers beyond those in registers; NaNs and what is below every number. */
static void ties_and_many(void **state)
{
    enum { N = 9000, TOP_K = 700, MOST = N + 1 };
    const int32_t pos[2] = {2 * N - 1, 2 * N - 1};
    uint32_t *order = gfx_zeros(2 * MOST * sizeof(*order)), seed = 1;
    int32_t *out = gfx_zeros(2 * TOP_K * sizeof(*out));
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        order[i] = i % 20 == 3 ? 90 : i % 20 == 7 ? 80 : 2 + gfx_random(&seed) % 70; /* 450 of 90, then 250 of 80 */
        order[MOST + i] = i == N - 1 ? 3 : 1;
    }
    struct halo_blocks_choose_args args = {order, pos, out, MOST, TOP_K, 2};
    gfx_run("blocks_choose", 2, 1, 1, &args);
    uint32_t at = 0, n_ties = 0;
    for (uint32_t i = 0; i < N; i++)
        if (order[i] == 90 || (order[i] == 80 && n_ties++ < TOP_K - N / 20))
            assert_int_equal(out[at++], (int32_t)i);
    assert_int_equal(at, TOP_K);
    for (uint32_t i = 0; i < TOP_K; i++)
        assert_int_equal(out[TOP_K + i], i + 1 < TOP_K ? (int32_t)i : N - 1);
    free(order);
    free(out);
}

static void choice(void **state)
{
    (void)state;
    choose_of(HALO_KV_F32, 36, 5, 6, 1);
    choose_of(HALO_KV_F16, 128, 40, 9, 3);
    choose_of(HALO_KV_Q8, 64, 3, 20, 2);
}

static void softmax_add(const double *row, const float *q, uint32_t dim, double *sum, double *out)
{
    double score = 0;
    for (uint32_t i = 0; i < dim; i++)
        score += (double)q[i] * row[i];
    const double weight = exp(score * (double)0.1f);
    *sum += weight;
    for (uint32_t i = 0; i < dim; i++)
        out[i] += weight * row[i];
}

static void attend_of(enum halo_kv_type type, uint32_t dim, uint32_t n_head, uint32_t ratio, uint32_t n_chosen,
                      uint32_t n_splits, bool tiles)
{
    enum { ROWS = 4, WINDOW = 37 };
    static const int32_t pos[ROWS] = {N_POS - 1, 70, -1, 2};
    const uint32_t n_parts = HALO_HIP_CEIL(n_head, tiles ? HALO_LATENT_QUERIES : HALO_LATENT_HEADS);
    const double bound = type == HALO_KV_Q8 ? 3e-2 : type == HALO_KV_F16 ? 2e-3 : 4e-6;
    struct cache window, blocks;
    cache_init(&window, type, dim, 1);
    cache_fill(&window, 0, false, 30);
    cache_init(&blocks, type, dim, ratio);
    cache_fill(&blocks, 8, false, 40);
    window.blocks.kv.pos = blocks.blocks.kv.pos = pos;
    float *q = gfx_floats(ROWS * n_head * dim, 7), *sinks = gfx_floats(n_head, 8),
          *out = gfx_zeros(ROWS * n_head * dim * sizeof(float)),
          *partial = gfx_zeros(ROWS * n_head * n_splits * HALO_PARTIAL_STRIDE(dim) * sizeof(float));
    uint32_t *counter = gfx_zeros(ROWS * n_parts * sizeof(*counter));
    int32_t *chosen = gfx_zeros((ROWS * n_chosen + 1) * sizeof(*chosen));
    for (uint32_t i = 0; i < ROWS * n_chosen; i++) { /* every other block; all where there are too few */
        const uint32_t n = (uint32_t)(pos[i / n_chosen] + 1) / ratio, k = i % n_chosen;
        chosen[i] = n <= n_chosen ? (k < n ? (int32_t)k : -1) : (int32_t)(k * n / n_chosen);
    }
    struct halo_attend_blocks_args args = {.attend = {.kv = window.blocks.kv,
                                                      .q = q,
                                                      .out = out,
                                                      .partial = partial,
                                                      .counter = counter,
                                                      .score = {.sinks = sinks, .scale = 0.1f, .window = WINDOW},
                                                      .n_head = n_head,
                                                      .n_splits = n_splits,
                                                      .n_parts = n_parts},
                                           .blocks = blocks.blocks,
                                           .chosen = n_chosen ? chosen : NULL,
                                           .n_chosen = n_chosen};
    char name[32];
    snprintf(name, sizeof(name), "attend_blocks_%s%s", tiles ? "tiles_" : "", type_names[type]);
    gfx_run(name, n_splits, n_parts, ROWS, &args);
    for (uint32_t i = 0; i < ROWS * n_parts; i++)
        assert_int_equal(counter[i], 0);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < n_head && pos[r] >= 0; h++) {
            const float *query = q + ((size_t)r * n_head + h) * dim;
            const uint32_t n = (uint32_t)(pos[r] + 1) / ratio, n_seen = n_chosen && n > n_chosen ? n_chosen : n;
            double want[DIM_MAX] = {0}, sum = exp((double)sinks[h]);
            for (int32_t p = pos[r] >= WINDOW ? pos[r] + 1 - WINDOW : 0; p <= pos[r]; p++)
                softmax_add(window.rows + (size_t)p * dim, query, dim, &sum, want);
            for (uint32_t i = 0; i < n_seen; i++)
                softmax_add(blocks.rows + (size_t)(n_chosen ? (uint32_t)chosen[r * n_chosen + i] : i) * dim, query, dim,
                            &sum, want);
            for (uint32_t i = 0; i < dim; i++)
                gfx_near((double)out[((size_t)r * n_head + h) * dim + i], want[i] / sum, bound, 1, "attend_blocks",
                         r * 100000 + h * 1000 + i);
        }
    cache_finish(&window);
    cache_finish(&blocks);
    free(q);
    free(sinks);
    free(out);
    free(partial);
    free(counter);
    free(chosen);
}

static void attention(void **state)
{
    (void)state;
    attend_of(HALO_KV_F32, 40, 18, 2, 40, 1, false);
    attend_of(HALO_KV_F16, 24, 8, 2, 0, 2, false);
    attend_of(HALO_KV_Q8, 96, 20, 8, 12, 2, false);
    for (int tiles = 0; tiles < 2; tiles++) {
        attend_of(HALO_KV_F16, 512, 5, 4, 9, 3, tiles);
        attend_of(HALO_KV_F16, 64, 40, 2, 33, 1, tiles);
        attend_of(HALO_KV_F16, 24, 35, 2, 0, 5, tiles);
        attend_of(HALO_KV_Q8, 64, 3, 64, 0, 4, tiles);
        attend_of(HALO_KV_Q8, 480, 33, 8, 12, 2, tiles);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),       cmocka_unit_test(compression), cmocka_unit_test(choice),
        cmocka_unit_test(ties_and_many), cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
