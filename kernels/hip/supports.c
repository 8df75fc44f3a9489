/* supports.c: whether an op of a plan can run here: that its parts fit each other, and that every kernel it may need is
 * in the code object and takes its types and shapes.
 *
 * Pure; any thread. The model's creation asks for every op, so the op functions check nothing again. -ENOTSUP with the
 * reason, which begins with the name of the op.
 */
#include <errno.h>

#include "pack_priv.h"
#include "run_priv.h"

struct check {
    const struct halo_device *device;
    const struct halo_plan *plan;
    const char *op;
    char *reason;
};

static int refuse(const struct check *c, const char *what, uint32_t have, uint32_t want)
{
    return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s is %u, wanted %u", c->op, what, have, want);
}

/* A value of at least one row that is `width` wide (0: any). */
static int check_value(const struct check *c, const char *what, uint16_t value, uint32_t width)
{
    if (value >= c->plan->n_values)
        return refuse(c, what, value, c->plan->n_values);
    uint32_t have = c->plan->values[value].width;
    return width != 0 && have != width ? refuse(c, what, have, width) : 0;
}

static uint32_t width_of(const struct check *c, uint16_t value)
{
    return value < c->plan->n_values ? c->plan->values[value].width : 0;
}

static int check_weight(const struct check *c, uint32_t weight, enum halo_weight_role role, uint32_t n_cols)
{
    if (weight >= c->plan->n_weights)
        return refuse(c, "weight", weight, c->plan->n_weights);
    const struct halo_weight *w = &c->plan->weights[weight];
    const struct halo_type_info type = halo_type_info(w->type);
    if (!type.name)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s has type %d, which has no kernels", c->op, w->name,
                               (int)w->type);
    uint64_t n = (uint64_t)w->n_cols * w->n_rows * w->n_experts;
    bool fits = role == HALO_WEIGHT_VECTOR
                    ? n > 0 && halo_hip_plain_bytes(w->type) > 0
                    : halo_hip_pack_fits(w->type, w->n_cols) &&
                          halo_hip_row_layout(w->type, w->n_cols).stride <= HALO_HIP_STAGING_BYTES;
    if (!fits || w->n_rows == 0 || w->n_experts == 0 ||
        w->n_bytes != halo_type_row_bytes(w->type, w->n_cols) * w->n_rows * w->n_experts)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s of type %s has no kernel for rows of %u", c->op, w->name,
                               type.name, w->n_cols);
    if (w->role != role)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s is used as another kind of weight than it was declared",
                               c->op, w->name);
    if (w->n_cols != n_cols)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s has rows of %u, its input has %u", c->op, w->name,
                               w->n_cols, n_cols);
    return 0;
}

/* That the code object has the kernel for every number of rows up to `most`. */
static int check_kernel(const struct check *c, uint32_t op, uint32_t type, uint32_t most)
{
    for (uint32_t rows = 1; rows <= most; rows++) {
        const struct halo_hip_variant *v = halo_hip_variant_find(op, type, rows);
        if (halo_hip_kernel_find(c->device, op, type, rows) < 0)
            return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s has no kernel%s%s for %u row%s of type %u", c->op,
                                   c->device->kernels_path, v ? " " : "", v ? v->kernel : "", rows,
                                   rows == 1 ? "" : "s", type);
        rows = v->max_rows ? v->max_rows : most;
    }
    return 0;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int error_ = (call);                                                                                           \
        if (error_)                                                                                                    \
            return error_;                                                                                             \
    } while (0)

static int check_embed(const struct check *c, const struct halo_op_embed *u)
{
    TRY(check_value(c, "out", u->out, 0));
    TRY(check_weight(c, u->weight, HALO_WEIGHT_MATRIX, width_of(c, u->out)));
    const struct halo_weight *w = &c->plan->weights[u->weight];
    if (w->n_rows < c->plan->n_vocab)
        return refuse(c, "rows of the table", w->n_rows, c->plan->n_vocab);
    return check_kernel(c, HALO_HIP_EMBED, w->type, 1);
}

