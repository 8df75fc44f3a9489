/* rows.c: an op that treats each row by itself, spread over the threads; the rows of each sequence. Device thread. */
#include "device_priv.h"

/* Floats of work that are worth waking another thread for. */
#define ITEM_COST 16384

struct rows {
    struct halo_device_model *model;
    const struct halo_op *op;
    halo_cpu_rows_fn *fn;
    uint32_t n_rows, item_rows;
};

static void run_item(void *arg, uint32_t item, uint32_t thread)
{
    const struct rows *rows = arg;
    uint32_t first = item * rows->item_rows, left = rows->n_rows - first;
    rows->fn(rows->model, rows->op, first, left < rows->item_rows ? left : rows->item_rows);
}

uint32_t halo_cpu_sequences(struct halo_device_model *model)
{
    const struct halo_batch *batch = model->batch;
    uint32_t n = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        if (r == 0 || batch->seq[r] != batch->seq[r - 1])
            model->scratch.tiles[n++] = (struct halo_cpu_row_tile){.first_row = r};
        model->scratch.tiles[n - 1].n_rows++;
    }
    return n;
}

void halo_cpu_each_row(struct halo_device_model *model, const struct halo_op *op, uint32_t n_rows, uint32_t row_cost,
                       halo_cpu_rows_fn *fn)
{
    uint32_t item_rows = row_cost < ITEM_COST ? ITEM_COST / (row_cost + 1) : 1;
    item_rows = item_rows > 0 ? item_rows : 1;
    struct rows rows = {model, op, fn, n_rows, item_rows};
    halo_workers_run(model->device->workers, (n_rows + item_rows - 1) / item_rows, run_item, &rows);
}
