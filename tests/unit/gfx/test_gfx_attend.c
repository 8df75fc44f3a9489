/* test_gfx_attend.c: the cache and attention: every cache type, odd head counts and dimensions, splits, against softmax
 * in double. */
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

enum { PAGE = 32 };

struct shape {
    enum halo_kv_type type;
    const char *name;
    uint32_t n_head, n_head_kv, dim_k, dim_v, n_splits;
    double bound;
};

/* The size of heads that its kernels are made for. */
static uint32_t heads_of(const struct shape *s)
{
    const uint32_t dim = s->dim_k > s->dim_v ? s->dim_k : s->dim_v;
    return dim <= 128 ? 128 : dim <= 256 ? 256 : 512;
}

/* A cache with two sequences in scattered pages, and the K and V that were stored. */
struct cache {
    struct halo_kv_arg kv;
    uint32_t n_pos; /* of each sequence */
    float *k, *v;   /* [sequence][pos][head][dim] */
    uint32_t *pages;
};

/* The rotation of a row that is kept in 4 bits: its own inverse. */
static void rotate(float *x, uint32_t dim)
{
    const uint32_t block = dim & (0 - dim);
    double y[512];
    for (uint32_t i = 0; i < dim; i++) {
        y[i] = 0;
        for (uint32_t k = i / block * block; k < i / block * block + block; k++)
            y[i] += (__builtin_popcount(i % block & k % block) % 2 ? -1 : 1) * (double)x[k] / sqrt(block);
    }
    for (uint32_t i = 0; i < dim; i++)
        x[i] = (float)y[i];
}

/* Element d of a head's row in 4 bits, as it was stored. */
static float q4_element(const uint8_t *head, uint32_t dim, bool value, uint32_t pos, uint32_t d)
{
    const uint32_t at = value ? pos * dim / 2 + d / 2 : (d / 32 * PAGE + pos) * 16 + d % 32 / 2,
                   scale = value ? pos * (dim / 32) + d / 32 : d / 32 * PAGE + pos;
    uint16_t half;
    memcpy(&half, head + PAGE * dim / 2 + 2 * scale, sizeof(half));
    return (float)((head[at] >> d % 2 * 4 & 15) - 8) * gfx_half_float(half);
}

/* K and V become what the cache keeps of them, which attention must find. */
static void q4_read_back(struct cache *c, const struct shape *s, uint32_t n_pages)
{
    for (uint32_t i = 0; i < 2 * c->n_pos * s->n_head_kv; i++) {
        const uint32_t head = i % s->n_head_kv, pos = i / s->n_head_kv % c->n_pos, seq = i / s->n_head_kv / c->n_pos;
        const uint8_t *page = c->kv.base + c->pages[seq * n_pages + pos / PAGE] * c->kv.page_bytes,
                      *k = page + head * halo_hip_kv_head_bytes(s->type, s->dim_k),
                      *v = page + s->n_head_kv * halo_hip_kv_head_bytes(s->type, s->dim_k) +
                           head * halo_hip_kv_head_bytes(s->type, s->dim_v);
        for (uint32_t d = 0; d < s->dim_k; d++)
            c->k[i * s->dim_k + d] = q4_element(k, s->dim_k, false, pos % PAGE, d);
        for (uint32_t d = 0; d < s->dim_v; d++)
            c->v[i * s->dim_v + d] = q4_element(v, s->dim_v, true, pos % PAGE, d);
        rotate(c->k + i * s->dim_k, s->dim_k);
        rotate(c->v + i * s->dim_v, s->dim_v);
    }
}

