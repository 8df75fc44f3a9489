/* launch.c: launches kernels of the table. Device thread. */
#include <errno.h>

#include <common/phase.h>

#include "run_priv.h"

int halo_hip_kernel_find(const struct halo_device *device, uint32_t op, uint32_t type, uint32_t rows)
{
    const struct halo_hip_variant *v = halo_hip_variant_find(op, type, rows);
    uint32_t index = v ? (uint32_t)(v - halo_hip_variants) : 0;
    return v && device->functions[index] ? (int)index : -1;
}

int halo_hip_launch(struct halo_hip_run *run, uint32_t op, uint32_t type, uint32_t rows, struct halo_hip_grid grid,
                    void *args)
{
    struct halo_device *device = run->model->device;
    int index = halo_hip_kernel_find(device, op, type, rows);
    if (index < 0)
        return halo_reason(run->reason, -ENOTSUP, "no kernel for op %u, type %u and %u rows", op, type, rows);
    const struct halo_hip_variant *v = &halo_hip_variants[index];
    bool first = !device->seen[index] && !run->recording;
    void *params[] = {args};
    if (!run->recording)
        halo_phase_publish(run->phase, first ? v->first_launch : v->kernel, run->op);
    int r = device->api.ModuleLaunchKernel(device->functions[index], grid.x, grid.y, grid.z, v->block, 1, 1, 0,
                                           run->stream, params, NULL);
    if (run->recording)
        return r;
    r = halo_hip_check(device, r, v->kernel, run->reason);
    if (!r && first) {
        r = halo_hip_drain(device, v->first_launch, run->reason);
        device->seen[index] = !r;
    }
    return r;
}