static int check_rmsnorm(const struct check *c, const struct halo_op_rmsnorm *u)
{
    TRY(check_value(c, "x", u->x, 0));
    TRY(check_value(c, "out", u->out, width_of(c, u->x)));
    if (u->add != HALO_NONE)
        TRY(check_value(c, "add", u->add, width_of(c, u->x)));
    TRY(check_weight(c, u->weight, HALO_WEIGHT_VECTOR, width_of(c, u->x)));
    return check_kernel(c, HALO_HIP_RMSNORM, HALO_HIP_TYPE_ANY, 1);
}

/* A product of up to eight rows; more rows fall back to these kernels where there is no GEMM. */
static int check_product(const struct check *c, uint32_t type)
{
    if (halo_hip_quantized(type))
        TRY(check_kernel(c, HALO_HIP_QUANTIZE, HALO_HIP_TYPE_ANY, 1));
    return check_kernel(c, HALO_HIP_GEMV, type, HALO_HIP_GEMV_ROWS_MAX);
}

static int check_matmul(const struct check *c, const struct halo_op_matmul *u)
{
    TRY(check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > HALO_MATMUL_MAX)
        return refuse(c, "weights", u->n, HALO_MATMUL_MAX);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(check_weight(c, u->weight[k], HALO_WEIGHT_MATRIX, width_of(c, u->x)));
        uint32_t n_rows = c->plan->weights[u->weight[k]].n_rows;
        TRY(check_value(c, "out", u->out[k], n_rows));
        if (u->out[k] == u->x)
            return refuse(c, "out, which must differ from x,", u->out[k], u->x);
        if (u->bias[k] != HALO_WEIGHT_NONE)
            TRY(check_weight(c, u->bias[k], HALO_WEIGHT_VECTOR, n_rows));
        TRY(check_product(c, c->plan->weights[u->weight[k]].type));
    }
    return 0;
}

static int check_heads(const struct check *c, uint16_t q, uint16_t k, uint32_t n_head, uint32_t n_head_kv,
                       uint32_t head_dim)
{
    TRY(check_value(c, "q", q, n_head * head_dim));
    TRY(check_value(c, "k", k, n_head_kv * head_dim));
    return n_head == 0 || n_head_kv == 0 || head_dim == 0 ? refuse(c, "heads", 0, 1) : 0;
}

static int check_qk_norm(const struct check *c, const struct halo_op_qk_norm *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    TRY(check_weight(c, u->q_weight, HALO_WEIGHT_VECTOR, u->head_dim));
    TRY(check_weight(c, u->k_weight, HALO_WEIGHT_VECTOR, u->head_dim));
    return check_kernel(c, HALO_HIP_QK_NORM, HALO_HIP_TYPE_ANY, 1);
}

static int check_rope(const struct check *c, const struct halo_op_rope *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    if (u->rope >= c->plan->n_ropes)
        return refuse(c, "rope", u->rope, c->plan->n_ropes);
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    if (rope->n_rot % 2 != 0 || rope->n_rot > u->head_dim)
        return refuse(c, "rotated elements", rope->n_rot, u->head_dim);
    if (u->rope >= HALO_HIP_ROPES_MAX)
        return refuse(c, "rope", u->rope, HALO_HIP_ROPES_MAX);
    if (rope->pairing != HALO_ROPE_NEOX && rope->pairing != HALO_ROPE_NORM)
        return refuse(c, "pairing", rope->pairing, 0);
    return check_kernel(c, rope->pairing == HALO_ROPE_NEOX ? HALO_HIP_ROPE_NEOX : HALO_HIP_ROPE_NORM, HALO_HIP_TYPE_ANY,
                        1);
}

#define HEAD_DIM_MAX 256

