/* attend_merge.h: where the results of decode attention go: the heads of one split, and the merge of a row's splits. */
#ifndef HALO_GFX_ATTEND_MERGE_H
#define HALO_GFX_ATTEND_MERGE_H

#include "attend.h"
#include "hadamard.h"
#include "rows.h"

/* Elements i .. i + 3 of a head's result to where the next product reads them quantized. */
HALO_DEVICE void leave_act(const halo_attend_args &a, uint32_t row, uint32_t head, uint32_t i, const halo_f4 &v)
{
    const uint32_t dim = a.kv.head_dim_v, n = a.act_cols;
    const bool own = n == dim; /* a row for each head */
    halo_quantize4(v, i < dim ? (own ? i : head * dim + i) : n, n,
                   static_cast<uint8_t *>(a.act) +
                       (own ? (uint64_t)row * a.n_head + head : row) * halo_hip_act_bytes(n));
}

/* The same as f32 too. */
HALO_DEVICE void leave(const halo_attend_args &a, uint32_t row, uint32_t head, uint32_t i, const halo_f4 &v)
{
    const uint32_t dim = a.kv.head_dim_v;
    if (i < dim)
        halo_store4(a.out + ((uint64_t)row * a.n_head + head) * dim, i, dim, v);
    if (a.act)
        leave_act(a, row, head, i, v);
}

/* A whole head's result, of up to 128 N elements: 4 l .. 4 l + 3 of every 128 in lane l. */
template <uint32_t TYPE, int N>
HALO_DEVICE void leave_whole(const halo_attend_args &a, uint32_t row, uint32_t head, halo_f4 (&v)[N])
{
    if constexpr (TYPE == HALO_KV_Q4)
        hadamard_fours<N>(a.kv.head_dim_v, v);
    for (uint32_t i = 0; i < N; i++)
        leave(a, row, head, 4 * halo_lane() + 128 * i, v[i]);
}

/* What a split leaves of a head. */
HALO_DEVICE float *partial_of(const halo_attend_args &a, uint32_t row, uint32_t head, uint32_t split)
{
    return a.partial + (((uint64_t)row * a.n_head + head) * a.n_splits + split) * HALO_PARTIAL_STRIDE(a.kv.head_dim_v);
}

/* A head of this split, whose sum of weighted V is `v`: as a result, or as a partial result. */
template <uint32_t TYPE, int N>
HALO_DEVICE void leave_part(const halo_attend_args &a, const attend_job &job, uint32_t head, float max, float sum,
                            halo_f4 (&v)[N])
{
    const uint32_t dim = a.kv.head_dim_v;
    float *partial = partial_of(a, job.row, head, halo_block_x());
    const float scale = job.n_splits > 1 ? 1 : halo_rcp(sum + kv_sink(a.score, head, max));
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t i = 4 * halo_lane() + 128 * k;
        for (int j = 0; j < 4; j++)
            v[k].e[j] *= scale;
        if (job.n_splits > 1 && i < dim)
            halo_store4(partial + HALO_PARTIAL_HEAD, i, dim, v[k]);
    }
    if (job.n_splits == 1)
        leave_whole<TYPE>(a, job.row, head, v);
    else if (halo_lane() == 0)
        *reinterpret_cast<halo_f2 *>(partial) = halo_f2{{max, sum}};
}

/* The heads of this split. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void leave_split(const halo_attend_args &a, const attend_job &job, const attend_lds<G, D> &lds)
{
    for (uint32_t g = halo_wave(); g < job.n_heads; g += WAVES) {
        halo_f4 v[D / 128];
        for (uint32_t k = 0; k < D / 128; k++) {
            const uint32_t i = 4 * halo_lane() + 128 * k;
            const halo_f4 x = halo_load<halo_f4>(&lds.out[0][g][i]), y = halo_load<halo_f4>(&lds.out[1][g][i]);
            for (int j = 0; j < 4; j++)
                v[k].e[j] = x.e[j] + y.e[j];
        }
        leave_part<TYPE>(a, job, job.first_head + g, lds.max[g], lds.sum[g], v);
    }
}

/* The weight of each split, divided by the sum. */
HALO_DEVICE void merge_weights(const halo_score_arg &score, uint32_t head, uint32_t n_splits, const float *partial,
                               uint32_t stride, float *weight)
{
    float max[2], sum[2];
    for (uint32_t h = 0; h < 2; h++) {
        const uint32_t s = halo_lane() + 32 * h;
        const halo_f2 part = s < n_splits ? halo_load<halo_f2>(partial + s * stride) : halo_f2{{NOTHING, 0}};
        max[h] = part.e[0];
        sum[h] = part.e[1];
    }
    const float most = halo_wave_max(halo_max(max[0], max[1]));
    for (uint32_t h = 0; h < 2; h++)
        max[h] = halo_exp2(max[h] - most);
    const float scale = halo_rcp(halo_wave_sum(halo_fma(sum[0], max[0], sum[1] * max[1])) + kv_sink(score, head, most));
    for (uint32_t h = 0; h < 2; h++)
        weight[halo_lane() + 32 * h] = max[h] * scale;
    halo_wave_barrier();
}

