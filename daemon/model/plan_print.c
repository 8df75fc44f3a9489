/* plan_print.c: a plan as text, one op a line. Pure; any thread. What golden plan texts and the `plan` request show. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <model/model.h>

/* Counts like snprintf: goes on counting when the buffer is full. */
struct printer {
    char *at;
    size_t left;
    uint64_t n;
    const struct halo_plan *plan;
};

__attribute__((format(printf, 2, 3))) static void put(struct printer *printer, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(printer->at, printer->left, format, args);
    va_end(args);
    if (n < 0)
        return;
    printer->n += (uint64_t)n;
    if ((size_t)n < printer->left) {
        printer->at += n;
        printer->left -= (size_t)n;
    } else if (printer->left) { /* the end of the text stays NUL-terminated */
        printer->at += printer->left - 1;
        printer->left = 1;
    }
}

static const char *value_name(const struct printer *printer, uint16_t value)
{
    return value < printer->plan->n_values ? printer->plan->values[value].name : "?";
}

static void put_weight(struct printer *printer, uint32_t index)
{
    const struct halo_weight *weight;

    if (index >= printer->plan->n_weights) {
        put(printer, "?");
        return;
    }
    weight = &printer->plan->weights[index];
    put(printer, "%s %s", weight->name, halo_type_info(weight->type).name);
    if (weight->role == HALO_WEIGHT_VECTOR && weight->n_rows == 1)
        put(printer, "[%" PRIu32 "]", weight->n_cols);
    else if (weight->role != HALO_WEIGHT_EXPERTS)
        put(printer, "[%" PRIu32 ", %" PRIu32 "]", weight->n_cols, weight->n_rows);
    else
        put(printer, "[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", weight->n_cols, weight->n_rows, weight->n_experts);
    for (uint32_t i = 0; weight->scales && i < weight->n_experts; i++)
        put(printer, "%s%.9g%s", i ? " " : " * [", (double)weight->scales[i], i + 1 < weight->n_experts ? "" : "]");
}

static void put_weight_or_none(struct printer *printer, uint32_t index)
{
    if (index == HALO_WEIGHT_NONE)
        put(printer, "no weight");
    else
        put_weight(printer, index);
}

static void put_matmul(struct printer *printer, const struct halo_op_matmul *op)
{
    put(printer, "matmul %s ->", value_name(printer, op->x));
    for (uint16_t i = 0; i < op->n; i++) {
        put(printer, "%s %s = ", i ? "," : "", value_name(printer, op->out[i]));
        put_weight(printer, op->weight[i]);
        if (op->bias[i] != HALO_WEIGHT_NONE) {
            put(printer, " + ");
            put_weight(printer, op->bias[i]);
        }
    }
}

static void put_moe_matmul(struct printer *printer, const struct halo_op_moe_matmul *op)
{
    put(printer, "moe_matmul %s%s by %s, %" PRIu32 " slots ->", value_name(printer, op->x),
        op->per_slot ? " (one for each slot)" : "",
        op->choice == HALO_NONE ? "their order" : value_name(printer, op->choice), op->n_used);
    for (uint16_t i = 0; i < op->n; i++) {
        put(printer, "%s %s = ", i ? "," : "", value_name(printer, op->out[i]));
        put_weight(printer, op->weight[i]);
        if (op->bias[i] != HALO_WEIGHT_NONE) {
            put(printer, " + ");
            put_weight(printer, op->bias[i]);
        }
    }
}

static void put_rmsnorm(struct printer *printer, const struct halo_op_rmsnorm *op)
{
    put(printer, "%s %s", op->centre ? "layernorm" : "rmsnorm", value_name(printer, op->x));
    if (op->add != HALO_NONE)
        put(printer, " += %s", value_name(printer, op->add));
    if (op->add != HALO_NONE && op->add_scale != 1)
        put(printer, " * %g", (double)op->add_scale);
    if (op->x_scale != 0)
        put(printer, ", *= %.9g", (double)op->x_scale);
    put(printer, " -> %s, eps %g, ", value_name(printer, op->out), (double)op->eps);
    put_weight_or_none(printer, op->weight);
    if (op->bias != HALO_WEIGHT_NONE) {
        put(printer, " + ");
        put_weight(printer, op->bias);
    }
}

