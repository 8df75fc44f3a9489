/* test_hip_attend.c: the cache and attention of the HIP device against the CPU device (hip_compare.h): every type of
 * cache, odd numbers of heads, prompts, single rows and rows of several sequences. Argument: a pattern of the tests to
 * run.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hip_compare.h"

#ifdef __SANITIZE_ADDRESS__ /* it looks at memory, for which a plain type of cache and a quantized one do */
#define LONG_CASES 2
#else
#define LONG_CASES 4
#endif

/* The cache of a test is the second group of the plan; the first, of another shape, is written beside it. */
#define CACHE 1
static void take_cache(struct fixture *f, enum halo_kv_type type, uint32_t n_head_kv, uint32_t dim)
{
    fixture_kv(f, HALO_KV_F32, 1, 1, 36, 40);
    assert_int_equal(fixture_kv_add(f, type, 2, n_head_kv, dim, dim), CACHE);
}

static void write_first_group(struct fixture *f)
{
    uint16_t k = fixture_input(f, 36, 1), v = fixture_input(f, 40, 1);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 0, 0}});
}

/* Every page to the host, its place overwritten, and back: the rows that follow must have the same bits. */
static void pages_go_and_come(struct fixture *f)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t n_bytes = f->device_ops->kv_page_bytes(f->model, CACHE);
    uint8_t *page = malloc(n_bytes), *garbage = malloc(n_bytes);
    assert_true(page && garbage && n_bytes >= halo_kv_page_bytes(&f->plan.kv[CACHE]));
    memset(garbage, 0x7f, n_bytes);
    for (uint32_t i = 0; i < f->plan.kv[CACHE].n_pages; i++) {
        assert_int_equal(f->device_ops->kv_read(f->model, CACHE, i, page, reason), 0);
        assert_int_equal(f->device_ops->kv_write(f->model, CACHE, i, garbage, reason), 0);
        assert_int_equal(f->device_ops->kv_write(f->model, CACHE, i, page, reason), 0);
    }
    assert_int_equal(f->device_ops->kv_read(f->model, CACHE, f->plan.kv[CACHE].n_pages, page, reason), -EINVAL);
    assert_int_equal(f->device_ops->kv_write(f->model, CACHE, f->plan.kv[CACHE].n_pages, page, reason), -EINVAL);
    free(page);
    free(garbage);
}

/* Quantization rounds: a difference of an ulp in k can move one of q8's or q4's numbers by one. Attention of four rows
 * and more is in f16. */
static double attend_bound(enum halo_kv_type kv, bool few_rows)
{
    return kv == HALO_KV_Q4                ? 2e-2
           : kv == HALO_KV_Q8              ? 5e-3
           : kv == HALO_KV_F32 && few_rows ? bounds[HALO_OP_ATTEND]
                                           : bound_f16;
}

static void heads_and_cache(enum halo_kv_type kv, uint32_t n_head, uint32_t n_head_kv, uint32_t dim,
                            enum halo_rope_pairing pairing, struct halo_op_attend attend)
{
    struct fixture f;
    char what[96];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    take_cache(&f, kv, n_head_kv, dim);
    uint16_t q = fixture_input(&f, n_head * dim, 3), k = fixture_input(&f, n_head_kv * dim, 3),
             v = fixture_input(&f, n_head_kv * dim, 1);
    uint16_t out = fixture_value(&f, n_head * dim);
    uint32_t qw = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, dim, 1, 1, 1);
    uint32_t kw = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, dim, 1, 1, 1);
    uint32_t rope = fixture_rope(&f, pairing, dim / 2 / 2 * 2, 1, 10000);
    snprintf(what, sizeof(what), "kv %d, %u heads over %u of %u", (int)kv, n_head, n_head_kv, dim);
    fixture_op(&f,
               (struct halo_op){.kind = HALO_OP_QK_NORM, .u.qk_norm = {q, k, qw, kw, n_head, n_head_kv, dim, 1e-6f}});
    both(&f, what, HALO_OP_QK_NORM, q, few, N_FEW);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, n_head, n_head_kv, dim, rope}});
    both(&f, what, HALO_OP_ROPE, k, few, N_FEW);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 1, CACHE}});
    attend.q = q;
    attend.out = out;
    attend.kv_layer = 1;
    attend.kv_group = CACHE;
    attend.n_head = n_head;
    attend.scale = (float)(1 / sqrt(dim));
    attend.sinks =
        attend.sinks ? fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_head, 1, 1, 3) : HALO_WEIGHT_NONE;
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = attend});
    write_first_group(&f);
    /* A chunk, then single rows and a chunk behind it, across pages. */
    static const struct {
        uint32_t n_rows;
        int32_t first;
    } steps[] = {{MAX_ROWS, 0}, {1, MAX_ROWS}, {2, MAX_ROWS + 1}, {61, MAX_ROWS + 3}};
    float *want[4];
    use_cpu(&f);
    for (uint32_t i = 0; i < 4; i++)
        want[i] = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
    use_hip(&f);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2)
            pages_go_and_come(&f);
        float *have = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
        for (uint32_t r = 0; r < steps[i].n_rows; r++)
            compare_row(what, have + (size_t)r * n_head * dim, want[i] + (size_t)r * n_head * dim, n_head * dim,
                        attend_bound(kv, steps[i].n_rows < 4), 0);
        free(have);
        free(want[i]);
    }
    fixture_finish(&f);
}

