/* test_gfx_latent.c: attention over latent pages, one row of which is K and V of all heads: by rows and by tiles, with
 * splits, windows, caps, sinks and a temperature, against softmax in double; and the launch in front of it. */
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

/* What lies between the product of q and that of each head's q. Rows at two positions, and a row that is padding. */
struct heads {
    uint32_t n_head, n_low, n_rot, n_row, neox;
    bool quantized; /* the parts of q that are not rotated go on as activation rows */
};
enum { STEP = 3, STEP_PAGES = 2 };
static const int32_t step_pos[STEP] = {40, -1, 5};

struct heads_run {
    struct halo_latent_heads_args args;
    uint32_t pages[STEP_PAGES], first[STEP];
    size_t n_cache;
};

static struct halo_kv_arg step_cache(struct heads_run *run, enum halo_kv_type type, uint32_t dim)
{
    const struct halo_kv_arg kv = {.page_bytes = halo_hip_kv_layer_page_bytes(type, 1, dim, 0),
                                   .n_head_kv = 1,
                                   .head_dim_k = dim,
                                   .pages = run->pages,
                                   .page_first = run->first,
                                   .pos = step_pos};
    struct halo_kv_arg ret = kv;
    run->n_cache = STEP_PAGES * kv.page_bytes;
    ret.base = gfx_zeros(run->n_cache);
    memset(ret.base, 0xff, run->n_cache);
    return ret;
}

/* Where the rows' elements are in a cache of f32: what kv_write makes of their numbers. */
static void read_rows(struct heads_run *run, const float *cache, uint32_t dim, float *rows)
{
    float *number = gfx_zeros(STEP * dim * sizeof(*number));
    for (uint32_t i = 0; i < STEP * dim; i++)
        number[i] = (float)(i + 1);
    struct halo_kv_write_args args = {step_cache(run, HALO_KV_F32, dim), number, NULL};
    gfx_run("kv_write_f32", 1, STEP, 1, &args);
    const float *at = (const void *)args.kv.base;
    for (size_t i = 0; i < run->n_cache / sizeof(*at); i++) {
        if (at[i] >= 1)
            rows[(uint32_t)at[i] - 1] = cache[i];
        else
            assert_true(isnan(at[i]) && isnan(cache[i]));
    }
    free(args.kv.base);
    free(number);
}

/* What the rotation makes of elements i and its other one of n_rot. */
static void near_rotated(const struct heads *s, const float *table, const float *from, const float *to)
{
    for (uint32_t i = 0; i < s->n_rot / 2; i++) {
        const uint32_t a = s->neox ? i : 2 * i, b = s->neox ? i + s->n_rot / 2 : 2 * i + 1;
        const double c = (double)table[i], d = (double)table[s->n_rot / 2 + i];
        gfx_near((double)to[a], (double)from[a] * c - (double)from[b] * d, 1e-6, 4, "rotated", a);
        gfx_near((double)to[b], (double)from[a] * d + (double)from[b] * c, 1e-6, 4, "rotated", b);
    }
}

static void compare_row(const struct heads *s, const struct halo_latent_heads_args *a, uint32_t row, const float *kept)
{
    const uint32_t n_up = s->n_low + s->n_rot, dim = s->n_row + s->n_rot;
    const float *c = a->c + row * s->n_row, *table = a->table + row * s->n_rot;
    double sum = 0;
    for (uint32_t h = 0; h < s->n_head; h++) {
        const uint32_t index = row * s->n_head + h;
        assert_memory_equal(a->q_low + index * s->n_low, a->q_up + index * n_up, s->n_low * sizeof(float));
        near_rotated(s, table, a->q_up + index * n_up + s->n_low, a->q + index * dim + s->n_row);
    }
    if (step_pos[row] < 0)
        return;
    for (uint32_t i = 0; i < s->n_row; i++)
        sum += (double)c[i] * (double)c[i];
    for (uint32_t i = 0; i < s->n_row; i++)
        gfx_near((double)kept[row * dim + i],
                 (double)c[i] * (double)a->weight[i] / sqrt(sum / s->n_row + (double)a->eps), 2e-6, 4, "norm", i);
    near_rotated(s, table, a->k_rot + row * s->n_rot, kept + row * dim + s->n_row);
}

