/* op_attend_blocks.c: attention over a window and over compressed blocks in one softmax (op.h).
 *
 * An item is a row and at most HALO_CPU_ATTEND_QUERIES of its heads, which share each row of the cache once brought to
 * f32: first the pages of the window in order, then the blocks in ascending order. V is K. A row's numbers depend on
 * nothing but itself. Device thread, items on all threads.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

struct attend {
    struct halo_device_model *model;
    const struct halo_op_attend_blocks *u;
    const struct halo_kv_group *kv, *blocks;
    uint32_t n_parts, stride;
};

struct item {
    const struct halo_batch_seq *seq;
    uint32_t row, pos, first_head, n_heads;
    float *q, *k; /* [n_heads][stride], [HALO_KV_PAGE_TOKENS][stride] */
    struct halo_cpu_softmax softmax;
};

static struct item item_begin(const struct attend *a, uint32_t index, uint32_t thread)
{
    const struct halo_cpu_scratch *scratch = &a->model->scratch;
    const struct halo_batch *batch = a->model->batch;
    uint32_t row = index / a->n_parts, first = index % a->n_parts * HALO_CPU_ATTEND_QUERIES, dim = a->kv->head_dim_k;
    uint32_t left = a->u->n_head - first;
    float *memory = (float *)(void *)(scratch->attend_thread + thread * scratch->attend_thread_bytes);
    struct item item = {.seq = &batch->seqs[batch->seq[row]],
                        .row = row,
                        .pos = (uint32_t)batch->pos[row],
                        .first_head = first,
                        .n_heads = left < HALO_CPU_ATTEND_QUERIES ? left : HALO_CPU_ATTEND_QUERIES};
    item.q = memory;
    item.k = item.q + (size_t)HALO_CPU_ATTEND_QUERIES * a->stride;
    item.softmax.max = item.k + (size_t)HALO_KV_PAGE_TOKENS * a->stride;
    item.softmax.sum = item.softmax.max + HALO_CPU_ATTEND_QUERIES;
    item.softmax.out = item.softmax.sum + HALO_CPU_ATTEND_QUERIES;
    const float *q = halo_cpu_row(a->model, a->u->q, row) + (size_t)first * dim;
    for (uint32_t h = 0; h < item.n_heads; h++) {
        memcpy(item.q + (size_t)h * a->stride, q + (size_t)h * dim, dim * sizeof(*q));
        memset(item.q + (size_t)h * a->stride + dim, 0, (a->stride - dim) * sizeof(*q));
        item.softmax.max[h] = -INFINITY;
        item.softmax.sum[h] = 0;
    }
    memset(item.softmax.out, 0, (size_t)item.n_heads * a->stride * sizeof(float));
    return item;
}

static void see(const struct attend *a, struct item *item, uint32_t n)
{
    struct halo_cpu_tile tile = {item->k, item->k, n, a->stride, a->stride};
    if (n > 0)
        a->model->device->lanes->attend(&tile, item->n_heads, item->q, a->u->scale, 0, &item->softmax);
}

static void see_window(const struct attend *a, struct item *item)
{
    const struct halo_op_attend_blocks *u = a->u;
    uint32_t dim = a->kv->head_dim_k, row_bytes = halo_kv_row_bytes(a->kv->type, dim);
    uint32_t first = u->window > 0 && item->pos >= u->window ? item->pos + 1 - u->window : 0, n;
    for (uint32_t at = first; at <= item->pos; at += n) {
        uint32_t in_page = at % HALO_KV_PAGE_TOKENS, page = item->seq->pages[u->kv_group][at / HALO_KV_PAGE_TOKENS];
        n = HALO_KV_PAGE_TOKENS - in_page;
        n = n < item->pos + 1 - at ? n : item->pos + 1 - at;
        const uint8_t *rows = halo_cpu_kv_rows(a->model, u->kv_group, u->kv_layer, page, false, 0);
        a->model->device->lanes->kv_load(a->kv->type, dim, n, rows + (size_t)in_page * row_bytes, NULL, item->k);
        see(a, item, n);
    }
}

static void see_blocks(const struct attend *a, struct item *item)
{
    const struct halo_op_attend_blocks *u = a->u;
    const int32_t *chosen = NULL;
    uint32_t n_blocks = (item->pos + 1) / u->ratio, n = 0;
    if (u->chosen != HALO_NONE) {
        uint32_t most = a->model->scratch.values[u->chosen].width;
        chosen = (const int32_t *)(const void *)halo_cpu_row(a->model, u->chosen, item->row);
        n_blocks = n_blocks < most ? n_blocks : most;
    }
    for (uint32_t i = 0; i < n_blocks; i++) {
        uint32_t block = chosen ? (uint32_t)chosen[i] : i;
        const uint8_t *row =
            halo_cpu_kv_block(a->model, u->block_group, u->block_layer, item->seq, (block + 1) * u->ratio - 1);
        a->model->device->lanes->kv_load(a->blocks->type, a->blocks->head_dim_k, 1, row, NULL,
                                         item->k + (size_t)n * a->stride);
        if (++n < HALO_KV_PAGE_TOKENS)
            continue;
        see(a, item, n);
        n = 0;
    }
    see(a, item, n);
}

static void attend_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct attend *a = arg;
    const struct halo_cpu_lanes *lanes = a->model->device->lanes;
    const float *sinks = halo_cpu_vector(a->model, a->u->sinks);
    struct item item = item_begin(a, index, thread);
    uint32_t dim = a->kv->head_dim_k;
    see_window(a, &item);
    see_blocks(a, &item);
    for (uint32_t h = 0; h < item.n_heads; h++) {
        uint32_t head = item.first_head + h;
        float sink = 0;
        if (sinks)
            lanes->exp(1, &sinks[head], item.softmax.max[h], &sink);
        lanes->divide(dim, item.softmax.out + (size_t)h * a->stride, item.softmax.sum[h] + sink,
                      halo_cpu_row(a->model, a->u->out, item.row) + (size_t)head * dim);
    }
}

void halo_cpu_op_attend_blocks(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_attend_blocks *u = &op->u.attend_blocks;
    struct attend a = {.model = model,
                       .u = u,
                       .kv = &model->plan->kv[u->kv_group],
                       .blocks = &model->plan->kv[u->block_group],
                       .n_parts = (u->n_head + HALO_CPU_ATTEND_QUERIES - 1) / HALO_CPU_ATTEND_QUERIES};
    a.stride = halo_cpu_stride(a.kv->head_dim_k);
    halo_workers_run(model->device->workers, model->batch->n_rows * a.n_parts, attend_item, &a);
}
