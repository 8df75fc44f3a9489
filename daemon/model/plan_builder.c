/* plan_builder.c: appends ops, values and weights to a plan.
 *
 * Runs where the model is created (io thread). Everything lies in the model's arena; the op table grows by doubling
 * and leaves its old copies there, which is at most as much again. Fails with: OUT_OF_MEMORY, LOAD_FAILED (a
 * number of the file).
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_builder_priv.h"

#define MAX_VALUES 64

int halo_builder_no_memory(struct halo_builder *builder)
{
    if (builder->error == 0)
        builder->error =
            halo_fault_set(builder->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the plan of the model");
    return builder->error;
}

void halo_builder_init(struct halo_builder *builder, struct halo_arena *arena, const struct halo_hparams *hparams,
                       const struct halo_binding *binding, struct halo_fault *fault)
{
    *builder = (struct halo_builder){.arena = arena,
                                     .hparams = hparams,
                                     .model = hparams,
                                     .binding = binding,
                                     .fault = fault,
                                     .layer = HALO_NONE,
                                     .ops_capacity = 64,
                                     .n_kv_groups = 1};
    builder->ops = halo_arena_alloc(arena, builder->ops_capacity, sizeof(*builder->ops));
    builder->weights = halo_arena_alloc(arena, binding->n_found, sizeof(*builder->weights));
    builder->weight_of =
        halo_arena_alloc(arena, (size_t)HALO_TENSOR_COUNT * binding->n_layers, sizeof(*builder->weight_of));
    builder->values = halo_arena_alloc(arena, MAX_VALUES, sizeof(*builder->values));
    builder->ropes = halo_arena_alloc(arena, HALO_BUILDER_ROPES, sizeof(*builder->ropes));
    if (!builder->ops || !builder->weights || !builder->weight_of || !builder->values || !builder->ropes)
        halo_builder_no_memory(builder);
}

int halo_builder_finish(struct halo_builder *builder, struct halo_plan *ret)
{
    uint32_t n_host = 0;

    if (builder->error)
        return builder->error;
    /* A tensor that the family's table demands and its plan forgets is a bug of the family. */
    for (int id = 0; id < HALO_TENSOR_COUNT; id++)
        for (uint32_t i = 0; builder->binding->specs[id] && builder->binding->specs[id]->host &&
                             i < (halo_tensors_layered(id) ? builder->binding->n_layers : 1);
             i++)
            n_host += halo_binding_find(builder->binding, id, i) != NULL;
    assert(builder->n_weights + n_host == builder->binding->n_found);
    ret->n_ops = builder->n_ops;
    ret->ops = builder->ops;
    ret->n_weights = builder->n_weights;
    ret->weights = builder->weights;
    ret->n_values = builder->n_values;
    ret->values = builder->values;
    ret->n_ropes = builder->n_ropes;
    ret->ropes = builder->ropes;
    assert(builder->kv[0].n_layers > 0 && builder->kv[0].window == 0); /* the group that keeps every position */
    const struct halo_kv_group common = ret->kv[0];
    for (uint32_t i = 0; i < builder->n_kv_groups; i++) {
        ret->kv[i] = builder->kv[i];
        ret->kv[i].type = common.type;
        ret->kv[i].n_pages = common.n_pages;
    }
    ret->n_kv_groups = builder->n_kv_groups;
    halo_plan_set_pages(ret, ret->kv[0].n_pages);
    return 0;
}

struct halo_op *halo_builder_append(struct halo_builder *builder, enum halo_op_kind kind)
{
    if (builder->error)
        return &builder->spare;
    if (builder->n_ops == builder->ops_capacity) {
        struct halo_op *grown = halo_arena_alloc(builder->arena, (size_t)builder->ops_capacity * 2, sizeof(*grown));
        if (!grown) {
            halo_builder_no_memory(builder);
            return &builder->spare;
        }
        memcpy(grown, builder->ops, builder->n_ops * sizeof(*grown));
        builder->ops = grown;
        builder->ops_capacity *= 2;
    }
    builder->ops[builder->n_ops] = (struct halo_op){.kind = kind, .layer = builder->layer};
    return &builder->ops[builder->n_ops++];
}

