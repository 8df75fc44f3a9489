/* op_ssm_scan.c: the scan of a state-space model (Mamba-2) over the states of the batch's sequences. Device thread; the
 * heads of each sequence on all threads.
 *
 * The rows of a sequence go over a head's state one after the other, a few at a time (lanes_ssm.c): how they are
 * divided over batches changes no bit.
 */
#include <math.h>

#include "device_priv.h"

struct scan {
    struct halo_device_model *model;
    const struct halo_op_ssm_scan *u;
    const float *a, *d, *dt_bias;
};

static struct halo_cpu_ssm_row row_of(const struct scan *s, uint32_t head, uint32_t r)
{
    const struct halo_op_ssm_scan *u = s->u;
    uint32_t group = head / (u->n_head / u->n_group);
    const float *x = halo_cpu_row(s->model, u->xbc, r), *b = x + (size_t)u->n_head * u->head_dim,
                *c = b + (size_t)u->n_group * u->n_state;
    double dt = halo_cpu_softplus((double)halo_cpu_row(s->model, u->dt, r)[head] + (double)s->dt_bias[head]);
    return (struct halo_cpu_ssm_row){
        .x = x + (size_t)head * u->head_dim,
        .b = b + (size_t)group * u->n_state,
        .c = c + (size_t)group * u->n_state,
        .dt = (float)dt,
        .decay = (float)exp(dt * (double)s->a[head]),
        .d = s->d[head],
        .out = halo_cpu_row(s->model, u->out, r) + (size_t)head * u->head_dim,
    };
}

/* One head of one sequence. */
static void run_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct scan *s = arg;
    const struct halo_op_ssm_scan *u = s->u;
    const struct halo_cpu_row_tile *run = &s->model->scratch.tiles[index / u->n_head];
    uint32_t head = index % u->n_head;
    float *state = halo_cpu_head_state(s->model, &u->state, run->first_row, head, (size_t)u->head_dim * u->n_state);

    for (uint32_t done = 0, n; done < run->n_rows; done += n) {
        struct halo_cpu_ssm_row rows[HALO_CPU_SSM_ROWS];
        n = run->n_rows - done < HALO_CPU_SSM_ROWS ? run->n_rows - done : HALO_CPU_SSM_ROWS;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = row_of(s, head, run->first_row + done + i);
        s->model->device->lanes->ssm_scan(u->head_dim, u->n_state, n, rows, state);
    }
}

void halo_cpu_op_ssm_scan(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_ssm_scan *u = &op->u.ssm_scan;
    struct scan s = {model, u, halo_cpu_vector(model, u->a), halo_cpu_vector(model, u->d),
                     halo_cpu_vector(model, u->dt_bias)};
    halo_workers_run(model->device->workers, halo_cpu_sequences(model) * u->n_head, run_item, &s);
}
