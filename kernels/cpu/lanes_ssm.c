/* lanes_ssm.c: the scan of a state-space model (Mamba-2) for one head. Pure functions; compiled once for each variant
 * (lanes_priv.h).
 *
 * Four rows of the state at a time: each is read and written once for a row of the batch and stays in the first cache
 * while the rows of a call go over sixteen of them.
 */
#include <assert.h>

#include "lanes_priv.h"
#include "vec_priv.h"

#define BLOCK 16 /* rows of the state that all rows of a call pass before the next ones are touched */

/* One row for the rows i .. i+n-1 of the state, n 1 or 4. */
static inline __attribute__((always_inline)) void step(uint32_t n, uint32_t n_state, const struct halo_cpu_ssm_row *row,
                                                       uint32_t i, float *state)
{
    struct vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()}, in[4];
    const struct vec decay = vec_splat(row->decay);
    float product[4];

    for (uint32_t j = 0; j < n; j++)
        in[j] = vec_splat(row->dt * row->x[i + j]);
    for (uint32_t c = 0; c < n_state; c += 16) {
        struct vec b = vec_load_chunk(row->b, c, n_state), of_c = vec_load_chunk(row->c, c, n_state);
        for (uint32_t j = 0; j < n; j++) {
            struct vec s = vec_load_chunk(state + (size_t)j * n_state, c, n_state);
            s = vec_fma(s, decay, vec_mul(in[j], b));
            vec_store_chunk(state + (size_t)j * n_state, c, n_state, s);
            sum[j] = vec_fma(s, of_c, sum[j]);
        }
    }
    vec_sum4(sum, product);
    for (uint32_t j = 0; j < n; j++)
        row->out[i + j] = product[j] + row->d * row->x[i + j];
}

void LANES(ssm_scan)(uint32_t head_dim, uint32_t n_state, uint32_t n_rows, const struct halo_cpu_ssm_row *rows,
                     float *state)
{
    for (uint32_t first = 0; first < head_dim; first += BLOCK) {
        uint32_t end = head_dim - first < BLOCK ? head_dim : first + BLOCK;
        for (uint32_t r = 0; r < n_rows; r++) {
            uint32_t i = first;
            for (; i + 4 <= end; i += 4)
                step(4, n_state, &rows[r], i, state + (size_t)i * n_state);
            for (; i < end; i++)
                step(1, n_state, &rows[r], i, state + (size_t)i * n_state);
        }
    }
}
