/* op_conv1d.c: a causal depthwise convolution over the rows of a sequence. Device thread, rows on all threads.
 *
 * The rows of a batch read the state and each other's x; when all are done, the last row of each sequence moves the
 * state on.
 */
#include <string.h>

#include "device_priv.h"

/* The rows of the same sequence directly in front of `row` in the batch, at most `most`. */
static uint32_t n_before(const struct halo_batch *batch, uint32_t row, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && n < row && batch->seq[row - n - 1] == batch->seq[row])
        n++;
    return n;
}

/* What is n_back positions behind `row` in its sequence, n_back < n_taps: a row of the batch, of the state, or NULL. */
static const float *row_back(const struct halo_device_model *model, const struct halo_op_conv1d *u, uint32_t row,
                             uint32_t n_back, uint32_t n_taps)
{
    uint32_t n = n_before(model->batch, row, n_back), width = model->scratch.values[u->x].width;
    if (n == n_back)
        return halo_cpu_row(model, u->x, row - n_back);
    if ((uint32_t)model->batch->pos[row] < n_back)
        return NULL;
    return halo_cpu_state(model, &u->state, row) + (size_t)(n_taps - 1 - (n_back - n)) * width;
}

static void conv_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_conv1d *u = &op->u.conv1d;
    uint32_t width = model->scratch.values[u->x].width, n_taps = model->plan->weights[u->weight].n_cols;
    const float *rows[HALO_CONV1D_TAPS_MAX];
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        for (uint32_t k = 0; k < n_taps; k++)
            rows[k] = row_back(model, u, r, n_taps - 1 - k, n_taps);
        model->device->lanes->conv1d(width, n_taps, halo_cpu_vector(model, u->weight), halo_cpu_vector(model, u->bias),
                                     rows, u->silu, halo_cpu_row(model, u->out, r));
    }
}

/* The state behind the last row of a sequence. A row of the state only takes from those behind it, so it may move in
 * place. */
static void move_states(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_conv1d *u = &op->u.conv1d;
    const struct halo_batch *batch = model->batch;
    uint32_t width = model->scratch.values[u->x].width, n_taps = model->plan->weights[u->weight].n_cols;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        if (r + 1 < batch->n_rows && batch->seq[r + 1] == batch->seq[r])
            continue;
        float *state = halo_cpu_state(model, &u->state, r);
        for (uint32_t k = 0; k + 1 < n_taps; k++) {
            const float *from = row_back(model, u, r, n_taps - 2 - k, n_taps);
            if (from)
                memmove(state + (size_t)k * width, from, width * sizeof(*from));
            else
                memset(state + (size_t)k * width, 0, width * sizeof(*state));
        }
    }
}

void halo_cpu_op_conv1d(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_conv1d *u = &op->u.conv1d;
    uint32_t n_taps = model->plan->weights[u->weight].n_cols;
    uint32_t cost = n_taps * model->scratch.values[u->x].width;
    halo_cpu_each_row(model, op, model->batch->n_rows, cost, conv_rows);
    halo_cpu_each_row(model, op, model->batch->n_rows, cost, move_states);
}
