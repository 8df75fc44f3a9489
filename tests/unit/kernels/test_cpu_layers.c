/* test_cpu_layers.c: dense layers whose matrices are streamed give the bits of resident ones, in whatever type and
 * however many rows; a run takes each of them once, in turn, as one piece or matrix by matrix; a source that fails ends
 * the run, and the next run is right again.
 *
 * Compiled with HALO_TEST_HIP the same holds for the HIP device over the runtime that $HALO_HIP_LIB names, with memory
 * shared with the host or its own ($HALO_HIP_EMU_DISCRETE). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#if defined(HALO_TEST_HIP)
#include <hip/hip.h>
#define THREADS 1 /* that it is tried with, at most */
#define N_TYPES 1 /* what differs between types is not streaming */
#else
#define THREADS 8
#define N_TYPES (sizeof(all) / sizeof(all[0]))
#endif

#include "cpu_fixture.h"

#define N_VOCAB 31
#define N_ROWS 9
#define N_LAYERS 4 /* the second one stays resident */
#define N_STREAMED 3
#define N_PARTS 4
#define N_BUFFERS 2
#define PART_BYTES (320 * 1024)
#define DELTA 1184 /* of the file's bytes from the start of a part, beside what the layout needs */
#define WIDTH 256
#define N_RUNS 4

/* Two buffers by turns. Every other layer comes matrix by matrix. What is let go is overwritten at once. */
struct source {
    struct fixture *f;
    uint8_t *memory;                /* [N_BUFFERS][N_PARTS][PART_BYTES] */
    struct halo_expert_slots taken; /* by the device */
    uint8_t *slots;                 /* of the device; NULL: the host cannot write them */
    uint64_t part_at[FIXTURE_MAX];
    uint32_t layer, slot, next, n_open, n_takes;
    uint32_t n_given;           /* matrices of the layer */
    int fail_choose, fail_take; /* of so many calls, the last one fails; 0: none */
    bool forget;                /* the next layer is not read */
};

static uint8_t *part_of(const struct source *s, uint32_t part)
{
    return (s->slots ? s->slots : s->memory) + (size_t)(s->slot * N_PARTS + part) * PART_BYTES;
}

static uint8_t *data_of(const struct source *s, uint32_t part, uint32_t weight)
{
    const struct halo_weight *w = &s->f->weights[weight];
    uint64_t packed = s->f->device_ops->expert_bytes(s->f->device, w);
    uint64_t data = (packed > w->n_bytes ? packed - w->n_bytes : 0) + DELTA;
    assert_true(data + w->n_bytes <= PART_BYTES);
    return part_of(s, part) + data;
}

static bool is_copied(const struct source *s)
{
    return s->f->device_ops->take_slots && !s->slots;
}

static int choose(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n, char *reason)
{
    struct source *s = owner;
    assert_int_equal(s->n_open++, 0);
    assert_true(n == 1 && ids[0] == 0);
    s->layer = layer;
    s->slot = (s->slot + 1) % N_BUFFERS;
    s->n_given = 0;
    if (s->fail_choose > 0 && --s->fail_choose == 0) {
        snprintf(reason, HALO_DEVICE_REASON, "no buffer for layer %u", layer);
        return -ENOBUFS;
    }
    assert_int_equal(layer, s->next);
    s->next = (layer + 1) % N_STREAMED;
    return 0;
}