static void cache_make(struct cache *c, const struct shape *s, uint32_t n_pos)
{
    const uint32_t n_pages = HALO_HIP_CEIL(n_pos, PAGE), n_k = s->n_head_kv * s->dim_k, n_v = s->n_head_kv * s->dim_v;
    *c = (struct cache){.n_pos = n_pos, .k = gfx_floats(2 * n_pos * n_k, 1), .v = gfx_floats(2 * n_pos * n_v, 2)};
    c->kv.page_bytes = halo_hip_kv_layer_page_bytes(s->type, s->n_head_kv, s->dim_k, s->dim_v);
    c->kv.base = gfx_zeros(2 * n_pages * c->kv.page_bytes);
    memset(c->kv.base, 0xff, 2 * n_pages * c->kv.page_bytes); /* NaNs where nothing was written */
    c->pages = gfx_zeros(2 * n_pages * sizeof(uint32_t));
    for (uint32_t p = 0; p < n_pages; p++) {
        c->pages[p] = 2 * p + 1;
        c->pages[n_pages + p] = 2 * (n_pages - 1 - p);
    }
    c->kv.pages = c->pages;
    c->kv.n_head_kv = s->n_head_kv;
    c->kv.head_dim_k = s->dim_k;
    c->kv.head_dim_v = s->dim_v;
    int32_t *pos = gfx_zeros(2 * n_pos * sizeof(*pos));
    uint32_t *first = gfx_zeros(2 * n_pos * sizeof(*first));
    for (uint32_t i = 0; i < 2 * n_pos; i++) {
        pos[i] = (int32_t)(i % n_pos);
        first[i] = i / n_pos * n_pages;
    }
    char name[32];
    snprintf(name, sizeof(name), "kv_write_%s", s->name);
    struct halo_kv_write_args args = {c->kv, c->k, c->v};
    args.kv.pos = pos;
    args.kv.page_first = first;
    gfx_run(name, s->n_head_kv, 2 * n_pos, 1, &args);
    if (s->type == HALO_KV_Q4)
        q4_read_back(c, s, n_pages);
    free(pos);
    free(first);
}

static void cache_free(struct cache *c)
{
    free(c->k);
    free(c->v);
    free(c->kv.base);
    free(c->pages);
}

static void attend_want(const struct cache *c, const struct shape *s, uint32_t seq, uint32_t pos, const float *q,
                        uint32_t head, double *ret)
{
    const uint32_t kv_head = head / (s->n_head / s->n_head_kv);
    double sum = 0;
    memset(ret, 0, s->dim_v * sizeof(*ret));
    for (uint32_t p = 0; p <= pos; p++) {
        const float *k = c->k + ((seq * c->n_pos + p) * s->n_head_kv + kv_head) * s->dim_k;
        const float *v = c->v + ((seq * c->n_pos + p) * s->n_head_kv + kv_head) * s->dim_v;
        double score = 0;
        for (uint32_t i = 0; i < s->dim_k; i++)
            score += (double)q[i] * (double)k[i];
        const double weight = exp(score * 0.25);
        sum += weight;
        for (uint32_t i = 0; i < s->dim_v; i++)
            ret[i] += weight * (double)v[i];
    }
    for (uint32_t i = 0; i < s->dim_v; i++)
        ret[i] /= sum;
}

static void attend_shape(const struct shape *s, uint32_t n_pos)
{
    enum { ROWS = 5 };
    struct cache c;
    cache_make(&c, s, n_pos);
    const uint32_t n_pages = HALO_HIP_CEIL(n_pos, PAGE), group = s->n_head / s->n_head_kv;
    const uint32_t d = heads_of(s), g = group == 1 || (d == 512 && s->type == HALO_KV_F32) ? 1
                                        : group <= 4 || d == 512                           ? 4
                                                                                           : 8;
    const int32_t pos[ROWS] = {(int32_t)n_pos - 1, 0, -1, (int32_t)n_pos / 2, 31 < n_pos ? 31 : 0};
    const uint32_t first[ROWS] = {0, n_pages, 0, n_pages, 0};
    float *q = gfx_floats(ROWS * s->n_head * s->dim_k, 6), *out = gfx_floats(ROWS * s->n_head * s->dim_v, 7);
    const uint32_t n_parts = HALO_HIP_CEIL(group, g);
    float *partial = gfx_zeros((size_t)ROWS * s->n_head * s->n_splits * HALO_PARTIAL_STRIDE(s->dim_v) * 4);
    uint32_t *counter = gfx_zeros((size_t)ROWS * s->n_head_kv * n_parts * 4);
    struct halo_attend_args args = {.kv = c.kv,
                                    .q = q,
                                    .out = out,
                                    .partial = partial,
                                    .counter = counter,
                                    .n_head = s->n_head,
                                    .n_splits = s->n_splits,
                                    .n_parts = n_parts,
                                    .score.scale = 0.25f};
    args.kv.pos = pos;
    args.kv.page_first = first;
    char name[40];
    snprintf(name, sizeof(name), "attend_%s_g%u_d%u", s->name, g, d);
    gfx_run(name, s->n_splits, s->n_head_kv * n_parts, ROWS, &args);
    for (uint32_t i = 0; i < ROWS * s->n_head_kv * n_parts; i++)
        assert_int_equal(counter[i], 0);
    double want[512];
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < s->n_head && pos[r] >= 0; h++) {
            attend_want(&c, s, first[r] / n_pages, (uint32_t)pos[r], q + (r * s->n_head + h) * s->dim_k, h, want);
            for (uint32_t i = 0; i < s->dim_v; i++)
                gfx_near((double)out[(r * s->n_head + h) * s->dim_v + i], want[i], s->bound, 1, name, i);
        }
    cache_free(&c);
    free(q);
    free(out);
    free(partial);
    free(counter);
}

