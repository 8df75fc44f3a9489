/* plan_builder_ops.c: the verbs that append one op each (plan_builder_priv.h). */
#include <assert.h>

#include "plan_builder_priv.h"

static uint32_t bias_use(struct halo_builder *builder, enum halo_tensor_id id)
{
    return halo_builder_weight_if(builder, halo_tensors_bias(id));
}

/* A factor of the hyper-parameters, where 0 means none. */
static float one_or(float factor)
{
    return factor == 0 ? 1 : factor;
}

void halo_builder_embed(struct halo_builder *builder, enum halo_tensor_id id, uint16_t out, float scale)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_EMBED);
    uint32_t weight = halo_builder_weight(builder, id);

    if (!builder->error)
        builder->weights[weight].embed = true;
    op->u.embed = (struct halo_op_embed){.weight = weight, .out = out, .scale = scale};
}

void halo_builder_rmsnorm(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint16_t add, uint16_t out)
{
    halo_builder_rmsnorm_scaled(builder, id, x, add, 1, out);
}

void halo_builder_rmsnorm_scaled(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint16_t add,
                                 float x_scale, uint16_t out)
{
    assert(add != HALO_NONE || x_scale == 1);
    struct halo_op *op = halo_builder_append(builder, HALO_OP_RMSNORM);

    op->u.rmsnorm =
        (struct halo_op_rmsnorm){.weight = id == HALO_TENSOR_NONE ? HALO_WEIGHT_NONE : halo_builder_weight(builder, id),
                                 .x = x,
                                 .add = add,
                                 .out = out,
                                 .eps = builder->hparams->norm_eps,
                                 .add_scale = one_or(builder->hparams->residual_scale),
                                 .centre = builder->layer_norms,
                                 .bias = bias_use(builder, id),
                                 .x_scale = x_scale == 1 ? 0 : x_scale};
}

void halo_builder_add(struct halo_builder *builder, uint16_t x, uint16_t add)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_ADD);

    assert(builder->error || one_or(builder->hparams->residual_scale) == 1); /* only a norm scales what it adds */
    op->u.add = (struct halo_op_add){.x = x, .add = add};
}

void halo_builder_matmul(struct halo_builder *builder, uint16_t x, const struct halo_builder_pair *pairs, uint16_t n)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MATMUL);

    assert(n >= 1 && n <= HALO_MATMUL_MAX);
    op->u.matmul.x = x;
    op->u.matmul.n = n;
    for (uint16_t i = 0; i < HALO_MATMUL_MAX; i++) {
        op->u.matmul.weight[i] = i < n ? halo_builder_weight(builder, pairs[i].id) : HALO_WEIGHT_NONE;
        op->u.matmul.bias[i] = i < n ? bias_use(builder, pairs[i].id) : HALO_WEIGHT_NONE;
        op->u.matmul.out[i] = i < n ? pairs[i].out : HALO_NONE;
    }
}

void halo_builder_qk_norm(struct halo_builder *builder, uint16_t q, uint16_t k)
{
    const struct halo_hparams *h = builder->hparams;
    struct halo_op *op = halo_builder_append(builder, HALO_OP_QK_NORM);

    op->u.qk_norm = (struct halo_op_qk_norm){
        .q = q,
        .k = k,
        .q_weight = halo_builder_weight(builder, HALO_TENSOR_ATTN_Q_NORM),
        .k_weight = k == HALO_NONE ? HALO_WEIGHT_NONE : halo_builder_weight(builder, HALO_TENSOR_ATTN_K_NORM),
        .n_head = h->n_head,
        .n_head_kv = k == HALO_NONE ? 0 : h->n_head_kv,
        .head_dim = h->head_dim_k,
        .eps = h->norm_eps};
}

void halo_builder_head_norm(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint32_t n, float eps)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_QK_NORM);

    if (builder->error)
        return;
    op->u.qk_norm = (struct halo_op_qk_norm){.q = x,
                                             .k = HALO_NONE,
                                             .q_weight = id == HALO_TENSOR_NONE ? HALO_WEIGHT_NONE
                                                                                : halo_builder_weight(builder, id),
                                             .k_weight = HALO_WEIGHT_NONE,
                                             .n_head = n,
                                             .head_dim = builder->values[x].width / n,
                                             .eps = eps};
}

