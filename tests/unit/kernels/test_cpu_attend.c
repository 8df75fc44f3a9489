/* test_cpu_attend.c: attention over the paged cache against a plain double-precision evaluation of what the cache
 * stores. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"

#define N_VOCAB 61

static const char *const variants[] = {"reference", "avx2", "avx512"};

struct shape {
    enum halo_kv_type type;
    uint32_t n_head, n_head_kv, k_dim, v_dim;
    uint32_t n_context, max_rows;
    bool second; /* the cache is the plan's second group; the first one, of another shape, is written and read beside */
    uint32_t window, period; /* of the mask, of the temperature */
    float cap, temperature;
    bool sinks;
};

/* A plan of one attention op and its reference. Token t has row t of each table as its q, k or v. */
struct attention {
    struct fixture f;
    struct shape shape;
    float *q, *k, *v; /* [N_VOCAB][heads * dim]; k and v as the cache returns them */
    float *sinks;     /* [heads] or NULL */
    uint16_t out;
    int32_t *tokens; /* [n_context] */
};

static double as_f16(double x)
{
    int exponent;
    if (x == 0)
        return 0;
    frexp(x, &exponent);
    int bits = exponent < -13 ? 24 : 11 - exponent;
    return ldexp(rint(ldexp(x, bits)), -bits);
}

/* Times the Hadamard matrix of the largest power of two in dim; the additions in the device's order, so that the same
 * elements are rounded up. */
static void rotate(float *x, uint32_t dim)
{
    uint32_t block = 1;
    while (dim % (2 * block) == 0)
        block *= 2;
    for (uint32_t half = 1; half < block; half *= 2)
        for (uint32_t i = 0; i < dim; i++)
            if (i / half % 2 == 0) {
                float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (uint32_t i = 0; i < dim; i++)
        x[i] *= 1 / sqrtf((float)block);
}

static void store_q4(float *x, uint32_t dim)
{
    rotate(x, dim);
    for (uint32_t i = 0; i < dim; i += HALO_KV_Q8_GROUP) {
        uint32_t end = i + HALO_KV_Q8_GROUP < dim ? i + HALO_KV_Q8_GROUP : dim;
        float most = 0;
        for (uint32_t j = i; j < end; j++)
            most = fabsf(x[j]) > fabsf(most) ? x[j] : most;
        float scale = (float)as_f16((double)(most / -8));
        for (uint32_t j = i; j < end; j++)
            x[j] = scale != 0 ? fmaxf(-8, fminf(7, rintf(x[j] / scale))) * scale : 0;
    }
    rotate(x, dim);
}

/* Rounds heads of `dim` as the cache does. */
static void store(enum halo_kv_type type, float *x, uint32_t n, uint32_t dim)
{
    for (uint32_t i = 0; i < n && type == HALO_KV_F16; i++)
        x[i] = (float)as_f16((double)x[i]);
    for (uint32_t head = 0; head < n && type == HALO_KV_Q4; head += dim)
        store_q4(x + head, dim);
    for (uint32_t head = 0; head < n && type == HALO_KV_Q8; head += dim) {
        for (uint32_t i = 0; i < dim; i += HALO_KV_Q8_GROUP) {
            uint32_t end = i + HALO_KV_Q8_GROUP < dim ? i + HALO_KV_Q8_GROUP : dim;
            float most = 0;
            for (uint32_t j = i; j < end; j++)
                most = fmaxf(most, fabsf(x[head + j]));
            float scale = (float)as_f16((double)(most / 127));
            for (uint32_t j = i; j < end; j++)
                x[head + j] = scale > 0 ? fmaxf(-127, fminf(127, rintf(x[head + j] / scale))) * scale : 0;
        }
    }
}

static void attention_init(struct attention *a, struct shape s)
{
    *a = (struct attention){.shape = s};
    fixture_init(&a->f, N_VOCAB, s.max_rows, s.n_context);
    uint32_t group = 0;
    if (s.second) {
        fixture_kv(&a->f, HALO_KV_F32, 1, 1, 40, 32);
        group = fixture_kv_add(&a->f, s.type, 2, s.n_head_kv, s.k_dim, s.v_dim);
    } else {
        fixture_kv(&a->f, s.type, 2, s.n_head_kv, s.k_dim, s.v_dim);
    }
    uint16_t q = fixture_input(&a->f, s.n_head * s.k_dim, 3), k = fixture_input(&a->f, s.n_head_kv * s.k_dim, 1);
    uint16_t v = fixture_input(&a->f, s.n_head_kv * s.v_dim, 1);
    a->out = fixture_value(&a->f, s.n_head * s.v_dim);
    fixture_op(&a->f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 1, group}});
    if (s.second) {
        uint16_t key = fixture_input(&a->f, 40, 1), value = fixture_input(&a->f, 32, 1);
        uint16_t other = fixture_value(&a->f, 32);
        struct halo_op_attend first = {.q = key, .out = other, .n_head = 1, .scale = 1, .sinks = HALO_WEIGHT_NONE};
        fixture_op(&a->f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {key, value, 0, 0}});
        fixture_op(&a->f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = first});
    }
    uint32_t sinks =
        s.sinks ? fixture_weight(&a->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, s.n_head, 1, 1, 3) : HALO_WEIGHT_NONE;
    struct halo_op_attend attend = {.q = q,
                                    .out = a->out,
                                    .kv_layer = 1,
                                    .kv_group = group,
                                    .n_head = s.n_head,
                                    .scale = 0.4f,
                                    .window = s.window,
                                    .cap = s.cap,
                                    .sinks = sinks,
                                    .temperature = s.temperature,
                                    .temperature_period = s.period};
    fixture_op(&a->f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = attend});
    a->sinks = s.sinks ? fixture_floats(&a->f, sinks) : NULL;
    a->q = fixture_floats(&a->f, 0);
    a->k = fixture_floats(&a->f, 1);
    a->v = fixture_floats(&a->f, 2);
    store(s.type, a->k, N_VOCAB * s.n_head_kv * s.k_dim, s.k_dim);
    store(s.type, a->v, N_VOCAB * s.n_head_kv * s.v_dim, s.v_dim);
    a->tokens = malloc(s.n_context * sizeof(*a->tokens));
    assert_non_null(a->tokens);
    uint64_t seed = 5;
    for (uint32_t i = 0; i < s.n_context; i++)
        a->tokens[i] = (int32_t)((fixture_random(&seed) + 1) / 2 * N_VOCAB) % N_VOCAB;
}

