/* plan_blocks.c: the blocks that families share. Runs where the model is created; failures stay in the builder. */
#include <math.h>

#include "plan_blocks_priv.h"

void halo_blocks_make_experts(struct halo_builder *builder, struct halo_blocks *values)
{
    const struct halo_hparams *h = builder->hparams;
    values->router = halo_builder_value(builder, "router", h->n_expert);
    values->choice = halo_builder_value(builder, "choice", 2ull * h->n_expert_used);
    values->slot_gate = halo_builder_value(builder, "slot_gate", (uint64_t)h->n_expert_used * h->n_ff_expert);
    values->slot_up = halo_builder_value(builder, "slot_up", (uint64_t)h->n_expert_used * h->n_ff_expert);
    uint32_t n_latent = h->n_expert_latent ? h->n_expert_latent : h->n_embd;
    values->slot_out = halo_builder_value(builder, "slot_out", (uint64_t)h->n_expert_used * n_latent);
}

struct halo_blocks halo_blocks_make(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    struct halo_blocks values = {
        .x = halo_builder_value(builder, "x", h->n_embd),
        .normed = halo_builder_value(builder, "normed", h->n_embd),
        .q = halo_builder_value(builder, "q", (uint64_t)h->n_head * h->head_dim_k),
        .k = halo_builder_value(builder, "k", (uint64_t)h->n_head_kv * h->head_dim_k),
        .v = h->mla_dim_k || h->n_streams ? HALO_NONE
                                          : halo_builder_value(builder, "v", (uint64_t)h->n_head_kv * h->head_dim_v),
        .att = halo_builder_value(builder, "att", (uint64_t)h->n_head * h->head_dim_v),
        .out = halo_builder_value(builder, "out", h->n_embd),
    };

    if (h->n_kv_lora > 0)
        values.latent = halo_latent_make(builder);
    if (h->n_expert == 0 || h->n_dense > 0) {
        values.gate = halo_builder_value(builder, "gate", h->n_ff);
        values.up = halo_builder_value(builder, "up", h->n_ff);
    }
    if (h->n_expert == 0)
        return values;
    halo_blocks_make_experts(builder, &values);
    if (h->n_ff_shared == 0)
        return values;
    values.shared_gate = halo_builder_value(builder, "shared_gate", h->n_ff_shared);
    values.shared_up = halo_builder_value(builder, "shared_up", h->n_ff_shared);
    values.shared = halo_builder_value(builder, "shared", h->n_embd);
    if (builder->binding->specs[HALO_TENSOR_FFN_GATE_INP_SHEXP])
        values.shared_in = halo_builder_value(builder, "shared_in", 1);
    return values;
}

/* normed -> q, k, v and, where attention is gated, the gates of the heads, which are returned. */
static uint16_t projections(struct halo_builder *builder, const struct halo_blocks *values, bool gated)
{
    const struct halo_hparams *h = builder->hparams;
    uint64_t n_q = (uint64_t)h->n_head * h->head_dim_k;
    uint16_t q_gated = gated ? halo_builder_value(builder, "q_gated", 2 * n_q) : values->q;
    const struct halo_builder_pair qkv[] = {
        {HALO_TENSOR_ATTN_Q, q_gated}, {HALO_TENSOR_ATTN_K, values->k}, {HALO_TENSOR_ATTN_V, values->v}};
    struct halo_op_concat part = {
        .a = q_gated, .b = HALO_NONE, .out = values->q, .n_head = h->n_head, .n_a = h->head_dim_k};

    halo_builder_matmul(builder, values->normed, qkv, 3);
    if (!gated)
        return HALO_NONE;
    halo_builder_concat(builder, &part);
    part.a_first = h->head_dim_k;
    part.out = halo_builder_value(builder, "q_gate", n_q);
    halo_builder_concat(builder, &part);
    return part.out;
}

