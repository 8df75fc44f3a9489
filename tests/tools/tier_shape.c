/* tier_shape.c: see tier_shape.h. */
#include "tier_shape.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WEIGHTS_OF_LAYER 9
#define OPS_OF_LAYER 7

const struct halo_tier_shape halo_tier_qwen3_235b = {
    .name = "qwen3-235b-a22b",
    .n_layers = 94,
    .n_embd = 4096,
    .n_vocab = 151936,
    .n_attention = 8192 + 2 * 512 + 8192,
    .n_head = 64,
    .n_head_kv = 4,
    .head_dim = 128,
    .n_expert = 128,
    .n_used = 8,
    .n_ff_expert = 1536,
    .attention = HALO_TYPE_Q4_K,
    .ends = HALO_TYPE_Q6_K,
    .ff = HALO_TYPE_Q4_K,
    .down = {HALO_TYPE_Q6_K, HALO_TYPE_Q4_K},
    .n_context = 32768,
};

const struct halo_tier_shape halo_tier_gpt_oss_120b = {
    .name = "gpt-oss-120b",
    .n_layers = 36,
    .n_embd = 2880,
    .n_vocab = 201088,
    .n_attention = 4096 + 2 * 512 + 4096,
    .n_head = 64,
    .n_head_kv = 8,
    .head_dim = 64,
    .n_expert = 128,
    .n_used = 4,
    .n_ff_expert = 2880,
    .attention = HALO_TYPE_Q8_0,
    .ends = HALO_TYPE_Q8_0,
    .ff = HALO_TYPE_MXFP4,
    .down = {HALO_TYPE_MXFP4, HALO_TYPE_MXFP4},
    .n_context = 8192,
};

const struct halo_tier_shape halo_tier_llama_70b = {
    .name = "llama-3.3-70b",
    .n_layers = 80,
    .n_dense = 80,
    .n_embd = 8192,
    .n_vocab = 128256,
    .n_attention = 8192 + 2 * 1024 + 8192,
    .n_head = 64,
    .n_head_kv = 8,
    .head_dim = 128,
    .n_ff = 28672,
    .attention = HALO_TYPE_Q4_K,
    .ends = HALO_TYPE_Q6_K,
    .ff = HALO_TYPE_Q4_K,
    .down = {HALO_TYPE_Q6_K, HALO_TYPE_Q4_K},
    .n_context = 8192,
};

struct made {
    struct halo_plan plan; /* first: what the caller gets */
    uint32_t n_ops, n_weights;
    struct halo_op *ops;
    struct halo_weight *weights;
};

__attribute__((format(printf, 6, 7))) static uint32_t add_weight(struct made *m, enum halo_type type, uint32_t n_cols,
                                                                 uint32_t n_rows, uint32_t n_experts,
                                                                 const char *format, ...)
{
    struct halo_weight *weight = &m->weights[m->n_weights];
    va_list args;
    assert(n_cols % halo_type_info(type).block_weights == 0);
    *weight = (struct halo_weight){
        .type = type,
        .role = n_experts > 1 ? HALO_WEIGHT_EXPERTS
                : n_rows == 1 ? HALO_WEIGHT_VECTOR
                              : HALO_WEIGHT_MATRIX,
        .n_cols = n_cols,
        .n_rows = n_rows,
        .n_experts = n_experts,
        .n_bytes = halo_type_row_bytes(type, n_cols) * n_rows * n_experts,
    };
    va_start(args, format);
    vsnprintf(weight->name, sizeof(weight->name), format, args);
    va_end(args);
    return m->n_weights++;
}

static struct halo_op *add_op(struct made *m, enum halo_op_kind kind, uint32_t layer)
{
    struct halo_op *op = &m->ops[m->n_ops++];
    *op = (struct halo_op){.kind = kind, .layer = (uint16_t)layer};
    return op;
}

static void add_matmul(struct made *m, uint32_t layer, uint32_t weight)
{
    add_op(m, HALO_OP_MATMUL, layer)->u.matmul = (struct halo_op_matmul){.n = 1, .weight = {weight}};
}

