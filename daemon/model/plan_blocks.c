/* plan_blocks.c: the blocks that families share. Runs where the model is created; failures stay in the builder. */
#include <math.h>

#include "plan_blocks_priv.h"

struct halo_blocks halo_blocks_make(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    struct halo_blocks values = {
        .x = halo_builder_value(builder, "x", h->n_embd),
        .normed = halo_builder_value(builder, "normed", h->n_embd),
        .q = halo_builder_value(builder, "q", (uint64_t)h->n_head * h->head_dim_k),
        .k = halo_builder_value(builder, "k", (uint64_t)h->n_head_kv * h->head_dim_k),
        .v = halo_builder_value(builder, "v", (uint64_t)h->n_head_kv * h->head_dim_v),
        .att = halo_builder_value(builder, "att", (uint64_t)h->n_head * h->head_dim_v),
        .out = halo_builder_value(builder, "out", h->n_embd),
    };

    if (h->n_expert == 0 || h->n_dense > 0) {
        values.gate = halo_builder_value(builder, "gate", h->n_ff);
        values.up = halo_builder_value(builder, "up", h->n_ff);
    }
    if (h->n_expert == 0)
        return values;
    values.router = halo_builder_value(builder, "router", h->n_expert);
    values.choice = halo_builder_value(builder, "choice", 2ull * h->n_expert_used);
    values.slot_gate = halo_builder_value(builder, "slot_gate", (uint64_t)h->n_expert_used * h->n_ff_expert);
    values.slot_up = halo_builder_value(builder, "slot_up", (uint64_t)h->n_expert_used * h->n_ff_expert);
    values.slot_out = halo_builder_value(builder, "slot_out", (uint64_t)h->n_expert_used * h->n_embd);
    if (h->n_ff_shared == 0)
        return values;
    values.shared_gate = halo_builder_value(builder, "shared_gate", h->n_ff_shared);
    values.shared_up = halo_builder_value(builder, "shared_up", h->n_ff_shared);
    values.shared = halo_builder_value(builder, "shared", h->n_embd);
    if (builder->binding->specs[HALO_TENSOR_FFN_GATE_INP_SHEXP])
        values.shared_in = halo_builder_value(builder, "shared_in", 1);
    return values;
}

void halo_blocks_attention(struct halo_builder *builder, const struct halo_blocks *values,
                           const struct halo_attention *attention)
{
    const struct halo_builder_pair qkv[] = {
        {HALO_TENSOR_ATTN_Q, values->q}, {HALO_TENSOR_ATTN_K, values->k}, {HALO_TENSOR_ATTN_V, values->v}};
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT, values->out}};

    halo_builder_matmul(builder, values->normed, qkv, 3);
    if (attention->qk_norm && halo_builder_has(builder, HALO_TENSOR_ATTN_Q_NORM))
        halo_builder_qk_norm(builder, values->q, values->k);
    halo_builder_rope(builder, values->q, values->k, attention->rope);
    halo_builder_kv_write(builder, values->k, values->v);
    halo_builder_attend(builder, values->q, values->att, attention->scale);
    halo_builder_matmul(builder, values->att, output, 1);
}

static void dense(struct halo_builder *builder, const struct halo_blocks *values)
{
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE, values->gate}, {HALO_TENSOR_FFN_UP, values->up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN, values->out}};

    halo_builder_matmul(builder, values->normed, in, 2);
    halo_builder_glu(builder, values->gate, values->up, values->gate, HALO_GLU_SILU);
    halo_builder_matmul(builder, values->gate, down, 1);
}

static void shared_expert(struct halo_builder *builder, const struct halo_blocks *values)
{
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE_SHEXP, values->shared_gate},
                                           {HALO_TENSOR_FFN_UP_SHEXP, values->shared_up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN_SHEXP, values->shared}};

    halo_builder_matmul(builder, values->normed, in, 2);
    halo_builder_glu(builder, values->shared_gate, values->shared_up, values->shared_gate, HALO_GLU_SILU);
    halo_builder_matmul(builder, values->shared_gate, down, 1);
}

static void mixture(struct halo_builder *builder, const struct halo_blocks *values)
{
    bool is_shared = builder->hparams->n_ff_shared > 0;
    bool is_gated = is_shared && halo_builder_has(builder, HALO_TENSOR_FFN_GATE_INP_SHEXP);
    const struct halo_builder_pair router[] = {{HALO_TENSOR_FFN_GATE_INP, values->router},
                                               {HALO_TENSOR_FFN_GATE_INP_SHEXP, values->shared_in}};
    const struct halo_builder_pair in[] = {{HALO_TENSOR_FFN_GATE_EXPS, values->slot_gate},
                                           {HALO_TENSOR_FFN_UP_EXPS, values->slot_up}};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_FFN_DOWN_EXPS, values->slot_out}};

    halo_builder_matmul(builder, values->normed, router, is_gated ? 2 : 1);
    halo_builder_moe_route(builder, values->router, values->choice);
    halo_builder_moe_matmul(builder, values->normed, false, values->choice, in, 2);
    halo_builder_glu(builder, values->slot_gate, values->slot_up, values->slot_gate, HALO_GLU_SILU);
    halo_builder_moe_matmul(builder, values->slot_gate, true, values->choice, down, 1);
    if (is_shared)
        shared_expert(builder, values);
    halo_builder_moe_sum(builder, values->slot_out, values->choice, is_shared ? values->shared : HALO_NONE,
                         is_gated ? values->shared_in : HALO_NONE, values->out);
}

void halo_blocks_ffn(struct halo_builder *builder, const struct halo_blocks *values)
{
    if (halo_tensors_when_moe(builder->hparams, builder->layer))
        mixture(builder, values);
    else
        dense(builder, values);
}

void halo_blocks_decoder(struct halo_builder *builder, enum halo_rope_pairing pairing, bool qk_norm)
{
    const struct halo_hparams *h = builder->hparams;
    const struct halo_blocks values = halo_blocks_make(builder);
    const struct halo_attention attention = {.rope = halo_builder_rotation(builder, pairing),
                                             .qk_norm = qk_norm,
                                             .scale = (float)(1 / sqrt((double)h->head_dim_k))};

    halo_builder_embed(builder, values.x, 1.0f);
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        halo_builder_layer(builder, layer);
        halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_NORM, values.x, layer ? values.out : HALO_NONE, values.normed);
        halo_blocks_attention(builder, &values, &attention);
        bool moved = halo_builder_has(builder, HALO_TENSOR_FFN_INPUT_NORM);
        halo_builder_rmsnorm(builder, moved ? HALO_TENSOR_FFN_INPUT_NORM : HALO_TENSOR_FFN_NORM, values.x, values.out,
                             values.normed);
        halo_blocks_ffn(builder, &values);
    }
    halo_builder_outside(builder);
    halo_builder_rmsnorm(builder, HALO_TENSOR_OUTPUT_NORM, values.x, values.out, values.normed);
    halo_builder_logits(builder, values.normed);
}
