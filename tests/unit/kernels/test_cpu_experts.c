/* test_cpu_experts.c: streamed experts give the bits of resident ones, whatever order they arrive in and however often
 * their slots are reused; a source that fails ends the run, and the next run is right again.
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
#include "gfx/args.h"
#include "region_priv.h"
#include <hip/hip.h>
#define GUESSES false /* the device makes none */
#define THREADS 1     /* that it is tried with, at most */
#define N_TYPES 2     /* what differs between types is not streaming */
#else
#define GUESSES true
#define THREADS 8
#define N_TYPES (sizeof(all) / sizeof(all[0]))
#endif

#include "cpu_fixture.h"

#define N_VOCAB 31
#define N_ROWS 12 /* more than products row by row take */
#define N_LAYERS 2
#define N_EXPERT 10
#define N_SLOTS 10 /* for the 20 experts of both layers */
#define SLAB_SLOTS 4
#define N_SLABS 3
#define PART_BYTES (320 * 1024)
#define DELTA 1184 /* of the file's bytes from the start of a part, beside what the layout needs */

struct slot {
    uint32_t layer, id; /* layer N_LAYERS: nothing is in it */
    bool is_chosen, is_fresh;
};

/* Reads from the bytes of the fixture when it is asked for an expert, and hands experts out a few at a time, the last
 * one first, every other one in two calls: its last part, and the others when the next ones are handed out. What it has
 * handed out it spoils where the device has slots that the host cannot write. */
struct source {
    struct fixture *f;
    struct slot slots[N_SLOTS];
    uint8_t *memory;                /* [N_SLOTS][HALO_EXPERT_PARTS][PART_BYTES] */
    struct halo_expert_slots taken; /* by the device */
    uint8_t *slabs[N_SLABS];        /* NULL: the host cannot write them */
    uint64_t part_at[FIXTURE_MAX];
    uint32_t layer, n_chosen, n_given, at; /* at: where to look for a victim */
    uint32_t chosen[N_EXPERT];             /* their slots */
    uint32_t given[N_EXPERT];              /* of each the parts that were handed out, as bits */
    uint32_t n_reads, n_layers_open;
    int fail_choose, fail_take; /* of so many calls, the last one fails; 0: none */
    bool forget;                /* the next read does not happen */
    bool is_guessing;
    uint32_t n_guesses;
};

static bool is_copied(const struct source *s)
{
    return s->f->device_ops->take_slots && !s->slabs[0];
}

static uint8_t *part_of(const struct source *s, uint32_t slot, uint32_t part)
{
    uint32_t first = s->slabs[0] ? slot / SLAB_SLOTS * SLAB_SLOTS : 0;
    uint8_t *slab = s->slabs[0] ? s->slabs[first / SLAB_SLOTS] : s->memory;
    return slab + (size_t)((slot - first) * HALO_EXPERT_PARTS + part) * PART_BYTES;
}

static uint32_t list_weights(const struct fixture *f, uint32_t layer, uint32_t ret[HALO_EXPERT_PARTS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->plan.n_weights; i++)
        if (f->weights[i].streamed == layer + 1)
            ret[n++] = i;
    return n;
}

static uint8_t *data_of(const struct source *s, uint32_t slot, uint32_t part, uint32_t weight)
{
    const struct halo_weight *w = &s->f->weights[weight];
    uint64_t packed = s->f->device_ops->expert_bytes(s->f->device, w), n_bytes = w->n_bytes / w->n_experts;
    uint64_t data = (packed > n_bytes ? packed - n_bytes : 0) + DELTA;
    assert_true(data + n_bytes <= PART_BYTES);
    return part_of(s, slot, part) + data;
}

