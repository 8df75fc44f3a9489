/* streams.hip: residual streams side by side: what a block reads of them, and how its result goes back into them.
 *
 * Four neighbouring columns to a thread, of all streams. The first wave of a row's first block balances the numbers
 * that mix the streams: lane l has those from streams l / 8 and l / 8 + 4 to stream l % 8, so that a turn is five
 * exchanges between lanes.
 */
#include "rows.h"

constexpr float LOWEST = -1e30f; /* below the largest of any row that exists */

template <int A, int B, int C> HALO_DEVICE float sum_of_lanes(float v)
{
    v += halo_xor<A>(v);
    v += halo_xor<B>(v);
    return C ? v + halo_xor < C ? C : 1 > (v) : v;
}

/* comb[s][d] of one lane: d = lane % 8, s = lane / 8 and that plus 4; zeros where there is no such stream. */
struct comb {
    float v[2];
};

HALO_DEVICE comb comb_begin(const halo_streams_mix_args &a, const float *mix)
{
    const uint32_t n = a.n, d = halo_lane() % 8;
    comb ret;
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t s = halo_lane() / 8 + 4 * k, at = 2 * n + (d < n && s < n ? n * s + d : 0);
        const bool exists = d < n && s < n;
        const float m = exists ? halo_fma(mix[at], a.scale[2], a.base[at]) : LOWEST;
        float most = halo_max(m, halo_xor<1>(m));
        most = halo_max(most, halo_xor<2>(most));
        most = halo_max(most, halo_xor<4>(most));
        const float power = exists ? halo_exp(m - most) : 0, sum = sum_of_lanes<1, 2, 4>(power);
        ret.v[k] = exists ? power * halo_rcp(sum) + a.eps : 0;
    }
    return ret;
}

HALO_DEVICE void balance(const halo_streams_mix_args &a, const float *mix, float *back)
{
    const uint32_t n = a.n, lane = halo_lane(), d = lane % 8;
    comb c = comb_begin(a, mix);
    for (uint32_t i = 0; i < a.iterations; i++) {
        for (uint32_t k = 0; k < 2 && i > 0; k++)
            c.v[k] *= halo_rcp(sum_of_lanes<1, 2, 4>(c.v[k]) + a.eps);
        const float share = halo_rcp(sum_of_lanes<8, 16, 0>(c.v[0] + c.v[1]) + a.eps);
        for (uint32_t k = 0; k < 2; k++)
            c.v[k] *= share;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t s = lane / 8 + 4 * k;
        if (d < n && s < n)
            back[n + n * s + d] = c.v[k];
    }
    if (lane < n)
        back[lane] = 2 * halo_sigmoid(halo_fma(mix[n + lane], a.scale[1], a.base[n + lane]));
}

/* At most N streams; what does not exist is read again and has no share. */
template <uint32_t N> HALO_DEVICE void streams_mix(const halo_streams_mix_args &a)
{
    const uint32_t row = halo_block_y(), n = a.n, n_cols = a.n_cols;
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    const float *x = a.x + (uint64_t)row * n * n_cols, *mix = a.mix + (uint64_t)row * (a.back ? n * (n + 2) : n);
    halo_f4 v[N], sum = {{0, 0, 0, 0}};
#pragma unroll
    for (uint32_t s = 0; s < N; s++)
        v[s] = halo_load4(x + (uint64_t)halo_min_of(s, n - 1) * n_cols, i, n_cols);
#pragma unroll
    for (uint32_t s = 0; s < N; s++) {
        const uint32_t at = halo_min_of(s, n - 1);
        const float share = halo_sigmoid(halo_fma(mix[at], a.scale[0], a.base[at])) + a.eps;
        for (uint32_t j = 0; j < 4; j++)
            sum.e[j] = s < n ? halo_fma(share, v[s].e[j], sum.e[j]) : sum.e[j];
    }
    halo_store4(a.out + (uint64_t)row * n_cols, i, n_cols, sum);
    if (a.back && halo_block_x() == 0 && halo_wave() == 0)
        balance(a, mix, a.back + (uint64_t)row * n * (n + 1));
}

template <uint32_t N> HALO_DEVICE void streams_add(const halo_streams_add_args &a)
{
    const uint32_t row = halo_block_y(), n = a.n, n_cols = a.n_cols;
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    const float *post = a.back + (uint64_t)row * n * (n + 1), *comb = post + n;
    float *x = a.x + (uint64_t)row * n * n_cols, share[N][N];
    const halo_f4 add = halo_load4(a.add + (uint64_t)row * n_cols, i, n_cols);
    halo_f4 v[N], out[N];
#pragma unroll
    for (uint32_t s = 0; s < N; s++) {
        const uint32_t from = halo_min_of(s, n - 1);
        v[s] = halo_load4(x + (uint64_t)from * n_cols, i, n_cols);
#pragma unroll
        for (uint32_t d = 0; d < N; d++)
            share[s][d] = s < n ? comb[n * from + halo_min_of(d, n - 1)] : 0;
    }
#pragma unroll
    for (uint32_t d = 0; d < N; d++) {
        const float own = post[halo_min_of(d, n - 1)];
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            out[d].e[j] = own * add.e[j];
#pragma unroll
            for (uint32_t s = 0; s < N; s++)
                out[d].e[j] = s < n ? halo_fma(share[s][d], v[s].e[j], out[d].e[j]) : out[d].e[j];
        }
    }
#pragma unroll
    for (uint32_t d = 0; d < N; d++)
        if (d < n)
            halo_store4(x + (uint64_t)d * n_cols, i, n_cols, out[d]);
}

#define HALO_STREAMS_KERNELS(streams)                                                                                  \
    HALO_KERNEL(streams_mix_n##streams, halo_streams_mix_args, 256)                                                    \
    {                                                                                                                  \
        streams_mix<streams>(a);                                                                                       \
    }                                                                                                                  \
    HALO_KERNEL(streams_add_n##streams, halo_streams_add_args, 256)                                                    \
    {                                                                                                                  \
        streams_add<streams>(a);                                                                                       \
    }
HALO_STREAMS_KERNELS(4)
HALO_STREAMS_KERNELS(8)
