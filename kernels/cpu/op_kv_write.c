/* op_kv_write.c: stores k and v of each row into the page of its position. Device thread, rows on all threads. */
#include <string.h>

#include "device_priv.h"

/* A head's row in its stored form. */
static void store(const struct halo_device_model *model, enum halo_kv_type type, uint32_t dim, const float *x,
                  uint8_t *row)
{
    float rotated[HALO_CPU_ROTATED_MAX];
    if (type == HALO_KV_Q4) {
        memcpy(rotated, x, dim * sizeof(*x));
        halo_cpu_rotate(dim, rotated);
        x = rotated;
    }
    model->device->lanes->kv_store(type, dim, x, row);
}

static void write_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_kv_write *u = &op->u.kv_write;
    const struct halo_batch *batch = model->batch;
    const struct halo_kv_group *kv = &model->plan->kv[u->kv_group];
    uint32_t k_bytes = halo_kv_row_bytes(kv->type, kv->head_dim_k), v_bytes = halo_kv_value_bytes(kv);
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        uint32_t pos = (uint32_t)batch->pos[r], token = pos % HALO_KV_PAGE_TOKENS;
        uint32_t page = batch->seqs[batch->seq[r]].pages[u->kv_group][pos / HALO_KV_PAGE_TOKENS];
        const float *k = halo_cpu_row(model, u->k, r), *v = kv->latent ? NULL : halo_cpu_row(model, u->v, r);
        for (uint32_t h = 0; h < kv->n_head_kv; h++) {
            uint8_t *k_row = halo_cpu_kv_rows(model, u->kv_group, u->kv_layer, page, false, h) + token * k_bytes;
            store(model, kv->type, kv->head_dim_k, k + h * kv->head_dim_k, k_row);
            if (!v)
                continue;
            uint8_t *v_row = halo_cpu_kv_rows(model, u->kv_group, u->kv_layer, page, true, h) + token * v_bytes;
            store(model, kv->type, kv->head_dim_v, v + h * kv->head_dim_v, v_row);
        }
    }
}

void halo_cpu_op_kv_write(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_kv_group *kv = &model->plan->kv[op->u.kv_write.kv_group];
    halo_cpu_each_row(model, op, model->batch->n_rows, 2 * kv->n_head_kv * (kv->head_dim_k + kv->head_dim_v),
                      write_rows);
}
