/* attend_merge.hip: merges the splits of decode attention in a launch of its own, on chips where that may begin before
 * the launch in front of it has ended (HALO_LAUNCHES_OVERLAP). Where the last block of a row does it (attend_merge.h),
 * all splits of its heads come through one multiprocessor; here a block has one head and loads many of its splits at
 * once, before it knows their weights.
 */
#include "gfx.h"

#if defined(HALO_LAUNCHES_OVERLAP)
#include "attend_merge.h"

/* Heads of up to 128 elements: a block has so few threads and registers (48) that it shares a multiprocessor with a
 * block of attend_tiles and is there, with the number of splits, when that ends. */
template <int D> struct merge_shape {
    static constexpr uint32_t WAVES = D == 128 ? 4 : 16, AHEAD = 4; /* splits of a wave that are loaded together */
    static constexpr int RESIDENT = D == 128 ? 10 : 1;
};

template <int D> struct alignas(16) attend_merge_lds {
    float out[merge_shape<D>::WAVES][D];
};

/* The weights of the splits, divided by their sum: of split `lane` and of split lane + 32. */
struct attend_weights {
    halo_f2 part[2]; /* maximum and sum */
    HALO_DEVICE_MEMBER void load(const float *partial, uint32_t stride, uint32_t n)
    {
        for (uint32_t h = 0; h < 2; h++)
            part[h] = halo_load<halo_f2>(partial + halo_min_of(halo_lane() + 32 * h, n - 1) * stride);
    }
    HALO_DEVICE_MEMBER void get(const halo_score_arg &score, uint32_t head, uint32_t n, float (&weight)[2]) const
    {
        const float max = halo_wave_max(halo_max(part[0].e[0], part[1].e[0]));
        for (uint32_t h = 0; h < 2; h++)
            weight[h] = halo_lane() + 32 * h < n ? halo_exp2(part[h].e[0] - max) : 0;
        const float sum = halo_wave_sum(halo_fma(part[0].e[1], weight[0], part[1].e[1] * weight[1])),
                    scale = halo_rcp(sum + kv_sink(score, head, max));
        for (uint32_t h = 0; h < 2; h++)
            weight[h] *= scale;
    }
};

/* What the waves have of a head, added up by the first one. */
template <uint32_t TYPE, int D>
HALO_DEVICE void attend_merge_join(const halo_attend_args &a, uint32_t row, uint32_t head, halo_f4 (&out)[D / 128],
                                   attend_merge_lds<D> &lds)
{
    const uint32_t wave = halo_wave(), at = 4 * halo_lane();
#pragma unroll
    for (uint32_t k = 0; k < D / 128; k++)
        *reinterpret_cast<halo_f4 *>(&lds.out[wave][at + 128 * k]) = out[k];
    halo_barrier();
    if (wave > 0)
        return;
    for (uint32_t w = 1; w < merge_shape<D>::WAVES; w++)
#pragma unroll
        for (uint32_t k = 0; k < D / 128; k++) {
            const halo_f4 part = halo_load<halo_f4>(&lds.out[w][at + 128 * k]);
            for (uint32_t e = 0; e < 4; e++)
                out[k].e[e] += part.e[e];
        }
    leave_whole<TYPE>(a, row, head, out);
}

/* What a lane has of the splits first, first + WAVES, ... of a head. */
template <int D>
HALO_DEVICE void attend_merge_load(const float *partial, uint32_t dim, uint32_t first, uint32_t n,
                                   halo_f4 (&v)[merge_shape<D>::AHEAD][D / 128])
{
#pragma unroll
    for (uint32_t j = 0; j < merge_shape<D>::AHEAD; j++)
#pragma unroll
        for (uint32_t k = 0; k < D / 128; k++)
            v[j][k] = halo_load<halo_f4>(
                partial + halo_min_of(first + merge_shape<D>::WAVES * j, n - 1) * HALO_PARTIAL_STRIDE(dim) +
                HALO_PARTIAL_HEAD + halo_min_of(4 * halo_lane() + 128 * k, dim - 4));
}

template <uint32_t TYPE, int D> HALO_DEVICE void attend_merge(const halo_attend_args &a, attend_merge_lds<D> &lds)
{
    typedef merge_shape<D> shape;
    constexpr uint32_t N = D / 128;
    const uint32_t head = halo_block_x(), row = halo_block_z(), dim = a.kv.head_dim_v;
    const uint32_t n = splits_of(a, a.kv.pos[row], a.split_step, a.split_least).n;
    const float *partial = partial_of(a, row, head, 0);
    halo_next_may_begin(); /* a product, which loads weights where blocks of attend_tiles have ended */
    halo_inputs_ready();
    if (n < 2) /* the only block has left the result */
        return;
    attend_weights weights;
    halo_f4 v[shape::AHEAD][N], out[N] = {};
    float weight[2];
    weights.load(partial, HALO_PARTIAL_STRIDE(dim), n);
    attend_merge_load<D>(partial, dim, halo_wave(), n, v);
    weights.get(a.score, head, n, weight);
#pragma unroll 1
    for (uint32_t first = halo_wave(); first < n;) {
#pragma unroll
        for (uint32_t j = 0; j < shape::AHEAD; j++) {
            const uint32_t split = first + shape::WAVES * j;
            const float w = halo_shuffle(split < 32 ? weight[0] : weight[1], split % 32);
#pragma unroll
            for (uint32_t k = 0; k < N; k++)
                for (uint32_t e = 0; e < 4; e++)
                    out[k].e[e] = halo_fma(v[j][k].e[e], w, out[k].e[e]);
        }
        first += shape::WAVES * shape::AHEAD;
        if (first < n)
            attend_merge_load<D>(partial, dim, first, n, v);
    }
    attend_merge_join<TYPE, D>(a, row, head, out, lds);
}

typedef attend_merge_lds<128> attend_merge_lds_d128;
typedef attend_merge_lds<256> attend_merge_lds_d256;
typedef attend_merge_lds<512> attend_merge_lds_d512;
#define HALO_ATTEND_MERGE_KERNEL(TYPE, type, d)                                                                        \
    HALO_KERNEL_RESIDENT(attend_merge_##type##_d##d, halo_attend_args, 32 * merge_shape<d>::WAVES,                     \
                         merge_shape<d>::RESIDENT)                                                                     \
    {                                                                                                                  \
        HALO_LDS(attend_merge_lds_d##d, lds);                                                                          \
        attend_merge<HALO_KV_##TYPE, d>(a, lds);                                                                       \
    }
#define HALO_ATTEND_MERGE_KERNELS(TYPE, type)                                                                          \
    HALO_ATTEND_MERGE_KERNEL(TYPE, type, 128)                                                                          \
    HALO_ATTEND_MERGE_KERNEL(TYPE, type, 256)                                                                          \
    HALO_ATTEND_MERGE_KERNEL(TYPE, type, 512)
HALO_ATTEND_MERGE_KERNELS(F32, f32)
HALO_ATTEND_MERGE_KERNELS(F16, f16)
HALO_ATTEND_MERGE_KERNELS(Q8, q8)
HALO_ATTEND_MERGE_KERNELS(Q4, q4)
#endif
