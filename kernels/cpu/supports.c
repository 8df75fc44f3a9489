/* supports.c: whether an op of a plan can run on this device: types with matrix kernels, and nothing beyond the checks
 * that all devices make. Pure; any thread. */
#include <errno.h>

#include <common/check.h>
#include <common/reason.h>

#include "device_priv.h"

static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    if (role == HALO_WEIGHT_VECTOR)
        return n_cols % halo_type_info(type).block_weights == 0;
    return halo_cpu_matrix_fits(type, (uint32_t)n_cols);
}

int halo_cpu_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    static const struct halo_plan_limits limits = {
        .experts_max = HALO_CPU_EXPERTS_MAX, .weight_fits = weight_fits, .streams = true, .streams_layers = true};
    const struct halo_op *op = &plan->ops[index];
    int r = halo_plan_check(plan, index, &limits, reason);
    if (r || op->kind != HALO_OP_KV_WRITE)
        return r;
    const struct halo_kv_group *kv = &plan->kv[op->u.kv_write.kv_group];
    if (kv->type == HALO_KV_Q4 && kv->latent)
        return halo_reason(reason, -ENOTSUP, "kv_write: a latent cache cannot be q4; use q8 or f16");
    uint32_t most = kv->head_dim_k > kv->head_dim_v ? kv->head_dim_k : kv->head_dim_v;
    if (kv->type == HALO_KV_Q4 && most > HALO_CPU_ROTATED_MAX)
        return halo_reason(reason, -ENOTSUP, "kv_write: heads of %u, at most %d in a KV cache of q4", most,
                           HALO_CPU_ROTATED_MAX);
    return 0;
}
