/* op_logits.c: the output head, for the wanted rows only, straight into the caller's memory. Device thread. */
#include "device_priv.h"

static void limit_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    uint32_t n_vocab = model->plan->n_vocab;
    for (uint32_t i = first_row; i < first_row + n_rows; i++)
        model->device->lanes->limit(n_vocab, op->u.logits.scale, op->u.logits.cap,
                                    model->batch->logits + (size_t)i * n_vocab);
}

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
        .bias = halo_cpu_vector(model, op->u.logits.bias),
        .act = quantized ? scratch->act_row : scratch->plain_row,
        .out = scratch->out_row[0],
        .n_x = batch->n_outputs,
    };
    halo_cpu_products_run(model, scratch->products, 1);
    if (op->u.logits.scale != 1 || op->u.logits.cap > 0)
        halo_cpu_each_row(model, op, batch->n_outputs, 4 * model->plan->n_vocab, limit_rows);
}
