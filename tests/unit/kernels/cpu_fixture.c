/* cpu_fixture.c: plans built by hand (contract in cpu_fixture.h). */
#include "cpu_fixture.h"

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

#include <kernels/quant.h>

#include <cpu/cpu.h>
#include <matmul/matmul.h>

#define N_SEQUENCES 8
#define REPEAT_BLOCKS 4093 /* a prime: rows differ */

const enum halo_type *fixture_types(uint32_t *n)
{
    static const enum halo_type all[] = {
#define X(id, gguf_id, weights, bytes) HALO_TYPE_##id,
        HALO_TYPE_LIST(X)
#undef X
    };
#ifdef __SANITIZE_ADDRESS__ /* it looks at memory: a plain type, a small block, a large one, a code book */
    static const enum halo_type few[] = {HALO_TYPE_F16, HALO_TYPE_Q5_1, HALO_TYPE_Q4_K, HALO_TYPE_IQ2_XS};
#else
    static const enum halo_type few[] = {HALO_TYPE_F16,  HALO_TYPE_Q8_0,   HALO_TYPE_Q5_1,  HALO_TYPE_Q4_K,
                                         HALO_TYPE_Q6_K, HALO_TYPE_IQ2_XS, HALO_TYPE_TQ1_0, HALO_TYPE_NVFP4};
#endif
    const char *wanted = getenv("HALO_TEST_TYPES");
    bool is_few = wanted && strcmp(wanted, "few") == 0;
    *n = is_few ? sizeof(few) / sizeof(few[0]) : sizeof(all) / sizeof(all[0]);
    return is_few ? few : all;
}

double fixture_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / 0x1p52 - 1.0;
}

void fixture_init(struct fixture *f, uint32_t n_vocab, uint32_t max_rows, uint32_t n_context)
{
    *f = (struct fixture){.device_ops = halo_device_cpu()};
    f->plan = (struct halo_plan){
        .ops = f->ops,
        .weights = f->weights,
        .values = f->values,
        .ropes = f->ropes,
        .n_vocab = n_vocab,
        .n_context = n_context,
        .max_rows = max_rows,
        .max_outputs = max_rows,
    };
    fixture_kv(f, HALO_KV_F32, 1, 1, 8, 8);
}

void fixture_finish(struct fixture *f)
{
    fixture_close(f);
    for (uint32_t i = 0; i < f->plan.n_weights; i++)
        free(f->bytes[i]);
}

void fixture_kv(struct fixture *f, enum halo_kv_type type, uint32_t n_layers, uint32_t n_head_kv, uint32_t k_dim,
                uint32_t v_dim)
{
    f->plan.n_kv_groups = 1;
    f->plan.kv[0] = (struct halo_kv_group){
        .type = type,
        .n_layers = n_layers,
        .n_head_kv = n_head_kv,
        .head_dim_k = k_dim,
        .head_dim_v = v_dim,
        .n_pages = (f->plan.n_context / HALO_KV_PAGE_TOKENS + 1) * N_SEQUENCES,
    };
}

uint32_t fixture_kv_add(struct fixture *f, enum halo_kv_type type, uint32_t n_layers, uint32_t n_head_kv,
                        uint32_t k_dim, uint32_t v_dim)
{
    uint32_t group = f->plan.n_kv_groups++;
    assert_true(group < HALO_KV_GROUPS_MAX);
    f->plan.kv[group] = (struct halo_kv_group){type, n_layers, n_head_kv, k_dim, v_dim, f->plan.kv[0].n_pages};
    return group;
}

uint32_t fixture_states(struct fixture *f, uint32_t n_layers, uint32_t width)
{
    uint32_t group = f->plan.n_kv_groups++;
    assert_true(group < HALO_KV_GROUPS_MAX);
    f->plan.kv[group] = (struct halo_kv_group){.n_layers = n_layers, .state_width = width, .n_pages = N_SEQUENCES};
    return group;
}

uint16_t fixture_value(struct fixture *f, uint32_t width)
{
    assert_true(f->plan.n_values < FIXTURE_MAX);
    f->values[f->plan.n_values] = (struct halo_value){"value", width};
    return (uint16_t)f->plan.n_values++;
}