static int take(void *owner, struct halo_device_phase *phase, struct halo_expert *ret, uint32_t n, char *reason)
{
    struct source *s = owner;
    uint32_t part = 0;
    assert_int_equal(n, 1);
    if (s->n_given == N_PARTS)
        return 0;
    s->n_takes++;
    if (s->fail_take > 0 && --s->fail_take == 0) {
        snprintf(reason, HALO_DEVICE_REASON, "layer %u cannot be read", s->layer);
        return -EIO;
    }
    uint32_t end = s->layer % 2 == 0 ? N_PARTS : s->n_given + 1;
    *ret = (struct halo_expert){.slot = s->slot, .fresh = true, .parts = (1u << end) - (1u << s->n_given)};
    for (uint32_t i = 0; i < s->f->plan.n_weights; i++) {
        const struct halo_weight *w = &s->f->weights[i];
        if (w->streamed != s->layer + 1)
            continue;
        if (part < s->n_given || part >= end) {
            part++;
            continue;
        }
        ret->base[part] = is_copied(s) ? NULL : part_of(s, part);
        ret->data[part] = data_of(s, part, i);
        if (!s->forget)
            memcpy(ret->data[part], s->f->bytes[i], w->n_bytes);
        part++;
    }
    s->forget = false;
    s->n_given = end;
    assert_int_equal(part, N_PARTS);
    return 1;
}

static void release(void *owner)
{
    struct source *s = owner;
    assert_int_equal(s->n_open--, 1);
    memset(part_of(s, 0), 0x5a, (size_t)N_PARTS * PART_BYTES);
}

static bool wants_guess(void *owner, uint32_t layer)
{
    return false;
}

static void guess(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    fail_msg("there is nothing to guess of layer %u", layer);
}

static void source_init(struct source *s, struct fixture *f)
{
    *s = (struct source){.f = f, .memory = aligned_alloc(4096, (size_t)N_BUFFERS * N_PARTS * PART_BYTES)};
    assert_non_null(s->memory);
    memset(s->memory, 0xa5, (size_t)N_BUFFERS * N_PARTS * PART_BYTES);
    for (uint32_t i = 0, part[N_STREAMED + 1] = {0}; i < f->plan.n_weights; i++)
        s->part_at[i] = (uint64_t)PART_BYTES * part[f->weights[i].streamed]++ % (N_PARTS * PART_BYTES);
    s->taken = (struct halo_expert_slots){.n = N_BUFFERS,
                                          .slab_slots = N_BUFFERS,
                                          .slot_bytes = (uint64_t)N_PARTS * PART_BYTES,
                                          .part_at = s->part_at,
                                          .slabs = &s->slots};
    f->slots = &s->taken;
}

/* Compiled for the HIP device, that one. */
static void use_device(struct fixture *f)
{
#if defined(HALO_TEST_HIP)
    f->device_ops = halo_device_hip();
    f->library = getenv("HALO_HIP_LIB");
#endif
    (void)f;
}

static void add_matmul(struct fixture *f, uint16_t layer, uint16_t x, const enum halo_type *types, uint16_t n,
                       uint32_t n_cols, uint32_t n_rows, uint16_t *ret_out)
{
    struct halo_op_matmul u = {.x = x, .n = n};
    for (uint16_t k = 0; k < n; k++) {
        u.weight[k] = fixture_weight(f, types[k], HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 1);
        u.bias[k] = k == 0 ? fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_rows, 1, 1, 1) : HALO_WEIGHT_NONE;
        u.out[k] = ret_out[k] = fixture_value(f, n_rows);
    }
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .layer = layer, .u.matmul = u});
}

/* Layers of two products that share an input, a third one alone, and one back. Returns the result. */
static uint16_t build(struct fixture *f, const enum halo_type types[N_PARTS], uint32_t n_cols, uint32_t n_rows)
{
    fixture_init(f, N_VOCAB, N_ROWS, 32);
    use_device(f);
    uint16_t x = fixture_input(f, n_cols, 1);
    for (uint16_t layer = 0; layer < N_LAYERS; layer++) {
        uint16_t pair[2], third, back;
        add_matmul(f, layer, x, types, 2, n_cols, n_rows, pair);
        fixture_op(f, (struct halo_op){
                          .kind = HALO_OP_GLU, .layer = layer, .u.glu = {pair[0], pair[1], pair[0], HALO_GLU_SILU, 0}});
        add_matmul(f, layer, x, types + 2, 1, n_cols, n_rows, &third);
        fixture_op(f, (struct halo_op){.kind = HALO_OP_ADD, .layer = layer, .u.add = {pair[0], third}});
        add_matmul(f, layer, pair[0], types + 3, 1, n_rows, n_cols, &back);
        x = fixture_value(f, n_cols);
        fixture_rmsnorm(f, HALO_WEIGHT_NONE, back, HALO_NONE, x);
    }
    return x;
}