static void put_attend(struct printer *printer, const struct halo_op_attend *op)
{
    put(printer, "attend %s, cache %" PRIu32 ".%" PRIu32 " -> %s, %" PRIu32 " heads, scale %.9g",
        value_name(printer, op->q), op->kv_group, op->kv_layer, value_name(printer, op->out), op->n_head,
        (double)op->scale);
    if (op->window > 0)
        put(printer, ", window %" PRIu32, op->window);
    if (op->cap > 0)
        put(printer, ", cap %.9g", (double)op->cap);
    if (op->temperature > 0)
        put(printer, ", temperature %.9g every %" PRIu32, (double)op->temperature, op->temperature_period);
    if (op->sinks != HALO_WEIGHT_NONE) {
        put(printer, ", sinks ");
        put_weight(printer, op->sinks);
    }
}

static void put_glu(struct printer *printer, const struct halo_op_glu *op)
{
    static const char *const acts[HALO_GLU_ACTS] = {
        [HALO_GLU_SILU] = "silu",       [HALO_GLU_GELU] = "gelu",     [HALO_GLU_RELU2] = "relu2",
        [HALO_GLU_CLAMPED] = "clamped", [HALO_GLU_LINEAR] = "linear", [HALO_GLU_SIGMOID] = "sigmoid"};
    put(printer, "glu %s(%s)", op->act < HALO_GLU_ACTS ? acts[op->act] : "?", value_name(printer, op->gate));
    if (op->up != HALO_NONE)
        put(printer, " * %s", value_name(printer, op->up));
    if (op->limit > 0)
        put(printer, ", limit %.9g", (double)op->limit);
    put(printer, " -> %s", value_name(printer, op->out));
}

static void put_logits(struct printer *printer, const struct halo_op_logits *op)
{
    put(printer, "logits %s, ", value_name(printer, op->x));
    put_weight(printer, op->weight);
    if (op->bias != HALO_WEIGHT_NONE) {
        put(printer, " + ");
        put_weight(printer, op->bias);
    }
    if (op->scale != 1)
        put(printer, ", scale %.9g", (double)op->scale);
    if (op->cap > 0)
        put(printer, ", cap %.9g", (double)op->cap);
}

static void put_heads(struct printer *printer, uint16_t q, uint16_t k, uint32_t n_head, uint32_t n_head_kv,
                      uint32_t head_dim)
{
    put(printer, "%s (%" PRIu32 " x %" PRIu32 ")", value_name(printer, q), n_head, head_dim);
    if (k != HALO_NONE)
        put(printer, ", %s (%" PRIu32 " x %" PRIu32 ")", value_name(printer, k), n_head_kv, head_dim);
}

static void put_qk_norm(struct printer *printer, const struct halo_op_qk_norm *op)
{
    put(printer, "qk_norm ");
    put_heads(printer, op->q, op->k, op->n_head, op->n_head_kv, op->head_dim);
    put(printer, ", eps %g, ", (double)op->eps);
    put_weight_or_none(printer, op->q_weight);
    if (op->k == HALO_NONE)
        return;
    put(printer, ", ");
    put_weight_or_none(printer, op->k_weight);
}

static void put_rope(struct printer *printer, const struct halo_op_rope *op)
{
    put(printer, "rope ");
    put_heads(printer, op->q, op->k, op->n_head, op->n_head_kv, op->head_dim);
    put(printer, " by rope %" PRIu32, op->rope);
}

static void put_moe_route(struct printer *printer, const struct halo_op_moe_route *op)
{
    static const char *const gates[] = {
        [HALO_MOE_SOFTMAX] = "", [HALO_MOE_SIGMOID] = "sigmoid ", [HALO_MOE_SQRT_SOFTPLUS] = "sqrt_softplus "};

    put(printer, "moe_route %s%s -> %s, %" PRIu32 " of %" PRIu32, gates[op->gate], value_name(printer, op->logits),
        value_name(printer, op->choice), op->n_used, op->n_expert);
    if (op->n_groups > 1)
        put(printer, " in %" PRIu32 " of %" PRIu32 " groups", op->n_groups_used, op->n_groups);
    if (op->bias != HALO_WEIGHT_NONE) {
        put(printer, " by ");
        put_weight(printer, op->bias);
    }
    put(printer, "%s%s, scale %g", op->table ? " by token" : "", op->normalise ? ", normalised" : "",
        (double)op->scale);
}

