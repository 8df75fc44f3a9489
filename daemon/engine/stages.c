/* stages.c: asks the device how it divides a plan (contract in stages.h). */
#include <engine/stages.h>

void halo_stages_of(const struct halo_device_ops *ops, const struct halo_device *device, uint32_t n_gpus,
                    const struct halo_plan *plan, struct halo_stages *ret)
{
    bool is_divided = ops->divide && ops->divide(device, plan, ret->share) == 0;
    ret->n = is_divided ? n_gpus : 0;
}