static void read_expert(struct source *s, uint32_t slot)
{
    uint32_t weights[HALO_EXPERT_PARTS], n = list_weights(s->f, s->slots[slot].layer, weights);
    s->n_reads++;
    s->slots[slot].is_fresh = true;
    for (uint32_t part = 0; part < n && !s->forget; part++) {
        uint64_t n_bytes = s->f->weights[weights[part]].n_bytes / N_EXPERT;
        memcpy(data_of(s, slot, part, weights[part]), s->f->bytes[weights[part]] + s->slots[slot].id * n_bytes,
               n_bytes);
    }
    s->forget = false;
}

static uint32_t find_slot(struct source *s, uint32_t layer, uint32_t id)
{
    for (uint32_t i = 0; i < N_SLOTS; i++)
        if (s->slots[i].layer == layer && s->slots[i].id == id)
            return i;
    while (s->slots[s->at].is_chosen)
        s->at = (s->at + 1) % N_SLOTS;
    uint32_t slot = s->at;
    s->at = (s->at + 1) % N_SLOTS;
    s->slots[slot] = (struct slot){.layer = layer, .id = id};
    read_expert(s, slot);
    return slot;
}

static int choose(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n, char *reason)
{
    struct source *s = owner;
    assert_int_equal(s->n_layers_open++, 0);
    assert_in_range(n, 1, N_EXPERT);
    s->layer = layer;
    s->n_chosen = s->n_given = 0;
    if (s->fail_choose > 0 && --s->fail_choose == 0) {
        snprintf(reason, HALO_DEVICE_REASON, "no slot for layer %u", layer);
        return -ENOBUFS;
    }
    for (uint32_t i = 0; i < n; i++) { /* what is there stays there */
        assert_true(i == 0 || ids[i] > ids[i - 1]);
        for (uint32_t k = 0; k < N_SLOTS; k++)
            s->slots[k].is_chosen |= s->slots[k].layer == layer && s->slots[k].id == ids[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = find_slot(s, layer, ids[i]);
        s->slots[slot].is_chosen = true;
        s->given[s->n_chosen] = 0;
        s->chosen[s->n_chosen++] = slot;
    }
    return 0;
}

static void spoil_given(struct source *s)
{
    for (uint32_t i = 0; i < s->n_chosen && is_copied(s); i++)
        for (uint32_t part = 0; part < HALO_EXPERT_PARTS; part++)
            if (s->given[i] >> part & 1)
                memset(part_of(s, s->chosen[i], part), 0x5a, PART_BYTES);
}

static void give(struct source *s, uint32_t index, uint32_t parts, struct halo_expert *ret)
{
    uint32_t slot = s->chosen[index], weights[HALO_EXPERT_PARTS], n = list_weights(s->f, s->layer, weights);
    *ret =
        (struct halo_expert){.id = s->slots[slot].id, .slot = slot, .parts = parts, .fresh = s->slots[slot].is_fresh};
    for (uint32_t part = 0; part < n; part++)
        if (parts >> part & 1) {
            ret->base[part] = is_copied(s) ? NULL : part_of(s, slot, part);
            ret->data[part] = data_of(s, slot, part, weights[part]);
        }
    s->given[index] |= parts;
    if (s->given[index] == (1u << n) - 1)
        s->slots[slot].is_fresh = false;
}

static int take(void *owner, struct halo_device_phase *phase, struct halo_expert *ret, uint32_t n, char *reason)
{
    struct source *s = owner;
    uint32_t weights[HALO_EXPERT_PARTS], n_parts = list_weights(s->f, s->layer, weights), all = (1u << n_parts) - 1;
    uint32_t n_now = 0, n_new = 1 + s->n_given % 3;
    assert_true(n >= s->n_chosen);
    if (s->fail_take > 0 && --s->fail_take == 0) {
        snprintf(reason, HALO_DEVICE_REASON, "an expert of layer %u cannot be read", s->layer);
        return -EIO;
    }
    spoil_given(s);
    for (uint32_t i = 0; i < s->n_chosen; i++) /* what is left of those that were begun */
        if (s->given[i] != 0 && s->given[i] != all)
            give(s, i, all & ~s->given[i], &ret[n_now++]);
    for (; n_new > 0 && s->n_given < s->n_chosen; n_new--) {
        uint32_t index = s->n_chosen - ++s->n_given;
        give(s, index, index % 2 == 0 ? 1u << (n_parts - 1) : all, &ret[n_now++]);
    }
    return (int)n_now;
}

static void release(void *owner)
{
    struct source *s = owner;
    assert_int_equal(s->n_layers_open--, 1);
    spoil_given(s);
    for (uint32_t i = 0; i < N_SLOTS; i++) {
        s->slots[i].is_chosen = false;
        if (s->slots[i].is_fresh) /* never handed out, as after a failure */
            s->slots[i].layer = N_LAYERS;
    }
}

static bool wants_guess(void *owner, uint32_t layer)
{
    struct source *s = owner;
    assert_int_equal(s->n_layers_open, 1);
    assert_in_range(layer, 1, N_LAYERS - 1);
    return s->is_guessing;
}

static void guess(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    struct source *s = owner;
    assert_true(n > 0);
    for (uint32_t i = 0; i < n; i++)
        assert_in_range(ids[i], 0, N_EXPERT - 1);
    s->n_guesses++;
    (void)layer;
}

static void source_init(struct source *s, struct fixture *f)
{
    *s = (struct source){.f = f, .memory = aligned_alloc(4096, (size_t)N_SLOTS * HALO_EXPERT_PARTS * PART_BYTES)};
    assert_non_null(s->memory);
    memset(s->memory, 0xa5, (size_t)N_SLOTS * HALO_EXPERT_PARTS * PART_BYTES);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        s->slots[i].layer = N_LAYERS;
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        uint32_t weights[HALO_EXPERT_PARTS], n = list_weights(f, layer, weights);
        for (uint32_t part = 0; part < n; part++)
            s->part_at[weights[part]] = part * PART_BYTES;
    }
    s->taken = (struct halo_expert_slots){.n = N_SLOTS,
                                          .slab_slots = SLAB_SLOTS,
                                          .slot_bytes = (uint64_t)HALO_EXPERT_PARTS * PART_BYTES,
                                          .part_at = s->part_at,
                                          .slabs = s->slabs};
    f->slots = &s->taken;
}