/* Attention that prepares the heads of q, k and v itself, against the two separate kernels: the same bytes in the
 * cache, the same numbers. Each row belongs to its own sequence, at its newest position. */
static void fresh_shape(const struct shape *s, bool with_norm, uint32_t neox)
{
    enum { ROWS = 2 };
    const uint32_t n_pos[ROWS] = {70, 64}, dim = s->dim_k, n_rot = dim / 4 * 2, group = s->n_head / s->n_head_kv;
    const uint32_t g = group == 1 ? 1 : group <= 4 ? 4 : 8, d = dim <= 128 ? 128 : 256;
    struct cache c;
    cache_make(&c, s, 70);
    const uint32_t n_pages = 3, n_q = s->n_head * dim, n_kv = s->n_head_kv * dim, n_parts = HALO_HIP_CEIL(group, g);
    const size_t cache_bytes = 2 * n_pages * c.kv.page_bytes;
    /* The newest position of the second sequence is the first of a page. */
    const int32_t pos[ROWS] = {(int32_t)n_pos[0] - 1, (int32_t)n_pos[1]};
    const uint32_t first[ROWS] = {0, n_pages};
    float *q = gfx_floats(ROWS * n_q, 6), *k = gfx_floats(ROWS * n_kv, 7), *v = gfx_floats(ROWS * n_kv, 8),
          *q_weight = gfx_floats(dim, 9), *k_weight = gfx_floats(dim, 10), *table = gfx_floats(ROWS * n_rot, 11),
          *out = gfx_floats(ROWS * n_q, 12), *want = gfx_floats(ROWS * n_q, 13);
    float *partial = gfx_zeros((size_t)ROWS * s->n_head * s->n_splits * HALO_PARTIAL_STRIDE(dim) * 4);
    uint32_t *counter = gfx_zeros((size_t)ROWS * s->n_head_kv * n_parts * 4);
    uint8_t *before = gfx_zeros(cache_bytes), *after = gfx_zeros(cache_bytes);
    memcpy(before, c.kv.base, cache_bytes);
    struct halo_attend_args args = {.kv = c.kv,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .q_weight = with_norm ? q_weight : NULL,
                                    .k_weight = with_norm ? k_weight : NULL,
                                    .table = table,
                                    .out = out,
                                    .partial = partial,
                                    .counter = counter,
                                    .n_head = s->n_head,
                                    .n_splits = s->n_splits,
                                    .n_parts = n_parts,
                                    .n_rot = n_rot,
                                    .neox = neox,
                                    .score.scale = 0.25f,
                                    .eps = 1e-6f};
    args.kv.pos = pos;
    args.kv.page_first = first;
    char attend_name[40], heads_name[40];
    snprintf(attend_name, sizeof(attend_name), "attend_%s_g%u_d%u", s->name, g, d);
    snprintf(heads_name, sizeof(heads_name), "heads_%s", s->name);
    gfx_run(attend_name, s->n_splits, s->n_head_kv * n_parts, ROWS, &args);
    memcpy(after, c.kv.base, cache_bytes);
    assert_memory_not_equal(before, after, cache_bytes);
    memcpy(c.kv.base, before, cache_bytes);
    struct halo_heads_args heads = {args.kv, q,         k,     v,    args.q_weight, args.k_weight,
                                    table,   s->n_head, n_rot, neox, 1e-6f};
    gfx_run(heads_name, HALO_HIP_CEIL(s->n_head + 2 * s->n_head_kv, HALO_HEAD_WAVES), ROWS, 1, &heads);
    assert_memory_equal(c.kv.base, after, cache_bytes);
    args.k = args.v = args.q_weight = args.k_weight = NULL;
    args.out = want;
    gfx_run(attend_name, s->n_splits, s->n_head_kv * n_parts, ROWS, &args);
    assert_memory_equal(out, want, ROWS * n_q * sizeof(*out));
    cache_free(&c);
    float *floats[] = {q, k, v, q_weight, k_weight, table, out, want, partial};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        free(floats[i]);
    free(counter);
    free(before);
    free(after);
}