/* Heads over one kv head, with norm and rotation in the launch of attention where there is `product`. */
struct long_context {
    enum halo_kv_type kv;
    uint32_t n_head, dim;
    bool product;
};

static uint16_t build_long_context(struct fixture *f, const struct long_context *c)
{
    uint32_t n = c->n_head * c->dim;
    uint16_t q = fixture_input(f, n, 3), k = fixture_input(f, c->dim, 1), v = fixture_input(f, c->dim, 1),
             out = fixture_value(f, n);
    if (c->product) {
        uint32_t weight = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, c->dim, 1, 1, 1),
                 rope = fixture_rope(f, HALO_ROPE_NEOX, c->dim, 1, 10000);
        fixture_op(f, (struct halo_op){.kind = HALO_OP_QK_NORM,
                                       .u.qk_norm = {q, k, weight, weight, c->n_head, 1, c->dim, 1e-6f}});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, c->n_head, 1, c->dim, rope}});
    }
    fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 1, CACHE}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ATTEND,
                                   .u.attend = {.q = q,
                                                .out = out,
                                                .kv_layer = 1,
                                                .kv_group = CACHE,
                                                .n_head = c->n_head,
                                                .scale = (float)(1 / sqrt(c->dim)),
                                                .sinks = HALO_WEIGHT_NONE}});
    write_first_group(f);
    return out;
}

enum { LONG_CHUNKS = 3, LONG_PAGES = 70, LONG_ROWS = 2, LONG_SEQUENCE = 3 };

/* Chunks of a prompt, whose pages are then copied over the rest of the context: attention of as many rows as it has
 * takes an emulated GPU too long. */
static void fill_long_context(struct fixture *f)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint32_t n_pages, n_filled = LONG_CHUNKS * MAX_ROWS / HALO_KV_PAGE_TOKENS;
    const uint32_t *pages = fixture_pages(f, (LONG_SEQUENCE + 3 * CACHE) % 8, &n_pages);
    uint64_t n_bytes = f->device_ops->kv_page_bytes(f->model, CACHE);
    uint8_t *page = malloc(n_bytes);
    assert_non_null(page);
    for (int32_t i = 0; i < LONG_CHUNKS; i++) {
        int32_t tokens[MAX_ROWS];
        for (int32_t r = 0; r < MAX_ROWS; r++)
            tokens[r] = (5 * r + 3 * i) % N_VOCAB;
        fixture_run(f, LONG_SEQUENCE, tokens, MAX_ROWS, i * MAX_ROWS, NULL);
    }
    assert_true(n_pages > LONG_PAGES);
    for (uint32_t i = n_filled; i < LONG_PAGES; i++) {
        assert_int_equal(f->device_ops->kv_read(f->model, CACHE, pages[i * i % n_filled], page, reason), 0);
        assert_int_equal(f->device_ops->kv_write(f->model, CACHE, pages[i], page, reason), 0);
    }
    free(page);
}

/* Single rows behind a context of the last level: several splits, which a launch of their own merges, and in matrix
 * tiles several steps to a wave. */
