/* op_glu.c: out = act(gate) * up. Device thread, rows on all threads. */
#include "device_priv.h"

/* Before the activation: gate from above, up from both sides. A NaN stays one. */
static void limit_row(float limit, uint32_t width, float *gate, float *up)
{
    for (uint32_t i = 0; i < width; i++) {
        gate[i] = gate[i] > limit ? limit : gate[i];
        up[i] = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    }
}

static void glu_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_glu *u = &op->u.glu;
    uint32_t width = model->scratch.values[u->gate].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        if (u->limit > 0)
            limit_row(u->limit, width, halo_cpu_row(model, u->gate, r), halo_cpu_row(model, u->up, r));
        model->device->lanes->glu(u->act, width, halo_cpu_row(model, u->gate, r),
                                  u->up == HALO_NONE ? NULL : halo_cpu_row(model, u->up, r),
                                  halo_cpu_row(model, u->out, r));
    }
}

void halo_cpu_op_glu(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, 4 * model->scratch.values[op->u.glu.gate].width, glu_rows);
}