static void attend_brings_its_heads(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {HALO_KV_F32, "f32", 2, 2, 20, 20, 1, 0},   {HALO_KV_F32, "f32", 9, 1, 64, 64, 3, 0},
        {HALO_KV_F16, "f16", 8, 2, 128, 128, 4, 0}, {HALO_KV_F16, "f16", 12, 1, 80, 80, 5, 0},
        {HALO_KV_F16, "f16", 3, 1, 256, 256, 2, 0}, {HALO_KV_Q8, "q8", 2, 2, 96, 96, 3, 0},
        {HALO_KV_Q8, "q8", 4, 1, 128, 128, 2, 0},   {HALO_KV_F32, "f32", 6, 1, 256, 256, 3, 0},
        {HALO_KV_Q4, "q4", 5, 1, 96, 96, 2, 0},     {HALO_KV_Q4, "q4", 2, 2, 256, 256, 1, 0},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        fresh_shape(&shapes[i], true, 1);
        fresh_shape(&shapes[i], false, 0);
    }
}

static void attend(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {HALO_KV_F32, "f32", 2, 2, 20, 12, 1, 2e-6},   {HALO_KV_F32, "f32", 6, 2, 64, 64, 3, 2e-6},
        {HALO_KV_F32, "f32", 9, 1, 136, 64, 2, 2e-6},  {HALO_KV_F16, "f16", 4, 4, 128, 128, 1, 1e-3},
        {HALO_KV_F16, "f16", 8, 2, 80, 80, 4, 1e-3},   {HALO_KV_F16, "f16", 12, 1, 128, 128, 5, 1e-3},
        {HALO_KV_F16, "f16", 7, 1, 256, 256, 2, 1e-3}, {HALO_KV_Q8, "q8", 2, 2, 96, 96, 1, 2e-2},
        {HALO_KV_Q8, "q8", 4, 1, 128, 128, 8, 2e-2},   {HALO_KV_Q8, "q8", 5, 1, 256, 256, 2, 2e-2},
        {HALO_KV_F32, "f32", 3, 3, 256, 256, 1, 2e-6}, {HALO_KV_F16, "f16", 3, 1, 256, 192, 3, 1e-3},
        {HALO_KV_Q8, "q8", 8, 1, 64, 64, 2, 2e-2},     {HALO_KV_F32, "f32", 4, 1, 256, 256, 3, 2e-6},
        {HALO_KV_F16, "f16", 2, 2, 192, 192, 1, 1e-3}, {HALO_KV_Q8, "q8", 1, 1, 256, 256, 1, 2e-2},
        {HALO_KV_Q8, "q8", 3, 1, 256, 256, 1, 2e-2},   {HALO_KV_Q4, "q4", 2, 2, 96, 64, 1, 1e-3},
        {HALO_KV_Q4, "q4", 4, 1, 128, 128, 5, 1e-3},   {HALO_KV_Q4, "q4", 8, 1, 32, 128, 2, 1e-3},
        {HALO_KV_Q4, "q4", 2, 2, 256, 192, 1, 1e-3},   {HALO_KV_Q4, "q4", 4, 1, 160, 256, 3, 1e-3},
        {HALO_KV_Q4, "q4", 9, 1, 256, 256, 2, 1e-3},   {HALO_KV_F16, "f16", 8, 1, 512, 512, 2, 1e-3},
        {HALO_KV_F16, "f16", 2, 2, 512, 512, 3, 1e-3}, {HALO_KV_Q8, "q8", 5, 1, 512, 512, 2, 2e-2},
        {HALO_KV_Q8, "q8", 1, 1, 320, 512, 1, 2e-2},   {HALO_KV_F32, "f32", 3, 1, 512, 384, 2, 2e-6},
        {HALO_KV_Q4, "q4", 3, 1, 512, 512, 2, 1e-3},   {HALO_KV_Q4, "q4", 1, 1, 384, 512, 1, 1e-3},
    };
    for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        attend_shape(&shapes[i], 33);
        attend_shape(&shapes[i], i % 3 ? 1 : 300);
    }
    /* Many splits, of which 35, or 17, have a page. */
    static const struct shape many[] = {{HALO_KV_F16, "f16", 8, 2, 64, 64, HALO_SPLITS_MAX, 1e-3},
                                        {HALO_KV_F32, "f32", 5, 1, 256, 256, HALO_SPLITS_MAX, 2e-6}};
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        attend_shape(&many[i], 35 * PAGE - 3);
        attend_shape(&many[i], 16 * PAGE + 1);
    }
}