static void put_f16(uint8_t *at, double x)
{
    /* Normal numbers only: sign, exponent, ten bits of mantissa; smaller magnitudes become the smallest normal one. */
    int exponent;
    double mantissa = frexp(fmax(fabs(x), 0x1p-14), &exponent);
    int bits = (int)rint(ldexp(mantissa, 11)) - 1024;
    uint16_t h = (uint16_t)((x < 0 ? 0x8000 : 0) | ((exponent + 14) * 1024 + bits));
    memcpy(at, &h, sizeof(h));
}

static void put_iq1_m_scale(uint8_t *block, double x)
{
    struct halo_block_iq1_m *b = (struct halo_block_iq1_m *)(void *)block;
    uint16_t h;
    put_f16((uint8_t *)&h, x);
    for (int i = 0; i < 4; i++)
        b->sc[i] = (uint16_t)((b->sc[i] & 0xfff) | (h >> 4 * i & 15) << 12);
}

/* One block: random quants; the scales, where the type has f16 ones, so that weights come out about as large as `size`.
 */
static void fill_block(enum halo_type type, uint8_t *block, uint32_t block_bytes, double size, uint64_t *state)
{
    float x = (float)(fixture_random(state) * size);
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    switch (type) {
    case HALO_TYPE_F32: memcpy(block, &x, sizeof(x)); return;
    case HALO_TYPE_BF16:
        bits >>= 16;
        memcpy(block, &bits, 2);
        return;
    case HALO_TYPE_F16: put_f16(block, (double)x); return;
    default: break;
    }
    for (uint32_t i = 0; i < block_bytes; i++)
        block[i] = (uint8_t)(fixture_random(state) * 128 + 128);
    switch (type) {
    case HALO_TYPE_Q8_0: put_f16(block, size / 127); break;
    case HALO_TYPE_Q4_0: put_f16(block, size / 8); break;
    case HALO_TYPE_Q5_0: put_f16(block, size / 16); break;
    case HALO_TYPE_IQ4_NL: put_f16(block, size / 127); break;
    case HALO_TYPE_MXFP4: block[0] = (uint8_t)(128 + (int)floor(log2(size / 12))); break;
    case HALO_TYPE_Q6_K: put_f16(block + block_bytes - 2, size / (32 * 64)); break;
    case HALO_TYPE_Q3_K: put_f16(block + block_bytes - 2, size / (32 * 4)); break;
    case HALO_TYPE_IQ4_XS: put_f16(block, size / (32 * 127)); break;
    case HALO_TYPE_Q4_1:
    case HALO_TYPE_Q5_1:
        put_f16(block, size / (type == HALO_TYPE_Q4_1 ? 8 : 16));
        put_f16(block + 2, -size);
        break;
    case HALO_TYPE_Q4_K:
    case HALO_TYPE_Q5_K:
        put_f16(block, size / (32 * 8));
        put_f16(block + 2, size / 64);
        break;
    case HALO_TYPE_Q2_K:
        put_f16(block + block_bytes - 4, size / (8 * 2));
        put_f16(block + block_bytes - 2, size / 8);
        break;
    case HALO_TYPE_IQ1_S: put_f16(block, size / 16); break;
    case HALO_TYPE_IQ1_M: put_iq1_m_scale(block, size / 16); break;
    case HALO_TYPE_IQ2_XXS:
    case HALO_TYPE_IQ2_XS:
    case HALO_TYPE_IQ2_S: put_f16(block, size / 166); break;
    case HALO_TYPE_IQ3_XXS:
    case HALO_TYPE_IQ3_S: put_f16(block, size / 480); break;
    case HALO_TYPE_TQ1_0:
    case HALO_TYPE_TQ2_0: put_f16(block + block_bytes - 2, size); break;
    case HALO_TYPE_Q1_0:
    case HALO_TYPE_Q2_0: put_f16(block, size); break;
    case HALO_TYPE_NVFP4:
        for (int i = 0; i < 4; i++)
            block[i] = (uint8_t)((7 + (int)floor(log2(size / 6))) << 3 | (block[i] & 7));
        break;
    default: fail_msg("the fixture does not make weights of type %d", (int)type);
    }
}

