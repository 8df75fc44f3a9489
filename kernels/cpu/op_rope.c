/* op_rope.c: rotates the pairs of q and k by the position of the row.
 *
 * The cosines and sines of a row are computed once a run, in double, and shared by all layers. Plain C without fused
 * operations: the same bits for every variant. Device thread, rows on all threads.
 */
#include <math.h>

#include "device_priv.h"

void halo_cpu_rope_table(const struct halo_rope *rope, uint32_t pos, float *ret)
{
    uint32_t n = rope->n_rot / 2;
    for (uint32_t i = 0; i < n; i++) {
        double angle = pos * rope->freqs[i];
        ret[i] = (float)(cos(angle) * (double)rope->scale);
        ret[n + i] = (float)(sin(angle) * (double)rope->scale);
    }
}

static void table_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    for (uint32_t i = 0; i < model->plan->n_ropes; i++) {
        const struct halo_rope *rope = &model->plan->ropes[i];
        for (uint32_t r = first_row; r < first_row + n_rows; r++)
            halo_cpu_rope_table(rope, (uint32_t)model->batch->pos[r], model->scratch.rope[i] + (size_t)r * rope->n_rot);
    }
}

void halo_cpu_rope_tables(struct halo_device_model *model)
{
    uint32_t cost = 0;
    for (uint32_t i = 0; i < model->plan->n_ropes; i++)
        cost += 32 * model->plan->ropes[i].n_rot;
    halo_cpu_each_row(model, NULL, model->batch->n_rows, cost, table_rows);
}

/* `step` lies between the elements of a pair, `next` between pairs. */
static inline void rotate(float *x, uint32_t n_pairs, uint32_t step, uint32_t next, const float *cosine,
                          const float *sine)
{
    for (uint32_t i = 0; i < n_pairs; i++) {
        float a = x[next * i], b = x[next * i + step];
        x[next * i] = a * cosine[i] - b * sine[i];
        x[next * i + step] = a * sine[i] + b * cosine[i];
    }
}

void halo_cpu_rope_heads(float *x, uint32_t n_heads, uint32_t head_dim, const struct halo_rope *rope,
                         const float *cosine)
{
    uint32_t n = rope->n_rot / 2;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        if (rope->pairing == HALO_ROPE_NEOX)
            rotate(x, n, n, 1, cosine, cosine + n);
        else
            rotate(x, n, 1, 2, cosine, cosine + n);
    }
}

static void rope_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_rope *u = &op->u.rope;
    const struct halo_rope *rope = &model->plan->ropes[u->rope];
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *table = model->scratch.rope[u->rope] + (size_t)r * rope->n_rot;
        halo_cpu_rope_heads(halo_cpu_row(model, u->q, r), u->n_head, u->head_dim, rope, table);
        if (u->k != HALO_NONE)
            halo_cpu_rope_heads(halo_cpu_row(model, u->k, r), u->n_head_kv, u->head_dim, rope, table);
    }
}

void halo_cpu_op_rope(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_rope *u = &op->u.rope;
    halo_cpu_each_row(model, op, model->batch->n_rows, (u->n_head + u->n_head_kv) * u->head_dim, rope_rows);
}