#if defined(HALO_TEST_HIP)
static uint32_t
    n_near; /* that so many pieces of memory of slots lie where they do, and the next one far away; 0: all do */

int __real_halo_hip_region_take(struct halo_device *device, struct halo_hip_region *ret, enum halo_hip_memory kind,
                                uint64_t n_bytes, const char *what, char *reason);
int __wrap_halo_hip_region_take(struct halo_device *device, struct halo_hip_region *ret, enum halo_hip_memory kind,
                                uint64_t n_bytes, const char *what, char *reason);
int __wrap_halo_hip_region_take(struct halo_device *device, struct halo_hip_region *ret, enum halo_hip_memory kind,
                                uint64_t n_bytes, const char *what, char *reason)
{
    int r = __real_halo_hip_region_take(device, ret, kind, n_bytes, what, reason);
    if (r == 0 && strstr(what, "slots") && n_near > 0 && --n_near == 0)
        ret->device += (uint64_t)HALO_MOE_PLACES_MAX * HALO_EXPERT_PARTS * PART_BYTES;
    return r;
}
#endif

/* Gives two slabs back and takes them again, in another order. What was in them is gone. */
static void move_slabs(struct source *s)
{
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_device_ops *ops = s->f->device_ops;
    for (uint32_t slab = 0; slab < 2; slab++)
        assert_int_equal(ops->give_slab(s->f->model, slab, reason), 0);
    for (uint32_t slab = 2; slab-- > 0;)
        assert_int_equal(ops->take_slab(s->f->model, slab, &s->slabs[slab], reason), 0);
    for (uint32_t i = 0; i < 2 * SLAB_SLOTS; i++)
        s->slots[i].layer = N_LAYERS;
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

struct types {
    enum halo_type gate, up, down;
};

/* Two layers, the second on the result of the first. Returns the result. */
static uint16_t build(struct fixture *f, const struct types *types, uint32_t n_cols, uint32_t n_rows, uint32_t n_used)
{
    fixture_init(f, N_VOCAB, N_ROWS, 32);
    use_device(f);
    uint16_t x = fixture_input(f, n_cols, 1), logits = fixture_value(f, N_EXPERT);
    for (uint16_t layer = 0; layer < N_LAYERS; layer++) {
        uint16_t choice = fixture_value(f, 2 * n_used);
        struct halo_op_matmul router = {.x = x, .n = 1, .out = {logits}, .bias = {HALO_WEIGHT_NONE}};
        router.weight[0] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, n_cols, N_EXPERT, 1, 1);
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .layer = layer, .u.matmul = router});
        fixture_op(
            f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                .layer = layer,
                                .u.moe_route = {logits, choice, N_EXPERT, n_used, true, 1, .bias = HALO_WEIGHT_NONE}});
        struct halo_op_moe_matmul up = {.x = x, .choice = choice, .n = 2, .n_used = n_used, .bias = HALO_WEIGHTS_NONE};
        for (uint32_t k = 0; k < 2; k++) {
            up.weight[k] =
                fixture_weight(f, k == 0 ? types->gate : types->up, HALO_WEIGHT_EXPERTS, n_cols, n_rows, N_EXPERT, 1);
            up.out[k] = fixture_value(f, n_used * n_rows);
        }
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .layer = layer, .u.moe_matmul = up});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_GLU,
                                       .layer = layer,
                                       .u.glu = {up.out[0], up.out[1], up.out[0], HALO_GLU_SILU, 0}});
        struct halo_op_moe_matmul down = {
            .x = up.out[0], .choice = choice, .n = 1, .per_slot = true, .n_used = n_used, .bias = HALO_WEIGHTS_NONE};
        down.weight[0] = fixture_weight(f, types->down, HALO_WEIGHT_EXPERTS, n_rows, n_cols, N_EXPERT, 1);
        down.out[0] = fixture_value(f, n_used * n_cols);
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .layer = layer, .u.moe_matmul = down});
        uint16_t sum = fixture_value(f, n_cols);
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_SUM,
                                       .layer = layer,
                                       .u.moe_sum = {down.out[0], choice, sum, n_used, x, HALO_NONE}});
        x = sum;
    }
    return x;
}

