/* op_delta_rule.c: the gated delta rule over the states of the batch's sequences. Device thread; the heads of each
 * sequence on all threads.
 *
 * The rows of a sequence go over a head's state one after the other, a few at a time (lanes_delta.c): how they are
 * divided over batches changes no bit.
 */
#include <math.h>

#include "device_priv.h"

struct delta {
    struct halo_device_model *model;
    const struct halo_op_delta_rule *u;
    const float *a, *dt_bias;
};

static struct halo_cpu_delta_row row_of(const struct delta *d, uint32_t head, uint32_t r)
{
    const struct halo_op_delta_rule *u = d->u;
    uint32_t per_k = u->n_head_v / u->n_head_k, head_k = u->grouped ? head / per_k : head % u->n_head_k;
    uint32_t gate = head / per_k * u->gate_stride + head % per_k;
    const float *q = halo_cpu_row(d->model, u->qkv, r), *k = q + (size_t)u->n_head_k * u->dim_k,
                *v = k + (size_t)u->n_head_k * u->dim_k;
    double alpha = (double)halo_cpu_row(d->model, u->alpha, r)[gate + u->alpha_first],
           beta = (double)halo_cpu_row(d->model, u->beta, r)[gate + u->beta_first];
    return (struct halo_cpu_delta_row){
        .q = q + (size_t)head_k * u->dim_k,
        .k = k + (size_t)head_k * u->dim_k,
        .v = v + (size_t)head * u->dim_v,
        .decay = (float)exp((double)d->a[head] * halo_cpu_softplus(alpha + (double)d->dt_bias[head])),
        .beta = (float)(1 / (1 + exp(-beta))),
        .out = halo_cpu_row(d->model, u->out, r) + (size_t)head * u->dim_v,
    };
}

/* One head of one sequence. */
static void run_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct delta *d = arg;
    const struct halo_op_delta_rule *u = d->u;
    const struct halo_cpu_row_tile *run = &d->model->scratch.tiles[index / u->n_head_v];
    uint32_t head = index % u->n_head_v;
    float *state = halo_cpu_head_state(d->model, &u->state, run->first_row, head, (size_t)u->dim_v * u->dim_k);
    const struct halo_cpu_delta heads = {u->dim_k, u->dim_v, u->eps, u->scale};

    for (uint32_t done = 0, n; done < run->n_rows; done += n) {
        struct halo_cpu_delta_row rows[HALO_CPU_DELTA_ROWS];
        n = run->n_rows - done < HALO_CPU_DELTA_ROWS ? run->n_rows - done : HALO_CPU_DELTA_ROWS;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = row_of(d, head, run->first_row + done + i);
        d->model->device->lanes->delta_rule(&heads, n, rows, state);
    }
}

void halo_cpu_op_delta_rule(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_delta_rule *u = &op->u.delta_rule;
    struct delta d = {model, u, halo_cpu_vector(model, u->a), halo_cpu_vector(model, u->dt_bias)};
    halo_workers_run(model->device->workers, halo_cpu_sequences(model) * u->n_head_v, run_item, &d);
}
