/* mkgguf_tensors.c: which tensors a model has, in the order in which they are used.
 *
 * Weights have the deviation 1/sqrt(columns), so that a normalized row stays of size 1 through every matrix. A matrix
 * whose rows do not divide into the wanted blocks falls back as quantizers do it.
 */
#include <math.h>
#include <stdio.h>

#include <kernels/tensor.h>

#include "mkgguf.h"

struct maker {
    const struct mkgguf_shape *shape;
    const struct mkgguf_types *types;
    mkgguf_emit *emit;
    void *ud;
    uint64_t number;
    int result; /* of the first emit that was not 0 */
};

static uint32_t type_that_fits(uint32_t type, uint64_t columns)
{
    uint32_t small;
    switch (type) {
    case HALO_TYPE_Q4_K: small = HALO_TYPE_Q5_0; break;
    case HALO_TYPE_Q5_K: small = HALO_TYPE_Q5_1; break;
    case HALO_TYPE_Q6_K: small = HALO_TYPE_Q8_0; break;
    default: small = HALO_TYPE_IQ4_NL;
    }
    if (columns % halo_type_info(type).block_weights == 0)
        return type;
    return columns % halo_type_info(small).block_weights == 0 ? small : HALO_TYPE_F16;
}

static void emit(struct maker *m, struct mkgguf_tensor *t)
{
    t->n_dims = 1;
    uint64_t rows = 1;
    for (uint32_t i = 1; i < 3; i++) {
        if (t->dims[i])
            t->n_dims = i + 1;
        rows *= t->dims[i] ? t->dims[i] : 1;
    }
    t->n_bytes = halo_type_row_bytes(t->type, t->dims[0]) * rows;
    t->number = m->number++;
    if (m->result == 0)
        m->result = m->emit(m->ud, t);
}

__attribute__((format(printf, 5, 6))) static void vector(struct maker *m, uint64_t n, int fill, float deviation,
                                                         const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {n}, .type = HALO_TYPE_F32, .deviation = deviation};
    t.fill = fill;
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    emit(m, &t);
}

/* Vectors side by side. */
__attribute__((format(printf, 5, 6))) static void table(struct maker *m, uint64_t n, uint64_t n_vectors, int fill,
                                                        const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {n, n_vectors}, .type = HALO_TYPE_F32};
    t.fill = fill;
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    emit(m, &t);
}

__attribute__((format(printf, 6, 7))) static void matrix(struct maker *m, uint64_t columns, uint64_t rows,
                                                         uint64_t planes, uint32_t type, const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {columns, rows, planes}, .deviation = 1 / sqrtf((float)columns)};
    t.type = type_that_fits(type, columns);
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    emit(m, &t);
}

/* The layers whose attn_v and ffn_down a mixture spends more bits on: the first and last eighth and every third
 * between. */
static bool more_bits(uint32_t layer, uint32_t n_layers)
{
    uint32_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

static void latent_attention(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t base = m->types->base;
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, s->q_lora, 0, base, "blk.%u.attn_q_a.weight", layer);
    vector(m, s->q_lora, MKGGUF_ONES, 0, "blk.%u.attn_q_a_norm.weight", layer);
    matrix(m, s->q_lora, (uint64_t)s->n_head * s->head_dim, 0, base, "blk.%u.attn_q_b.weight", layer);
    matrix(m, s->n_embd, (uint64_t)s->kv_lora + s->n_rot, 0, base, "blk.%u.attn_kv_a_mqa.weight", layer);
    vector(m, s->kv_lora, MKGGUF_ONES, 0, "blk.%u.attn_kv_a_norm.weight", layer);
    matrix(m, s->head_dim - s->n_rot, s->kv_lora, s->n_head, base, "blk.%u.attn_k_b.weight", layer);
    matrix(m, s->kv_lora, s->head_dim_v, s->n_head, base, "blk.%u.attn_v_b.weight", layer);
    matrix(m, (uint64_t)s->n_head * s->head_dim_v, s->n_embd, 0, base, "blk.%u.attn_output.weight", layer);
}