/* Tiles of both sequences, one empty and one of padding; rows in no tile stay as they were. */
static void prefill_shape(const struct shape *s, uint32_t n_pos, uint32_t n_rows, uint32_t first_pos)
{
    enum { PAD = 2, TILES = 4 };
    struct cache c;
    cache_make(&c, s, n_pos);
    const uint32_t n_pages = HALO_HIP_CEIL(n_pos, PAGE), d = heads_of(s);
    const uint32_t n = n_rows + PAD + 1, width = s->n_head * s->dim_v;
    const struct halo_prefill_tile tiles[TILES] = {{0, n_rows}, {n_rows, 0}, {n_rows, PAD}, {n_rows + PAD, 1}};
    int32_t *pos = gfx_zeros(n * sizeof(*pos));
    uint32_t *first = gfx_zeros(n * sizeof(*first));
    for (uint32_t r = 0; r < n; r++) {
        pos[r] = r < n_rows ? (int32_t)(first_pos + r) : r < n - 1 ? -1 : (int32_t)n_pos - 1;
        first[r] = r < n - 1 ? 0 : n_pages;
    }
    float *q = gfx_floats(n * s->n_head * s->dim_k, 6), *out = gfx_floats(n * width, 7),
          *before = gfx_floats(n * width, 7);
    struct halo_prefill_args args = {
        .kv = c.kv, .tile = tiles, .q = q, .out = out, .score.scale = 0.25f, .n_head = s->n_head};
    args.kv.pos = pos;
    args.kv.page_first = first;
    char name[40];
    snprintf(name, sizeof(name), "prefill_%s_d%u", s->name, d);
    gfx_run(name, TILES, s->n_head, HALO_PREFILL_BLOCKS(d), &args);
    double want[512];
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t h = 0; h < s->n_head && pos[r] >= 0; h++) {
            attend_want(&c, s, r < n - 1 ? 0 : 1, (uint32_t)pos[r], q + (r * s->n_head + h) * s->dim_k, h, want);
            for (uint32_t i = 0; i < s->dim_v; i++)
                gfx_near((double)out[r * width + h * s->dim_v + i], want[i], s->bound, 1, name, r * 1000 + i);
        }
    assert_memory_equal(out + n_rows * width, before + n_rows * width, PAD * width * sizeof(float));
    cache_free(&c);
    free(pos);
    free(first);
    free(q);
    free(out);
    free(before);
}

static void prefill(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {HALO_KV_F32, "f32", 2, 2, 20, 12, 1, 1e-3},   {HALO_KV_F16, "f16", 4, 2, 128, 128, 1, 1e-3},
        {HALO_KV_Q8, "q8", 3, 1, 96, 64, 1, 2e-2},     {HALO_KV_F32, "f32", 2, 1, 136, 64, 1, 1e-3},
        {HALO_KV_F16, "f16", 2, 1, 256, 256, 1, 1e-3}, {HALO_KV_Q8, "q8", 2, 2, 128, 256, 1, 2e-2},
        {HALO_KV_Q4, "q4", 4, 2, 96, 128, 1, 1e-3},    {HALO_KV_Q4, "q4", 2, 1, 256, 192, 1, 1e-3},
        {HALO_KV_F16, "f16", 2, 1, 512, 512, 1, 1e-3}, {HALO_KV_Q8, "q8", 1, 1, 512, 320, 1, 2e-2},
        {HALO_KV_F32, "f32", 1, 1, 512, 512, 1, 1e-3}, {HALO_KV_Q4, "q4", 2, 1, 512, 512, 1, 1e-3},
    };
    for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        prefill_shape(&shapes[i], 64, 64, 0);
        prefill_shape(&shapes[i], 70, 37, 33);
        prefill_shape(&shapes[i], 20, 1, 7);
    }
}

