/* conv1d.hip: causal depthwise convolutions. A thread has one channel of one sequence, and takes the rows in order;
 * some are loaded together, so that their latencies overlap. */
#include "state.h"

constexpr uint32_t TOGETHER = 8; /* rows */

/* n_taps of at most N: they are the last ones of N. */
template <uint32_t N> HALO_DEVICE void conv1d(const halo_conv1d_args &a)
{
    const uint32_t c = halo_block_x() * HALO_CONV1D_COLS + halo_tid(), n = a.n_cols, n_before = a.n_taps - 1;
    const state_rows s = state_rows_of(a.state, halo_block_y());
    if (c >= n)
        return;
    const float *x = a.x + (uint64_t)s.first * n + c;
    float *out = a.out + (uint64_t)s.first * n + c;
    const float bias = a.bias ? a.bias[c] : 0;
    float taps[N], rows[N - 1 + TOGETHER];
    for (uint32_t k = 0; k < N; k++)
        taps[k] = k + a.n_taps >= N ? a.weight[c * a.n_taps + k + a.n_taps - N] : 0;
    for (uint32_t k = 0; k < N - 1; k++)
        rows[k] = k + a.n_taps >= N && !s.begins ? s.state[(uint64_t)(k + a.n_taps - N) * n + c] : 0;
    for (uint32_t r = 0; r < s.n_rows; r += TOGETHER) {
        for (uint32_t j = 0; j < TOGETHER; j++)
            rows[N - 1 + j] = r + j < s.n_rows ? x[(uint64_t)(r + j) * n] : 0;
        for (uint32_t j = 0; j < TOGETHER; j++) {
            float y = bias;
            for (uint32_t k = 0; k < N; k++)
                y = k + a.n_taps >= N ? halo_fma(taps[k], rows[j + k], y) : y;
            if (r + j < s.n_rows)
                out[(uint64_t)(r + j) * n] = a.silu ? y * halo_sigmoid(y) : y;
        }
        for (uint32_t k = 0; k < N - 1; k++)
            rows[k] = rows[k + TOGETHER];
    }
    /* A row of the state takes from those behind it: it may move in place. */
    for (uint32_t k = 0; k < n_before; k++) {
        const uint32_t from = s.n_rows + k;
        const bool is_new = from >= n_before;
        const float moved = is_new     ? x[(uint64_t)(from - n_before) * n]
                            : s.begins ? 0
                                       : s.state[(uint64_t)from * n + c];
        s.state[(uint64_t)k * n + c] = moved;
    }
}

HALO_KERNEL(conv1d_t4, halo_conv1d_args, 256)
{
    conv1d<4>(a);
}
HALO_KERNEL(conv1d_t8, halo_conv1d_args, 256)
{
    conv1d<8>(a);
}