static void rows_behind_a_long_context(const struct long_context *c)
{
    struct fixture f;
    char what[96];
    float *want[LONG_ROWS];
    fixture_init(&f, N_VOCAB, MAX_ROWS, (LONG_PAGES + 1) * HALO_KV_PAGE_TOKENS);
    take_cache(&f, c->kv, 1, c->dim);
    uint16_t out = build_long_context(&f, c);
    snprintf(what, sizeof(what), "kv %d, %u heads of %u behind %d pages", (int)c->kv, c->n_head, c->dim, LONG_PAGES);
    for (int device = 0; device < 2; device++) {
        if (device == 0)
            use_cpu(&f);
        else
            use_hip(&f);
        fill_long_context(&f);
        for (int32_t i = 0; i < LONG_ROWS; i++) {
            float *have = run_and_peek(&f, out, 1, LONG_PAGES * HALO_KV_PAGE_TOKENS + i);
            if (device == 0) {
                want[i] = have;
                continue;
            }
            compare_rows(what, have, want[i], 1, c->n_head * c->dim, attend_bound(c->kv, false));
            free(have);
            free(want[i]);
        }
    }
    fixture_finish(&f);
}

static void attention_behind_a_long_context(void **state)
{
    static const struct long_context cases[4] = {
        {HALO_KV_F16, 5, 64, true},
        {HALO_KV_Q8, 1, 128, false},
        {HALO_KV_Q4, 1, 128, true},
        {HALO_KV_F16, 1, 160, true},
    };
    for (uint32_t i = 0; i < LONG_CASES; i++)
        rows_behind_a_long_context(&cases[i]);
}

/* One batch of rows of several sequences; the value of each row, freshly allocated. */
static float *run_rows(struct fixture *f, uint16_t value, uint32_t n_rows, const uint32_t *seq, const int32_t *pos)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint32_t width = f->values[value].width;
    float *rows = calloc((size_t)n_rows * width, sizeof(*rows));
    struct halo_batch_seq seqs[4];
    int32_t tokens[8];
    assert_non_null(rows);
    for (uint32_t s = 0; s < 4; s++)
        for (uint32_t group = 0; group < f->plan.n_kv_groups; group++)
            seqs[s].pages[group] = fixture_pages(f, (s + 3 * group) % 8, &seqs[s].n_pages);
    for (uint32_t r = 0; r < n_rows; r++)
        tokens[r] = (int32_t)(seq[r] * 11 + (uint32_t)pos[r]) % N_VOCAB;
    struct halo_batch batch = {.n_rows = n_rows, .token = tokens, .pos = pos, .seq = seq, .n_seqs = 4, .seqs = seqs};
    if (f->device_ops->run(f->model, &batch, NULL, reason))
        fail_msg("%s", reason);
    for (uint32_t r = 0; r < n_rows; r++)
        fixture_peek(f, value, r, rows + (size_t)r * width);
    return rows;
}

/* Single rows of several sequences: where all sequences differ, attention prepares the heads itself; where two rows
 * are of one sequence, the later needs the K and V of the earlier; where an op behind attention reads q, q is written
 * back. */