static void put_moe_sum(struct printer *printer, const struct halo_op_moe_sum *op)
{
    put(printer, "moe_sum %s by %s, %" PRIu32 " slots", value_name(printer, op->x), value_name(printer, op->choice),
        op->n_used);
    if (op->add != HALO_NONE)
        put(printer, " + %s", value_name(printer, op->add));
    if (op->add_gate != HALO_NONE)
        put(printer, " * sigmoid(%s)", value_name(printer, op->add_gate));
    put(printer, " -> %s", value_name(printer, op->out));
}

static void put_concat(struct printer *printer, const struct halo_op_concat *op)
{
    put(printer, "concat %" PRIu32 " x (%s [%" PRIu32 ", +%" PRIu32 "]", op->n_head, value_name(printer, op->a),
        op->a_first, op->n_a);
    if (op->b != HALO_NONE)
        put(printer, ", %s%s [+%" PRIu32 "]", value_name(printer, op->b), op->b_shared ? " of all" : "", op->n_b);
    put(printer, ") -> %s", value_name(printer, op->out));
}

static void put_state(struct printer *printer, const struct halo_state_part *state)
{
    put(printer, ", state %" PRIu32 ".%" PRIu32 " + %" PRIu32, state->kv_group, state->kv_layer, state->offset);
}

static void put_conv1d(struct printer *printer, const struct halo_op_conv1d *op)
{
    put(printer, "conv1d%s %s -> %s, ", op->silu ? " silu" : "", value_name(printer, op->x),
        value_name(printer, op->out));
    put_weight(printer, op->weight);
    if (op->bias != HALO_WEIGHT_NONE) {
        put(printer, " + ");
        put_weight(printer, op->bias);
    }
    put_state(printer, &op->state);
}

static void put_delta_rule(struct printer *printer, const struct halo_op_delta_rule *op)
{
    put(printer, "delta_rule %s, alpha %s[%" PRIu32 "], beta %s[%" PRIu32 "] of %" PRIu32 " -> %s",
        value_name(printer, op->qkv), value_name(printer, op->alpha), op->alpha_first, value_name(printer, op->beta),
        op->beta_first, op->gate_stride, value_name(printer, op->out));
    put(printer, ", v %" PRIu32 " x %" PRIu32 ", q and k %" PRIu32 " x %" PRIu32 "%s", op->n_head_v, op->dim_v,
        op->n_head_k, op->dim_k, op->grouped ? " grouped" : "");
    put(printer, ", eps %g, scale %.9g, ", (double)op->eps, (double)op->scale);
    put_weight(printer, op->a);
    put(printer, ", ");
    put_weight(printer, op->dt_bias);
    put_state(printer, &op->state);
}

static void put_streams_mix(struct printer *printer, const struct halo_op_streams_mix *op)
{
    put(printer, "streams_mix %" PRIu32 " of %s by %s -> %s", op->n, value_name(printer, op->x),
        value_name(printer, op->mix), value_name(printer, op->out));
    if (op->back != HALO_NONE)
        put(printer, ", %s in %" PRIu32 " iterations", value_name(printer, op->back), op->iterations);
    put(printer, ", eps %g, ", (double)op->eps);
    put_weight(printer, op->scale);
    put(printer, ", ");
    put_weight(printer, op->base);
}

static void put_compress(struct printer *printer, const struct halo_op_compress *op)
{
    put(printer, "compress %s by %s -> cache %" PRIu32 ".%" PRIu32 ", blocks of %" PRIu32 "%s, rope %" PRIu32,
        value_name(printer, op->u), value_name(printer, op->z), op->kv_group, op->kv_layer, op->ratio,
        op->overlap ? " that overlap" : "", op->rope);
    put(printer, ", eps %g, ", (double)op->eps);
    put_weight(printer, op->bias);
    put(printer, ", ");
    put_weight(printer, op->norm);
    put_state(printer, &op->state);
}

