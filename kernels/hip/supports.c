/* supports.c: whether an op of a plan can run on this device: the checks that all devices make, the sizes that the
 * kernels take, and that every batch has kernels for the op (program.c). Pure; any thread. */
#include <errno.h>

#include <common/check.h>

#include "compile_priv.h"
#include "pack_priv.h"

#define HEAD_DIM_MAX 512

static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    if (role == HALO_WEIGHT_VECTOR)
        return halo_hip_plain_bytes(type) > 0;
    return halo_hip_pack_fits(type, (uint32_t)n_cols) &&
           halo_hip_row_layout(type, (uint32_t)n_cols).stride <= HALO_HIP_STAGING_BYTES;
}

/* A factor multiplies what a product has left, where a bias would be part of it. */
static int check_scale(const struct halo_plan *plan, uint32_t weight, uint32_t bias, const char *op, char *reason)
{
    const struct halo_weight *w = &plan->weights[weight];
    return !halo_hip_scaled(w) || bias == HALO_WEIGHT_NONE
               ? 0
               : halo_reason(reason, -ENOTSUP,
                             "%s: %s of type %s has a scale beside a bias, for which there is no kernel", op, w->name,
                             halo_type_info(w->type).name);
}

static int check_scales(const struct halo_plan *plan, const struct halo_op *op, char *reason)
{
    int r = 0;
    if (op->kind == HALO_OP_LOGITS)
        r = check_scale(plan, op->u.logits.weight, op->u.logits.bias, "logits", reason);
    for (uint32_t k = 0; op->kind == HALO_OP_MATMUL && k < op->u.matmul.n && !r; k++)
        r = check_scale(plan, op->u.matmul.weight[k], op->u.matmul.bias[k], "matmul", reason);
    for (uint32_t k = 0; op->kind == HALO_OP_MOE_MATMUL && k < op->u.moe_matmul.n && !r; k++)
        r = check_scale(plan, op->u.moe_matmul.weight[k], op->u.moe_matmul.bias[k], "moe_matmul", reason);
    return r;
}

static int check_latent(const struct halo_kv_group *kv, const char *op, char *reason)
{
    uint32_t multiple = kv->type == HALO_KV_Q8 ? 32 : 8, k = kv->head_dim_k, v = kv->head_dim_v;
    if (kv->type == HALO_KV_Q4)
        return halo_reason(reason, -ENOTSUP, "%s: a latent cache cannot be q4; use q8 or f16", op);
    if (kv->n_head_kv != 1)
        return halo_reason(reason, -ENOTSUP, "%s: a latent cache of %u rows for each position, only 1 is supported", op,
                           kv->n_head_kv);
    if (k == 0 || v == 0 || k % multiple != 0 || v % 4 != 0 || k > HALO_LATENT_DIM_K || v > HALO_LATENT_DIM_V)
        return halo_reason(
            reason, -ENOTSUP,
            "%s: latent rows of %u with values of %u; rows must be multiples of %u and values of 4, up to %d and %d",
            op, k, v, multiple, HALO_LATENT_DIM_K, HALO_LATENT_DIM_V);
    return 0;
}

static int check_cache(const struct halo_kv_group *kv, const char *op, char *reason)
{
    static const uint32_t multiples[] = {[HALO_KV_F32] = 4, [HALO_KV_F16] = 8, [HALO_KV_Q8] = 32, [HALO_KV_Q4] = 32};
    if (kv->latent)
        return check_latent(kv, op, reason);
    uint32_t multiple = multiples[kv->type], k = kv->head_dim_k, v = kv->head_dim_v;
    if (k == 0 || v == 0 || k % multiple != 0 || v % multiple != 0 || k > HEAD_DIM_MAX || v > HEAD_DIM_MAX)
        return halo_reason(reason, -ENOTSUP, "%s: heads of %u and %u, wanted multiples of %u up to %u", op, k, v,
                           multiple, HEAD_DIM_MAX);
    return 0;
}

