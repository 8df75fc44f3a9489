/* mkgguf_tensors.c: which tensors a model has, in the order in which they are used. */
#include <math.h>
#include <stdio.h>

#include <kernels/tensor.h>

#include "mkgguf_maker.h"

/* Attention adds no more to a row than an embedding has. Were it 1, a row would become what all rows before it have in
 * common, layer by layer, and the routers would choose the same experts for every token. */
static void attention_output(struct mkgguf_maker *m, uint64_t columns, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    struct mkgguf_tensor t = {.dims = {columns, s->n_embd}};
    t.deviation = 1 / sqrtf((float)columns * (float)s->n_embd);
    t.type = mkgguf_type_that_fits(m->types->base, columns);
    snprintf(t.name, sizeof t.name, "blk.%u.attn_output.weight", layer);
    mkgguf_emit_tensor(m, &t);
}

static void latent_attention(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t base = m->types->base;
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->q_lora, 0, base, "blk.%u.attn_q_a.weight", layer);
    mkgguf_vector(m, s->q_lora, MKGGUF_ONES, 0, "blk.%u.attn_q_a_norm.weight", layer);
    mkgguf_matrix(m, s->q_lora, (uint64_t)s->n_head * s->head_dim, 0, base, "blk.%u.attn_q_b.weight", layer);
    mkgguf_matrix(m, s->n_embd, (uint64_t)s->kv_lora + s->n_rot, 0, base, "blk.%u.attn_kv_a_mqa.weight", layer);
    mkgguf_vector(m, s->kv_lora, MKGGUF_ONES, 0, "blk.%u.attn_kv_a_norm.weight", layer);
    mkgguf_matrix(m, s->head_dim - s->n_rot, s->kv_lora, s->n_head, base, "blk.%u.attn_k_b.weight", layer);
    mkgguf_matrix(m, s->kv_lora, s->head_dim_v, s->n_head, base, "blk.%u.attn_v_b.weight", layer);
    attention_output(m, (uint64_t)s->n_head * s->head_dim_v, layer);
}