/* NVFP4 has scales beside it, the others have none. */
static const float nvfp4_scales[] = {0.75f, -1.25f, 2, 0.5f, 1, -0.25f, 1.5f, 3, 0.875f, -0.625f, 0.375f, 1.125f};

uint32_t fixture_weight(struct fixture *f, enum halo_type type, enum halo_weight_role role, uint32_t n_cols,
                        uint32_t n_rows, uint32_t n_experts, double size)
{
    uint32_t index = f->plan.n_weights++;
    assert_true(index < FIXTURE_MAX);
    struct halo_type_info info = halo_type_info(type);
    struct halo_weight *w = &f->weights[index];
    *w = (struct halo_weight){.type = type, .role = role, .n_cols = n_cols, .n_rows = n_rows, .n_experts = n_experts};
    snprintf(w->name, sizeof(w->name), "weight.%u", index);
    if (type == HALO_TYPE_NVFP4) {
        assert_true(n_experts <= sizeof(nvfp4_scales) / sizeof(nvfp4_scales[0]));
        w->scales = nvfp4_scales;
    }
    w->n_bytes = halo_type_row_bytes(type, n_cols) * n_rows * n_experts;
    w->offset = f->file_bytes;
    f->file_bytes += (w->n_bytes + 31) / 32 * 32;
    f->bytes[index] = malloc(w->n_bytes);
    assert_non_null(f->bytes[index]);
    uint64_t state = 1000003u * (index + 1), period = (uint64_t)info.block_bytes * REPEAT_BLOCKS;
    for (uint64_t i = 0; i < w->n_bytes && i < period; i += info.block_bytes)
        fill_block(type, f->bytes[index] + i, info.block_bytes, size, &state);
    for (uint64_t i = period; i < w->n_bytes; i += period)
        memcpy(f->bytes[index] + i, f->bytes[index], w->n_bytes - i < period ? w->n_bytes - i : period);
    return index;
}

uint32_t fixture_rope(struct fixture *f, enum halo_rope_pairing pairing, uint32_t n_rot, float scale, double base)
{
    uint32_t index = f->plan.n_ropes++;
    for (uint32_t i = 0; i < n_rot / 2; i++)
        f->freqs[index][i] = pow(base, -2.0 * i / n_rot);
    f->ropes[index] = (struct halo_rope){pairing, n_rot, scale, f->freqs[index]};
    return index;
}

void fixture_op(struct fixture *f, struct halo_op op)
{
    assert_true(f->plan.n_ops < FIXTURE_MAX);
    f->ops[f->plan.n_ops++] = op;
}

void fixture_rmsnorm(struct fixture *f, uint32_t weight, uint16_t x, uint16_t add, uint16_t out)
{
    fixture_op(f, (struct halo_op){.kind = HALO_OP_RMSNORM,
                                   .u.rmsnorm = {.weight = weight,
                                                 .x = x,
                                                 .add = add,
                                                 .out = out,
                                                 .eps = 1e-6f,
                                                 .add_scale = 1,
                                                 .bias = HALO_WEIGHT_NONE}});
}

uint16_t fixture_input(struct fixture *f, uint32_t width, double size)
{
    uint16_t value = fixture_value(f, width);
    uint32_t table = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, width, f->plan.n_vocab, 1, size);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, value, 1}});
    return value;
}

float *fixture_floats(const struct fixture *f, uint32_t weight)
{
    const struct halo_weight *w = &f->weights[weight];
    uint64_t n = (uint64_t)w->n_cols * w->n_rows * w->n_experts;
    float *floats = malloc(n * sizeof(*floats));
    assert_non_null(floats);
    halo_dequantize(w->type, f->bytes[weight], n, floats);
    for (uint64_t i = 0; w->scales && i < n; i++)
        floats[i] *= w->scales[i / ((uint64_t)w->n_cols * w->n_rows)];
    return floats;
}

