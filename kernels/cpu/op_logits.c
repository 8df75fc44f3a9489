/* op_logits.c: the output head, for the wanted rows only, straight into the caller's memory. Device thread. */
#include "device_priv.h"

void halo_cpu_op_logits(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_batch *batch = model->batch;
    struct halo_cpu_scratch *scratch = &model->scratch;
    if (batch->n_outputs == 0)
        return;
    struct halo_cpu_matrix matrix = halo_cpu_expert(model, op->u.logits.weight, 0);
    bool quantized = halo_cpu_act_kind(matrix.type) == HALO_CPU_ACT_Q8;
    for (uint32_t i = 0; i < batch->n_outputs; i++) {
        scratch->plain_row[i] = halo_cpu_row(model, op->u.logits.x, batch->output[i]);
        scratch->out_row[0][i] = batch->logits + (size_t)i * model->plan->n_vocab;
    }
    if (quantized)
        halo_cpu_act_rows(model, matrix.n_cols, batch->n_outputs);
    scratch->products[0] = (struct halo_cpu_product){
        .matrix = matrix,
        .bias = op->u.logits.bias == HALO_WEIGHT_NONE ? NULL : halo_cpu_vector(model, op->u.logits.bias),
        .act = quantized ? scratch->act_row : scratch->plain_row,
        .out = scratch->out_row[0],
        .n_x = batch->n_outputs,
    };
    halo_cpu_products_run(model, scratch->products, 1);
}