static void rows_apart(enum halo_kv_type kv, bool q_is_read)
{
    enum { N_HEAD = 6, N_HEAD_KV = 2, DIM = 64, STEPS = 4 };
    static const struct {
        uint32_t n_rows, seq[4];
        int32_t pos[4];
    } steps[STEPS] = {{3, {0, 1, 2}, {40, 31, 32}},
                      {4, {2, 0, 1, 3}, {33, 41, 32, 0}},
                      {4, {0, 1, 0, 2}, {42, 33, 43, 34}},
                      {1, {0}, {44}}};
    static const char *const names[] = {"f32", "f16", "q8", "q4"};
    struct fixture f;
    char what[72];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    take_cache(&f, kv, N_HEAD_KV, DIM);
    uint16_t q = fixture_input(&f, N_HEAD * DIM, 3), k = fixture_input(&f, N_HEAD_KV * DIM, 3),
             v = fixture_input(&f, N_HEAD_KV * DIM, 1), out = fixture_value(&f, N_HEAD * DIM);
    uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, DIM, 1, 1, 1),
             rope = fixture_rope(&f, HALO_ROPE_NEOX, DIM, 1, 10000);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_QK_NORM,
                                    .u.qk_norm = {q, k, weight, weight, N_HEAD, N_HEAD_KV, DIM, 1e-6f}});
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, N_HEAD, N_HEAD_KV, DIM, rope}});
    struct halo_op_attend attend = {.q = q,
                                    .out = out,
                                    .kv_layer = 1,
                                    .kv_group = CACHE,
                                    .n_head = N_HEAD,
                                    .scale = 0.125f,
                                    .sinks = HALO_WEIGHT_NONE};
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 1, CACHE}});
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = attend});
    write_first_group(&f);
    if (q_is_read)
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {out, q}});
    float *want[STEPS];
    for (int device = 0; device < 2; device++) {
        if (device == 0)
            use_cpu(&f);
        else
            use_hip(&f);
        for (uint32_t s = 0; s < 3; s++) { /* what the rows look back on */
            int32_t tokens[MAX_ROWS] = {0};
            fixture_run(&f, s, tokens, 40 - 4 * s, 0, NULL);
        }
        for (uint32_t i = 0; i < STEPS; i++) {
            float *have = run_rows(&f, out, steps[i].n_rows, steps[i].seq, steps[i].pos);
            if (device == 0) {
                want[i] = have;
                continue;
            }
            snprintf(what, sizeof(what), "rows apart, kv %s, step %u%s", names[kv], i, q_is_read ? ", q read" : "");
            compare_rows(what, have, want[i], steps[i].n_rows, N_HEAD * DIM, attend_bound(kv, false));
            free(have);
            free(want[i]);
        }
    }
    fixture_finish(&f);
}

static void attention_of_rows_apart(void **state)
{
    for (int kv = KV_FIRST; kv <= HALO_KV_Q4; kv += KV_STEP) {
        rows_apart((enum halo_kv_type)kv, false);
        rows_apart((enum halo_kv_type)kv, true);
    }
}

static void attention_of_every_cache(void **state)
{
    const struct halo_op_attend plain = {.window = 0};
    for (int kv = KV_FIRST; kv <= HALO_KV_Q4; kv += KV_STEP) {
        heads_and_cache((enum halo_kv_type)kv, 4, 4, 32, HALO_ROPE_NEOX, plain);
        heads_and_cache((enum halo_kv_type)kv, 6, 3, 64, HALO_ROPE_NORM, plain);
        heads_and_cache((enum halo_kv_type)kv, 8, 1, 128, HALO_ROPE_NEOX, plain);
        heads_and_cache((enum halo_kv_type)kv, 7, 1, 96, HALO_ROPE_NORM, plain);
        heads_and_cache((enum halo_kv_type)kv, 3, 1, 256, HALO_ROPE_NEOX, plain);
        heads_and_cache((enum halo_kv_type)kv, kv == HALO_KV_F32 || kv == HALO_KV_Q4 ? 3 : 8, 1, 512, HALO_ROPE_NEOX,
                        plain);
    }
}

/* A window shorter than a page, of a page and more; a cap that scores reach; sinks; a temperature of every few
 * positions. With one row, with tiles, with splits. */
static void attention_with_masked_and_bent_scores(void **state)
{
    const struct halo_op_attend cases[] = {
        {.window = 20},
        {.window = 32},
        {.window = 45},
        {.window = 1},
        {.cap = 0.5f},
        {.sinks = 1},
        {.temperature = 0.5f, .temperature_period = 10},
        {.window = 70, .cap = 1, .sinks = 1, .temperature = 0.1f, .temperature_period = 16}};
    for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        enum halo_kv_type kv = c % 3 == 2 ? HALO_KV_F32 : HALO_KV_F16;
        heads_and_cache(kv, 6, 3, 64, HALO_ROPE_NEOX, cases[c]);
        heads_and_cache(kv, 8, 1, c % 2 ? 96 : 192, HALO_ROPE_NORM, cases[c]);
    }
}

/* A latent cache in the second group: heads that share its rows, as many as few and as several blocks have, in prompts,
 * single rows and rows of several sequences; its pages go to the host and back. */