static void stream(struct fixture *f)
{
    for (uint32_t i = 0; i < f->plan.n_ops; i++)
        for (uint32_t k = 0; f->ops[i].kind == HALO_OP_MATMUL && k < f->ops[i].u.matmul.n; k++)
            f->weights[f->ops[i].u.matmul.weight[k]].streamed = f->ops[i].layer == 0   ? 1
                                                                : f->ops[i].layer == 1 ? 0
                                                                                       : f->ops[i].layer;
}

static void run(struct fixture *f, uint16_t result, uint32_t n, float ret[N_RUNS][WIDTH])
{
    static const uint32_t n_rows[N_RUNS] = {1, N_ROWS, 1, 3};
    for (uint32_t i = 0; i < n; i++) {
        int32_t tokens[N_ROWS];
        for (uint32_t r = 0; r < n_rows[i]; r++)
            tokens[r] = (int32_t)((i * 7 + r * 3) % N_VOCAB);
        fixture_run(f, i % 2, tokens, n_rows[i], 0, NULL);
        fixture_peek(f, result, n_rows[i] - 1, ret[i]);
    }
}

static void try_types(const enum halo_type types[N_PARTS], uint32_t n_cols, uint32_t n_rows)
{
    static float resident[N_RUNS][WIDTH], streamed[N_RUNS][WIDTH];
    static struct fixture f;
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    uint16_t result = build(&f, types, n_cols, n_rows);
    memset(resident, 0, sizeof(resident));
    fixture_open(&f, NULL, 2);
    run(&f, result, N_RUNS, resident);
    fixture_close(&f);
    stream(&f);
    f.source = &table;
    for (uint32_t n_threads = 1; n_threads <= THREADS; n_threads += 7) {
        source_init(&source, &f);
        memset(streamed, 0, sizeof(streamed));
        fixture_open(&f, NULL, n_threads);
        run(&f, result, N_RUNS, streamed);
        assert_memory_equal(resident, streamed, sizeof(resident));
        assert_int_equal(source.n_takes, N_RUNS * (N_STREAMED - 1 + N_PARTS));
        assert_int_equal(source.n_open, 0);
        source.forget = true; /* other bytes give another result */
        run(&f, result, 1, streamed);
        assert_memory_not_equal(resident[0], streamed[0], sizeof(resident[0]));
        run(&f, result, 1, streamed);
        assert_memory_equal(resident[0], streamed[0], sizeof(resident[0]));
        fixture_close(&f);
        free(source.memory);
    }
    fixture_finish(&f);
}

static void streamed_is_resident(void **state)
{
    static const enum halo_type all[][N_PARTS] = {
        {HALO_TYPE_Q4_K, HALO_TYPE_Q4_K, HALO_TYPE_Q6_K, HALO_TYPE_Q6_K},
        {HALO_TYPE_Q8_0, HALO_TYPE_F16, HALO_TYPE_Q5_1, HALO_TYPE_BF16},
        {HALO_TYPE_MXFP4, HALO_TYPE_F32, HALO_TYPE_IQ2_XS, HALO_TYPE_TQ1_0},
    };
    for (size_t i = 0; i < N_TYPES; i++)
        try_types(all[i], 256, 256);
    static const enum halo_type padded[N_PARTS] = {HALO_TYPE_F16, HALO_TYPE_Q8_0, HALO_TYPE_F32, HALO_TYPE_F32};
    try_types(padded, 32, 17); /* the layout is larger than the file's */
}