static void stream(struct fixture *f, bool is_streamed)
{
    for (uint32_t i = 0; i < f->plan.n_weights; i++)
        f->weights[i].streamed = 0;
    for (uint32_t i = 0; i < f->plan.n_ops && is_streamed; i++)
        for (uint32_t k = 0; f->ops[i].kind == HALO_OP_MOE_MATMUL && k < f->ops[i].u.moe_matmul.n; k++)
            f->weights[f->ops[i].u.moe_matmul.weight[k]].streamed = 1u + f->ops[i].layer;
}

#define WIDTH 256
#define N_RUNS 6

/* Every run of a few rows, of one, of all; the result of its last row. */
static void run_all(struct fixture *f, uint16_t result, float ret[N_RUNS][WIDTH])
{
    static const uint32_t n_rows[N_RUNS] = {1, N_ROWS, 1, 3, 1, 7};
    for (uint32_t i = 0; i < N_RUNS; i++) {
        int32_t tokens[N_ROWS];
        for (uint32_t r = 0; r < n_rows[i]; r++)
            tokens[r] = (int32_t)((i * 7 + r * 3) % N_VOCAB);
        fixture_run(f, i % 2, tokens, n_rows[i], 0, NULL);
        fixture_peek(f, result, n_rows[i] - 1, ret[i]);
    }
}