static void attention_finish(struct attention *a)
{
    fixture_finish(&a->f);
    free(a->q);
    free(a->sinks);
    free(a->k);
    free(a->v);
    free(a->tokens);
}

/* One head of one row, in double. */
static void evaluate(const struct attention *a, int32_t pos, uint32_t head, double *ret)
{
    const struct shape *s = &a->shape;
    uint32_t kv_head = head / (s->n_head / s->n_head_kv);
    const float *q = a->q + ((size_t)a->tokens[pos] * s->n_head + head) * s->k_dim;
    int32_t first = s->window > 0 && pos >= (int32_t)s->window ? pos + 1 - (int32_t)s->window : 0;
    double *weight = malloc(((size_t)pos + 1) * sizeof(*weight)), most = a->sinks ? (double)a->sinks[head] : -INFINITY;
    double factor = s->temperature > 0 ? 1 + (double)s->temperature * log(floor((double)pos / s->period) + 1) : 1;
    assert_non_null(weight);
    for (int32_t p = first; p <= pos; p++) {
        const float *k = a->k + ((size_t)a->tokens[p] * s->n_head_kv + kv_head) * s->k_dim;
        double score = 0;
        for (uint32_t i = 0; i < s->k_dim; i++)
            score += (double)q[i] * (double)k[i];
        weight[p] = score * (double)0.4f * factor;
        if (s->cap > 0)
            weight[p] = (double)s->cap * tanh(weight[p] / (double)s->cap);
        most = fmax(most, weight[p]);
    }
    double sum = a->sinks ? exp((double)a->sinks[head] - most) : 0;
    memset(ret, 0, s->v_dim * sizeof(*ret));
    for (int32_t p = first; p <= pos; p++) {
        const float *v = a->v + ((size_t)a->tokens[p] * s->n_head_kv + kv_head) * s->v_dim;
        double w = exp(weight[p] - most);
        sum += w;
        for (uint32_t i = 0; i < s->v_dim; i++)
            ret[i] += w * (double)v[i];
    }
    for (uint32_t i = 0; i < s->v_dim; i++)
        ret[i] /= sum;
    free(weight);
}