static void latent_cache(enum halo_kv_type kv, uint32_t n_head, uint32_t dim_k, uint32_t dim_v, uint32_t window)
{
    static const struct {
        uint32_t n_rows;
        int32_t first;
    } steps[] = {{MAX_ROWS, 0}, {1, MAX_ROWS}, {2, MAX_ROWS + 1}, {61, MAX_ROWS + 3}, {1, 2 * MAX_ROWS}};
    enum { STEPS = sizeof(steps) / sizeof(steps[0]) };
    struct fixture f;
    char what[96];
    float *want[STEPS];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    fixture_kv(&f, HALO_KV_F32, 1, 1, 36, 40);
    assert_int_equal(fixture_kv_add(&f, kv, 2, 1, dim_k, dim_v), CACHE);
    f.plan.kv[CACHE].latent = true;
    uint16_t q = fixture_input(&f, n_head * dim_k, 3), k = fixture_input(&f, dim_k, 1),
             out = fixture_value(&f, n_head * dim_v);
    struct halo_op_attend attend = {.q = q,
                                    .out = out,
                                    .kv_layer = 1,
                                    .kv_group = CACHE,
                                    .n_head = n_head,
                                    .scale = (float)(1 / sqrt(dim_k)),
                                    .window = window,
                                    .sinks = HALO_WEIGHT_NONE};
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, HALO_NONE, 1, CACHE}});
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = attend});
    write_first_group(&f);
    snprintf(what, sizeof(what), "latent kv %d, %u heads of %u and %u", (int)kv, n_head, dim_k, dim_v);
    use_cpu(&f);
    for (uint32_t i = 0; i < STEPS; i++)
        want[i] = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
    use_hip(&f);
    for (uint32_t i = 0; i < STEPS; i++) {
        if (i == 2)
            pages_go_and_come(&f);
        float *have = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
        compare_rows(what, have, want[i], steps[i].n_rows, n_head * dim_v, attend_bound(kv, steps[i].n_rows < 4));
        free(have);
        free(want[i]);
    }
    fixture_finish(&f);
}

static void attention_of_latent_caches(void **state)
{
    for (int kv = KV_FIRST; kv <= HALO_KV_Q8; kv += KV_STEP) {
        latent_cache((enum halo_kv_type)kv, kv == HALO_KV_F16 ? 20 : 5, 576, 512, 0);
        latent_cache((enum halo_kv_type)kv, 3, 96, 64, 45);
        latent_cache((enum halo_kv_type)kv, 40, kv == HALO_KV_Q8 ? 64 : 40, 32, 0);
    }
}

/* All ops between the product of q and the heads' results, as a plan with a latent cache has them: few rows have a
 * launch for those in front of attention, unless one behind them reads what it leaves out. */
struct latent_heads {
    enum halo_kv_type kv;
    enum halo_type matrix; /* of the products of heads */
    enum halo_rope_pairing pairing;
    uint32_t n_head, n_low, n_rot, n_row, n_up;
    bool row_is_read;
};

static uint16_t latent_ops(struct fixture *f, const struct latent_heads *s)
{
    const uint32_t n = s->n_head, n_kept = s->n_row + s->n_rot;
    uint16_t q_up = fixture_input(f, n * (s->n_low + s->n_rot), 3), row = fixture_input(f, s->n_row, 2),
             k_rot = fixture_input(f, s->n_rot, 1), q_low = fixture_value(f, n * s->n_low),
             q_rot = fixture_value(f, n * s->n_rot), down = fixture_value(f, n * s->n_row),
             q = fixture_value(f, n * n_kept), k = fixture_value(f, n_kept), att = fixture_value(f, n * s->n_row),
             heads = fixture_value(f, n * s->n_up);
    uint32_t weight = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, s->n_row, 1, 1, 1),
             k_b = fixture_weight(f, s->matrix, HALO_WEIGHT_EXPERTS, s->n_low, s->n_row, n, 0.3),
             v_b = fixture_weight(f, s->matrix, HALO_WEIGHT_EXPERTS, s->n_row, s->n_up, n, 0.3),
             rope = fixture_rope(f, s->pairing, s->n_rot, 1, 10000);
    const struct halo_op ops[] = {
        {HALO_OP_CONCAT, .u.concat = {q_up, HALO_NONE, q_low, n, 0, s->n_low, 0, false}},
        {HALO_OP_CONCAT, .u.concat = {q_up, HALO_NONE, q_rot, n, s->n_low, s->n_rot, 0, false}},
        {HALO_OP_ROPE, .u.rope = {q_rot, k_rot, n, 1, s->n_rot, rope}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {q_low, HALO_NONE, 1, true, {k_b}, {down}, n, HALO_WEIGHTS_NONE}},
        {HALO_OP_CONCAT, .u.concat = {down, q_rot, q, n, 0, s->n_row, s->n_rot, false}},
        {HALO_OP_CONCAT, .u.concat = {row, k_rot, k, 1, 0, s->n_row, s->n_rot, false}},
        {HALO_OP_KV_WRITE, .u.kv_write = {k, HALO_NONE, 1, CACHE}},
        {HALO_OP_ATTEND, .u.attend = {.q = q,
                                      .out = att,
                                      .kv_layer = 1,
                                      .kv_group = CACHE,
                                      .n_head = n,
                                      .scale = (float)(1 / sqrt(s->n_low + s->n_rot)),
                                      .sinks = HALO_WEIGHT_NONE}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {att, HALO_NONE, 1, true, {v_b}, {heads}, n, HALO_WEIGHTS_NONE}},
    };
    fixture_rmsnorm(f, weight, row, HALO_NONE, row);
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
    if (s->row_is_read)
        fixture_op(f, (struct halo_op){HALO_OP_ADD, .u.add = {k, k}});
    return s->row_is_read ? k : heads;
}

