/* op_rmsnorm.c: if add: x += add; out = x / sqrt(mean(x^2) + eps) * weight. Device thread, rows on all threads. */
#include "device_priv.h"

static void norm_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_rmsnorm *u = &op->u.rmsnorm;
    const float *weight = halo_cpu_vector(model, u->weight);
    uint32_t width = model->scratch.values[u->x].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *add = u->add == HALO_NONE ? NULL : halo_cpu_row(model, u->add, r);
        model->device->lanes->rmsnorm(width, halo_cpu_row(model, u->x, r), add, weight, u->eps,
                                      halo_cpu_row(model, u->out, r));
    }
}

void halo_cpu_op_rmsnorm(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.rmsnorm.x].width, norm_rows);
}