static void check_row(const struct attention *a, int32_t pos, const float *row)
{
    for (uint32_t h = 0; h < a->shape.n_head; h++) {
        double want[256];
        evaluate(a, pos, h, want);
        for (uint32_t i = 0; i < a->shape.v_dim; i++)
            if (!(fabs((double)row[h * a->shape.v_dim + i] - want[i]) < 3e-6))
                fail_msg("position %d head %u element %u: %.9g, wanted %.9g", pos, h, i,
                         (double)row[h * a->shape.v_dim + i], want[i]);
    }
}

/* Runs n positions in chunks; keeps the rows of the positions that `keep` lists. */
static void feed(struct attention *a, const char *variant, uint32_t n_threads, uint32_t n, uint32_t chunk, float *ret)
{
    uint32_t width = a->shape.n_head * a->shape.v_dim;
    fixture_open(&a->f, variant, n_threads);
    for (uint32_t pos = 0; pos < n; pos += chunk) {
        uint32_t now = n - pos < chunk ? n - pos : chunk;
        fixture_run(&a->f, 6, a->tokens + pos, now, (int32_t)pos, NULL);
        for (uint32_t r = 0; r < now; r++)
            fixture_peek(&a->f, a->out, r, ret + (size_t)(pos + r) * width);
    }
}

/* Runs a shape in all variants and chunkings; the first is checked against double at the given positions, the others
 * against the first. A long one skips plain C where there is a faster variant, and takes all threads only. */
static void try_shape(struct shape shape, uint32_t n, const uint32_t *chunks, uint32_t n_chunks, bool is_long,
                      uint32_t check_every)
{
    struct attention a;
    attention_init(&a, shape);
    uint32_t width = shape.n_head * shape.v_dim;
    float *first = malloc((size_t)n * width * sizeof(float)), *rows = malloc((size_t)n * width * sizeof(float));
    assert_true(first && rows);
    bool have = false;
    for (uint32_t v = is_long && fixture_has("avx2") ? 1 : 0; v < 3; v++) {
        if (!fixture_has(variants[v]))
            continue;
        for (uint32_t c = 0; c < n_chunks; c++) {
            for (uint32_t n_threads = is_long ? MOST_THREADS : FEWEST_THREADS; n_threads <= MOST_THREADS; n_threads++) {
                feed(&a, variants[v], n_threads, n, chunks[c], have ? rows : first);
                if (have)
                    assert_memory_equal(first, rows, (size_t)n * width * sizeof(float));
                have = true;
            }
        }
    }
    assert_true(have);
    for (uint32_t pos = 0; pos < n; pos += check_every)
        check_row(&a, (int32_t)pos, first + (size_t)pos * width);
    check_row(&a, (int32_t)n - 1, first + (size_t)(n - 1) * width);
    free(first);
    free(rows);
    attention_finish(&a);
}

static void every_shape_of_heads(void **state)
{
    static const uint32_t dims[] = {8, 16, 48, 64, 80, 128, 20};
    static const uint32_t heads[][2] = {{1, 1}, {4, 2}, {8, 1}, {3, 3}, {40, 2}, {7, 1}};
    static const uint32_t chunks[] = {40, 1, 7};
    uint32_t n_tried = 0;
    for (uint32_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        for (uint32_t t = HALO_KV_F32; t <= HALO_KV_Q4; t++) {
            const uint32_t *h = heads[(d * 4 + t) % 6];
            struct shape shape = {(enum halo_kv_type)t, h[0], h[1], dims[d], dims[(d + (t == 1)) % 7], 64, 40};
            try_shape(shape, 40, chunks, 3, false, 3);
            n_tried++;
        }
    }
    assert_int_equal(n_tried, 28);
}

/* Positions on both sides of page (32) and split (256) boundaries, one at a time, in tiles, and with rows on both
 * sides at once. */
static void across_pages_and_splits(void **state)
{
    static const uint32_t chunks[] = {600, 1, 100, 37};
    for (uint32_t t = KV_FIRST; t <= HALO_KV_Q4; t += KV_STEP)
        try_shape((struct shape){(enum halo_kv_type)t, 4, 2, 16, 24, 640, 600}, 600, chunks, 4, false, 31);
}

