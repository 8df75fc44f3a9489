/* op_embed.c: out[r] = weight[token[r]] * scale. Device thread, rows on all threads. Tokens were checked when the run
 * began. */
#include "device_priv.h"

static void embed_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_embed *u = &op->u.embed;
    const struct halo_cpu_matrix matrix = halo_cpu_expert(model, u->weight, 0);
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        float *out = halo_cpu_row(model, u->out, r);
        halo_cpu_matrix_row(&matrix, (uint32_t)model->batch->token[r], out);
        for (uint32_t i = 0; u->scale != 1 && i < matrix.n_cols; i++)
            out[i] *= u->scale;
    }
}

void halo_cpu_op_embed(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, 4 * model->weights[op->u.embed.weight].matrix.n_cols,
                      embed_rows);
}
