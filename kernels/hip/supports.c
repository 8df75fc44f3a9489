/* supports.c: whether an op of a plan can run on this device: the checks that all devices make, the sizes that the
 * kernels take, and that the code object has every kernel that the op may need. Pure; any thread. */
#include <errno.h>

#include <common/check.h>

#include "pack_priv.h"
#include "run_priv.h"

#define HEAD_DIM_MAX 256

struct check {
    const struct halo_device *device;
    const struct halo_plan *plan;
    const char *op;
    char *reason;
};

static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    if (role == HALO_WEIGHT_VECTOR)
        return halo_hip_plain_bytes(type) > 0;
    return halo_hip_pack_fits(type, (uint32_t)n_cols) &&
           halo_hip_row_layout(type, (uint32_t)n_cols).stride <= HALO_HIP_STAGING_BYTES;
}

/* That the code object has the kernel for every number of rows up to `most`. */
static int check_kernel(const struct check *c, uint32_t op, uint32_t type, uint32_t most)
{
    for (uint32_t rows = 1; rows <= most; rows++) {
        const struct halo_hip_variant *v = halo_hip_variant_find(op, type, rows);
        if (halo_hip_kernel_find(c->device, op, type, rows) < 0)
            return halo_reason(c->reason, -ENOTSUP, "%s: %s has no kernel%s%s for %u row%s of type %u", c->op,
                               c->device->kernels_path, v ? " " : "", v ? v->kernel : "", rows, rows == 1 ? "" : "s",
                               type);
        rows = v->max_rows ? v->max_rows : most;
    }
    return 0;
}

static int check_any(const struct check *c, uint32_t op)
{
    return check_kernel(c, op, HALO_HIP_TYPE_ANY, 1);
}

/* A product of up to eight rows; more rows fall back to these kernels where there is no GEMM. */
static int check_product(const struct check *c, uint32_t op, uint32_t weight)
{
    uint32_t type = c->plan->weights[weight].type;
    int r = halo_hip_quantized(type) ? check_any(c, HALO_HIP_QUANTIZE) : 0;
    return r ? r : check_kernel(c, op, type, HALO_HIP_GEMV_ROWS_MAX);
}

static int check_products(const struct check *c, uint32_t op, const uint32_t *weights, uint32_t n)
{
    int r = 0;
    for (uint32_t k = 0; k < n && !r; k++)
        r = check_product(c, op, weights[k]);
    return r;
}

static int check_rope(const struct check *c, uint32_t rope)
{
    if (rope >= HALO_HIP_ROPES_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: rotation %u of a plan, at most %d are supported", c->op, rope,
                           HALO_HIP_ROPES_MAX);
    bool neox = c->plan->ropes[rope].pairing == HALO_ROPE_NEOX;
    return check_any(c, neox ? HALO_HIP_ROPE_NEOX : HALO_HIP_ROPE_NORM);
}

static int check_cache(const struct check *c)
{
    static const uint32_t multiples[] = {[HALO_KV_F32] = 4, [HALO_KV_F16] = 8, [HALO_KV_Q8] = 32};
    const struct halo_kv_shape *kv = &c->plan->kv;
    uint32_t multiple = multiples[kv->type], k = kv->head_dim_k, v = kv->head_dim_v;
    if (k == 0 || v == 0 || k % multiple != 0 || v % multiple != 0 || k > HEAD_DIM_MAX || v > HEAD_DIM_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: heads of %u and %u, wanted multiples of %u up to %u", c->op, k, v,
                           multiple, HEAD_DIM_MAX);
    return 0;
}

static int check_attend(const struct check *c, const struct halo_op_attend *u)
{
    const struct halo_kv_shape *kv = &c->plan->kv;
    bool small = kv->head_dim_k <= 128 && kv->head_dim_v <= 128;
    uint32_t op = small ? HALO_HIP_ATTEND_D128 : HALO_HIP_ATTEND_D256, type = HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type;
    if (halo_hip_kernel_find(c->device, op, type, u->n_head / kv->n_head_kv) < 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has no kernel for %u heads to a kv head of %u", c->op,
                           c->device->kernels_path, u->n_head / kv->n_head_kv, kv->head_dim_k);
    return 0;
}

static int check_logits(const struct check *c, const struct halo_op_logits *u)
{
    int r = check_any(c, HALO_HIP_GATHER);
    if (!r)
        r = check_any(c, HALO_HIP_TOP);
    if (!r)
        r = check_kernel(c, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, HALO_CANDIDATES_MAX);
    return r ? r : check_product(c, HALO_HIP_GEMV, u->weight);
}

int halo_hip_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    static const struct halo_plan_limits limits = {.experts_max = HALO_MOE_EXPERTS_MAX, .weight_fits = weight_fits};
    const struct halo_op *op = &plan->ops[index];
    const struct check c = {device, plan, halo_op_name(op->kind), reason};
    uint32_t kv_type = HALO_HIP_TYPE_KV_F32 + (uint32_t)plan->kv.type;
    int r = halo_plan_check(plan, index, &limits, reason);
    if (!r && (op->kind == HALO_OP_KV_WRITE || op->kind == HALO_OP_ATTEND))
        r = check_cache(&c);
    if (r)
        return r;
    switch (op->kind) {
    case HALO_OP_EMBED: return check_kernel(&c, HALO_HIP_EMBED, plan->weights[op->u.embed.weight].type, 1);
    case HALO_OP_RMSNORM: return check_any(&c, HALO_HIP_RMSNORM);
    case HALO_OP_MATMUL: return check_products(&c, HALO_HIP_GEMV, op->u.matmul.weight, op->u.matmul.n);
    case HALO_OP_QK_NORM: return check_any(&c, HALO_HIP_QK_NORM);
    case HALO_OP_ROPE: return check_rope(&c, op->u.rope.rope);
    case HALO_OP_KV_WRITE: return check_kernel(&c, HALO_HIP_KV_WRITE, kv_type, 1);
    case HALO_OP_ATTEND: return check_attend(&c, &op->u.attend);
    case HALO_OP_GLU: return check_any(&c, HALO_HIP_GLU_SILU);
    case HALO_OP_MOE_ROUTE: return check_any(&c, HALO_HIP_MOE_ROUTE);
    case HALO_OP_MOE_MATMUL: return check_products(&c, HALO_HIP_MOE_GEMV, op->u.moe_matmul.weight, op->u.moe_matmul.n);
    case HALO_OP_MOE_SUM: return check_any(&c, HALO_HIP_MOE_SUM);
    case HALO_OP_ADD: return check_any(&c, HALO_HIP_ADD);
    case HALO_OP_LOGITS: return check_logits(&c, &op->u.logits);
    case HALO_OP_COUNT: break;
    }
    return 0;
}