static void attention(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t q = (uint64_t)s->n_head * s->head_dim, kv = (uint64_t)s->n_head_kv * s->head_dim;
    uint32_t base = m->types->base;
    uint32_t v = more_bits(layer, s->n_layers) ? m->types->more : base;
    bool biases = s->family == MKGGUF_QWEN2 || s->family == MKGGUF_GPT_OSS || s->family == MKGGUF_GLM4MOE;
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, mkgguf_has_delta_rule(s->family) ? 2 * q : q, 0, base, "blk.%u.attn_q.weight", layer);
    matrix(m, s->n_embd, kv, 0, base, "blk.%u.attn_k.weight", layer);
    matrix(m, s->n_embd, kv, 0, v, "blk.%u.attn_v.weight", layer);
    if (biases) {
        vector(m, q, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_q.bias", layer);
        vector(m, kv, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_k.bias", layer);
        vector(m, kv, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_v.bias", layer);
    }
    if (s->family == MKGGUF_QWEN3 || s->family == MKGGUF_QWEN3MOE || mkgguf_has_delta_rule(s->family)) {
        vector(m, s->head_dim, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
        vector(m, s->head_dim, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    }
    if (s->family == MKGGUF_MINIMAX_M2) {
        vector(m, q, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
        vector(m, kv, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    }
    matrix(m, q, s->n_embd, 0, base, "blk.%u.attn_output.weight", layer);
    if (s->family == MKGGUF_GPT_OSS) {
        vector(m, s->n_embd, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_output.bias", layer);
        vector(m, s->n_head, MKGGUF_RANDOM, 1, "blk.%u.attn_sinks.weight", layer);
    }
}

static void feed_forward(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t base = m->types->base;
    uint32_t down = more_bits(layer, s->n_layers) ? m->types->more : base;
    bool moved = s->family == MKGGUF_GPT_OSS || s->family == MKGGUF_GLM4MOE || mkgguf_has_delta_rule(s->family);
    vector(m, s->n_embd, MKGGUF_ONES, 0, moved ? "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight", layer);
    if (s->n_expert == 0 || layer < s->n_dense) {
        matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_gate.weight", layer);
        matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_up.weight", layer);
        matrix(m, s->n_ff, s->n_embd, 0, down, "blk.%u.ffn_down.weight", layer);
        return;
    }
    if (m->types->experts) {
        base = m->types->experts;
        down = m->types->experts_down;
    }
    matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, base, "blk.%u.ffn_gate_exps.weight", layer);
    matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, base, "blk.%u.ffn_up_exps.weight", layer);
    matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    if (mkgguf_has_router_bias(s->family))
        vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.exp_probs_b.bias", layer);
    uint64_t n_shared = s->n_ff_shared ? s->n_ff_shared : (uint64_t)s->n_shared * s->n_ff_expert;
    if (n_shared == 0)
        return;
    if (mkgguf_has_delta_rule(s->family))
        vector(m, s->n_embd, MKGGUF_RANDOM, 0.1f, "blk.%u.ffn_gate_inp_shexp.weight", layer);
    matrix(m, s->n_embd, n_shared, 0, m->types->base, "blk.%u.ffn_gate_shexp.weight", layer);
    matrix(m, s->n_embd, n_shared, 0, m->types->base, "blk.%u.ffn_up_shexp.weight", layer);
    matrix(m, n_shared, s->n_embd, 0, m->types->more, "blk.%u.ffn_down_shexp.weight", layer);
}

static void delta_rule(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t row = s->ssm_inner + 2ull * s->ssm_groups * s->ssm_state;
    uint32_t base = m->types->base;
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, row, 0, base, "blk.%u.attn_qkv.weight", layer);
    matrix(m, s->n_embd, s->ssm_inner, 0, base, "blk.%u.attn_gate.weight", layer);
    matrix(m, s->n_conv, row, 0, HALO_TYPE_F32, "blk.%u.ssm_conv1d.weight", layer);
    vector(m, s->ssm_heads, MKGGUF_RANDOM, 1, "blk.%u.ssm_dt.bias", layer);
    vector(m, s->ssm_heads, MKGGUF_MINUS_ONES, 0, "blk.%u.ssm_a", layer);
    if (s->family == MKGGUF_QWEN3NEXT) {
        matrix(m, s->n_embd, 2ull * s->ssm_heads, 0, base, "blk.%u.ssm_ba.weight", layer);
    } else {
        matrix(m, s->n_embd, s->ssm_heads, 0, base, "blk.%u.ssm_beta.weight", layer);
        matrix(m, s->n_embd, s->ssm_heads, 0, base, "blk.%u.ssm_alpha.weight", layer);
    }
    vector(m, s->ssm_inner / s->ssm_heads, MKGGUF_ONES, 0, "blk.%u.ssm_norm.weight", layer);
    matrix(m, s->ssm_inner, s->n_embd, 0, base, "blk.%u.ssm_out.weight", layer);
}

static void mamba(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t row = s->ssm_inner + 2ull * s->ssm_groups * s->ssm_state;
    uint32_t base = m->types->base;
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, s->ssm_inner + row + s->ssm_heads, 0, base, "blk.%u.ssm_in.weight", layer);
    matrix(m, s->n_conv, row, 0, HALO_TYPE_F32, "blk.%u.ssm_conv1d.weight", layer);
    vector(m, row, MKGGUF_RANDOM, 0.1f, "blk.%u.ssm_conv1d.bias", layer);
    vector(m, s->ssm_heads, MKGGUF_RANDOM, 1, "blk.%u.ssm_dt.bias", layer);
    table(m, 1, s->ssm_heads, MKGGUF_MINUS_ONES, "blk.%u.ssm_a", layer);
    table(m, 1, s->ssm_heads, MKGGUF_ONES, "blk.%u.ssm_d", layer);
    table(m, s->ssm_inner / s->ssm_groups, s->ssm_groups, MKGGUF_ONES, "blk.%u.ssm_norm.weight", layer);
    matrix(m, s->ssm_inner, s->n_embd, 0, base, "blk.%u.ssm_out.weight", layer);
}

/* Experts without gates, and a shared one. */
static void ungated_experts(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t more = more_bits(layer, s->n_layers) ? m->types->more : m->types->base;
    uint32_t up = m->types->experts ? m->types->experts : m->types->base,
             down = m->types->experts ? m->types->experts_down : more;
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.exp_probs_b.bias", layer);
    matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, up, "blk.%u.ffn_up_exps.weight", layer);
    matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    matrix(m, s->n_embd, s->n_ff_shared, 0, m->types->base, "blk.%u.ffn_up_shexp.weight", layer);
    matrix(m, s->n_ff_shared, s->n_embd, 0, m->types->more, "blk.%u.ffn_down_shexp.weight", layer);
}

/* One block of a layer that is one. */
static void block(struct maker *m, uint32_t layer)
{
    switch (m->shape->layers[layer]) {
    case 'M': mamba(m, layer); break;
    case '*': attention(m, layer); break;
    default: ungated_experts(m, layer); break;
    }
}

/* A dense part in every layer and, in a mixture, experts beside it; V is K in layers without a window. */
static void gemma4_layer(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    bool global = mkgguf_is_global(s, layer), more = more_bits(layer, s->n_layers);
    uint32_t dim = global ? s->head_dim_global : s->head_dim, base = m->types->base, v = more ? m->types->more : base;
    uint64_t q = (uint64_t)s->n_head * dim, kv = (uint64_t)(global ? s->n_head_kv_global : s->n_head_kv) * dim;

    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    matrix(m, s->n_embd, q, 0, base, "blk.%u.attn_q.weight", layer);
    vector(m, dim, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
    matrix(m, s->n_embd, kv, 0, base, "blk.%u.attn_k.weight", layer);
    vector(m, dim, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    if (!global)
        matrix(m, s->n_embd, kv, 0, v, "blk.%u.attn_v.weight", layer);
    matrix(m, q, s->n_embd, 0, base, "blk.%u.attn_output.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_attention_norm.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.ffn_norm.weight", layer);
    matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_gate.weight", layer);
    matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_up.weight", layer);
    matrix(m, s->n_ff, s->n_embd, 0, v, "blk.%u.ffn_down.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm.weight", layer);
    vector(m, 1, MKGGUF_ONES, 0, "blk.%u.layer_output_scale.weight", layer);
    if (s->n_expert == 0)
        return;
    uint32_t in = m->types->experts ? m->types->experts : base, down = m->types->experts ? m->types->experts_down : v;
    matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.ffn_gate_inp.scale", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.pre_ffw_norm_2.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm_1.weight", layer);
    vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm_2.weight", layer);
    matrix(m, s->n_embd, 2ull * s->n_ff_expert, s->n_expert, in, "blk.%u.ffn_gate_up_exps.weight", layer);
    matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    vector(m, s->n_expert, MKGGUF_ONES, 0, "blk.%u.ffn_down_exps.scale", layer);
}

static void expert_biases(struct maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.ffn_gate_inp.bias", layer);
    matrix(m, s->n_ff_expert, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_exps.bias", layer);
    matrix(m, s->n_ff_expert, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_up_exps.bias", layer);
    matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_down_exps.bias", layer);
}

int mkgguf_tensors(const struct mkgguf_shape *shape, const struct mkgguf_types *types, mkgguf_emit *emit_fn, void *ud)
{
    struct maker m = {.shape = shape, .types = types, .emit = emit_fn, .ud = ud};
    matrix(&m, shape->n_embd, shape->n_vocab, 0, shape->tied ? types->more : types->base, "token_embd.weight");
    if (shape->rope_factors && shape->family == MKGGUF_LLAMA)
        vector(&m, shape->head_dim / 2, MKGGUF_ONES, 0, "rope_freqs.weight");
    if (shape->family == MKGGUF_GEMMA4)
        vector(&m, shape->head_dim_global / 2, MKGGUF_ONES, 0, "rope_freqs.weight");
    for (uint32_t layer = 0; layer < shape->n_layers && m.result == 0; layer++) {
        if (shape->family == MKGGUF_GEMMA4) {
            gemma4_layer(&m, layer);
            continue;
        }
        if (shape->layers) {
            block(&m, layer);
            continue;
        }
        if (shape->family == MKGGUF_DEEPSEEK2)
            latent_attention(&m, layer);
        else if (shape->interval && (layer + 1) % shape->interval != 0)
            delta_rule(&m, layer);
        else
            attention(&m, layer);
        feed_forward(&m, layer);
        if (shape->family == MKGGUF_GPT_OSS)
            expert_biases(&m, layer);
    }
    vector(&m, shape->n_embd, MKGGUF_ONES, 0, "output_norm.weight");
    if (!shape->tied)
        matrix(&m, shape->n_embd, shape->n_vocab, 0, types->more, "output.weight");
    return m.result;
}
