/* op_concat.c: puts parts of heads beside each other. Device thread, rows on all threads. */
#include <string.h>

#include "device_priv.h"

static void concat_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_concat *u = &op->u.concat;
    uint32_t a_stride = model->scratch.values[u->a].width / u->n_head;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *a = halo_cpu_row(model, u->a, r) + u->a_first;
        const float *b = u->b == HALO_NONE ? NULL : halo_cpu_row(model, u->b, r);
        float *out = halo_cpu_row(model, u->out, r);
        for (uint32_t h = 0; h < u->n_head; h++, out += u->n_a + u->n_b) {
            memcpy(out, a + (size_t)h * a_stride, u->n_a * sizeof(*out));
            if (b)
                memcpy(out + u->n_a, b + (u->b_shared ? 0 : (size_t)h * u->n_b), u->n_b * sizeof(*out));
        }
    }
}

void halo_cpu_op_concat(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.concat.out].width, concat_rows);
}