bool halo_builder_has(const struct halo_builder *builder, enum halo_tensor_id id)
{
    struct halo_bound bound;
    return halo_binding_get(builder->binding, id, builder->layer == HALO_NONE ? 0 : builder->layer, &bound);
}

/* The factors of a matrix's product, one for each expert; NULL without any. */
static const float *scales_read(struct halo_builder *builder, const struct halo_bound *bound)
{
    const struct halo_gguf_tensor *scale = halo_binding_scale(builder->binding, bound->tensor);
    uint32_t n = (uint32_t)bound->dims[2];
    if (!scale)
        return NULL;
    float *scales = halo_arena_alloc(builder->arena, n, sizeof(*scales));
    if (!scales)
        return (void)halo_builder_no_memory(builder), NULL;
    int r = halo_binding_read(builder->binding, scale, scales, (uint32_t)scale->dims[0], builder->fault);
    if (r < 0)
        builder->error = r;
    for (uint32_t i = (uint32_t)scale->dims[0]; i < n; i++)
        scales[i] = scales[0];
    return scales;
}

uint32_t halo_builder_weight(struct halo_builder *builder, enum halo_tensor_id id)
{
    uint32_t layer = halo_tensors_layered(id) ? builder->layer : 0;
    const struct halo_tensor_spec *spec = builder->binding->specs[id];
    struct halo_bound bound;
    struct halo_weight *weight;
    uint32_t *slot;

    if (builder->error)
        return 0;
    bool found = halo_binding_get(builder->binding, id, layer, &bound);
    assert(spec && !spec->host && found);
    slot = &builder->weight_of[id * builder->binding->n_layers + layer];
    if (*slot)
        return *slot - 1;
    assert(builder->n_weights < builder->binding->n_found);
    weight = &builder->weights[builder->n_weights];
    *weight = (struct halo_weight){.type = bound.tensor->type,
                                   .role = spec->role,
                                   .n_cols = (uint32_t)bound.dims[0],
                                   .n_rows = (uint32_t)bound.dims[1],
                                   .n_experts = (uint32_t)bound.dims[2],
                                   .n_bytes = bound.n_bytes,
                                   .part = bound.tensor->part,
                                   .offset = bound.offset,
                                   .expert_step = bound.expert_step,
                                   .scales = scales_read(builder, &bound)};
    _Static_assert(sizeof(weight->name) >= sizeof(bound.tensor->name),
                   "any name fits, no name of a fused one is so long");
    snprintf(weight->name, sizeof(weight->name), "%s%s", bound.tensor->name, bound.suffix);
    *slot = ++builder->n_weights;
    return *slot - 1;
}

/* The same for one that the file need not have; id may be HALO_TENSOR_NONE. */
uint32_t halo_builder_weight_if(struct halo_builder *builder, enum halo_tensor_id id)
{
    return id != HALO_TENSOR_NONE && halo_builder_has(builder, id) ? halo_builder_weight(builder, id)
                                                                   : HALO_WEIGHT_NONE;
}

static uint32_t bias_use(struct halo_builder *builder, enum halo_tensor_id id)
{
    return halo_builder_weight_if(builder, halo_tensors_bias(id));
}

/* A factor of the hyper-parameters, where 0 means none. */
static float one_or(float factor)
{
    return factor == 0 ? 1 : factor;
}

void halo_builder_layer(struct halo_builder *builder, uint32_t layer)
{
    assert(layer < builder->hparams->n_layers);
    builder->layer = (uint16_t)layer;
    halo_hparams_of_layer(builder->model, layer, &builder->of_layer);
    builder->hparams = &builder->of_layer;
}

void halo_builder_outside(struct halo_builder *builder)
{
    builder->layer = HALO_NONE;
    builder->hparams = builder->model;
}