void halo_builder_rope(struct halo_builder *builder, uint16_t q, uint16_t k, uint32_t rope)
{
    const struct halo_hparams *h = builder->hparams;

    halo_builder_rope_heads(builder, q, k,
                            &(struct halo_op_rope){.n_head = h->n_head,
                                                   .n_head_kv = k == HALO_NONE ? 0 : h->n_head_kv,
                                                   .head_dim = h->head_dim_k},
                            rope);
}

void halo_builder_rope_heads(struct halo_builder *builder, uint16_t q, uint16_t k, const struct halo_op_rope *heads,
                             uint32_t rope)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_ROPE);

    assert(builder->error || rope < builder->n_ropes);
    op->u.rope = *heads;
    op->u.rope.q = q;
    op->u.rope.k = k;
    op->u.rope.rope = rope;
}

void halo_builder_concat(struct halo_builder *builder, const struct halo_op_concat *concat)
{
    halo_builder_append(builder, HALO_OP_CONCAT)->u.concat = *concat;
}

void halo_builder_head_matmul(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, uint16_t out)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MOE_MATMUL);

    op->u.moe_matmul = (struct halo_op_moe_matmul){.x = x,
                                                   .choice = HALO_NONE,
                                                   .n = 1,
                                                   .per_slot = true,
                                                   .weight = {halo_builder_weight(builder, id), HALO_WEIGHT_NONE},
                                                   .out = {out, HALO_NONE},
                                                   .n_used = builder->hparams->n_head,
                                                   .bias = HALO_WEIGHTS_NONE};
}

void halo_builder_conv1d(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, bool silu, uint16_t out)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_CONV1D);
    uint32_t weight = halo_builder_weight(builder, id);
    uint64_t n_kept = builder->error ? 0 : builder->weights[weight].n_cols - 1;

    op->u.conv1d =
        (struct halo_op_conv1d){.x = x,
                                .out = out,
                                .weight = weight,
                                .bias = bias_use(builder, id),
                                .silu = silu,
                                .state = halo_builder_state_take(builder, n_kept * builder->values[x].width)};
}

void halo_builder_delta_rule(struct halo_builder *builder, const struct halo_op_delta_rule *rule)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_DELTA_RULE);

    op->u.delta_rule = *rule;
    op->u.delta_rule.a = halo_builder_weight(builder, HALO_TENSOR_SSM_A);
    op->u.delta_rule.dt_bias = halo_builder_weight(builder, HALO_TENSOR_SSM_DT_BIAS);
    op->u.delta_rule.eps = builder->hparams->norm_eps;
    op->u.delta_rule.state = halo_builder_state_take(builder, (uint64_t)rule->n_head_v * rule->dim_v * rule->dim_k);
}

void halo_builder_ssm_scan(struct halo_builder *builder, uint16_t xbc, uint16_t dt, uint16_t out)
{
    const struct halo_hparams *h = builder->hparams;
    struct halo_op *op = halo_builder_append(builder, HALO_OP_SSM_SCAN);

    op->u.ssm_scan = (struct halo_op_ssm_scan){.xbc = xbc,
                                               .dt = dt,
                                               .out = out,
                                               .a = halo_builder_weight(builder, HALO_TENSOR_SSM_A),
                                               .n_head = h->n_ssm_heads,
                                               .head_dim = h->n_ssm_inner / h->n_ssm_heads,
                                               .n_group = h->n_ssm_groups,
                                               .n_state = h->n_ssm_state};
    op->u.ssm_scan.d = halo_builder_weight(builder, HALO_TENSOR_SSM_D);
    op->u.ssm_scan.dt_bias = halo_builder_weight(builder, HALO_TENSOR_SSM_DT_BIAS);
    op->u.ssm_scan.state = halo_builder_state_take(builder, (uint64_t)h->n_ssm_inner * h->n_ssm_state);
}

void halo_builder_kv_write(struct halo_builder *builder, uint16_t k, uint16_t v, uint32_t group)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_KV_WRITE);
    const struct halo_hparams *h = builder->hparams;
    struct halo_kv_group *kv = &builder->kv[group];

    if (kv->n_head_kv == 0) {
        kv->n_head_kv = h->n_head_kv;
        kv->head_dim_k = h->head_dim_k;
        kv->head_dim_v = h->head_dim_v;
        kv->latent = h->mla_dim_k > 0;
    }
    assert(kv->n_head_kv == h->n_head_kv && kv->head_dim_k == h->head_dim_k);
    op->u.kv_write = (struct halo_op_kv_write){.k = k, .v = v, .kv_layer = kv->n_layers++, .kv_group = group};
}