/* Runs one row of token 3; 0 or the error. */
static int run_row(struct fixture *f, char *reason)
{
    static const int32_t token = 3, pos = 0;
    static const uint32_t seq = 0;
    struct halo_batch_seq pages = {0};
    pages.pages[0] = fixture_pages(f, 0, &pages.n_pages);
    struct halo_batch batch = {.n_rows = 1, .token = &token, .pos = &pos, .seq = &seq, .n_seqs = 1, .seqs = &pages};
    return f->device_ops->run(f->model, &batch, NULL, reason);
}

static void failures_end_the_run(void **state)
{
    static struct fixture f;
    static const enum halo_type types[N_PARTS] = {HALO_TYPE_Q4_K, HALO_TYPE_Q6_K, HALO_TYPE_Q8_0, HALO_TYPE_F16};
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    char reason[HALO_DEVICE_REASON] = "";
    float right[WIDTH] = {0}, result_row[WIDTH] = {0};
    uint16_t result = build(&f, types, WIDTH, WIDTH);
    fixture_open(&f, NULL, 2);
    assert_int_equal(run_row(&f, reason), 0);
    fixture_peek(&f, result, 0, right);
    fixture_close(&f);
    stream(&f);
    f.source = &table;
    source_init(&source, &f);
    fixture_open(&f, NULL, 2);
    for (int call = 1; call <= N_STREAMED; call += N_STREAMED - 1)
        for (int which = 0; which < 2; which++) {
            *(which ? &source.fail_take : &source.fail_choose) = call;
            source.next = 0;
            assert_int_equal(run_row(&f, reason), which ? -EIO : -ENOBUFS);
            assert_non_null(strstr(reason, which ? "cannot be read" : "no buffer for layer"));
            assert_int_equal(source.n_open, 0);
            source.next = 0;
            assert_int_equal(run_row(&f, reason), 0);
            fixture_peek(&f, result, 0, result_row);
            assert_memory_equal(right, result_row, sizeof(right));
        }
    fixture_finish(&f);
    free(source.memory);
}

#if defined(HALO_TEST_HIP)
/* Direct reads need the begin of a page, and a runtime may put pinned memory elsewhere. */
static void slots_begin_at_a_page(void **state)
{
    static struct fixture f;
    static const enum halo_type types[N_PARTS] = {HALO_TYPE_Q4_K, HALO_TYPE_Q6_K, HALO_TYPE_Q8_0, HALO_TYPE_F16};
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    char reason[HALO_DEVICE_REASON] = "";
    build(&f, types, WIDTH, WIDTH);
    stream(&f);
    f.source = &table;
    source_init(&source, &f);
    setenv("HALO_HIP_EMU_UNALIGNED", "1", 1);
    fixture_open(&f, NULL, 2);
    unsetenv("HALO_HIP_EMU_UNALIGNED");
    assert_int_equal((uintptr_t)source.slots % 4096, 0);
    assert_int_equal(run_row(&f, reason), 0);
    fixture_finish(&f);
    free(source.memory);
}
#endif

/* Weights that share an input stream together, and what is looked up by token does not stream. */
static void refusals(void **state)
{
    static struct fixture f;
    static const enum halo_type types[N_PARTS] = {HALO_TYPE_F16, HALO_TYPE_F16, HALO_TYPE_F16, HALO_TYPE_F16};
    char reason[HALO_DEVICE_REASON] = "";
    build(&f, types, 32, 32);
    const struct halo_device_options options = {.n_threads = 1, .library = f.library};
    const struct halo_device_ops *ops = f.device_ops;
    assert_int_equal(ops->open(&f.device, &options, reason), 0);
    stream(&f);
    f.weights[f.ops[1].u.matmul.weight[1]].streamed = 0; /* one of a pair alone */
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "is not streamed with the other weights"));
    stream(&f);
    f.weights[f.ops[0].u.embed.weight].streamed = 1;
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "must be resident"));
    f.model = NULL;
    ops->close(f.device);
    f.device = NULL;
    fixture_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_is_resident),
        cmocka_unit_test(failures_end_the_run),
#if defined(HALO_TEST_HIP)
        cmocka_unit_test(slots_begin_at_a_page),
#endif
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