void halo_blocks_attention(struct halo_builder *builder, const struct halo_blocks *values,
                           const struct halo_attention *attention)
{
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT, values->out}};
    uint16_t gate = projections(builder, values, attention->gated);

    if (attention->qk_norm == HALO_QK_NORM_WHOLE) {
        halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_Q_NORM, values->q, HALO_NONE, values->q);
        halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_K_NORM, values->k, HALO_NONE, values->k);
    }
    if (attention->qk_norm == HALO_QK_NORM_HEADS && halo_builder_has(builder, HALO_TENSOR_ATTN_Q_NORM))
        halo_builder_qk_norm(builder, values->q, values->k);
    if (attention->rope != HALO_ROPE_NONE)
        halo_builder_rope(builder, values->q, values->k, attention->rope);
    if (attention->qk_norm == HALO_QK_NORM_ROTATED)
        halo_builder_qk_norm(builder, values->q, values->k);
    halo_builder_kv_write(builder, values->k, values->v, attention->how.kv_group);
    halo_builder_attend(builder, values->q, values->att, &attention->how);
    if (attention->gated)
        halo_builder_glu(builder, gate, values->att, values->att, HALO_GLU_SIGMOID);
    halo_builder_matmul(builder, values->att, output, 1);
}

void halo_blocks_dense(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE, values->gate}, {HALO_TENSOR_FFN_UP, values->up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN, values->out}};
    bool gated = halo_builder_has(builder, HALO_TENSOR_FFN_GATE);
    uint16_t product = gated ? values->gate : values->up;

    halo_builder_matmul(builder, values->normed, gated ? in : in + 1, gated ? 2 : 1);
    halo_builder_glu(builder, product, gated ? values->up : HALO_NONE, product, act);
    halo_builder_matmul(builder, product, down, 1);
}

static void shared_expert(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE_SHEXP, values->shared_gate},
                                           {HALO_TENSOR_FFN_UP_SHEXP, values->shared_up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN_SHEXP, values->shared}};
    bool gated = halo_builder_has(builder, HALO_TENSOR_FFN_GATE_SHEXP);
    uint16_t product = gated ? values->shared_gate : values->shared_up;

    halo_builder_matmul(builder, values->normed, gated ? in : in + 1, gated ? 2 : 1);
    halo_builder_glu_limited(builder, product, gated ? values->shared_up : HALO_NONE, product, act,
                             builder->hparams->by_layer.shared_limit[builder->layer]);
    halo_builder_matmul(builder, product, down, 1);
}

void halo_blocks_experts(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE_EXPS, values->slot_gate},
                                           {HALO_TENSOR_FFN_UP_EXPS, values->slot_up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN_EXPS, values->slot_out}};
    bool gated = halo_builder_has(builder, HALO_TENSOR_FFN_GATE_EXPS);
    uint16_t product = gated ? values->slot_gate : values->slot_up;

    halo_builder_moe_matmul(builder, values->normed, false, values->choice, gated ? in : in + 1, gated ? 2 : 1);
    halo_builder_glu_limited(builder, product, gated ? values->slot_up : HALO_NONE, product, act,
                             builder->hparams->by_layer.expert_limit[builder->layer]);
    halo_builder_moe_matmul(builder, product, true, values->choice, down, 1);
}

/* Experts in a latent width, between two matrices of the layer; the shared one is beside them. */
static void latent_mixture(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    uint16_t low = halo_builder_value(builder, "latent", builder->hparams->n_expert_latent),
             sum = halo_builder_value(builder, "latent_out", builder->hparams->n_expert_latent);
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE_INP, values->router},
                                           {HALO_TENSOR_FFN_LATENT_DOWN, low}};
    const struct halo_builder_pair up[] = {{HALO_TENSOR_FFN_LATENT_UP, values->out}};
    struct halo_blocks inner = *values;

    inner.normed = low;
    halo_builder_matmul(builder, values->normed, in, 2);
    halo_builder_moe_route(builder, values->router, values->choice);
    halo_blocks_experts(builder, &inner, act);
    halo_builder_moe_sum(builder, values->slot_out, values->choice, HALO_NONE, HALO_NONE, sum);
    halo_builder_matmul(builder, sum, up, 1);
    if (builder->hparams->n_ff_shared > 0) {
        shared_expert(builder, values, act);
        halo_builder_add(builder, values->out, values->shared);
    }
}

