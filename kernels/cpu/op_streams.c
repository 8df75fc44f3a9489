/* op_streams.c: residual streams side by side: what a block reads of them, and how its result goes back (op.h).
 *
 * The few numbers that mix the streams are computed in double. Device thread, rows on all threads.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

#define COLUMNS 64 /* of each stream that are changed together */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* comb[s][d], scaled in turns so that rows and columns add up to one. */
static void balance(uint32_t n, uint32_t iterations, double eps, double comb[HALO_STREAMS_MAX][HALO_STREAMS_MAX])
{
    for (uint32_t i = 0; i < iterations; i++) {
        for (uint32_t s = 0; s < n && i > 0; s++) {
            double sum = eps;
            for (uint32_t d = 0; d < n; d++)
                sum += comb[s][d];
            for (uint32_t d = 0; d < n; d++)
                comb[s][d] /= sum;
        }
        for (uint32_t d = 0; d < n; d++) {
            double sum = eps;
            for (uint32_t s = 0; s < n; s++)
                sum += comb[s][d];
            for (uint32_t s = 0; s < n; s++)
                comb[s][d] /= sum;
        }
    }
}

static void back_of(const struct halo_op_streams_mix *u, const float *mix, const float *scale, const float *base,
                    float *back)
{
    double comb[HALO_STREAMS_MAX][HALO_STREAMS_MAX];
    uint32_t n = u->n;
    for (uint32_t i = 0; i < n; i++)
        back[i] = (float)(2 * sigmoid((double)mix[n + i] * (double)scale[1] + (double)base[n + i]));
    for (uint32_t s = 0; s < n; s++) {
        double most = -INFINITY, sum = 0;
        for (uint32_t d = 0; d < n; d++) {
            uint32_t at = 2 * n + n * s + d;
            comb[s][d] = (double)mix[at] * (double)scale[2] + (double)base[at];
            most = fmax(most, comb[s][d]);
        }
        for (uint32_t d = 0; d < n; d++)
            sum += comb[s][d] = exp(comb[s][d] - most);
        for (uint32_t d = 0; d < n; d++)
            comb[s][d] = comb[s][d] / sum + (double)u->eps;
    }
    balance(n, u->iterations, (double)u->eps, comb);
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t d = 0; d < n; d++)
            back[n + n * s + d] = (float)comb[s][d];
}

static void mix_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_streams_mix *u = &op->u.streams_mix;
    const float *scale = halo_cpu_vector(model, u->scale), *base = halo_cpu_vector(model, u->base);
    uint32_t width = model->scratch.values[u->out].width;
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *x = halo_cpu_row(model, u->x, r), *mix = halo_cpu_row(model, u->mix, r);
        float *out = halo_cpu_row(model, u->out, r);
        memset(out, 0, width * sizeof(*out));
        for (uint32_t i = 0; i < u->n; i++) {
            double share = sigmoid((double)mix[i] * (double)scale[0] + (double)base[i]) + (double)u->eps;
            model->device->lanes->axpy(width, (float)share, x + (size_t)i * width, out);
        }
        if (u->back != HALO_NONE)
            back_of(u, mix, scale, base, halo_cpu_row(model, u->back, r));
    }
}

void halo_cpu_op_streams_mix(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.streams_mix.x].width, mix_rows);
}

static void add_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_streams_add *u = &op->u.streams_add;
    uint32_t n = u->n, width = model->scratch.values[u->add].width;
    float was[HALO_STREAMS_MAX][COLUMNS];
    for (uint32_t r = first_row; r < first_row + n_rows; r++) {
        const float *post = halo_cpu_row(model, u->back, r), *comb = post + n, *add = halo_cpu_row(model, u->add, r);
        float *x = halo_cpu_row(model, u->x, r);
        for (uint32_t at = 0; at < width; at += COLUMNS) {
            uint32_t n_columns = width - at < COLUMNS ? width - at : COLUMNS;
            for (uint32_t s = 0; s < n; s++)
                memcpy(was[s], x + (size_t)s * width + at, n_columns * sizeof(*x));
            for (uint32_t d = 0; d < n; d++) {
                float *out = x + (size_t)d * width + at;
                for (uint32_t i = 0; i < n_columns; i++)
                    out[i] = post[d] * add[at + i];
                for (uint32_t s = 0; s < n; s++)
                    model->device->lanes->axpy(n_columns, comb[n * s + d], was[s], out);
            }
        }
    }
}

void halo_cpu_op_streams_add(struct halo_device_model *model, const struct halo_op *op)
{
    halo_cpu_each_row(model, op, model->batch->n_rows, model->scratch.values[op->u.streams_add.x].width, add_rows);
}