static void try_types(const struct types *types, uint32_t n_cols, uint32_t n_rows, uint32_t n_used)
{
    static float resident[N_RUNS][WIDTH], streamed[N_RUNS][WIDTH];
    static struct fixture f;
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    uint16_t result = build(&f, types, n_cols, n_rows, n_used);
    memset(resident, 0, sizeof(resident));
    memset(streamed, 0, sizeof(streamed));
    fixture_open(&f, NULL, 2);
    run_all(&f, result, resident);
    for (uint32_t n_threads = 1; n_threads <= THREADS; n_threads += 7) {
        fixture_close(&f);
        stream(&f, true);
        source_init(&source, &f);
        source.is_guessing = GUESSES && n_threads > 1;
        f.source = &table;
        fixture_open(&f, NULL, n_threads);
        run_all(&f, result, streamed);
        assert_memory_equal(resident, streamed, sizeof(resident));
        assert_int_equal(source.taken.slab_slots, source.slabs[0] || !f.device_ops->take_slots ? SLAB_SLOTS : N_SLOTS);
        assert_true(source.n_reads > N_LAYERS * N_EXPERT); /* slots were reused */
        assert_int_equal(source.n_layers_open, 0);
        assert_int_equal(source.n_guesses,
                         source.is_guessing ? 4 : 0); /* of the runs of a few rows, in front of layer 1 */
        if (source.slabs[0] && n_cols < WIDTH) {      /* the quickest */
            move_slabs(&source);
            run_all(&f, result, streamed);
            assert_memory_equal(resident, streamed, sizeof(resident));
        }
        free(source.memory);
    }
    fixture_finish(&f);
}

static void streamed_is_resident(void **state)
{
    static const struct types all[] = {
        {HALO_TYPE_Q4_K, HALO_TYPE_Q4_K, HALO_TYPE_Q6_K},      {HALO_TYPE_Q8_0, HALO_TYPE_F16, HALO_TYPE_Q5_1},
        {HALO_TYPE_MXFP4, HALO_TYPE_MXFP4, HALO_TYPE_MXFP4},   {HALO_TYPE_BF16, HALO_TYPE_F32, HALO_TYPE_F16},
        {HALO_TYPE_IQ2_XS, HALO_TYPE_TQ1_0, HALO_TYPE_IQ4_XS},
    };
    for (size_t i = 0; i < N_TYPES; i++)
        try_types(&all[i], 256, 256, 2 + (uint32_t)i % 3);
    try_types(&(struct types){HALO_TYPE_F16, HALO_TYPE_Q8_0, HALO_TYPE_F32}, 32, 17, 4); /* the layout is larger */
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
    static const struct types types = {HALO_TYPE_Q4_0, HALO_TYPE_Q4_0, HALO_TYPE_Q8_0};
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    float right[WIDTH], again[WIDTH];
    char reason[HALO_DEVICE_REASON] = "";
    uint16_t result = build(&f, &types, 64, 64, 3);
    fixture_open(&f, NULL, 2);
    assert_int_equal(run_row(&f, reason), 0);
    fixture_peek(&f, result, 0, right);
    fixture_close(&f);
    stream(&f, true);
    source_init(&source, &f);
    f.source = &table;
    fixture_open(&f, NULL, 2);
    for (int call = 1; call <= N_LAYERS; call++) {
        source.fail_choose = call;
        assert_int_equal(run_row(&f, reason), -ENOBUFS);
        assert_non_null(strstr(reason, "no slot"));
        source.fail_take = call;
        assert_int_equal(run_row(&f, reason), -EIO);
        assert_non_null(strstr(reason, "cannot be read"));
        assert_int_equal(source.n_layers_open, 0);
        assert_int_equal(run_row(&f, reason), 0);
        fixture_peek(&f, result, 0, again);
        assert_memory_equal(right, again, 64 * sizeof(float));
    }
    /* A read that is forgotten shows: this test can fail. */
    for (uint32_t i = 0; i < N_SLOTS; i++)
        source.slots[i].layer = N_LAYERS;
    source.forget = true;
    for (uint32_t i = 0; i < N_SLOTS; i++)
        memset(part_of(&source, i, 0), 0x11, HALO_EXPERT_PARTS * PART_BYTES);
    assert_int_equal(run_row(&f, reason), 0);
    fixture_peek(&f, result, 0, again);
    assert_memory_not_equal(right, again, 64 * sizeof(float));
    free(source.memory);
    fixture_finish(&f);
}