static void mixture(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    bool is_shared = builder->hparams->n_ff_shared > 0;
    bool is_gated = is_shared && halo_builder_has(builder, HALO_TENSOR_FFN_GATE_INP_SHEXP);
    const struct halo_builder_pair router[] = {{HALO_TENSOR_FFN_GATE_INP, values->router},
                                               {HALO_TENSOR_FFN_GATE_INP_SHEXP, values->shared_in}};

    halo_builder_matmul(builder, values->normed, router, is_gated ? 2 : 1);
    halo_builder_moe_route(builder, values->router, values->choice);
    halo_blocks_experts(builder, values, act);
    if (is_shared)
        shared_expert(builder, values, act);
    halo_builder_moe_sum(builder, values->slot_out, values->choice, is_shared ? values->shared : HALO_NONE,
                         is_gated ? values->shared_in : HALO_NONE, values->out);
}

void halo_blocks_ffn(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act)
{
    if (halo_tensors_when_latent(builder->hparams, builder->layer))
        latent_mixture(builder, values, act);
    else if (halo_tensors_when_moe(builder->hparams, builder->layer))
        mixture(builder, values, act);
    else
        halo_blocks_dense(builder, values, act);
}

/* Attention of layers with a window, and of those without. */
static void attentions_make(struct halo_builder *builder, const struct halo_decoder *decoder,
                            struct halo_attention *local, struct halo_attention *global)
{
    const struct halo_hparams *h = builder->hparams;
    float scale = decoder->attention_scale > 0 ? decoder->attention_scale : h->attention_scale;
    uint32_t rope = decoder->unrotated ? HALO_ROPE_NONE : halo_builder_rotation(builder, decoder->pairing);
    *global = (struct halo_attention){.rope = rope,
                                      .qk_norm = decoder->qk_norm,
                                      .gated = decoder->gated_attention,
                                      .how = {.scale = scale > 0 ? scale : (float)(1 / sqrt((double)h->head_dim_k)),
                                              .cap = h->attention_cap,
                                              .temperature = h->attention_temperature,
                                              .temperature_period = h->rope_original_context}};
    if (h->n_kv_lora > 0) { /* YaRN's growth is in the scores alone */
        global->how.scale = halo_latent_scale(h);
        builder->ropes[global->rope].scale = 1;
    }
    *local = *global;
    local->how.window = h->window;
    if (decoder->period > 1 && h->n_layers >= decoder->period) /* else no layer keeps every position */
        local->how.kv_group = halo_builder_kv_group(builder, h->window);
    if (h->rope_base_local > 0)
        local->rope = halo_builder_rotation_local(builder, decoder->pairing);
    if (decoder->global_unrotated)
        global->rope = HALO_ROPE_NONE;
}

/* A residual stream and what is yet to be added to it. */
struct stream {
    uint16_t x, pending;
};

/* What a block reads of the stream: its norm, or the stream where the file has no such tensor. */
static struct halo_blocks block_enter(struct halo_builder *builder, const struct halo_blocks *values,
                                      struct stream *stream, enum halo_tensor_id norm)
{
    struct halo_blocks in = *values;
    if (halo_builder_has(builder, norm)) {
        halo_builder_rmsnorm(builder, norm, stream->x, stream->pending, values->normed);
    } else {
        if (stream->pending != HALO_NONE)
            halo_builder_add(builder, stream->x, stream->pending);
        in.normed = stream->x;
    }
    stream->pending = HALO_NONE;
    return in;
}

