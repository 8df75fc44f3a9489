/* product.c: products of matrices with rows, cut into items for the workers.
 *
 * Device thread. An item is some groups of one matrix times some rows. How the work is cut changes no number
 * (matmul.h), so it may follow the number of threads and rows: items large enough for sequential reads, small enough
 * that no thread waits long at the end.
 */
#include <assert.h>

#include "device_priv.h"

/* Bytes of weights for one row that are worth a claim: at 10 GB/s a thread, three microseconds. */
#define ITEM_BYTES (32 * 1024)
#define ITEMS_PER_THREAD 8
/* Rows that a cut along the rows keeps together, so that decoding the weights again costs little. */
#define BLOCK_ROWS 32
/* Floats to prepare that are worth a claim. */
#define ACT_FLOATS 8192

struct act_rows {
    struct halo_device_model *model;
    uint32_t n_cols, n_x, item_rows;
};

static void prepare_item(void *arg, uint32_t item, uint32_t thread)
{
    const struct act_rows *rows = arg;
    const struct halo_cpu_scratch *scratch = &rows->model->scratch;
    size_t row_bytes = halo_cpu_act_bytes(HALO_CPU_ACT_Q8, rows->n_cols);
    uint32_t end = (item + 1) * rows->item_rows < rows->n_x ? (item + 1) * rows->item_rows : rows->n_x;
    for (uint32_t i = item * rows->item_rows; i < end; i++)
        halo_cpu_act_prepare(rows->model->device->isa, HALO_CPU_ACT_Q8, rows->n_cols, scratch->plain_row[i],
                             scratch->act + i * row_bytes);
}

void halo_cpu_act_rows(struct halo_device_model *model, uint32_t n_cols, uint32_t n_x)
{
    struct halo_cpu_scratch *scratch = &model->scratch;
    size_t row_bytes = halo_cpu_act_bytes(HALO_CPU_ACT_Q8, n_cols);
    struct act_rows rows = {model, n_cols, n_x, n_cols < ACT_FLOATS ? ACT_FLOATS / n_cols : 1};
    for (uint32_t i = 0; i < n_x; i++)
        scratch->act_row[i] = scratch->act + i * row_bytes;
    halo_workers_run(model->device->workers, (n_x + rows.item_rows - 1) / rows.item_rows, prepare_item, &rows);
}

struct products {
    const struct halo_device_model *model;
    const struct halo_cpu_product *products;
    uint32_t n_products;
};

static void product_item(void *arg, uint32_t item, uint32_t thread)
{
    const struct products *all = arg;
    uint32_t low = 0, high = all->n_products; /* the last product whose first item is not past this one */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (all->products[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    const struct halo_cpu_product *p = &all->products[low];
    uint32_t local = item - p->first_item;
    uint32_t group = local / p->n_row_blocks * p->chunk_groups, row = local % p->n_row_blocks * p->block_rows;
    uint32_t n_groups = p->matrix.n_groups - group, n_x = p->n_x - row;
    halo_cpu_matmul(all->model->device->isa, &p->matrix, group, n_groups < p->chunk_groups ? n_groups : p->chunk_groups,
                    p->act + row, n_x < p->block_rows ? n_x : p->block_rows, p->out + row, p->bias);
}

/* Chooses the cut of one product, so that all products together make about `n_wanted` items of `n_bytes` in all.
 * Returns its items. */
static uint32_t cut(struct halo_cpu_product *p, uint64_t n_bytes, uint32_t n_wanted)
{
    uint64_t chunk_bytes = n_bytes / n_wanted, least = ITEM_BYTES / p->n_x;
    chunk_bytes = chunk_bytes > least ? chunk_bytes : least;
    uint64_t groups = chunk_bytes / p->matrix.group_bytes;
    groups = groups > 0 ? groups : 1;
    p->chunk_groups = (uint32_t)(groups < p->matrix.n_groups ? groups : p->matrix.n_groups);
    uint32_t n_chunks = (p->matrix.n_groups + p->chunk_groups - 1) / p->chunk_groups;
    p->block_rows = p->n_x;
    if (n_chunks < n_wanted && p->n_x > BLOCK_ROWS)
        p->block_rows = BLOCK_ROWS;
    p->n_row_blocks = (p->n_x + p->block_rows - 1) / p->block_rows;
    return n_chunks * p->n_row_blocks;
}

void halo_cpu_products_run(struct halo_device_model *model, struct halo_cpu_product *products, uint32_t n_products)
{
    uint32_t n_items = 0, n_threads = model->device->n_threads;
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n_products; i++) {
        assert(products[i].n_x > 0);
        n_bytes += products[i].matrix.n_groups * products[i].matrix.group_bytes;
    }
    for (uint32_t i = 0; i < n_products; i++) {
        products[i].first_item = n_items;
        n_items += cut(&products[i], n_bytes, n_threads * ITEMS_PER_THREAD);
    }
    struct products all = {model, products, n_products};
    halo_workers_run(model->device->workers, n_items, product_item, &all);
}