static int check_cache(const struct check *c)
{
    static const uint32_t multiples[] = {[HALO_KV_F32] = 4, [HALO_KV_F16] = 8, [HALO_KV_Q8] = 32};
    const struct halo_kv_shape *kv = &c->plan->kv;
    if ((uint32_t)kv->type > HALO_KV_Q8)
        return refuse(c, "type of the cache", kv->type, HALO_KV_F16);
    uint32_t multiple = multiples[kv->type], k = kv->head_dim_k, v = kv->head_dim_v;
    if (k == 0 || v == 0 || k % multiple != 0 || v % multiple != 0 || k > HEAD_DIM_MAX || v > HEAD_DIM_MAX)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: heads of %u and %u, wanted multiples of %u up to %u", c->op, k,
                               v, multiple, HEAD_DIM_MAX);
    return 0;
}

static int check_kv_write(const struct check *c, const struct halo_op_kv_write *u)
{
    const struct halo_kv_shape *kv = &c->plan->kv;
    if (u->kv_layer >= kv->n_layers)
        return refuse(c, "layer of the cache", u->kv_layer, kv->n_layers);
    TRY(check_cache(c));
    TRY(check_value(c, "k", u->k, kv->n_head_kv * kv->head_dim_k));
    TRY(check_value(c, "v", u->v, kv->n_head_kv * kv->head_dim_v));
    return check_kernel(c, HALO_HIP_KV_WRITE, HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type, 1);
}

static int check_attend(const struct check *c, const struct halo_op_attend *u)
{
    const struct halo_kv_shape *kv = &c->plan->kv;
    if (u->kv_layer >= kv->n_layers)
        return refuse(c, "layer of the cache", u->kv_layer, kv->n_layers);
    TRY(check_cache(c));
    if (kv->n_head_kv == 0 || kv->head_dim_v == 0 || u->n_head == 0 || u->n_head % kv->n_head_kv != 0)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %u heads over %u kv heads", c->op, u->n_head, kv->n_head_kv);
    TRY(check_value(c, "q", u->q, u->n_head * kv->head_dim_k));
    TRY(check_value(c, "out", u->out, u->n_head * kv->head_dim_v));
    bool small = kv->head_dim_k <= 128 && kv->head_dim_v <= 128;
    uint32_t op = small ? HALO_HIP_ATTEND_D128 : HALO_HIP_ATTEND_D256, type = HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type;
    if (halo_hip_kernel_find(c->device, op, type, u->n_head / kv->n_head_kv) < 0)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %s has no kernel for %u heads to a kv head of %u", c->op,
                               c->device->kernels_path, u->n_head / kv->n_head_kv, kv->head_dim_k);
    return 0;
}

static int check_glu(const struct check *c, const struct halo_op_glu *u)
{
    TRY(check_value(c, "gate", u->gate, 0));
    TRY(check_value(c, "up", u->up, width_of(c, u->gate)));
    TRY(check_value(c, "out", u->out, width_of(c, u->gate)));
    return u->act != HALO_GLU_SILU ? refuse(c, "activation", u->act, HALO_GLU_SILU)
                                   : check_kernel(c, HALO_HIP_GLU_SILU, HALO_HIP_TYPE_ANY, 1);
}

static int check_choice(const struct check *c, uint16_t choice, uint32_t n_used, uint32_t n_expert)
{
    if (n_used == 0 || n_used > n_expert || n_expert > HALO_MOE_EXPERTS_MAX)
        return halo_hip_reason(c->reason, -ENOTSUP, "%s: %u of %u experts (at most %u)", c->op, n_used, n_expert,
                               HALO_MOE_EXPERTS_MAX);
    return check_value(c, "choice", choice, 2 * n_used);
}

static int check_moe_route(const struct check *c, const struct halo_op_moe_route *u)
{
    TRY(check_value(c, "logits", u->logits, u->n_expert));
    TRY(check_choice(c, u->choice, u->n_used, u->n_expert));
    return check_kernel(c, HALO_HIP_MOE_ROUTE, HALO_HIP_TYPE_ANY, 1);
}