#if defined(HALO_TEST_HIP)
/* Kernels do not find what is too far away: such a slab is not taken again, and at first all slots are one piece. */
static void slabs_out_of_reach(void **state)
{
    static struct fixture f;
    static const struct types types = {HALO_TYPE_Q4_0, HALO_TYPE_Q4_0, HALO_TYPE_Q8_0};
    struct source source;
    struct halo_expert_source table = {&source, choose, take, release, wants_guess, guess};
    struct halo_device_info info;
    char reason[HALO_DEVICE_REASON] = "";
    build(&f, &types, 64, 64, 3);
    stream(&f, true);
    source_init(&source, &f);
    f.source = &table;
    n_near = 3; /* the last slab */
    fixture_open(&f, NULL, 1);
    n_near = 0;
    if (source.slabs[0]) {
        assert_int_equal(source.taken.slab_slots, N_SLOTS);
        f.device_ops->describe(f.device, &info);
        assert_non_null(strstr(info.notice, "all slots are one piece instead"));
        for (uint32_t i = 1; i < N_SLABS; i++)
            source.slabs[i] = source.slabs[0] + (size_t)i * SLAB_SLOTS * HALO_EXPERT_PARTS * PART_BYTES;
        assert_int_equal(run_row(&f, reason), 0);
        fixture_close(&f);
        free(source.memory);
        source_init(&source, &f);
        fixture_open(&f, NULL, 1);
        assert_int_equal(f.device_ops->give_slab(f.model, 1, reason), 0);
        n_near = 1;
        assert_int_equal(f.device_ops->take_slab(f.model, 1, &source.slabs[1], reason), -ERANGE);
        assert_non_null(strstr(reason, "away from the others"));
        assert_int_equal(f.device_ops->take_slab(f.model, 1, &source.slabs[1], reason), 0);
        assert_int_equal(run_row(&f, reason), 0);
    }
    free(source.memory);
    fixture_finish(&f);
}
#endif

static void refusals(void **state)
{
    static struct fixture f;
    static const struct types types = {HALO_TYPE_F16, HALO_TYPE_F16, HALO_TYPE_F16};
    const struct halo_device_ops *ops;
    struct halo_device_options options = {.n_threads = 1, .library = getenv("HALO_HIP_LIB")};
    char reason[HALO_DEVICE_REASON] = "";
    build(&f, &types, 32, 32, 2);
    ops = f.device_ops;
    stream(&f, true);
    assert_int_equal(ops->open(&f.device, &options, reason), 0);
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), 0);
    for (uint32_t i = 0; i < f.plan.n_weights; i++)
        if (f.weights[i].streamed == 0)
            assert_int_equal(ops->weight_commit(f.model, i, reason), 0);
    assert_int_equal(ops->model_seal(f.model, reason), -EINVAL); /* nobody brings the experts */
    assert_non_null(strstr(reason, ops->take_slots ? "no slots of experts" : "no source of experts"));
    ops->model_destroy(f.model);
    f.weights[0].streamed = 1; /* a table of inputs */
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "must be resident"));
    stream(&f, true);
    for (uint32_t i = 0; i < f.plan.n_weights; i++)
        if (f.weights[i].streamed > 0) {
            f.weights[i].streamed = 0; /* one of a pair alone */
            break;
        }
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "forbids"));
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
        cmocka_unit_test(refusals),
#if defined(HALO_TEST_HIP)
        cmocka_unit_test(slabs_out_of_reach),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