uint16_t halo_builder_value(struct halo_builder *builder, const char *name, uint64_t width)
{
    if (builder->error)
        return 0;
    for (uint32_t i = 0; i < builder->n_values; i++)
        if (strcmp(builder->values[i].name, name) == 0) {
            assert(builder->values[i].width == width);
            return (uint16_t)i;
        }
    assert(builder->n_values < MAX_VALUES && width > 0 && width <= HALO_MODEL_MAX_WIDTH);
    builder->values[builder->n_values] = (struct halo_value){.name = name, .width = (uint32_t)width};
    return (uint16_t)builder->n_values++;
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

float halo_builder_number(struct halo_builder *builder, enum halo_tensor_id id)
{
    const struct halo_gguf_tensor *tensor = halo_binding_find(builder->binding, id, builder->layer);
    float number = 1;
    if (!tensor || builder->error)
        return number;
    builder->error = halo_binding_read(builder->binding, tensor, &number, 1, builder->fault);
    if (builder->error == 0 && (number == 0 || !isfinite(number)))
        builder->error = halo_fault_set(builder->fault, HALO_FAULT_LOAD_FAILED,
                                        "%s is %g, must be a finite number other than 0", tensor->name, (double)number);
    return builder->error ? 1 : number;
}

void halo_builder_factor(struct halo_builder *builder, enum halo_tensor_id id, float factor)
{
    uint32_t weight = halo_builder_weight(builder, id);
    float *scales = halo_arena_alloc(builder->arena, 1, sizeof(*scales));
    if (!scales)
        halo_builder_no_memory(builder);
    if (builder->error)
        return;
    assert(builder->weights[weight].role == HALO_WEIGHT_VECTOR && !builder->weights[weight].scales);
    *scales = factor;
    builder->weights[weight].scales = scales;
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

uint32_t halo_builder_kv_group(struct halo_builder *builder, uint32_t window)
{
    if (window >= builder->hparams->n_context)
        window = 0;
    for (uint32_t i = 0; i < builder->n_kv_groups; i++)
        if (builder->kv[i].window == window && builder->kv[i].state_width == 0)
            return i;
    return halo_builder_kv_group_apart(builder, window);
}

uint32_t halo_builder_kv_group_apart(struct halo_builder *builder, uint32_t window)
{
    assert(builder->n_kv_groups < HALO_KV_GROUPS_MAX);
    builder->kv[builder->n_kv_groups].window = window;
    return builder->n_kv_groups++;
}

void halo_builder_state(struct halo_builder *builder, uint64_t width)
{
    uint32_t group = 0;

    while (group < builder->n_kv_groups && builder->kv[group].state_width == 0)
        group++;
    assert(group < HALO_KV_GROUPS_MAX && width > 0 && width <= HALO_MODEL_MAX_WIDTH);
    assert(group == builder->n_kv_groups || builder->kv[group].state_width == width);
    builder->n_kv_groups += group == builder->n_kv_groups;
    builder->kv[group].state_width = (uint32_t)width;
    builder->state = (struct halo_state_part){.kv_group = group, .kv_layer = builder->kv[group].n_layers++};
}

struct halo_state_part halo_builder_state_take(struct halo_builder *builder, uint64_t n)
{
    struct halo_state_part part = builder->state;
    assert(builder->error || part.offset + n <= builder->kv[part.kv_group].state_width);
    builder->state.offset += (uint32_t)n;
    return part;
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

const int32_t *halo_builder_table(struct halo_builder *builder, enum halo_tensor_id id)
{
    uint32_t layer = builder->layer == HALO_NONE ? 0 : builder->layer;
    const struct halo_gguf_tensor *tensor = halo_binding_find(builder->binding, id, layer);
    if (!tensor || builder->error)
        return NULL;
    size_t n = tensor->n_bytes / sizeof(int32_t);
    int32_t *table = halo_arena_alloc(builder->arena, n, sizeof(*table));
    if (!table)
        return (void)halo_builder_no_memory(builder), NULL;
    builder->error = halo_binding_read_table(builder->binding, tensor, table, n, builder->fault);
    return builder->error ? NULL : table;
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