static void put_attend_blocks(struct printer *printer, const struct halo_op_attend_blocks *op)
{
    put(printer,
        "attend_blocks %s, cache %" PRIu32 ".%" PRIu32 " and %s of %" PRIu32 ".%" PRIu32 " -> %s, %" PRIu32
        " heads, scale %.9g, blocks of %" PRIu32,
        value_name(printer, op->q), op->kv_group, op->kv_layer,
        op->chosen == HALO_NONE ? "all" : value_name(printer, op->chosen), op->block_group, op->block_layer,
        value_name(printer, op->out), op->n_head, (double)op->scale, op->ratio);
    if (op->window > 0)
        put(printer, ", window %" PRIu32, op->window);
    if (op->sinks != HALO_WEIGHT_NONE) {
        put(printer, ", sinks ");
        put_weight(printer, op->sinks);
    }
}

/* The ops of residual streams and of compressed blocks. */
static void put_streams_and_blocks(struct printer *p, const struct halo_op *op)
{
    switch (op->kind) {
    case HALO_OP_STREAMS_MIX: put_streams_mix(p, &op->u.streams_mix); return;
    case HALO_OP_STREAMS_ADD:
        put(p, "streams_add %" PRIu32 " of %s += %s by %s", op->u.streams_add.n, value_name(p, op->u.streams_add.x),
            value_name(p, op->u.streams_add.add), value_name(p, op->u.streams_add.back));
        return;
    case HALO_OP_COMPRESS: put_compress(p, &op->u.compress); return;
    case HALO_OP_BLOCKS_CHOOSE:
        put(p,
            "blocks_choose %s by %s, cache %" PRIu32 ".%" PRIu32 " -> %s, best %" PRIu32 " blocks of %" PRIu32
            ", %" PRIu32 " heads, scale %.9g",
            value_name(p, op->u.blocks_choose.q), value_name(p, op->u.blocks_choose.weight),
            op->u.blocks_choose.kv_group, op->u.blocks_choose.kv_layer, value_name(p, op->u.blocks_choose.out),
            op->u.blocks_choose.top_k, op->u.blocks_choose.ratio, op->u.blocks_choose.n_head,
            (double)op->u.blocks_choose.scale);
        return;
    case HALO_OP_ATTEND_BLOCKS: put_attend_blocks(p, &op->u.attend_blocks); return;
    default: put(p, "? %d", (int)op->kind); return;
    }
}

static void put_ssm_scan(struct printer *printer, const struct halo_op_ssm_scan *op)
{
    put(printer, "ssm_scan %s, dt %s -> %s, %" PRIu32 " x %" PRIu32 ", B and C %" PRIu32 " x %" PRIu32 ", ",
        value_name(printer, op->xbc), value_name(printer, op->dt), value_name(printer, op->out), op->n_head,
        op->head_dim, op->n_group, op->n_state);
    put_weight(printer, op->a);
    put(printer, ", ");
    put_weight(printer, op->d);
    put(printer, ", ");
    put_weight(printer, op->dt_bias);
    put_state(printer, &op->state);
}

static void put_op(struct printer *p, const struct halo_op *op)
{
    switch (op->kind) {
    case HALO_OP_EMBED:
        put(p, "embed -> %s, scale %g, ", value_name(p, op->u.embed.out), (double)op->u.embed.scale);
        put_weight(p, op->u.embed.weight);
        return;
    case HALO_OP_RMSNORM: put_rmsnorm(p, &op->u.rmsnorm); return;
    case HALO_OP_MATMUL: put_matmul(p, &op->u.matmul); return;
    case HALO_OP_QK_NORM: put_qk_norm(p, &op->u.qk_norm); return;
    case HALO_OP_ROPE: put_rope(p, &op->u.rope); return;
    case HALO_OP_KV_WRITE:
        put(p, "kv_write %s%s%s -> cache %" PRIu32 ".%" PRIu32, value_name(p, op->u.kv_write.k),
            op->u.kv_write.v == HALO_NONE ? "" : ", ",
            op->u.kv_write.v == HALO_NONE ? "" : value_name(p, op->u.kv_write.v), op->u.kv_write.kv_group,
            op->u.kv_write.kv_layer);
        return;
    case HALO_OP_ATTEND: put_attend(p, &op->u.attend); return;
    case HALO_OP_GLU: put_glu(p, &op->u.glu); return;
    case HALO_OP_MOE_ROUTE: put_moe_route(p, &op->u.moe_route); return;
    case HALO_OP_MOE_MATMUL: put_moe_matmul(p, &op->u.moe_matmul); return;
    case HALO_OP_MOE_SUM: put_moe_sum(p, &op->u.moe_sum); return;
    case HALO_OP_ADD: put(p, "add %s += %s", value_name(p, op->u.add.x), value_name(p, op->u.add.add)); return;
    case HALO_OP_LOGITS: put_logits(p, &op->u.logits); return;
    case HALO_OP_CONCAT: put_concat(p, &op->u.concat); return;
    case HALO_OP_CONV1D: put_conv1d(p, &op->u.conv1d); return;
    case HALO_OP_DELTA_RULE: put_delta_rule(p, &op->u.delta_rule); return;
    case HALO_OP_STREAMS_MIX:
    case HALO_OP_STREAMS_ADD:
    case HALO_OP_COMPRESS:
    case HALO_OP_BLOCKS_CHOOSE:
    case HALO_OP_ATTEND_BLOCKS: put_streams_and_blocks(p, op); return;
    case HALO_OP_SSM_SCAN: put_ssm_scan(p, &op->u.ssm_scan); return;
    case HALO_OP_COUNT: break;
    }
    put(p, "? %d", (int)op->kind);
}