/* With `norm`, the one in front. */
static void attention(struct mkgguf_maker *m, uint32_t layer, bool norm)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t q = (uint64_t)s->n_head * s->head_dim, kv = (uint64_t)s->n_head_kv * s->head_dim;
    uint32_t base = m->types->base;
    uint32_t v = mkgguf_more_bits(layer, s->n_layers) ? m->types->more : base;
    bool biases = s->family == MKGGUF_QWEN2 || s->family == MKGGUF_GPT_OSS || s->family == MKGGUF_GLM4MOE;
    if (norm)
        mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, mkgguf_has_delta_rule(s->family) ? 2 * q : q, 0, base, "blk.%u.attn_q.weight", layer);
    mkgguf_matrix(m, s->n_embd, kv, 0, base, "blk.%u.attn_k.weight", layer);
    mkgguf_matrix(m, s->n_embd, kv, 0, v, "blk.%u.attn_v.weight", layer);
    if (biases) {
        mkgguf_vector(m, q, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_q.bias", layer);
        mkgguf_vector(m, kv, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_k.bias", layer);
        mkgguf_vector(m, kv, MKGGUF_RANDOM, 0.1f, "blk.%u.attn_v.bias", layer);
    }
    if (s->family == MKGGUF_QWEN3 || s->family == MKGGUF_QWEN3MOE || s->family == MKGGUF_LFM2MOE ||
        mkgguf_has_delta_rule(s->family)) {
        mkgguf_vector(m, s->head_dim, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
        mkgguf_vector(m, s->head_dim, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    }
    if (s->family == MKGGUF_MINIMAX_M2) {
        mkgguf_vector(m, q, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
        mkgguf_vector(m, kv, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    }
    attention_output(m, q, layer);
    if (s->family == MKGGUF_GPT_OSS) {
        mkgguf_vector(m, s->n_embd, MKGGUF_RANDOM, 0.1f / sqrtf((float)s->n_embd), "blk.%u.attn_output.bias", layer);
        mkgguf_vector(m, s->n_head, MKGGUF_RANDOM, 1, "blk.%u.attn_sinks.weight", layer);
    }
}

static void router_bias(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    if (!s->zipf) {
        mkgguf_vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.exp_probs_b.bias", layer);
        return;
    }
    struct mkgguf_tensor t = {.dims = {s->n_expert}, .type = HALO_TYPE_F32, .n_used = s->n_expert_used};
    t.fill = MKGGUF_ZIPF;
    snprintf(t.name, sizeof t.name, "blk.%u.exp_probs_b.bias", layer);
    mkgguf_emit_tensor(m, &t);
}

static void feed_forward(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t base = m->types->base;
    uint32_t down = mkgguf_more_bits(layer, s->n_layers) ? m->types->more : base;
    bool moved = s->family == MKGGUF_GPT_OSS || s->family == MKGGUF_GLM4MOE || mkgguf_has_delta_rule(s->family);
    if (s->family == MKGGUF_FALCON_H1)
        mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.ffn_norm", layer);
    else
        mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0,
                      moved ? "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight", layer);
    if (s->n_expert == 0 || layer < s->n_dense) {
        mkgguf_matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_gate.weight", layer);
        mkgguf_matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_up.weight", layer);
        mkgguf_matrix(m, s->n_ff, s->n_embd, 0, down, "blk.%u.ffn_down.weight", layer);
        return;
    }
    if (m->types->experts) {
        base = m->types->experts;
        down = m->types->experts_down;
    }
    mkgguf_matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, base, "blk.%u.ffn_gate_exps.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, base, "blk.%u.ffn_up_exps.weight", layer);
    mkgguf_matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    if (mkgguf_has_router_bias(s->family))
        router_bias(m, layer);
    uint64_t n_shared = s->n_ff_shared ? s->n_ff_shared : (uint64_t)s->n_shared * s->n_ff_expert;
    if (n_shared == 0)
        return;
    if (mkgguf_has_delta_rule(s->family))
        mkgguf_vector(m, s->n_embd, MKGGUF_RANDOM, 0.1f, "blk.%u.ffn_gate_inp_shexp.weight", layer);
    mkgguf_matrix(m, s->n_embd, n_shared, 0, m->types->base, "blk.%u.ffn_gate_shexp.weight", layer);
    mkgguf_matrix(m, s->n_embd, n_shared, 0, m->types->base, "blk.%u.ffn_up_shexp.weight", layer);
    mkgguf_matrix(m, n_shared, s->n_embd, 0, m->types->more, "blk.%u.ffn_down_shexp.weight", layer);
}

static void delta_rule(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t row = s->ssm_inner + 2ull * s->ssm_groups * s->ssm_state;
    uint32_t base = m->types->base;
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, row, 0, base, "blk.%u.attn_qkv.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->ssm_inner, 0, base, "blk.%u.attn_gate.weight", layer);
    mkgguf_matrix(m, s->n_conv, row, 0, HALO_TYPE_F32, "blk.%u.ssm_conv1d.weight", layer);
    mkgguf_vector(m, s->ssm_heads, MKGGUF_RANDOM, 1, "blk.%u.ssm_dt.bias", layer);
    mkgguf_vector(m, s->ssm_heads, MKGGUF_MINUS_ONES, 0, "blk.%u.ssm_a", layer);
    if (s->family == MKGGUF_QWEN3NEXT) {
        mkgguf_matrix(m, s->n_embd, 2ull * s->ssm_heads, 0, base, "blk.%u.ssm_ba.weight", layer);
    } else {
        mkgguf_matrix(m, s->n_embd, s->ssm_heads, 0, base, "blk.%u.ssm_beta.weight", layer);
        mkgguf_matrix(m, s->n_embd, s->ssm_heads, 0, base, "blk.%u.ssm_alpha.weight", layer);
    }
    mkgguf_vector(m, s->ssm_inner / s->ssm_heads, MKGGUF_ONES, 0, "blk.%u.ssm_norm.weight", layer);
    mkgguf_matrix(m, s->ssm_inner, s->n_embd, 0, base, "blk.%u.ssm_out.weight", layer);
}

static void mamba(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t row = s->ssm_inner + 2ull * s->ssm_groups * s->ssm_state;
    uint32_t base = m->types->base;
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->ssm_inner + row + s->ssm_heads, 0, base, "blk.%u.ssm_in.weight", layer);
    mkgguf_matrix(m, s->n_conv, row, 0, HALO_TYPE_F32, "blk.%u.ssm_conv1d.weight", layer);
    mkgguf_vector(m, row, MKGGUF_RANDOM, 0.1f, "blk.%u.ssm_conv1d.bias", layer);
    mkgguf_vector(m, s->ssm_heads, MKGGUF_RANDOM, 1, "blk.%u.ssm_dt.bias", layer);
    mkgguf_table(m, 1, s->ssm_heads, MKGGUF_MINUS_ONES, "blk.%u.ssm_a", layer);
    mkgguf_table(m, 1, s->ssm_heads, MKGGUF_ONES, "blk.%u.ssm_d", layer);
    if (s->family != MKGGUF_FALCON_H1)
        mkgguf_table(m, s->ssm_inner / s->ssm_groups, s->ssm_groups, MKGGUF_ONES, "blk.%u.ssm_norm.weight", layer);
    mkgguf_matrix(m, s->ssm_inner, s->n_embd, 0, base, "blk.%u.ssm_out.weight", layer);
}

static void short_convolution(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t base = m->types->base;
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, 3ull * s->n_embd, 0, base, "blk.%u.shortconv.in_proj.weight", layer);
    mkgguf_matrix(m, s->n_conv, s->n_embd, 0, HALO_TYPE_F32, "blk.%u.shortconv.conv.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_embd, 0, base, "blk.%u.shortconv.out_proj.weight", layer);
}

/* Experts without gates, and a shared one. */
static void ungated_experts(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t more = mkgguf_more_bits(layer, s->n_layers) ? m->types->more : m->types->base;
    uint32_t up = m->types->experts ? m->types->experts : m->types->base,
             down = m->types->experts ? m->types->experts_down : more;
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    mkgguf_vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.exp_probs_b.bias", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff_expert, s->n_expert, up, "blk.%u.ffn_up_exps.weight", layer);
    mkgguf_matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff_shared, 0, m->types->base, "blk.%u.ffn_up_shexp.weight", layer);
    mkgguf_matrix(m, s->n_ff_shared, s->n_embd, 0, m->types->more, "blk.%u.ffn_down_shexp.weight", layer);
}

/* The block of a layer that has the one or the other. */
static void block(struct mkgguf_maker *m, uint32_t layer)
{
    switch (m->shape->layers[layer]) {
    case 'M': mamba(m, layer); break;
    case '*': attention(m, layer, true); break;
    case 'C': short_convolution(m, layer); break;
    default: ungated_experts(m, layer); break;
    }
}

/* A dense part in every layer and, in a mixture, experts beside it; V is K in layers without a window. */
static void gemma4_layer(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    bool global = mkgguf_is_global(s, layer), more = mkgguf_more_bits(layer, s->n_layers);
    uint32_t dim = global ? s->head_dim_global : s->head_dim, base = m->types->base, v = more ? m->types->more : base;
    uint64_t q = (uint64_t)s->n_head * dim, kv = (uint64_t)(global ? s->n_head_kv_global : s->n_head_kv) * dim;

    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, q, 0, base, "blk.%u.attn_q.weight", layer);
    mkgguf_vector(m, dim, MKGGUF_ONES, 0, "blk.%u.attn_q_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, kv, 0, base, "blk.%u.attn_k.weight", layer);
    mkgguf_vector(m, dim, MKGGUF_ONES, 0, "blk.%u.attn_k_norm.weight", layer);
    if (!global)
        mkgguf_matrix(m, s->n_embd, kv, 0, v, "blk.%u.attn_v.weight", layer);
    mkgguf_matrix(m, q, s->n_embd, 0, base, "blk.%u.attn_output.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_attention_norm.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.ffn_norm.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_gate.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->n_ff, 0, base, "blk.%u.ffn_up.weight", layer);
    mkgguf_matrix(m, s->n_ff, s->n_embd, 0, v, "blk.%u.ffn_down.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm.weight", layer);
    mkgguf_vector(m, 1, MKGGUF_ONES, 0, "blk.%u.layer_output_scale.weight", layer);
    if (s->n_expert == 0)
        return;
    uint32_t in = m->types->experts ? m->types->experts : base, down = m->types->experts ? m->types->experts_down : v;
    mkgguf_matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_inp.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.ffn_gate_inp.scale", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.pre_ffw_norm_2.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm_1.weight", layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.post_ffw_norm_2.weight", layer);
    mkgguf_matrix(m, s->n_embd, 2ull * s->n_ff_expert, s->n_expert, in, "blk.%u.ffn_gate_up_exps.weight", layer);
    mkgguf_matrix(m, s->n_ff_expert, s->n_embd, s->n_expert, down, "blk.%u.ffn_down_exps.weight", layer);
    mkgguf_vector(m, s->n_expert, MKGGUF_ONES, 0, "blk.%u.ffn_down_exps.scale", layer);
}

/* What mixes the streams around a block. */
static void streams(struct mkgguf_maker *m, uint32_t layer, const char *block)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t n_mix = s->n_streams * (s->n_streams + 2ull);
    mkgguf_matrix(m, (uint64_t)s->n_streams * s->n_embd, n_mix, 0, HALO_TYPE_F32, "blk.%u.hc_%s_fn.weight", layer,
                  block);
    mkgguf_vector(m, n_mix, MKGGUF_RANDOM, 1, "blk.%u.hc_%s_base.weight", layer, block);
    mkgguf_vector(m, 3, MKGGUF_ONES, 0, "blk.%u.hc_%s_scale.weight", layer, block);
}

/* Blocks of `ratio` positions of a row of `dim`; those of 4 overlap. */
static void compressor(struct mkgguf_maker *m, uint32_t layer, const char *name, uint32_t dim)
{
    const struct mkgguf_shape *s = m->shape;
    uint32_t ratio = mkgguf_ratio(layer), base = m->types->base;
    uint64_t width = ratio == 4 ? 2ull * dim : dim;
    mkgguf_matrix(m, s->n_embd, width, 0, base, "blk.%u.%s_kv.weight", layer, name);
    mkgguf_matrix(m, s->n_embd, width, 0, base, "blk.%u.%s_gate.weight", layer, name);
    mkgguf_matrix(m, width, ratio, 0, HALO_TYPE_F32, "blk.%u.%s_ape.weight", layer, name);
    mkgguf_vector(m, dim, MKGGUF_ONES, 0, "blk.%u.%s_norm.weight", layer, name);
}

static void compressed_attention(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    uint64_t q = (uint64_t)s->n_head * s->head_dim, out = (uint64_t)s->n_out_groups * s->out_lora;
    uint32_t base = m->types->base, ratio = mkgguf_ratio(layer);
    mkgguf_vector(m, s->n_embd, MKGGUF_ONES, 0, "blk.%u.attn_norm.weight", layer);
    mkgguf_vector(m, s->n_head, MKGGUF_RANDOM, 1, "blk.%u.attn_sinks.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->q_lora, 0, base, "blk.%u.attn_q_a.weight", layer);
    mkgguf_vector(m, s->q_lora, MKGGUF_ONES, 0, "blk.%u.attn_q_a_norm.weight", layer);
    mkgguf_matrix(m, s->q_lora, q, 0, base, "blk.%u.attn_q_b.weight", layer);
    mkgguf_matrix(m, s->n_embd, s->head_dim, 0, base, "blk.%u.attn_kv.weight", layer);
    mkgguf_vector(m, s->head_dim, MKGGUF_ONES, 0, "blk.%u.attn_kv_a_norm.weight", layer);
    mkgguf_matrix(m, q / s->n_out_groups, out, 0, base, "blk.%u.attn_output_a.weight", layer);
    mkgguf_matrix(m, out, s->n_embd, 0, base, "blk.%u.attn_output_b.weight", layer);
    if (ratio > 0)
        compressor(m, layer, "attn_compressor", s->head_dim);
    if (ratio != 4)
        return;
    mkgguf_matrix(m, s->n_embd, s->indexer_heads, 0, base, "blk.%u.indexer.proj.weight", layer);
    mkgguf_matrix(m, s->q_lora, (uint64_t)s->indexer_heads * s->indexer_dim, 0, base, "blk.%u.indexer.attn_q_b.weight",
                  layer);
    compressor(m, layer, "indexer_compressor", s->indexer_dim);
}

/* Experts by score, or in the first layers by token. */
static void deepseek4_layer(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    compressed_attention(m, layer);
    streams(m, layer, "attn");
    streams(m, layer, "ffn");
    feed_forward(m, layer);
    if (layer >= s->n_hash) {
        mkgguf_vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.exp_probs_b.bias", layer);
        return;
    }
    struct mkgguf_tensor t = {.dims = {s->n_expert_used, s->n_vocab}, .type = HALO_TYPE_I32, .n_ids = s->n_expert};
    t.fill = MKGGUF_IDS;
    snprintf(t.name, sizeof t.name, "blk.%u.ffn_gate_tid2eid.weight", layer);
    mkgguf_emit_tensor(m, &t);
}

static void expert_biases(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    mkgguf_vector(m, s->n_expert, MKGGUF_RANDOM, 0.1f, "blk.%u.ffn_gate_inp.bias", layer);
    mkgguf_matrix(m, s->n_ff_expert, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_gate_exps.bias", layer);
    mkgguf_matrix(m, s->n_ff_expert, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_up_exps.bias", layer);
    mkgguf_matrix(m, s->n_embd, s->n_expert, 0, HALO_TYPE_F32, "blk.%u.ffn_down_exps.bias", layer);
}

/* What a layer has in front of its feed-forward. */
static void mixer(struct mkgguf_maker *m, uint32_t layer)
{
    const struct mkgguf_shape *s = m->shape;
    if (s->layers) {
        block(m, layer);
    } else if (s->family == MKGGUF_DEEPSEEK2) {
        latent_attention(m, layer);
    } else if (s->family == MKGGUF_FALCON_H1) {
        mamba(m, layer);
        attention(m, layer, false);
    } else if (s->interval && (layer + 1) % s->interval != 0) {
        delta_rule(m, layer);
    } else {
        attention(m, layer, true);
    }
}

int mkgguf_tensors(const struct mkgguf_shape *shape, const struct mkgguf_types *types, mkgguf_emit *emit_fn, void *ud)
{
    struct mkgguf_maker m = {.shape = shape, .types = types, .emit = emit_fn, .ud = ud};
    mkgguf_matrix(&m, shape->n_embd, shape->n_vocab, 0, shape->tied ? types->more : types->base, "token_embd.weight");
    if (shape->rope_factors && shape->family == MKGGUF_LLAMA)
        mkgguf_vector(&m, shape->head_dim / 2, MKGGUF_ONES, 0, "rope_freqs.weight");
    if (shape->family == MKGGUF_GEMMA4)
        mkgguf_vector(&m, shape->head_dim_global / 2, MKGGUF_ONES, 0, "rope_freqs.weight");
    for (uint32_t layer = 0; layer < shape->n_layers && m.result == 0; layer++) {
        if (shape->family == MKGGUF_GEMMA4) {
            gemma4_layer(&m, layer);
            continue;
        }
        if (shape->family == MKGGUF_DEEPSEEK4) {
            deepseek4_layer(&m, layer);
            continue;
        }
        mixer(&m, layer);
        if (shape->family != MKGGUF_NEMOTRON_H_MOE)
            feed_forward(&m, layer);
        if (shape->family == MKGGUF_GPT_OSS)
            expert_biases(&m, layer);
    }
    if (shape->family == MKGGUF_DEEPSEEK4) {
        mkgguf_matrix(&m, (uint64_t)shape->n_streams * shape->n_embd, shape->n_streams, 0, HALO_TYPE_F32,
                      "output_hc_fn.weight");
        mkgguf_vector(&m, shape->n_streams, MKGGUF_RANDOM, 1, "output_hc_base.weight");
        mkgguf_vector(&m, 1, MKGGUF_ONES, 0, "output_hc_scale.weight");
    }
    mkgguf_vector(&m, shape->n_embd, MKGGUF_ONES, 0,
                  shape->family == MKGGUF_LFM2MOE ? "token_embd_norm.weight" : "output_norm.weight");
    if (!shape->tied)
        mkgguf_matrix(&m, shape->n_embd, shape->n_vocab, 0, types->more, "output.weight");
    return m.result;
}