/* q8 has the scale of the whole group as an f16: the stored bytes are those of the format in kernels/tensor.h. */
static void q8_exact(void **state)
{
    (void)state;
    enum { DIM = 64 };
    float k[DIM], v[DIM];
    uint32_t seed = 3, pages[1] = {0}, first = 0;
    for (uint32_t i = 0; i < DIM; i++) {
        k[i] = gfx_random_float(&seed);
        v[i] = i < 32 ? 0 : gfx_random_float(&seed) * 100;
    }
    const int32_t pos = 5;
    struct halo_kv_write_args args = {
        {NULL, &pos, &first, pages, halo_hip_kv_layer_page_bytes(HALO_KV_Q8, 1, DIM, DIM), 1, DIM, DIM}, k, v};
    uint8_t *base = args.kv.base = gfx_zeros(args.kv.page_bytes),
            *v_head = base + halo_hip_kv_head_bytes(HALO_KV_Q8, DIM);
    gfx_run("kv_write_q8", 1, 1, 1, &args);
    for (uint32_t value = 0; value < 2; value++)
        for (uint32_t g = 0; g < 2; g++) {
            const float *x = (value ? v : k) + 32 * g;
            float max = 0;
            for (uint32_t i = 0; i < 32; i++)
                max = fmaxf(max, fabsf(x[i]));
            uint16_t want = gfx_float_half(max / 127), have;
            const uint32_t at = value ? (uint32_t)pos * 2 + g : g * PAGE + (uint32_t)pos;
            memcpy(&have, (value ? v_head : base) + PAGE * DIM + 2 * at, 2);
            assert_int_equal(have, want);
            for (uint32_t i = 0; i < 32; i++) {
                const uint32_t d = 32 * g + i,
                               place = value ? (uint32_t)pos * DIM + d : (d / 16 * PAGE + (uint32_t)pos) * 16 + d % 16;
                const float q = want ? rintf(x[i] / gfx_half_float(want)) : 0;
                assert_int_equal((int8_t)(value ? v_head : base)[place], (int)fminf(127, fmaxf(-127, q)));
            }
        }
    free(base);
}

/* q4 is the rotated row; in each group the element that is largest in magnitude is -8 times the scale, and no other is
 * further from what is stored than half of it. A group of zeros, and one with a NaN, read as such. */
static void q4_of_rotated_rows(void **state)
{
    enum { DIM = 96 };
    float k[DIM], v[DIM], want[2][DIM];
    uint32_t seed = 3, pages[1] = {0}, first = 0;
    for (uint32_t i = 0; i < DIM; i++) {
        k[i] = gfx_random_float(&seed) * (i % 7 == 0 ? 40 : 1);
        v[i] = i < 32 ? 0 : i < 64 ? gfx_random_float(&seed) : NAN;
        want[0][i] = k[i];
        want[1][i] = v[i];
    }
    const int32_t pos = 5;
    struct halo_kv_write_args args = {
        {NULL, &pos, &first, pages, halo_hip_kv_layer_page_bytes(HALO_KV_Q4, 1, DIM, DIM), 1, DIM, DIM}, k, v};
    uint8_t *base = args.kv.base = gfx_zeros(args.kv.page_bytes);
    gfx_run("kv_write_q4", 1, 1, 1, &args);
    for (uint32_t value = 0; value < 2; value++) {
        const uint8_t *head = value ? base + halo_hip_kv_head_bytes(HALO_KV_Q4, DIM) : base;
        rotate(want[value], DIM);
        for (uint32_t g = 0; g < DIM; g += 32) {
            float most = 0;
            for (uint32_t d = g; d < g + 32; d++)
                most = fabsf(want[value][d]) > fabsf(most) ? want[value][d] : most;
            for (uint32_t d = g; d < g + 32; d++) {
                const float have = q4_element(head, DIM, value, (uint32_t)pos, d), x = want[value][d];
                if (isnan(x))
                    assert_true(isnan(have));
                else if (fabsf(x) == fabsf(most))
                    gfx_near((double)have, (double)most, 1e-3, (double)fabsf(most), "most", d);
                else /* 7 steps on the other side */
                    gfx_near((double)have, (double)(fmaxf(x * most, most * most * -7 / 8) / most), 0.501 / 8,
                             (double)fabsf(most), "q4", d);
            }
        }
    }
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attend),   cmocka_unit_test(attend_brings_its_heads), cmocka_unit_test(prefill),
        cmocka_unit_test(q8_exact), cmocka_unit_test(q4_of_rotated_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
