/* op_compress.c: the keys of `ratio` positions become one row of the cache (op.h).
 *
 * The softmax over the positions of a block is taken as they come, so that a block costs the same whether its positions
 * come in one batch or one by one, and gives the same bits. First the elements are spread over the threads: each item
 * takes all rows in order for its elements, and leaves those of a finished block in u. Then the rows that end a block
 * are normed, rotated and stored. Device thread.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

#define COLUMNS 32 /* elements of an item */

/* The softmax in progress of some elements of one block: [dim] of each. */
struct softmax {
    float *max, *sum, *out;
};

struct compress {
    struct halo_device_model *model;
    const struct halo_op_compress *u;
};

/* Elements first .. first + n - 1 of the block under way (0) or the one that follows (1). */
static struct softmax softmax_of(const struct compress *c, float *state, uint32_t which, uint32_t first)
{
    uint32_t dim = c->u->dim;
    float *at = state + (size_t)which * 3 * dim + first;
    return (struct softmax){at, at + dim, at + 2 * (size_t)dim};
}

static void softmax_begin(const struct softmax *softmax, uint32_t n)
{
    memset(softmax->sum, 0, n * sizeof(float));
}

/* One more position. An element without any so far has the sum 0. */
static void softmax_take(const struct halo_cpu_lanes *lanes, const struct softmax *softmax, uint32_t n, const float *u,
                         const float *z, const float *bias)
{
    float score[COLUMNS], factor[COLUMNS] = {0};
    for (uint32_t i = 0; i < n; i++) {
        score[i] = z[i] + bias[i];
        factor[i] = softmax->sum[i] == 0 ? 0 : -fabsf(score[i] - softmax->max[i]);
    }
    lanes->exp(n, factor, 0, factor);
    for (uint32_t i = 0; i < n; i++) {
        float *sum = &softmax->sum[i], *out = &softmax->out[i], *max = &softmax->max[i];
        if (*sum == 0) {
            *max = score[i];
            *sum = 1;
            *out = u[i];
        } else if (score[i] > *max) {
            *max = score[i];
            *sum = *sum * factor[i] + 1;
            *out = *out * factor[i] + u[i];
        } else {
            *sum += factor[i];
            *out += factor[i] * u[i];
        }
    }
}

/* Rows first_row .. end - 1 of one sequence for the elements of one item. */
static void take_rows(const struct compress *c, uint32_t first_row, uint32_t end, uint32_t first, uint32_t n)
{
    const struct halo_op_compress *u = c->u;
    const struct halo_cpu_lanes *lanes = c->model->device->lanes;
    const float *bias = halo_cpu_vector(c->model, u->bias);
    uint32_t width = u->overlap ? 2 * u->dim : u->dim, own = u->overlap ? u->dim : 0;
    float *state = halo_cpu_state(c->model, &u->state, first_row);
    struct softmax now = softmax_of(c, state, 0, first), next = softmax_of(c, state, 1, first);
    for (uint32_t r = first_row; r < end; r++) {
        uint32_t pos = (uint32_t)c->model->batch->pos[r], phase = pos % u->ratio;
        const float *row_bias = bias + (size_t)phase * width + first;
        float *row_u = halo_cpu_row(c->model, u->u, r) + first;
        const float *row_z = halo_cpu_row(c->model, u->z, r) + first;
        if (phase == 0) {
            if (pos > 0 && u->overlap) {
                memcpy(now.max, next.max, n * sizeof(float));
                memcpy(now.sum, next.sum, n * sizeof(float));
                memcpy(now.out, next.out, n * sizeof(float));
            } else {
                softmax_begin(&now, n);
            }
            if (u->overlap)
                softmax_begin(&next, n);
        }
        softmax_take(lanes, &now, n, row_u + own, row_z + own, row_bias + own);
        if (u->overlap)
            softmax_take(lanes, &next, n, row_u, row_z, row_bias);
        if (phase == u->ratio - 1)
            for (uint32_t i = 0; i < n; i++)
                row_u[i] = now.out[i] / now.sum[i];
    }
}

static void take_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct compress *c = arg;
    const struct halo_batch *batch = c->model->batch;
    uint32_t first = index * COLUMNS, left = c->u->dim - first, end;
    for (uint32_t row = 0; row < batch->n_rows; row = end) {
        for (end = row + 1; end < batch->n_rows && batch->seq[end] == batch->seq[row];)
            end++;
        take_rows(c, row, end, first, left < COLUMNS ? left : COLUMNS);
    }
}

static void store_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_compress *u = &op->u.compress;
    const struct halo_batch *batch = model->batch;
    const struct halo_kv_group *kv = &model->plan->kv[u->kv_group];
    const struct halo_rope *rope = &model->plan->ropes[u->rope];
    float table[HALO_COMPRESS_ROTATED_MAX];
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        uint32_t pos = (uint32_t)batch->pos[r];
        float *x = halo_cpu_row(model, u->u, r);
        if (pos % u->ratio != u->ratio - 1)
            continue;
        model->device->lanes->rmsnorm(u->dim, x, NULL, halo_cpu_vector(model, u->norm), u->eps, x);
        halo_cpu_rope_table(rope, pos + 1 - u->ratio, table);
        halo_cpu_rope_heads(x + u->dim - rope->n_rot, 1, rope->n_rot, rope, table);
        uint8_t *row = halo_cpu_kv_block(model, u->kv_group, u->kv_layer, &batch->seqs[batch->seq[r]], pos);
        model->device->lanes->kv_store(kv->type, u->dim, x, row);
    }
}

void halo_cpu_op_compress(struct halo_device_model *model, const struct halo_op *op)
{
    struct compress c = {model, &op->u.compress};
    halo_workers_run(model->device->workers, (c.u->dim + COLUMNS - 1) / COLUMNS, take_item, &c);
    halo_cpu_each_row(model, op, model->batch->n_rows, 4 * c.u->dim, store_rows);
}