/* The splits of a head of up to D elements, by a wave. */
template <uint32_t TYPE, int D>
HALO_DEVICE void merge_head(const halo_attend_args &a, uint32_t row, uint32_t head, uint32_t n_splits, float *weight)
{
    constexpr uint32_t AHEAD = 8;
    const uint32_t dim = a.kv.head_dim_v, stride = HALO_PARTIAL_STRIDE(dim);
    const float *partial = partial_of(a, row, head, 0);
    merge_weights(a.score, head, n_splits, partial, stride, weight);
    halo_f4 out[D / 128];
    for (uint32_t k = 0; k < D / 128; k++) {
        const uint32_t i = 4 * halo_lane() + 128 * k;
        out[k] = halo_f4{{0, 0, 0, 0}};
#pragma unroll 1
        for (uint32_t first = 0; first < n_splits; first += AHEAD) {
            halo_f4 part[AHEAD];
            for (uint32_t j = 0; j < AHEAD; j++)
                part[j] = halo_load<halo_f4>(partial + halo_min_of(first + j, n_splits - 1) * stride +
                                             HALO_PARTIAL_HEAD + halo_min_of(i, dim - 4));
            for (uint32_t j = 0; j < AHEAD; j++) {
                const float w = first + j < n_splits ? weight[first + j] : 0;
                for (uint32_t e = 0; e < 4; e++)
                    out[k].e[e] = halo_fma(part[j].e[e], w, out[k].e[e]);
            }
        }
    }
    leave_whole<TYPE>(a, row, head, out);
    halo_wave_barrier();
}

/* All that a lane has of AHEAD splits of a head. */
template <int D> struct merge_parts {
    static constexpr uint32_t N = D / 128, AHEAD = 4;
    halo_f4 part[AHEAD][N];
    HALO_DEVICE_MEMBER void load(const float *partial, uint32_t dim, uint32_t first, uint32_t n_splits)
    {
        for (uint32_t j = 0; j < AHEAD; j++)
            for (uint32_t k = 0; k < N; k++)
                part[j][k] =
                    halo_load<halo_f4>(partial + halo_min_of(first + j, n_splits - 1) * HALO_PARTIAL_STRIDE(dim) +
                                       HALO_PARTIAL_HEAD + halo_min_of(4 * halo_lane() + 128 * k, dim - 4));
    }
};

/* The same with fewer waits, for kernels that have the registers: all of four splits is loaded together, and of the
 * first before the weights are known. */
template <uint32_t TYPE, int D>
HALO_DEVICE void merge_long_head(const halo_attend_args &a, uint32_t row, uint32_t head, uint32_t n_splits,
                                 float *weight)
{
    typedef merge_parts<D> parts;
    const uint32_t dim = a.kv.head_dim_v;
    const float *partial = partial_of(a, row, head, 0);
    parts some;
    some.load(partial, dim, 0, n_splits);
    merge_weights(a.score, head, n_splits, partial, HALO_PARTIAL_STRIDE(dim), weight);
    halo_f4 out[parts::N] = {};
#pragma unroll 1
    for (uint32_t first = 0; first < n_splits;) {
        for (uint32_t j = 0; j < parts::AHEAD; j++) {
            const float w = first + j < n_splits ? weight[first + j] : 0;
            for (uint32_t k = 0; k < parts::N; k++)
                for (uint32_t e = 0; e < 4; e++)
                    out[k].e[e] = halo_fma(some.part[j][k].e[e], w, out[k].e[e]);
        }
        first += parts::AHEAD;
        if (first < n_splits)
            some.load(partial, dim, first, n_splits);
    }
    leave_whole<TYPE>(a, row, head, out);
    halo_wave_barrier();
}

template <uint32_t TYPE, int G, int D>
HALO_DEVICE void merge(const halo_attend_args &a, const attend_job &job, attend_lds<G, D> &lds)
{
    for (uint32_t g = halo_wave(); g < job.n_heads; g += WAVES)
        merge_head<TYPE, D>(a, job.row, job.first_head + g, job.n_splits, lds.weight[halo_wave()]);
}

#endif