static void block_leave(struct halo_builder *builder, const struct halo_blocks *values, struct stream *stream,
                        enum halo_tensor_id norm)
{
    if (halo_builder_has(builder, norm))
        halo_builder_rmsnorm(builder, norm, values->out, HALO_NONE, values->out);
    stream->pending = values->out;
}

/* The mixer of a layer: attention of some kind or a state, or both side by side. */
static void mixer(struct halo_builder *builder, const struct halo_decoder *decoder, const struct halo_blocks *in,
                  const struct halo_attention *attention, const struct stream *stream)
{
    if (decoder->mixer && halo_tensors_when_state(builder->hparams, builder->layer))
        decoder->mixer(builder, in);
    else if (builder->hparams->n_kv_lora > 0)
        halo_blocks_latent(builder, in, attention);
    else
        halo_blocks_attention(builder, in, attention);
    if (decoder->beside) { /* `out` is used again */
        halo_builder_add(builder, stream->x, in->out);
        decoder->beside(builder, in);
    }
}

static enum halo_tensor_id ffn_norm(const struct halo_builder *builder)
{
    static const enum halo_tensor_id other[] = {HALO_TENSOR_FFN_INPUT_NORM, HALO_TENSOR_FFN_NORM_BARE};
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (halo_builder_has(builder, other[i]))
            return other[i];
    return builder->hparams->one_block ? HALO_TENSOR_ATTN_NORM : HALO_TENSOR_FFN_NORM;
}

static void layer_make(struct halo_builder *builder, const struct halo_decoder *decoder,
                       const struct halo_blocks *values, const struct halo_attention *attention, struct stream *stream)
{
    bool has_ffn = halo_tensors_when_ffn(builder->hparams, builder->layer);
    struct halo_blocks in = *values;
    if (!builder->hparams->one_block || !has_ffn) {
        in = block_enter(builder, values, stream, HALO_TENSOR_ATTN_NORM);
        mixer(builder, decoder, &in, attention, stream);
        block_leave(builder, values, stream, HALO_TENSOR_ATTN_POST_NORM);
    }
    if (!has_ffn)
        return;
    if (decoder->parallel) { /* `out` is used again */
        halo_builder_add(builder, stream->x, stream->pending);
        stream->pending = HALO_NONE;
    } else {
        in = block_enter(builder, values, stream, ffn_norm(builder));
    }
    halo_blocks_ffn(builder, &in, decoder->act);
    block_leave(builder, values, stream, HALO_TENSOR_FFN_POST_NORM);
}

void halo_blocks_decoder(struct halo_builder *builder, const struct halo_decoder *decoder)
{
    const struct halo_hparams *h = builder->hparams;
    const struct halo_blocks values = halo_blocks_make(builder);
    struct stream stream = {values.x, HALO_NONE};
    struct halo_attention local, global;
    struct halo_blocks in;
    float embed_scale = decoder->embed_scale > 0 ? decoder->embed_scale : h->embed_scale;

    attentions_make(builder, decoder, &local, &global);
    builder->layer_norms = decoder->layer_norms;
    halo_builder_embed(builder, HALO_TENSOR_TOKEN_EMBD, values.x, embed_scale > 0 ? embed_scale : 1.0f);
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        bool is_global = decoder->period > 0 && layer % decoder->period == decoder->period - 1;
        halo_builder_layer(builder, layer);
        layer_make(builder, decoder, &values, is_global || h->n_kv_lora > 0 ? &global : &local, &stream);
    }
    halo_builder_outside(builder);
    bool renamed = halo_builder_has(builder, HALO_TENSOR_TOKEN_EMBD_NORM);
    in = block_enter(builder, &values, &stream, renamed ? HALO_TENSOR_TOKEN_EMBD_NORM : HALO_TENSOR_OUTPUT_NORM);
    float logit_scale = h->logit_scale > 0 ? h->logit_scale : 1.0f;
    halo_builder_logits(builder, in.normed, decoder->logits_divided ? 1 / logit_scale : logit_scale);
}
