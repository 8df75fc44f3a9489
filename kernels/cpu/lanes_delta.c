/* lanes_delta.c: the gated delta rule for one head. Pure functions; compiled once for each variant (lanes_priv.h).
 *
 * Four rows of the state at a time: each is read twice for a row of the batch, for its product with k and for the one
 * with q, and stays in the first cache while the rows of a call go over sixteen of them.
 */
#include <assert.h>
#include <math.h>

#include "lanes_priv.h"
#include "vec_priv.h"

#define BLOCK 16 /* rows of the state that all rows of a call pass before the next ones are touched */

/* scale / max(|x|, eps) */
static float normed(uint32_t n, const float *x, float eps, float scale)
{
    struct vec sum = vec_zero();
    for (uint32_t i = 0; i < n; i += 16) {
        struct vec a = vec_load_chunk(x, i, n);
        sum = vec_fma(a, a, sum);
    }
    float length = sqrtf(vec_sum(sum));
    return scale / (length > eps ? length : eps);
}

/* One row for the rows i .. i+n-1 of the state, n 1 or 4, with the factors that norm k and q. */
static inline __attribute__((always_inline)) void step(uint32_t n, uint32_t dim_k, const struct halo_cpu_delta_row *row,
                                                       float norm_k, float norm_q, uint32_t i, float *state)
{
    struct vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()}, by[4];
    const struct vec decay = vec_splat(row->decay);
    float product[4];

    for (uint32_t c = 0; c < dim_k; c += 16) {
        struct vec k = vec_load_chunk(row->k, c, dim_k);
        for (uint32_t j = 0; j < n; j++) {
            struct vec s = vec_mul(vec_load_chunk(state + (size_t)j * dim_k, c, dim_k), decay);
            vec_store_chunk(state + (size_t)j * dim_k, c, dim_k, s);
            sum[j] = vec_fma(s, k, sum[j]);
        }
    }
    vec_sum4(sum, product);
    for (uint32_t j = 0; j < n; j++) {
        by[j] = vec_splat(row->beta * (row->v[i + j] - product[j] * norm_k) * norm_k);
        sum[j] = vec_zero();
    }
    for (uint32_t c = 0; c < dim_k; c += 16) {
        struct vec k = vec_load_chunk(row->k, c, dim_k), q = vec_load_chunk(row->q, c, dim_k);
        for (uint32_t j = 0; j < n; j++) {
            struct vec s = vec_fma(by[j], k, vec_load_chunk(state + (size_t)j * dim_k, c, dim_k));
            vec_store_chunk(state + (size_t)j * dim_k, c, dim_k, s);
            sum[j] = vec_fma(s, q, sum[j]);
        }
    }
    vec_sum4(sum, product);
    for (uint32_t j = 0; j < n; j++)
        row->out[i + j] = product[j] * norm_q;
}

void LANES(delta_rule)(const struct halo_cpu_delta *heads, uint32_t n_rows, const struct halo_cpu_delta_row *rows,
                       float *state)
{
    float norm_k[HALO_CPU_DELTA_ROWS], norm_q[HALO_CPU_DELTA_ROWS];
    uint32_t dim_k = heads->dim_k, dim_v = heads->dim_v;

    assert(n_rows <= HALO_CPU_DELTA_ROWS);
    for (uint32_t r = 0; r < n_rows; r++) {
        norm_k[r] = normed(dim_k, rows[r].k, heads->eps, 1);
        norm_q[r] = normed(dim_k, rows[r].q, heads->eps, heads->scale);
    }
    for (uint32_t first = 0; first < dim_v; first += BLOCK) {
        uint32_t end = dim_v - first < BLOCK ? dim_v : first + BLOCK;
        for (uint32_t r = 0; r < n_rows; r++) {
            uint32_t i = first;
            for (; i + 4 <= end; i += 4)
                step(4, dim_k, &rows[r], norm_k[r], norm_q[r], i, state + (size_t)i * dim_k);
            for (; i < end; i++)
                step(1, dim_k, &rows[r], norm_k[r], norm_q[r], i, state + (size_t)i * dim_k);
        }
    }
}
