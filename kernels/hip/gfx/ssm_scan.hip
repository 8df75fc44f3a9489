/* ssm_scan.hip: the scan of Mamba-2 (op.h): S has a row for each element of x, a column for each of B and C. */
#include "recurrence.h"

struct ssm_scan {
    static constexpr bool DELTA = false;
    const float *b, *c, *dt; /* of row 0 of the batch, those of the head */
    uint32_t xbc_stride, dt_stride;
    float a, dt_bias;

    HALO_DEVICE_MEMBER recurrence_row row(uint32_t r) const
    {
        const float step = softplus(dt[(uint64_t)r * dt_stride] + dt_bias);
        return {b + (uint64_t)r * xbc_stride, c + (uint64_t)r * xbc_stride, halo_exp(a * step), step};
    }
};

template <uint32_t COLS> HALO_DEVICE void run_ssm_scan(const halo_ssm_scan_args &a, recurrence_lds<COLS> &lds)
{
    const uint32_t h = halo_block_y(), n_x = a.n_head * a.head_dim, n_b = a.n_group * a.n_state;
    const state_rows rows = state_rows_of(a.state, halo_block_z());
    const float *b = a.xbc + n_x + h / (a.n_head / a.n_group) * a.n_state;
    const ssm_scan rule = {b, b + n_b, a.dt + h, n_x + 2 * n_b, a.n_head, a.a[h], a.dt_bias[h]};
    const recurrence_head head = {rows.state + (uint64_t)h * a.head_dim * a.n_state,
                                  a.xbc + h * a.head_dim,
                                  a.out + h * a.head_dim,
                                  a.head_dim,
                                  a.n_state,
                                  n_x + 2 * n_b,
                                  n_x,
                                  a.d[h],
                                  1,
                                  1};
    recurrence(rule, rows, head, lds);
}

#define HALO_SSM_SCAN_KERNEL(cols)                                                                                     \
    HALO_KERNEL(ssm_scan_d##cols, halo_ssm_scan_args, 128)                                                             \
    {                                                                                                                  \
        HALO_LDS(recurrence_lds<cols>, lds);                                                                           \
        run_ssm_scan<cols>(a, lds);                                                                                    \
    }
HALO_SSM_SCAN_KERNEL(64)
HALO_SSM_SCAN_KERNEL(128)
HALO_SSM_SCAN_KERNEL(256)
HALO_SSM_SCAN_KERNEL(512)
