/* op_moe_sum.c: out = sum over the slots of weight[slot] * x[slot], in the order of the slots, then what is added.
 * Device thread, rows on all threads. */
#include <math.h>
#include <string.h>

#include "device_priv.h"

static void sum_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_moe_sum *u = &op->u.moe_sum;
    uint32_t width = model->scratch.values[u->out].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *x = halo_cpu_row(model, u->x, r), *weight = halo_cpu_row(model, u->choice, r);
        float *out = halo_cpu_row(model, u->out, r);
        memset(out, 0, width * sizeof(*out));
        for (uint32_t s = 0; s < u->n_used; s++)
            model->device->lanes->axpy(width, weight[s], x + (size_t)s * width, out);
        if (u->add == HALO_NONE)
            continue;
        double gate = u->add_gate == HALO_NONE ? 1 : 1 / (1 + exp(-(double)halo_cpu_row(model, u->add_gate, r)[0]));
        model->device->lanes->axpy(width, (float)gate, halo_cpu_row(model, u->add, r), out);
    }
}

void halo_cpu_op_moe_sum(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_moe_sum *u = &op->u.moe_sum;
    halo_cpu_each_row(model, op, model->batch->n_rows, u->n_used * model->scratch.values[u->out].width, sum_rows);
}
