/* reference.c: the products, in plain C, over the packed layout: what the vector kernels must equal bit for bit.
 *
 * A block of any quantized type is expanded into *slabs*: 32 columns of one row, as integers, with their scales. The
 * product of slab and activation block is the same few lines for all types. Pure.
 */
#include <assert.h>
#include <math.h>

#include "act_priv.h"
#include "float_priv.h"
#include "format_priv.h"
#include "matmul_priv.h"
#include "slab_priv.h"

static float slab_add(const struct halo_slab *s, const struct halo_act_block *a, float acc)
{
    int32_t sum[2] = {0, 0};
    for (int i = 0; i < HALO_QK; i++)
        sum[i / 16] += s->q[i] * a->q[i];
    /* With integers for sub the sum is below 2^24 in magnitude for every type, and exact; with others it is rounded
     * once, here. */
    float part = fmaf((float)sum[1], s->sub[1], (float)sum[0] * s->sub[0]);
    acc = fmaf(part, s->scale * a->d, acc);
    switch (s->minimum) {
    case HALO_SLAB_NO_MIN: return acc;
    case HALO_SLAB_MIN: return fmaf(s->min, a->dsum, acc);
    case HALO_SLAB_MIN_HALVES:
        return fmaf(-(float)(s->sub_min[0] * a->sum16[0] + s->sub_min[1] * a->sum16[1]), s->min * a->d, acc);
    }
    return acc;
}

static void quantized_group(const struct halo_cpu_matrix *w, const uint8_t *packed, const struct halo_act_block *act,
                            float *sum)
{
    const struct halo_cpu_format *format = halo_cpu_format_of(w->type);
    uint32_t n_slabs = format->block_weights / HALO_QK;
    _Alignas(8) uint8_t block[HALO_CPU_BLOCK_MAX];
    struct halo_slab slabs[HALO_QK_K / HALO_QK];
    for (uint32_t row = 0; row < HALO_CPU_GROUP; row++) {
        sum[row] = 0;
        for (uint32_t i = 0; i < w->n_cols / format->block_weights; i++) {
            halo_cpu_block_gather(format, packed + (size_t)i * format->block_bytes * HALO_CPU_GROUP, row, block);
            halo_slab_expand(w->type, block, slabs);
            for (uint32_t k = 0; k < n_slabs; k++)
                sum[row] = slab_add(&slabs[k], &act[i * n_slabs + k], sum[row]);
        }
    }
}

static void float_group(const struct halo_cpu_matrix *w, const uint8_t *packed, const float *x, float *sum)
{
    const struct halo_cpu_format *format = halo_cpu_format_of(w->type);
    for (uint32_t row = 0; row < HALO_CPU_GROUP; row++) {
        sum[row] = 0;
        for (uint32_t first = 0; first < w->n_cols; first += HALO_QK) {
            float chunk = 0, value;
            for (uint32_t col = first; col < w->n_cols && col < first + HALO_QK; col++) {
                halo_cpu_block_dequantize(w->type, packed + ((size_t)col * HALO_CPU_GROUP + row) * format->block_bytes,
                                          &value);
                chunk = fmaf(value, x[col], chunk);
            }
            sum[row] += chunk;
        }
    }
}

void halo_matmul_reference(const struct halo_matmul_job *job)
{
    bool quantized = halo_cpu_act_kind(job->w->type) == HALO_CPU_ACT_Q8;
    for (uint32_t g = job->first_group; g < job->first_group + job->n_groups; g++) {
        const uint8_t *packed = job->w->data + g * job->w->group_bytes;
        for (uint32_t i = 0; i < job->n_x; i++) {
            float sum[HALO_CPU_GROUP];
            if (quantized)
                quantized_group(job->w, packed, job->act[i], sum);
            else
                float_group(job->w, packed, job->act[i], sum);
            halo_matmul_store(job, g, i, sum);
        }
    }
}
