/* op_qk_norm.c: the norm of each head of q, and of k if present, in place. Device thread, rows on all threads. */
#include "device_priv.h"

static void norm_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_qk_norm *u = &op->u.qk_norm;
    const struct halo_cpu_lanes *lanes = model->device->lanes;
    const float *q_weight = halo_cpu_vector(model, u->q_weight), *k_weight = halo_cpu_vector(model, u->k_weight);
    bool is_own = q_weight && model->plan->weights[u->q_weight].n_rows > 1;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        float *q = halo_cpu_row(model, u->q, r), *k = u->k == HALO_NONE ? NULL : halo_cpu_row(model, u->k, r);
        for (uint32_t h = 0; h < u->n_head; h++, q += u->head_dim)
            lanes->rmsnorm(u->head_dim, q, NULL, is_own ? q_weight + (size_t)h * u->head_dim : q_weight, u->eps, q);
        for (uint32_t h = 0; h < u->n_head_kv; h++, k += u->head_dim)
            lanes->rmsnorm(u->head_dim, k, NULL, k_weight, u->eps, k);
    }
}

void halo_cpu_op_qk_norm(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_qk_norm *u = &op->u.qk_norm;
    halo_cpu_each_row(model, op, model->batch->n_rows, 2 * (u->n_head + u->n_head_kv) * u->head_dim, norm_rows);
}