static void add_feed_forward(struct made *m, uint32_t layer, const char *suffix, const struct halo_tier_shape *shape,
                             uint32_t n_ff)
{
    enum halo_type down = shape->down[layer % 2];
    add_matmul(m, layer, add_weight(m, shape->ff, shape->n_embd, n_ff, 1, "blk.%u.ffn_gate%s.weight", layer, suffix));
    add_matmul(m, layer, add_weight(m, shape->ff, shape->n_embd, n_ff, 1, "blk.%u.ffn_up%s.weight", layer, suffix));
    add_matmul(m, layer, add_weight(m, down, n_ff, shape->n_embd, 1, "blk.%u.ffn_down%s.weight", layer, suffix));
}

static void add_mixture(struct made *m, uint32_t layer, const struct halo_tier_shape *shape)
{
    uint32_t n = shape->n_expert, n_ff = shape->n_ff_expert;
    add_matmul(m, layer, add_weight(m, HALO_TYPE_F32, shape->n_embd, n, 1, "blk.%u.ffn_gate_inp.weight", layer));
    uint32_t gate = add_weight(m, shape->ff, shape->n_embd, n_ff, n, "blk.%u.ffn_gate_exps.weight", layer);
    uint32_t up = add_weight(m, shape->ff, shape->n_embd, n_ff, n, "blk.%u.ffn_up_exps.weight", layer);
    uint32_t down = add_weight(m, shape->down[layer % 2], n_ff, shape->n_embd, n, "blk.%u.ffn_down_exps.weight", layer);
    add_op(m, HALO_OP_MOE_MATMUL, layer)->u.moe_matmul =
        (struct halo_op_moe_matmul){.n = 2, .weight = {gate, up}, .n_used = shape->n_used};
    add_op(m, HALO_OP_MOE_MATMUL, layer)->u.moe_matmul =
        (struct halo_op_moe_matmul){.n = 1, .per_slot = true, .weight = {down}, .n_used = shape->n_used};
    if (shape->n_ff_shared > 0)
        add_feed_forward(m, layer, "_shexp", shape, shape->n_ff_shared);
}

static void *allocated(size_t n, size_t size)
{
    void *bytes = calloc(n, size);
    if (!bytes)
        abort();
    return bytes;
}

struct halo_plan *halo_tier_plan_create(const struct halo_tier_shape *shape)
{
    struct made *m = allocated(1, sizeof(*m));
    m->ops = allocated(2 + (size_t)shape->n_layers * OPS_OF_LAYER, sizeof(*m->ops));
    m->weights = allocated(2 + (size_t)shape->n_layers * WEIGHTS_OF_LAYER, sizeof(*m->weights));
    uint32_t embed = add_weight(m, shape->ends, shape->n_embd, shape->n_vocab, 1, "token_embd.weight");
    m->weights[embed].embed = true;
    add_op(m, HALO_OP_EMBED, HALO_NONE)->u.embed.weight = embed;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++) {
        add_weight(m, HALO_TYPE_F32, shape->n_embd, 1, 1, "blk.%u.attn_norm.weight", layer);
        add_matmul(m, layer,
                   add_weight(m, shape->attention, shape->n_embd, shape->n_attention, 1, "blk.%u.attn.weight", layer));
        add_op(m, HALO_OP_ATTEND, layer)->u.attend =
            (struct halo_op_attend){.kv_layer = layer, .n_head = shape->n_head};
        if (layer < shape->n_dense)
            add_feed_forward(m, layer, "", shape, shape->n_ff);
        else
            add_mixture(m, layer, shape);
    }
    uint32_t output = add_weight(m, shape->ends, shape->n_embd, shape->n_vocab, 1, "output.weight");
    add_op(m, HALO_OP_LOGITS, HALO_NONE)->u.logits = (struct halo_op_logits){.weight = output, .scale = 1};
    m->plan = (struct halo_plan){
        .n_ops = m->n_ops,
        .ops = m->ops,
        .n_weights = m->n_weights,
        .weights = m->weights,
        .n_kv_groups = 1,
        .kv = {{.type = HALO_KV_F16,
                .n_layers = shape->n_layers,
                .n_head_kv = shape->n_head_kv,
                .head_dim_k = shape->head_dim,
                .head_dim_v = shape->head_dim}},
        .n_vocab = shape->n_vocab,
        .n_context = shape->n_context,
        .max_rows = 256,
        .max_outputs = 64,
    };
    halo_plan_set_pages(&m->plan, shape->n_context / HALO_KV_PAGE_TOKENS);
    return &m->plan;
}

void halo_tier_plan_destroy(struct halo_plan *plan)
{
    struct made *m = (struct made *)plan;
    free(m->ops);
    free(m->weights);
    free(m);
}
