/* test_gfx_latent.c: attention over latent pages, one row of which is K and V of all heads: by rows and by tiles, with
 * splits, windows, caps, sinks and a temperature, against softmax in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

enum { PAGE = 32, HEADS_MAX = 40 };

struct shape {
    enum halo_kv_type type;
    uint32_t n_head, dim_k, dim_v;
    struct halo_score_arg score; /* sinks: not NULL: there are some */
};

static const char *const type_names[] = {[HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8"};
static const float some_sinks[1];

/* Pages of one sequence in an order of their own, and the rows that were stored. */
struct cache {
    struct halo_kv_arg kv;
    float *rows; /* [pos][dim_k] */
    uint32_t *pages, *first;
    int32_t *pos;
    float sinks[HEADS_MAX];
};

static void cache_make(struct cache *c, const struct shape *s, uint32_t n_pos)
{
    const uint32_t n_pages = HALO_HIP_CEIL(n_pos, PAGE);
    *c = (struct cache){.rows = gfx_floats(n_pos * s->dim_k, 1)};
    c->kv = (struct halo_kv_arg){.page_bytes = halo_hip_kv_layer_page_bytes(s->type, 1, s->dim_k, 0),
                                 .n_head_kv = 1,
                                 .head_dim_k = s->dim_k,
                                 .head_dim_v = s->dim_v};
    c->kv.base = gfx_zeros(n_pages * c->kv.page_bytes);
    memset(c->kv.base, 0xff, n_pages * c->kv.page_bytes); /* NaNs where nothing was written */
    c->kv.pages = c->pages = gfx_zeros(n_pages * sizeof(uint32_t));
    for (uint32_t p = 0; p < n_pages; p++)
        c->pages[p] = n_pages - 1 - p;
    c->kv.pos = c->pos = gfx_zeros(n_pos * sizeof(*c->pos));
    c->kv.page_first = c->first = gfx_zeros(n_pos * sizeof(*c->first));
    for (uint32_t i = 0; i < n_pos; i++)
        c->pos[i] = (int32_t)i;
    for (uint32_t h = 0; h < HEADS_MAX; h++)
        c->sinks[h] = (float)(h % 5) - 2;
    char name[32];
    snprintf(name, sizeof(name), "kv_write_%s", type_names[s->type]);
    struct halo_kv_write_args args = {c->kv, c->rows, NULL};
    gfx_run(name, 1, n_pos, 1, &args);
}

static void cache_free(struct cache *c)
{
    free(c->rows);
    free(c->kv.base);
    free(c->pages);
    free(c->first);
    free(c->pos);
}

/* Scores grow with the position, so that what is newest counts most. */
static void attend_want(const struct cache *c, const struct shape *s, uint32_t pos, const float *q, uint32_t head,
                        double *ret)
{
    const struct halo_score_arg *score = &s->score;
    const uint32_t first = score->window > 0 && pos >= score->window ? pos + 1 - score->window : 0;
    double factor = (double)score->scale, sum = score->sinks ? exp((double)c->sinks[head]) : 0;
    if (score->temperature > 0)
        factor *= 1 + (double)score->temperature * log(1 + (double)(pos / score->period));
    memset(ret, 0, s->dim_v * sizeof(*ret));
    for (uint32_t p = first; p <= pos; p++) {
        const float *row = c->rows + p * s->dim_k;
        double dot = 0;
        for (uint32_t i = 0; i < s->dim_k; i++)
            dot += (double)q[i] * (double)row[i];
        dot *= factor;
        const double weight = exp(score->cap > 0 ? (double)score->cap * tanh(dot / (double)score->cap) : dot);
        sum += weight;
        for (uint32_t i = 0; i < s->dim_v; i++)
            ret[i] += weight * (double)row[i];
    }
    for (uint32_t i = 0; i < s->dim_v; i++)
        ret[i] /= sum;
}

static struct halo_score_arg score_of(const struct cache *c, const struct shape *s)
{
    struct halo_score_arg score = s->score;
    score.sinks = score.sinks ? c->sinks : NULL;
    return score;
}

static void compare(const struct cache *c, const struct shape *s, const char *what, uint32_t pos, const float *q,
                    const float *out, bool halves)
{
    const double bound = s->type == HALO_KV_Q8 ? 2e-2 : s->type == HALO_KV_F16 || halves ? 1e-3 : 2e-6;
    double want[HALO_LATENT_DIM_V];
    for (uint32_t h = 0; h < s->n_head; h++) {
        attend_want(c, s, pos, q + h * s->dim_k, h, want);
        for (uint32_t i = 0; i < s->dim_v; i++)
            gfx_near((double)out[h * s->dim_v + i], want[i], bound, 1, what, pos * 1000 + i);
    }
}

/* Activation rows of one row's heads: what `quantize` makes of the results. */
static void compare_act(const struct shape *s, const char *what, const float *out, const uint8_t *act)
{
    const size_t n = (size_t)s->n_head * halo_hip_act_bytes(s->dim_v);
    uint8_t *want = gfx_zeros(n);
    struct halo_quantize_args args = {.x = out, .act = want, .n_cols = s->dim_v};
    gfx_run("quantize", HALO_HIP_CEIL(s->dim_v, HALO_QUANTIZE_COLS), s->n_head, 1, &args);
    if (memcmp(act, want, n) != 0)
        fail_msg("%s: activation rows of %u heads of %u differ from its results", what, s->n_head, s->dim_v);
    free(want);
}

/* Single rows, one of them padding; no counter is left behind. */
static void rows_shape(const struct shape *s, bool tiles, uint32_t n_pos, uint32_t n_splits)
{
    enum { ROWS = 4 };
    const int32_t pos[ROWS] = {(int32_t)n_pos - 1, -1, (int32_t)n_pos / 2, 0};
    const uint32_t first[ROWS] = {0}, together = tiles ? HALO_LATENT_QUERIES : HALO_LATENT_HEADS;
    const uint32_t n_parts = HALO_HIP_CEIL(s->n_head, together);
    struct cache c;
    cache_make(&c, s, n_pos);
    float *q = gfx_floats(ROWS * s->n_head * s->dim_k, 6), *out = gfx_floats(ROWS * s->n_head * s->dim_v, 7);
    float *partial = gfx_zeros((size_t)ROWS * s->n_head * n_splits * HALO_PARTIAL_STRIDE(s->dim_v) * 4);
    uint32_t *counter = gfx_zeros((size_t)ROWS * n_parts * 4);
    const size_t act_bytes = s->n_head * halo_hip_act_bytes(s->dim_v); /* of a row of the batch */
    uint8_t *act = s->dim_v % HALO_HIP_UNIT == 0 ? gfx_zeros(ROWS * act_bytes) : NULL;
    struct halo_attend_args args = {.kv = c.kv,
                                    .q = q,
                                    .out = out,
                                    .act = act,
                                    .act_cols = s->dim_v,
                                    .partial = partial,
                                    .counter = counter,
                                    .n_head = s->n_head,
                                    .n_splits = n_splits,
                                    .n_parts = n_parts,
                                    .score = score_of(&c, s)};
    args.kv.pos = pos;
    args.kv.page_first = first;
    char name[40];
    snprintf(name, sizeof(name), "latent_%s%s", tiles ? "tiles_" : "", type_names[s->type]);
    gfx_run(name, n_splits, n_parts, ROWS, &args);
    for (uint32_t i = 0; i < ROWS * n_parts; i++)
        assert_int_equal(counter[i], 0);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (pos[r] < 0)
            continue;
        const float *row = out + r * s->n_head * s->dim_v;
        compare(&c, s, name, (uint32_t)pos[r], q + r * s->n_head * s->dim_k, row, tiles);
        if (act)
            compare_act(s, name, row, act + r * act_bytes);
    }
    cache_free(&c);
    free(q);
    free(out);
    free(act);
    free(partial);
    free(counter);
}

/* A prompt in two tiles, an empty one and one of padding; rows in no tile stay as they were. */
static void prompt_shape(const struct shape *s, uint32_t first_pos, uint32_t n_rows, uint32_t cut)
{
    enum { PAD = 2, TILES = 4 };
    const struct halo_prefill_tile tiles[TILES] = {{0, cut}, {cut, 0}, {n_rows, PAD}, {cut, n_rows - cut}};
    const uint32_t n = n_rows + PAD, width = s->n_head * s->dim_v, n_pos = first_pos + n_rows;
    struct cache c;
    cache_make(&c, s, n_pos);
    int32_t *pos = gfx_zeros(n * sizeof(*pos));
    uint32_t *first = gfx_zeros(n * sizeof(*first));
    for (uint32_t r = 0; r < n; r++)
        pos[r] = r < n_rows ? (int32_t)(first_pos + r) : -1;
    float *q = gfx_floats(n * s->n_head * s->dim_k, 6), *out = gfx_floats(n * width, 7),
          *before = gfx_floats(n * width, 7);
    struct halo_attend_args args = {.kv = c.kv,
                                    .tile = tiles,
                                    .q = q,
                                    .out = out,
                                    .n_head = s->n_head,
                                    .n_splits = 1,
                                    .n_parts = 1,
                                    .score = score_of(&c, s)};
    args.kv.pos = pos;
    args.kv.page_first = first;
    char name[40];
    snprintf(name, sizeof(name), "latent_tiles_%s", type_names[s->type]);
    gfx_run(name, TILES, HALO_HIP_CEIL(HALO_PREFILL_ROWS * s->n_head, HALO_LATENT_QUERIES), 1, &args);
    for (uint32_t r = 0; r < n_rows; r++)
        compare(&c, s, name, (uint32_t)pos[r], q + r * s->n_head * s->dim_k, out + r * width, true);
    assert_memory_equal(out + n_rows * width, before + n_rows * width, PAD * width * sizeof(float));
    cache_free(&c);
    free(pos);
    free(first);
    free(q);
    free(out);
    free(before);
}

static const struct shape shapes[] = {
    {HALO_KV_F32, 4, 40, 32, {.scale = 0.2f}},
    {HALO_KV_F16, 20, 576, 512, {.scale = 0.05f}},
    {HALO_KV_Q8, 35, 96, 64, {.scale = 0.1f, .sinks = some_sinks}},
    {HALO_KV_F32, 17, 576, 512, {.scale = 0.05f, .cap = 2, .window = 40}},
    {HALO_KV_F16, 3, 72, 36, {.scale = 0.1f, .temperature = 0.3f, .period = 8, .window = 7}},
    {HALO_KV_Q8, 16, 576, 512, {.scale = 0.05f, .cap = 1}},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        rows_shape(&shapes[i], false, 33, 1);
        rows_shape(&shapes[i], false, 170, 1 + i);
    }
    rows_shape(&shapes[0], false, 35 * PAGE - 3, HALO_SPLITS_MAX);
}

static void tiles_of_rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        rows_shape(&shapes[i], true, 33, 1);
        rows_shape(&shapes[i], true, 170, 1 + i);
    }
    rows_shape(&shapes[4], true, 35 * PAGE - 3, HALO_SPLITS_MAX);
}

static void tiles_of_prompts(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        prompt_shape(&shapes[i], 0, 21, 16);
        prompt_shape(&shapes[i], 45, 9, 4);
    }
    prompt_shape(&shapes[0], 3, 70, HALO_PREFILL_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(tiles_of_rows),
        cmocka_unit_test(tiles_of_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
