/* op_heads.c: launches of what lies between the products of q, k and v and attention (contract in compile_priv.h). */
#include "compile_priv.h"

/* A wave to a head, of `n` heads of a row. */
static struct halo_hip_amount head_blocks(uint32_t n)
{
    return halo_hip_fixed(HALO_HIP_CEIL(n, HALO_HEAD_WAVES));
}

int halo_hip_emit_qk_norm(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_qk_norm *u = &op->u.qk_norm;
    bool is_own = u->q_weight != HALO_WEIGHT_NONE && c->plan->weights[u->q_weight].n_rows > 1;
    struct halo_qk_norm_args args = {.q = halo_hip_value(c->model, u->q),
                                     .k = halo_hip_value(c->model, u->k),
                                     .q_weight = halo_hip_vector(c->model, u->q_weight),
                                     .k_weight = halo_hip_vector(c->model, u->k_weight),
                                     .n_head = u->n_head,
                                     .n_head_kv = u->n_head_kv,
                                     .head_dim = u->head_dim,
                                     .eps = u->eps,
                                     .q_step = is_own ? u->head_dim : 0};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_QK_NORM,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .grid = {head_blocks(u->n_head + u->n_head_kv), halo_hip_per_row(1)},
                                       HALO_HIP_ARGS(args)});
}

int halo_hip_emit_rope(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_rope *u = &op->u.rope;
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    struct halo_rope_args args = {.q = halo_hip_value(c->model, u->q),
                                  .k = halo_hip_value(c->model, u->k),
                                  .n_head = u->n_head,
                                  .n_head_kv = u->n_head_kv,
                                  .head_dim = u->head_dim,
                                  .n_rot = rope->n_rot};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = rope->pairing == HALO_ROPE_NEOX ? HALO_HIP_ROPE_NEOX : HALO_HIP_ROPE_NORM,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .grid = {head_blocks(u->n_head + u->n_head_kv), halo_hip_per_row(1)},
                                       HALO_HIP_ARGS(args),
                                       HALO_HIP_PATCHES(HALO_HIP_ROPE_INPUT(struct halo_rope_args, table, u->rope))});
}

int halo_hip_emit_heads(struct halo_hip_compiler *c, const struct halo_hip_heads *heads)
{
    const struct halo_hip_heads *g = heads;
    const struct halo_kv_group *kv = &c->plan->kv[g->write->kv_group];
    const struct halo_rope *rope = &c->plan->ropes[g->rope->rope];
    struct halo_heads_args args = {.kv = halo_hip_kv_arg(c, g->write->kv_group, g->write->kv_layer),
                                   .q = halo_hip_value(c->model, g->rope->q),
                                   .k = halo_hip_value(c->model, g->rope->k),
                                   .v = halo_hip_value(c->model, g->write->v),
                                   .q_weight = g->norm ? halo_hip_vector(c->model, g->norm->q_weight) : NULL,
                                   .k_weight = g->norm ? halo_hip_vector(c->model, g->norm->k_weight) : NULL,
                                   .n_head = g->rope->n_head,
                                   .n_rot = rope->n_rot,
                                   .neox = rope->pairing == HALO_ROPE_NEOX,
                                   .eps = g->norm ? g->norm->eps : 0};
    if (g->attend)
        return halo_hip_emit_attend_heads(c, g->attend, &args, g->rope->rope);
    return halo_hip_emit(c, &(struct halo_hip_emission){
                                .op = HALO_HIP_HEADS,
                                .type = HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type,
                                .grid = {head_blocks(g->rope->n_head + 2 * kv->n_head_kv), halo_hip_per_row(1)},
                                HALO_HIP_ARGS(args),
                                HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_heads_args, 0, g->write->kv_group),
                                                 HALO_HIP_ROPE_INPUT(struct halo_heads_args, table, g->rope->rope))});
}

int halo_hip_emit_latent_heads(struct halo_hip_compiler *c, const struct halo_hip_latent *latent)
{
    const struct halo_hip_latent *l = latent;
    const struct halo_kv_group *kv = &c->plan->kv[l->write->kv_group];
    const struct halo_rope *rope = &c->plan->ropes[l->rope->rope];
    bool quantized = halo_hip_quantized(c->plan->weights[l->down->weight[0]].type);
    struct halo_latent_heads_args args = {.kv = halo_hip_kv_arg(c, l->write->kv_group, l->write->kv_layer),
                                          .q_up = halo_hip_value(c->model, l->low->a),
                                          .c = halo_hip_value(c->model, l->norm->x),
                                          .k_rot = halo_hip_value(c->model, l->rope->k),
                                          .weight = halo_hip_vector(c->model, l->norm->weight),
                                          .q = halo_hip_value(c->model, l->q->out),
                                          .q_low = quantized ? NULL : halo_hip_value(c->model, l->low->out),
                                          .act =
                                              quantized ? halo_hip_forms_take_act(c, l->low->out, l->low->n_a) : NULL,
                                          .n_head = l->rope->n_head,
                                          .n_low = l->low->n_a,
                                          .n_rot = l->rot->n_a,
                                          .n_table = rope->n_rot,
                                          .neox = rope->pairing == HALO_ROPE_NEOX,
                                          .eps = l->norm->eps};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_LATENT_HEADS,
               .type = HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type,
               .grid = {head_blocks(1 + l->rope->n_head), halo_hip_per_row(1)},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_latent_heads_args, 0, l->write->kv_group),
                                HALO_HIP_ROPE_INPUT(struct halo_latent_heads_args, table, l->rope->rope))});
}
