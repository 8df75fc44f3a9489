/* supports.c: whether an op of a plan can run on this device: types with matrix kernels, and nothing beyond the checks
 * that all devices make. Pure; any thread. */
#include <common/check.h>

#include "device_priv.h"

static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    if (role == HALO_WEIGHT_VECTOR)
        return n_cols % halo_type_info(type).block_weights == 0;
    return halo_cpu_matrix_fits(type, (uint32_t)n_cols);
}

int halo_cpu_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    static const struct halo_plan_limits limits = {.experts_max = HALO_CPU_EXPERTS_MAX, .weight_fits = weight_fits};
    return halo_plan_check(plan, index, &limits, reason);
}
