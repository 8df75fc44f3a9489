/* op_moe_route.c: router logits -> the experts that each row uses (route.c). Device thread, rows on all threads. */
#include "device_priv.h"

static void route_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    for (uint32_t r = first_row; r < first_row + n_rows; r++)
        halo_cpu_route_row(model, u, r, halo_cpu_row(model, u->choice, r));
}

void halo_cpu_op_moe_route(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    halo_cpu_each_row(model, op, model->batch->n_rows, (u->n_used + 8) * u->n_expert, route_rows);
    halo_cpu_moe_chosen(model, op);
}
