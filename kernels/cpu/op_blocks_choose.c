/* op_blocks_choose.c: the compressed blocks that a row attends to: those with the largest scores (op.h).
 *
 * The scores of a row wait in the thread's scratch while a heap in `out` finds the worst block that is chosen. Device
 * thread, rows on all threads.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

#define SUMS 16 /* running sums of a product: the same order of additions wherever it is compiled */

struct choose {
    struct halo_device_model *model;
    const struct halo_op_blocks_choose *u;
};

static float dot(uint32_t n, const float *a, const float *b)
{
    float sum[SUMS] = {0}, all = 0;
    uint32_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (uint32_t k = 0; k < SUMS; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[i % SUMS] += a[i] * b[i];
    for (uint32_t k = 0; k < SUMS; k++)
        all += sum[k];
    return all;
}

/* Whether block a ranks behind block b. A NaN loses against every number. */
static bool ranks_behind(const float *score, int32_t a, int32_t b)
{
    float x = score[a], y = score[b];
    if (x == y || (x != x && y != y))
        return a > b;
    return x < y || x != x;
}

/* Lets the block at the root of a heap of n sink to its place: the worst is on top. */
static void sink(const float *score, int32_t *heap, uint32_t n)
{
    for (uint32_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_behind(score, heap[child + 1], heap[child]))
            child++;
        if (!ranks_behind(score, heap[child], heap[at]))
            return;
        int32_t block = heap[at];
        heap[at] = heap[child];
        heap[child] = block;
    }
}

static void rise(const float *score, int32_t *heap, uint32_t at)
{
    for (uint32_t parent; at > 0 && ranks_behind(score, heap[at], heap[parent = (at - 1) / 2]); at = parent) {
        int32_t block = heap[at];
        heap[at] = heap[parent];
        heap[parent] = block;
    }
}

/* The top_k of n_blocks > top_k blocks, in ascending order. */
static void select_top(const float *score, uint32_t n_blocks, uint32_t top_k, int32_t *out)
{
    for (uint32_t b = 0; b < n_blocks; b++) {
        if (b < top_k) {
            out[b] = (int32_t)b;
            rise(score, out, b);
        } else if (ranks_behind(score, out[0], (int32_t)b)) {
            out[0] = (int32_t)b;
            sink(score, out, top_k);
        }
    }
    int32_t worst = out[0];
    for (uint32_t b = 0, n = 0; b < n_blocks && n < top_k; b++)
        if (!ranks_behind(score, (int32_t)b, worst))
            out[n++] = (int32_t)b;
}

static void score_blocks(const struct choose *c, uint32_t row, uint32_t n_blocks, float *k, float *score)
{
    const struct halo_op_blocks_choose *u = c->u;
    const struct halo_device_model *model = c->model;
    const struct halo_kv_group *kv = &model->plan->kv[u->kv_group];
    const struct halo_batch_seq *seq = &model->batch->seqs[model->batch->seq[row]];
    const float *q = halo_cpu_row(model, u->q, row), *weight = halo_cpu_row(model, u->weight, row);
    uint32_t dim = kv->head_dim_k;
    for (uint32_t b = 0; b < n_blocks; b++) {
        const uint8_t *stored = halo_cpu_kv_block(model, u->kv_group, u->kv_layer, seq, (b + 1) * u->ratio - 1);
        model->device->lanes->kv_load(kv->type, dim, 1, stored, NULL, k);
        score[b] = 0;
        for (uint32_t h = 0; h < u->n_head; h++) {
            float product = dot(dim, q + (size_t)h * dim, k);
            score[b] += weight[h] * u->scale * (product > 0 ? product : product != product ? product : 0);
        }
    }
}

static void choose_item(void *arg, uint32_t row, uint32_t thread)
{
    const struct choose *c = arg;
    const struct halo_cpu_scratch *scratch = &c->model->scratch;
    uint32_t n_blocks = ((uint32_t)c->model->batch->pos[row] + 1) / c->u->ratio, top_k = c->u->top_k;
    int32_t *out = (int32_t *)(void *)halo_cpu_row(c->model, c->u->out, row);
    if (n_blocks > top_k) {
        float *k = (float *)(void *)(scratch->attend_thread + thread * scratch->attend_thread_bytes);
        float *score = scratch->block_scores + (size_t)thread * scratch->n_block_scores;
        score_blocks(c, row, n_blocks, k, score);
        select_top(score, n_blocks, top_k, out);
        return;
    }
    for (uint32_t b = 0; b < top_k; b++)
        out[b] = b < n_blocks ? (int32_t)b : -1;
}

void halo_cpu_op_blocks_choose(struct halo_device_model *model, const struct halo_op *op)
{
    struct choose c = {model, &op->u.blocks_choose};
    halo_workers_run(model->device->workers, model->batch->n_rows, choose_item, &c);
}