void halo_builder_attend(struct halo_builder *builder, uint16_t q, uint16_t out, const struct halo_op_attend *how)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_ATTEND);

    op->u.attend = *how;
    op->u.attend.q = q;
    op->u.attend.out = out;
    op->u.attend.kv_layer = builder->kv[how->kv_group].n_layers - 1;
    op->u.attend.n_head = builder->hparams->n_head;
    op->u.attend.sinks = halo_builder_weight_if(builder, HALO_TENSOR_ATTN_SINKS);
}

void halo_builder_glu_limited(struct halo_builder *builder, uint16_t gate, uint16_t up, uint16_t out,
                              enum halo_glu_act act, float limit)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_GLU);

    op->u.glu = (struct halo_op_glu){.gate = gate, .up = up, .out = out, .act = act, .limit = limit};
}

void halo_builder_glu(struct halo_builder *builder, uint16_t gate, uint16_t up, uint16_t out, enum halo_glu_act act)
{
    halo_builder_glu_limited(builder, gate, up, out, act, 0);
}

void halo_builder_moe_route(struct halo_builder *builder, uint16_t logits, uint16_t choice)
{
    const struct halo_hparams *h = builder->hparams;
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MOE_ROUTE);

    op->u.moe_route =
        (struct halo_op_moe_route){.logits = logits,
                                   .choice = choice,
                                   .n_expert = h->n_expert,
                                   .n_used = h->n_expert_used,
                                   .normalise = h->expert_normalise,
                                   .scale = h->expert_scale,
                                   .gate = h->expert_gate,
                                   .bias = halo_builder_weight_if(builder, HALO_TENSOR_EXP_PROBS_BIAS),
                                   .n_groups = h->n_expert_groups,
                                   .n_groups_used = h->n_expert_groups_used,
                                   .table = halo_builder_table(builder, HALO_TENSOR_FFN_EXPERTS_BY_TOKEN)};
}

void halo_builder_moe_matmul(struct halo_builder *builder, uint16_t x, bool per_slot, uint16_t choice,
                             const struct halo_builder_pair *pairs, uint16_t n)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MOE_MATMUL);

    assert(n == 1 || n == 2);
    op->u.moe_matmul = (struct halo_op_moe_matmul){
        .x = x, .choice = choice, .n = n, .per_slot = per_slot, .n_used = builder->hparams->n_expert_used};
    for (uint16_t i = 0; i < 2; i++) {
        op->u.moe_matmul.weight[i] = i < n ? halo_builder_weight(builder, pairs[i].id) : HALO_WEIGHT_NONE;
        op->u.moe_matmul.out[i] = i < n ? pairs[i].out : HALO_NONE;
        op->u.moe_matmul.bias[i] =
            i < n ? halo_builder_weight_if(builder, halo_tensors_bias(pairs[i].id)) : HALO_WEIGHT_NONE;
    }
}

void halo_builder_moe_sum(struct halo_builder *builder, uint16_t x, uint16_t choice, uint16_t add, uint16_t add_gate,
                          uint16_t out)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MOE_SUM);

    op->u.moe_sum = (struct halo_op_moe_sum){.x = x,
                                             .choice = choice,
                                             .out = out,
                                             .n_used = builder->hparams->n_expert_used,
                                             .add = add,
                                             .add_gate = add_gate};
}

void halo_builder_logits(struct halo_builder *builder, uint16_t x, float scale)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_LOGITS);
    enum halo_tensor_id head =
        halo_builder_has(builder, HALO_TENSOR_OUTPUT) ? HALO_TENSOR_OUTPUT : HALO_TENSOR_TOKEN_EMBD;

    op->u.logits = (struct halo_op_logits){.weight = halo_builder_weight(builder, head),
                                           .x = x,
                                           .bias = halo_builder_weight_if(builder, HALO_TENSOR_OUTPUT_BIAS),
                                           .scale = scale,
                                           .cap = builder->hparams->logit_cap};
}