static int check_compress(const struct halo_plan *plan, const struct halo_op_compress *u, char *reason)
{
    int r = check_latent(&plan->kv[u->kv_group], "compress", reason);
    if (!r && halo_hip_table_find(plan, u->rope, u->ratio) == HALO_HIP_TABLES_MAX)
        r = halo_reason(reason, -ENOTSUP,
                        "compress: the rotation of blocks of %u positions by rope %u is one table too many; %d are "
                        "supported, those of the %u ropes included",
                        u->ratio, u->rope, HALO_HIP_TABLES_MAX, plan->n_ropes);
    return r;
}

static int check_choice(const struct halo_plan *plan, const struct halo_op_blocks_choose *u, char *reason)
{
    const struct halo_kv_group *kv = &plan->kv[u->kv_group];
    int r = check_latent(kv, "blocks_choose", reason);
    if (!r && kv->head_dim_k > HALO_KEY_DIM)
        r = halo_reason(reason, -ENOTSUP, "blocks_choose: keys of %u elements, at most %d are supported",
                        kv->head_dim_k, HALO_KEY_DIM);
    return r;
}

static int check_attend_blocks(const struct halo_plan *plan, const struct halo_op_attend_blocks *u, char *reason)
{
    int r = check_latent(&plan->kv[u->kv_group], "attend_blocks", reason);
    if (!r && plan->kv[u->block_group].type != plan->kv[u->kv_group].type)
        r = halo_reason(
            reason, -ENOTSUP,
            "attend_blocks: the window and the blocks are kept in two types; use one KV cache type for both");
    return r;
}

/* Rows of a head's state are held in registers. */
static int check_state_cols(uint32_t n, const char *op, char *reason)
{
    return n <= HALO_RECURRENCE_COLS
               ? 0
               : halo_reason(reason, -ENOTSUP, "%s: the state has rows of %u elements, at most %d are supported", op, n,
                             HALO_RECURRENCE_COLS);
}

/* The lists of the largest logits, which batches may ask for. */
static int check_top(const struct halo_device *device, char *reason)
{
    if (halo_hip_kernel_find(device, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, 1) < 0 ||
        halo_hip_kernel_find(device, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, HALO_CANDIDATES_MAX) < 0)
        return halo_reason(reason, -ENOTSUP, "logits: %s has no kernels for lists of the largest",
                           device->kernels_path);
    return 0;
}

int halo_hip_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    static const struct halo_plan_limits limits = {
        .experts_max = HALO_MOE_EXPERTS_MAX, .weight_fits = weight_fits, .streams = true, .streams_layers = true};
    const struct halo_op *op = &plan->ops[index];
    int r = halo_plan_check(plan, index, &limits, reason);
    r = r ? r : check_scales(plan, op, reason);
    if (r)
        return r;
    if (op->kind == HALO_OP_KV_WRITE)
        r = check_cache(&plan->kv[op->u.kv_write.kv_group], "kv_write", reason);
    else if (op->kind == HALO_OP_ATTEND)
        r = check_cache(&plan->kv[op->u.attend.kv_group], "attend", reason);
    else if (op->kind == HALO_OP_ROPE && op->u.rope.rope >= HALO_HIP_ROPES_MAX)
        r = halo_reason(reason, -ENOTSUP, "rope: rotation %u, at most %d of a plan are supported", op->u.rope.rope,
                        HALO_HIP_ROPES_MAX);
    else if (op->kind == HALO_OP_COMPRESS)
        r = check_compress(plan, &op->u.compress, reason);
    else if (op->kind == HALO_OP_BLOCKS_CHOOSE)
        r = check_choice(plan, &op->u.blocks_choose, reason);
    else if (op->kind == HALO_OP_ATTEND_BLOCKS)
        r = check_attend_blocks(plan, &op->u.attend_blocks, reason);
    else if (op->kind == HALO_OP_DELTA_RULE)
        r = check_state_cols(op->u.delta_rule.dim_k, "delta_rule", reason);
    else if (op->kind == HALO_OP_SSM_SCAN)
        r = check_state_cols(op->u.ssm_scan.n_state, "ssm_scan", reason);
    else if (op->kind == HALO_OP_LOGITS)
        r = check_top(device, reason);
    return r ? r : halo_hip_program_check(device, plan, index, reason);
}
