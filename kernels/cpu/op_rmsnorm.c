/* op_rmsnorm.c: the norms of op.h: root mean square and layer norm. Device thread, rows on all threads. */
#include "device_priv.h"

static void norm_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_rmsnorm *u = &op->u.rmsnorm;
    const struct halo_cpu_lanes *lanes = model->device->lanes;
    const float *weight = halo_cpu_vector(model, u->weight), *bias = halo_cpu_vector(model, u->bias);
    uint32_t width = model->scratch.values[u->x].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        float *x = halo_cpu_row(model, u->x, r), *out = halo_cpu_row(model, u->out, r);
        const float *add = u->add == HALO_NONE ? NULL : halo_cpu_row(model, u->add, r);
        if (add && (u->add_scale != 1 || u->x_scale != 0)) {
            lanes->axpy(width, u->add_scale, add, x);
            add = NULL;
        }
        for (uint32_t i = 0; u->x_scale != 0 && i < width; i++)
            x[i] *= u->x_scale;
        if (!u->centre) {
            lanes->rmsnorm(width, x, add, weight, u->eps, out);
            continue;
        }
        if (add)
            lanes->add(width, x, add);
        lanes->layernorm(width, x, weight, bias, u->eps, out);
    }
}

void halo_cpu_op_rmsnorm(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.rmsnorm.x].width, norm_rows);
}