static void put_head(struct printer *p, const struct halo_plan *plan)
{
    static const char *const kv_names[] = {
        [HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8", [HALO_KV_Q4] = "q4"};

    put(p,
        "plan: %" PRIu32 " ops, %" PRIu32 " weights, vocabulary %" PRIu32 ", context %" PRIu32 ", rows %" PRIu32
        ", outputs %" PRIu32 "\n",
        plan->n_ops, plan->n_weights, plan->n_vocab, plan->n_context, plan->max_rows, plan->max_outputs);
    for (uint32_t i = 0; i < plan->n_kv_groups; i++) {
        const struct halo_kv_group *kv = &plan->kv[i];
        if (kv->state_width > 0) {
            put(p, "cache %" PRIu32 ": %" PRIu32 " layers x %" PRIu32 " f32 of state, %" PRIu32 " slots\n", i,
                kv->n_layers, kv->state_width, kv->n_pages);
            continue;
        }
        put(p,
            "cache %" PRIu32 ": %s, %" PRIu32 " layers x %" PRIu32 " heads x (%" PRIu32 " %s %" PRIu32 "), %" PRIu32
            " pages of %d",
            i, kv_names[kv->type], kv->n_layers, kv->n_head_kv, kv->head_dim_k, kv->latent ? "with" : "+",
            kv->head_dim_v, kv->n_pages, HALO_KV_PAGE_TOKENS);
        if (kv->window > 0)
            put(p, ", window %" PRIu32, kv->window);
        if (kv->stride > 1)
            put(p, ", a row for %" PRIu32, kv->stride);
        put(p, "\n");
    }
    put(p, "values:");
    for (uint32_t i = 0; i < plan->n_values; i++)
        put(p, " %s[%" PRIu32 "]", plan->values[i].name, plan->values[i].width);
    put(p, "\n");
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        const struct halo_rope *rope = &plan->ropes[i];
        put(p, "rope %" PRIu32 ": %s pairs, %" PRIu32 " rotated, scale %.9g, freqs", i,
            rope->pairing == HALO_ROPE_NORM ? "adjacent" : "half-split", rope->n_rot, (double)rope->scale);
        for (uint32_t k = 0; k < rope->n_rot / 2; k++)
            put(p, " %.9g", rope->freqs[k]);
        put(p, "\n");
    }
}

int halo_plan_print(const struct halo_plan *plan, char *buffer, size_t n)
{
    struct printer printer = {.at = buffer, .left = n, .plan = plan};

    put_head(&printer, plan);
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        put(&printer, "%4" PRIu32 " ", i);
        if (plan->ops[i].layer == HALO_NONE)
            put(&printer, "     ");
        else
            put(&printer, "L%-3u ", (unsigned)plan->ops[i].layer);
        put_op(&printer, &plan->ops[i]);
        put(&printer, "\n");
    }
    return printer.n > INT32_MAX ? INT32_MAX : (int)printer.n;
}