static void latent_heads(const struct latent_heads *s)
{
    static const struct {
        uint32_t n_rows;
        int32_t first;
    } steps[] = {{1, 0}, {MAX_ROWS, 1}, {1, MAX_ROWS + 1}, {2, MAX_ROWS + 2}, {7, MAX_ROWS + 4}, {1, MAX_ROWS + 11}};
    enum { STEPS = sizeof(steps) / sizeof(steps[0]) };
    struct fixture f;
    char what[96];
    float *want[STEPS];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    fixture_kv(&f, HALO_KV_F32, 1, 1, 36, 40);
    assert_int_equal(fixture_kv_add(&f, s->kv, 2, 1, s->n_row + s->n_rot, s->n_row), CACHE);
    f.plan.kv[CACHE].latent = true;
    write_first_group(&f);
    uint16_t out = latent_ops(&f, s);
    snprintf(what, sizeof(what), "latent heads, kv %d, %u heads of %u and %u", (int)s->kv, s->n_head, s->n_row,
             s->n_rot);
    use_cpu(&f);
    for (uint32_t i = 0; i < STEPS; i++)
        want[i] = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
    use_hip(&f);
    for (uint32_t i = 0; i < STEPS; i++) {
        float *have = run_and_peek(&f, out, steps[i].n_rows, steps[i].first);
        /* Both round activations to int8: what differs a little can be rounded to another number. */
        double bound = s->matrix == HALO_TYPE_Q8_0 ? 2e-2 : attend_bound(s->kv, steps[i].n_rows < 4);
        compare_rows(what, have, want[i], steps[i].n_rows, f.values[out].width, bound);
        free(have);
        free(want[i]);
    }
    fixture_finish(&f);
}

static void heads_over_latent_caches(void **state)
{
    static const struct latent_heads cases[] = {
        {HALO_KV_F16, HALO_TYPE_Q8_0, HALO_ROPE_NORM, 20, 192, 64, 512, 64, false},
        {HALO_KV_Q8, HALO_TYPE_Q8_0, HALO_ROPE_NEOX, 7, 96, 32, 64, 32, false},
        {HALO_KV_F32, HALO_TYPE_F16, HALO_ROPE_NORM, 3, 40, 16, 40, 24, false},
        {HALO_KV_F16, HALO_TYPE_F32, HALO_ROPE_NEOX, 8, 12, 20, 36, 8, false},
        {HALO_KV_F16, HALO_TYPE_Q8_0, HALO_ROPE_NORM, 5, 32, 32, 64, 32, true},
    };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        latent_heads(&cases[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_every_cache),        cmocka_unit_test(attention_of_rows_apart),
        cmocka_unit_test(attention_behind_a_long_context), cmocka_unit_test(attention_with_masked_and_bent_scores),
        cmocka_unit_test(attention_of_latent_caches),      cmocka_unit_test(heads_over_latent_caches),
    };
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
