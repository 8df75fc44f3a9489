/* matmul_priv.h: one call of halo_cpu_matmul(), as the kernels of an instruction set receive it. */
#ifndef HALO_CPU_MATMUL_PRIV_H
#define HALO_CPU_MATMUL_PRIV_H

#include <matmul/matmul.h>

struct halo_matmul_job {
    const struct halo_cpu_matrix *w;
    uint32_t first_group, n_groups, n_x;
    const void *const *act;
    float *const *out;
    const float *bias; /* or NULL */
};

static inline __attribute__((always_inline)) void halo_matmul_store_rows(float *restrict out, const float *restrict sum,
                                                                         float scale, const float *restrict bias,
                                                                         uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        out[r] = bias ? sum[r] * scale + bias[r] : sum[r] * scale;
}

/* Writes the sums of one group and one activation row to the caller's row, with scale and bias, without the rows that
 * are padding. */
static inline void halo_matmul_store(const struct halo_matmul_job *job, uint32_t group, uint32_t i, const float *sum)
{
    uint32_t row = group * HALO_CPU_GROUP, left = job->w->n_rows - row;
    const float *bias = job->bias ? job->bias + row : NULL;
    if (left >= HALO_CPU_GROUP)
        halo_matmul_store_rows(job->out[i] + row, sum, job->w->scale, bias, HALO_CPU_GROUP);
    else
        halo_matmul_store_rows(job->out[i] + row, sum, job->w->scale, bias, left);
}

typedef void halo_matmul_fn(const struct halo_matmul_job *job);

halo_matmul_fn halo_matmul_reference;
/* By type, NULL where there is none; _int: the quantized ones. */
halo_matmul_fn *halo_matmul_find_avx2(enum halo_type type);
halo_matmul_fn *halo_matmul_find_int_avx2(enum halo_type type);
halo_matmul_fn *halo_matmul_find_avx512(enum halo_type type);
halo_matmul_fn *halo_matmul_find_int_avx512(enum halo_type type);

#endif
