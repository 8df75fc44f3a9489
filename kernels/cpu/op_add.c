/* op_add.c: x += add. Device thread, rows on all threads. */
#include "device_priv.h"

static void add_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_add *u = &op->u.add;
    uint32_t width = model->scratch.values[u->x].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++)
        model->device->lanes->add(width, halo_cpu_row(model, u->x, r), halo_cpu_row(model, u->add, r));
}

void halo_cpu_op_add(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.add.x].width, add_rows);
}