bool fixture_has(const char *variant)
{
    char reason[HALO_DEVICE_REASON] = "";
    int r = halo_device_cpu()->probe(&(struct halo_device_options){.variant = variant}, reason);
    if (r)
        print_message("not tested here: %s\n", reason);
    return r == 0;
}

void fixture_open(struct fixture *f, const char *variant, uint32_t n_threads)
{
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_device_ops *ops = f->device_ops;
    struct halo_device_options options = {.n_threads = n_threads,
                                          .variant = variant,
                                          .library = f->library,
                                          .stage = f->stage_ops,
                                          .n_stages = f->n_stages};
    fixture_close(f);
    f->device = f->kept ? *f->kept : NULL;
    if (!f->device && ops->open(&f->device, &options, reason))
        fail_msg("%s", reason);
    if (f->kept)
        *f->kept = f->device;
    if (ops->model_create(f->device, &f->plan, &f->model, reason))
        fail_msg("%s", reason);
    for (uint32_t i = 0; i < f->plan.n_weights; i++) {
        struct halo_device_slot slot;
        if (f->weights[i].streamed > 0)
            continue;
        assert_int_equal(ops->weight_slot(f->model, i, &slot), 0);
        if (slot.slack)
            assert_int_equal((uintptr_t)slot.data % 4096, f->weights[i].offset % 4096);
        memcpy(slot.data, f->bytes[i], f->weights[i].n_bytes);
        if (ops->weight_commit(f->model, i, reason))
            fail_msg("%s", reason);
    }
    if (f->slots && ops->take_slots && ops->take_slots(f->model, f->slots, reason))
        fail_msg("%s", reason);
    if (f->source)
        ops->set_experts(f->model, f->source);
    if (ops->model_seal(f->model, reason))
        fail_msg("%s", reason);
}

void fixture_close(struct fixture *f)
{
    f->device_ops->model_destroy(f->model);
    if (!f->kept)
        f->device_ops->close(f->device);
    f->model = NULL;
    f->device = NULL;
}

const uint32_t *fixture_pages(const struct fixture *f, uint32_t which, uint32_t *ret_n)
{
    /* Page i of sequence s is i * 8 + (s * 5 + i) % 8: no two sequences share one, none has them in a row. */
    static uint32_t pages[N_SEQUENCES][8192];
    uint32_t n = f->plan.kv[0].n_pages / N_SEQUENCES;
    assert_true(which < N_SEQUENCES && n <= sizeof(pages[0]) / sizeof(pages[0][0]));
    for (uint32_t i = 0; i < n; i++)
        pages[which][i] = i * N_SEQUENCES + (which * 5 + i) % N_SEQUENCES;
    *ret_n = n;
    return pages[which];
}

void fixture_run(struct fixture *f, uint32_t which, const int32_t *tokens, uint32_t n_rows, int32_t first_pos,
                 float *logits)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_batch_seq seq = {0};
    int32_t *pos = calloc(n_rows, sizeof(*pos));
    uint32_t *zero = calloc(n_rows, sizeof(*zero)), *output = calloc(n_rows, sizeof(*output));
    assert_true(pos && zero && output);
    for (uint32_t r = 0; r < n_rows; r++) {
        pos[r] = first_pos + (int32_t)r;
        output[r] = r;
    }
    for (uint32_t group = 0; group < f->plan.n_kv_groups; group++)
        seq.pages[group] = fixture_pages(f, (which + 3 * group) % N_SEQUENCES, &seq.n_pages);
    struct halo_batch batch = {
        .n_rows = n_rows,
        .token = tokens,
        .pos = pos,
        .seq = zero,
        .n_seqs = 1,
        .seqs = &seq,
        .n_outputs = logits ? n_rows : 0,
        .output = output,
        .logits = logits,
    };
    if (f->device_ops->run(f->model, &batch, NULL, reason))
        fail_msg("%s", reason);
    free(pos);
    free(zero);
    free(output);
}

void fixture_peek(struct fixture *f, uint16_t value, uint32_t row, float *ret)
{
    char reason[HALO_DEVICE_REASON] = "";
    if (f->device_ops->peek(f->model, value, row, ret, reason))
        fail_msg("%s", reason);
}