/* Other caches hold what kv_write makes of the same rows. */
static void compare_cache(struct heads_run *run, enum halo_kv_type type, const float *kept, uint32_t dim, uint32_t grid)
{
    char name[32];
    struct halo_latent_heads_args args = run->args;
    args.kv = step_cache(run, type, dim);
    snprintf(name, sizeof(name), "latent_heads_%s", type_names[type]);
    gfx_run(name, grid, STEP, 1, &args);
    struct halo_kv_write_args want = {step_cache(run, type, dim), kept, NULL};
    snprintf(name, sizeof(name), "kv_write_%s", type_names[type]);
    gfx_run(name, 1, STEP, 1, &want);
    assert_memory_equal(args.kv.base, want.kv.base, run->n_cache);
    free(args.kv.base);
    free(want.kv.base);
}

static void heads_case(const struct heads *s)
{
    const uint32_t n_up = s->n_low + s->n_rot, dim = s->n_row + s->n_rot, n_slots = STEP * s->n_head,
                   grid = HALO_HIP_CEIL(1 + s->n_head, HALO_HEAD_WAVES);
    struct heads_run run = {.pages = {1, 0}};
    float *q_up = gfx_floats(n_slots * n_up, 1), *c = gfx_floats(STEP * s->n_row, 2),
          *k_rot = gfx_floats(STEP * s->n_rot, 3), *weight = gfx_floats(s->n_row, 4),
          *table = gfx_floats(STEP * s->n_rot, 5), *q = gfx_zeros((size_t)n_slots * dim * 4),
          *q_low = gfx_zeros((size_t)n_slots * s->n_low * 4), *kept = gfx_zeros((size_t)STEP * dim * 4);
    const size_t n_act = s->quantized ? (size_t)n_slots * halo_hip_act_bytes(s->n_low) : 0;
    uint8_t *act = gfx_zeros(n_act + 1), *want_act = gfx_zeros(n_act + 1);
    run.args = (struct halo_latent_heads_args){
        step_cache(&run, HALO_KV_F32, dim), q_up,      c,        k_rot,    weight,   table,   q,    q_low,
        s->quantized ? act : NULL,          s->n_head, s->n_low, s->n_rot, s->n_rot, s->neox, 1e-5f};
    float *cache = (void *)run.args.kv.base;
    gfx_run("latent_heads_f32", grid, STEP, 1, &run.args);
    read_rows(&run, cache, dim, kept);
    for (uint32_t r = 0; r < STEP; r++)
        compare_row(s, &run.args, r, kept);
    struct halo_quantize_args quantize = {q_low, want_act, s->n_low};
    if (s->quantized)
        gfx_run("quantize", HALO_HIP_CEIL(s->n_low, HALO_QUANTIZE_COLS), n_slots, 1, &quantize);
    assert_memory_equal(act, want_act, n_act + 1);
    compare_cache(&run, HALO_KV_F16, kept, dim, grid);
    compare_cache(&run, HALO_KV_Q8, kept, dim, grid);
    void *buffers[] = {q_up, c, k_rot, weight, table, q, q_low, kept, act, want_act, cache};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void heads(void **state)
{
    (void)state;
    static const struct heads cases[] = {
        {20, 192, 64, 512, 0, true}, {7, 96, 32, 64, 1, true}, {3, 40, 16, 48, 0, false}, {16, 256, 128, 64, 1, false}};
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        heads_case(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(tiles_of_rows),
        cmocka_unit_test(tiles_of_prompts),
        cmocka_unit_test(heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