static int check_moe_matmul(const struct check *c, const struct halo_op_moe_matmul *u)
{
    TRY(check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > 2)
        return refuse(c, "weights", u->n, 2);
    if (u->n_used == 0 || (u->per_slot && width_of(c, u->x) % u->n_used != 0))
        return refuse(c, "slots", u->n_used, 1);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(check_weight(c, u->weight[k], HALO_WEIGHT_EXPERTS, width_of(c, u->x) / (u->per_slot ? u->n_used : 1)));
        const struct halo_weight *w = &c->plan->weights[u->weight[k]];
        if (w->n_experts != c->plan->weights[u->weight[0]].n_experts)
            return refuse(c, "experts", w->n_experts, c->plan->weights[u->weight[0]].n_experts);
        TRY(check_value(c, "out", u->out[k], u->n_used * w->n_rows));
        if (u->out[k] == u->x)
            return refuse(c, "out, which must differ from x,", u->out[k], u->x);
        TRY(check_kernel(c, HALO_HIP_MOE_GEMV, w->type, HALO_HIP_GEMV_ROWS_MAX));
        if (halo_hip_quantized(w->type))
            TRY(check_kernel(c, HALO_HIP_QUANTIZE, HALO_HIP_TYPE_ANY, 1));
    }
    return check_choice(c, u->choice, u->n_used, c->plan->weights[u->weight[0]].n_experts);
}

static int check_moe_sum(const struct check *c, const struct halo_op_moe_sum *u)
{
    TRY(check_value(c, "out", u->out, 0));
    TRY(check_value(c, "choice", u->choice, 2 * u->n_used));
    TRY(check_value(c, "x", u->x, u->n_used * width_of(c, u->out)));
    return check_kernel(c, HALO_HIP_MOE_SUM, HALO_HIP_TYPE_ANY, 1);
}

static int check_add(const struct check *c, const struct halo_op_add *u)
{
    TRY(check_value(c, "x", u->x, 0));
    TRY(check_value(c, "add", u->add, width_of(c, u->x)));
    return check_kernel(c, HALO_HIP_ADD, HALO_HIP_TYPE_ANY, 1);
}

static int check_logits(const struct check *c, const struct halo_op_logits *u)
{
    TRY(check_value(c, "x", u->x, 0));
    TRY(check_weight(c, u->weight, HALO_WEIGHT_MATRIX, width_of(c, u->x)));
    uint32_t n_rows = c->plan->weights[u->weight].n_rows;
    if (n_rows != c->plan->n_vocab)
        return refuse(c, "rows of the head", n_rows, c->plan->n_vocab);
    TRY(check_kernel(c, HALO_HIP_GATHER, HALO_HIP_TYPE_ANY, 1));
    TRY(check_kernel(c, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, 1));
    TRY(check_kernel(c, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, HALO_CANDIDATES_MAX));
    return check_product(c, c->plan->weights[u->weight].type);
}

int halo_hip_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    const struct halo_op *op = &plan->ops[index];
    switch (op->kind) {
#define CASE(id, name)                                                                                                 \
    case HALO_OP_##id: return check_##name(&(struct check){device, plan, #name, reason}, &op->u.name)
        CASE(EMBED, embed);
        CASE(RMSNORM, rmsnorm);
        CASE(MATMUL, matmul);
        CASE(QK_NORM, qk_norm);
        CASE(ROPE, rope);
        CASE(KV_WRITE, kv_write);
        CASE(ATTEND, attend);
        CASE(GLU, glu);
        CASE(MOE_ROUTE, moe_route);
        CASE(MOE_MATMUL, moe_matmul);
        CASE(MOE_SUM, moe_sum);
        CASE(ADD, add);
        CASE(LOGITS, logits);
#undef CASE
    case HALO_OP_COUNT: break;
    }
    return halo_hip_reason(reason, -ENOTSUP, "op %u has no kernel", (unsigned)op->kind);
}