/* A group has its own shape and its own pages. */
static void groups_of_different_shapes(void **state)
{
    static const uint32_t chunks[] = {100, 1, 33};
    for (uint32_t t = KV_FIRST; t <= HALO_KV_Q4; t += KV_STEP)
        try_shape((struct shape){(enum halo_kv_type)t, 6, 2, 16, 24, 128, 100, .second = true}, 100, chunks, 3, false,
                  7);
}

/* Windows shorter than a page, of a page, and across pages and splits, alone and with all that can happen to scores. */
static void windows_caps_sinks_and_temperature(void **state)
{
    static const uint32_t chunks[] = {330, 1, 37}, windows[] = {1, 20, 32, 70, 300};
    for (uint32_t w = 0; w < 5; w++) {
        struct shape s = {w % 2 ? HALO_KV_F16 : HALO_KV_F32, 4, 2, 16, 24, 384, 330, .window = windows[w]};
        if (w % 2)
            try_shape(s, 330, chunks, 3, false, 31);
        s.cap = 3;
        s.sinks = true;
        s.temperature = 0.3f;
        s.period = 50;
        try_shape(s, 330, chunks, 3, false, 31);
    }
    try_shape((struct shape){HALO_KV_F32, 8, 1, 16, 16, 384, 330, .sinks = true, .cap = 2}, 330, chunks, 3, false, 31);
}

/* Beyond 32 splits they grow; rows on both sides of that boundary in one chunk. */
static void splits_grow_with_the_position(void **state)
{
    static const uint32_t chunks[] = {1000, 173};
    try_shape((struct shape){HALO_KV_F16, 1, 1, 8, 8, 8448, 1000}, 8300, chunks, 2, true, 409);
}

/* Scores far apart: the running maximum moves up and down by more than the range of the exponential. */
static void large_scores(void **state)
{
    struct attention a;
    struct shape shape = {HALO_KV_F32, 2, 1, 16, 16, 320, 300};
    float row[32];
    attention_init(&a, shape);
    for (uint32_t i = 0; i < N_VOCAB * 2 * 16; i++) {
        a.q[i] *= 300;
        ((float *)(void *)a.f.bytes[0])[i] *= 300;
    }
    feed(&a, fixture_has("avx2") ? "avx2" : "reference", 2, 300, 50, (float[300 * 32]){0});
    for (int32_t r = 0; r < 50; r += 7) {
        fixture_peek(&a.f, a.out, (uint32_t)r, row);
        check_row(&a, 250 + r, row);
    }
    attention_finish(&a);
}

/* A NaN that a later row stored, or that another sequence left in the page, has no effect; one in the row's own range
 * has. */
static void what_is_not_finite_stays_with_its_row(void **state)
{
    for (uint32_t v = 0; v < 3; v++) {
        struct attention a;
        struct shape shape = {HALO_KV_F16, 4, 2, 16, 16, 64, 40};
        float clean[40 * 64], row[64];
        if (!fixture_has(variants[v]))
            continue;
        attention_init(&a, shape);
        for (uint32_t i = 0; i < 40; i++)
            a.tokens[i] = (int32_t)i;
        feed(&a, variants[v], 2, 40, 40, clean);
        float *k = (float *)(void *)a.f.bytes[1], *value = (float *)(void *)a.f.bytes[2];
        k[20 * 32] = NAN;
        value[25 * 32 + 3] = INFINITY;
        fixture_open(&a.f, variants[v], 2);
        fixture_run(&a.f, 6, a.tokens, 40, 0, NULL);
        for (uint32_t r = 0; r < 40; r++) {
            fixture_peek(&a.f, a.out, r, row);
            if (r < 20)
                assert_memory_equal(row, clean + r * 64, sizeof(row));
            else
                assert_true(isnan(row[0]) && isnan(row[31]));
            assert_true(r < 25 ? isfinite(row[63]) : isfinite(row[63]) && !isfinite(row[3]));
        }
        /* The same pages, reused from the start: position 2 sees nothing of the positions behind it. */
        fixture_run(&a.f, 6, a.tokens, 3, 0, NULL);
        fixture_peek(&a.f, a.out, 2, row);
        assert_memory_equal(row, clean + 2 * 64, sizeof(row));
        attention_finish(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_of_heads),
        cmocka_unit_test(across_pages_and_splits),
        cmocka_unit_test(groups_of_different_shapes),
        cmocka_unit_test(windows_caps_sinks_and_temperature),
        cmocka_unit_test(splits_grow_with_the_position),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(what_is_not_finite_stays_with_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
