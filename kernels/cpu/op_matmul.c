/* op_matmul.c: one input, up to three weights: out[k] = weight[k] x + bias[k]. Device thread.
 *
 * The input is prepared once and shared by the weights that take it quantized; the others read it as it is.
 */
#include "device_priv.h"

void halo_cpu_op_matmul(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_matmul *u = &op->u.matmul;
    struct halo_cpu_scratch *scratch = &model->scratch;
    uint32_t n_rows = model->batch->n_rows;
    bool prepared = false;
    for (uint32_t r = 0; r < n_rows; r++)
        scratch->plain_row[r] = halo_cpu_row(model, u->x, r);
    for (uint32_t k = 0; k < u->n; k++) {
        struct halo_cpu_matrix matrix = halo_cpu_expert(model, u->weight[k], 0);
        bool quantized = halo_cpu_act_kind(matrix.type) == HALO_CPU_ACT_Q8;
        if (quantized && !prepared)
            halo_cpu_act_rows(model, matrix.n_cols, n_rows);
        prepared |= quantized;
        for (uint32_t r = 0; r < n_rows; r++)
            scratch->out_row[k][r] = halo_cpu_row(model, u->out[k], r);
        scratch->products[k] = (struct halo_cpu_product){
            .matrix = matrix,
            .bias = halo_cpu_vector(model, u->bias[k]),
            .act = quantized ? scratch->act_row : scratch->plain_row,
            .out = scratch->out_row[k],
            .n_x = n_rows,
        };
    }
    halo_cpu_products_run(model, scratch->products, u->n);
}
