/* attend.hip: decode attention, split along the context.
 *
 * A block takes one split of one row for up to G q heads of one kv head, so that K and V are read once for the group.
 * Its four waves take the pages of the split in turn, each with an online softmax of its own. In a page a lane first is
 * a position: it multiplies its K row with the q of each head, chunk by chunk (contiguous across the lanes by the
 * layout of K); then a lane is a few elements of the output: it walks the V rows, with the probabilities from LDS.
 * Scores are in units of log2, so that exp2 does. D is the largest head dimension of the kernel; q and sums beyond the
 * real one are zero.
 */
#include "kv.h"
#include "rows.h"

constexpr int WAVES = 4;
constexpr uint32_t KEYS_AHEAD = 4; /* chunks of K that are loaded together */

template <int G, int D> struct attend_lds {
    float q[G][D];
    float p[WAVES][KV_PAGE][G];
    float max[WAVES][G], sum[WAVES][G];
    float out[G][D];
};

/* An online softmax of G heads; the lane's N elements of their outputs. */
template <int G, int N> struct attend_state { float max[G], sum[G], out[G][N]; };

constexpr float NOTHING = -1e30f; /* the maximum of no scores: finite, so that differences are numbers */

/* s[g] += K row of this lane * q[g]. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void scores(const uint8_t *head, uint32_t dim, const float q[G][D], float *s)
{
    constexpr uint32_t chunk = kv_chunk<TYPE>;
    float group[G];
    for (int g = 0; g < G; g++)
        s[g] = group[g] = 0;
    /* Several loads under way at once; those behind the end read the last chunk again and are left out. */
    const uint32_t n = dim / chunk;
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += KEYS_AHEAD) {
        halo_u4 k[KEYS_AHEAD];
        uint16_t scales[KEYS_AHEAD / 2];
        for (uint32_t j = 0; j < KEYS_AHEAD; j++)
            k[j] = halo_load<halo_u4>(head, halo_min_of(first + j, n - 1) * KV_PAGE + halo_lane());
        for (uint32_t j = 0; TYPE == HALO_KV_Q8 && j < KEYS_AHEAD / 2; j++)
            scales[j] = halo_load<uint16_t>(head + KV_PAGE * dim,
                                            halo_min_of(first / 2 + j, n / 2 - 1) * KV_PAGE + halo_lane());
        for (uint32_t j = 0; j < KEYS_AHEAD; j++) {
            if (first + j >= n)
                break;
            for (uint32_t i = 0; i < chunk; i++)
                for (int g = 0; g < G; g++)
                    group[g] = halo_fma(kv_element<TYPE>(k[j], i), q[g][(first + j) * chunk + i], group[g]);
            if (TYPE == HALO_KV_Q8 && j % 2 == 0)
                continue;
            const float scale = TYPE == HALO_KV_Q8 ? halo_half_float(scales[j / 2]) : 1;
            for (int g = 0; g < G; g++) {
                s[g] = halo_fma(group[g], scale, s[g]);
                group[g] = 0;
            }
        }
    }
}

/* One page with its first n positions. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void attend_page(const halo_attend_args &a, attend_lds<G, D> &lds, uint8_t *page, uint32_t head, uint32_t n,
                             attend_state<G, D / 32> *state)
{
    constexpr int N = D / 32;
    const uint32_t wave = halo_wave(), lane = halo_lane(), first = lane * N;
    float s[G];
    scores<TYPE, G, D>(kv_head_k<TYPE>(a.kv, page, head), a.kv.head_dim_k, lds.q, s);
    for (int g = 0; g < G; g++) {
        s[g] = lane < n ? s[g] : NOTHING;
        const float max = halo_max(state->max[g], halo_wave_max(s[g])), shrink = halo_exp2(state->max[g] - max);
        const float p = lane < n ? halo_exp2(s[g] - max) : 0;
        lds.p[wave][lane][g] = p;
        state->sum[g] = halo_fma(state->sum[g], shrink, halo_wave_sum(p));
        state->max[g] = max;
        for (int i = 0; i < N; i++)
            state->out[g][i] *= shrink;
    }
    halo_wave_barrier();
    if (first < a.kv.head_dim_v) {
        const uint8_t *rows = kv_head_v<TYPE>(a.kv, page, head);
        constexpr uint32_t AHEAD = 32 / N; /* V rows that are loaded together; behind the end p is zero */
#pragma unroll 1
        for (uint32_t t = 0; t < n; t += AHEAD) {
            float v[AHEAD][N];
            for (uint32_t j = 0; j < AHEAD; j++)
                kv_load_v<TYPE, N>(rows, a.kv.head_dim_v, halo_min_of(t + j, n - 1), first, v[j]);
            for (uint32_t j = 0; j < AHEAD; j++)
                for (int g = 0; g < G; g++)
                    for (int i = 0; i < N; i++)
                        state->out[g][i] = halo_fma(lds.p[wave][t + j][g], v[j][i], state->out[g][i]);
        }
    }
    halo_wave_barrier();
}

/* The waves' states into one: lds.max[0], lds.sum[0], lds.out. */
template <int G, int D> HALO_DEVICE void attend_join(attend_lds<G, D> &lds, attend_state<G, D / 32> *state)
{
    constexpr int N = D / 32;
    const uint32_t wave = halo_wave(), lane = halo_lane();
    for (int g = 0; g < G && lane == 0; g++) {
        lds.max[wave][g] = state->max[g];
        lds.sum[wave][g] = state->sum[g];
    }
    halo_barrier();
    float max[G], sum[G];
    for (int g = 0; g < G; g++) {
        max[g] = NOTHING;
        sum[g] = 0;
        for (int w = 0; w < WAVES; w++)
            max[g] = halo_max(max[g], lds.max[w][g]);
        for (int w = 0; w < WAVES; w++)
            sum[g] = halo_fma(lds.sum[w][g], halo_exp2(lds.max[w][g] - max[g]), sum[g]);
        const float shrink = halo_exp2(state->max[g] - max[g]);
        for (int i = 0; i < N; i++)
            state->out[g][i] *= shrink;
    }
    for (uint32_t w = 0; w < WAVES; w++) {
        if (wave == w)
            for (int g = 0; g < G; g++)
                for (int i = 0; i < N; i++)
                    lds.out[g][lane * N + (uint32_t)i] =
                        (w ? lds.out[g][lane * N + (uint32_t)i] : 0) + state->out[g][i];
        halo_barrier();
    }
    for (int g = 0; g < G && halo_tid() == 0; g++) {
        lds.max[0][g] = max[g];
        lds.sum[0][g] = sum[g];
    }
    halo_barrier();
}

/* The result of the block's heads, or its part of it. */
template <int G, int D>
HALO_DEVICE void attend_leave(const halo_attend_args &a, const attend_lds<G, D> &lds, uint32_t row, uint32_t first_head,
                              uint32_t n_heads)
{
    const uint32_t dim = a.kv.head_dim_v;
    for (uint32_t g = 0; g < n_heads; g++) {
        const uint64_t head = (uint64_t)row * a.n_head + first_head + g;
        float *partial = a.partial ? a.partial + (head * a.n_splits + halo_block_x()) * (dim + 2) : nullptr;
        const float scale = halo_rcp(lds.sum[0][g]);
        for (uint32_t i = halo_tid(); i < dim; i += 128) {
            if (partial)
                partial[2 + i] = lds.out[g][i];
            else
                a.out[head * dim + i] = lds.out[g][i] * scale;
        }
        if (partial && halo_tid() == 0) {
            partial[0] = lds.max[0][g];
            partial[1] = lds.sum[0][g];
        }
    }
}

template <uint32_t TYPE, int G, int D> HALO_DEVICE void attend(const halo_attend_args &a, attend_lds<G, D> &lds)
{
    const uint32_t row = halo_block_z(), head = halo_block_y() / a.n_parts, group = a.n_head / a.kv.n_head_kv;
    const uint32_t first = halo_block_y() % a.n_parts * G, first_head = head * group + first,
                   n_heads = halo_min_of(group - first, (uint32_t)G);
    const int32_t pos = a.kv.pos[row];
    if (pos < 0)
        return;
    const uint32_t n_pages = (uint32_t)pos / KV_PAGE + 1, length = HALO_HIP_CEIL(n_pages, a.n_splits);
    const uint32_t begin = halo_block_x() * length, end = halo_min_of(begin + length, n_pages);
    for (uint32_t i = halo_tid(); i < G * D; i += 128) {
        const uint32_t g = i / D, d = i % D;
        const bool real = g < n_heads && d < a.kv.head_dim_k;
        lds.q[g][d] =
            real ? a.q[((uint64_t)row * a.n_head + first_head + g) * a.kv.head_dim_k + d] * a.scale * 1.44269504f : 0;
    }
    halo_barrier();
    attend_state<G, D / 32> state;
    for (int g = 0; g < G; g++) {
        state.max[g] = NOTHING;
        state.sum[g] = 0;
        for (int i = 0; i < D / 32; i++)
            state.out[g][i] = 0;
    }
    for (uint32_t p = begin + halo_wave(); p < end; p += WAVES)
        attend_page<TYPE, G, D>(a, lds, kv_page(a.kv, row, p * KV_PAGE), head,
                                halo_min_of((uint32_t)pos + 1 - p * KV_PAGE, KV_PAGE), &state);
    attend_join<G, D>(lds, &state);
    attend_leave<G, D>(a, lds, row, first_head, n_heads);
}

struct merge_lds { float weight[WAVES][HALO_SPLITS_MAX]; };

/* What each split counts for, divided by the sum: every wave makes its own copy. */
HALO_DEVICE void merge_weights(const halo_attend_merge_args &a, const float *partial, float *weight)
{
    const uint32_t lane = halo_lane(), stride = a.head_dim_v + 2;
    float max[2], sum[2];
    for (uint32_t h = 0; h < 2; h++) {
        const uint32_t s = lane + 32 * h;
        const halo_f2 part = s < a.n_splits ? halo_load<halo_f2>(partial + s * stride) : halo_f2{{NOTHING, 0}};
        max[h] = part.e[0];
        sum[h] = part.e[1];
    }
    const float most = halo_wave_max(halo_max(max[0], max[1]));
    for (uint32_t h = 0; h < 2; h++)
        max[h] = halo_exp2(max[h] - most);
    const float scale = halo_rcp(halo_wave_sum(halo_fma(sum[0], max[0], sum[1] * max[1])));
    for (uint32_t h = 0; h < 2; h++)
        weight[lane + 32 * h] = max[h] * scale;
    halo_wave_barrier();
}

HALO_KERNEL(attend_merge, halo_attend_merge_args, 128)
{
    HALO_LDS(merge_lds, lds);
    constexpr uint32_t AHEAD = 8;
    const uint32_t head = halo_block_x(), row = halo_block_y(), dim = a.head_dim_v, n = a.n_head * dim;
    if (a.pos[row] < 0)
        return;
    const uint64_t index = (uint64_t)row * a.n_head + head;
    const float *partial = a.partial + index * a.n_splits * (dim + 2);
    float *weight = lds.weight[halo_wave()];
    merge_weights(a, partial, weight);
    const uint32_t i = 4 * halo_tid(), at = halo_min_of(i, dim - 4); /* dim <= 512 */
    halo_f4 out = {{0, 0, 0, 0}};
#pragma unroll 1
    for (uint32_t first = 0; first < a.n_splits; first += AHEAD) {
        halo_f2 part[AHEAD][2];
        for (uint32_t j = 0; j < AHEAD; j++)
            for (uint32_t h = 0; h < 2; h++)
                part[j][h] =
                    halo_load<halo_f2>(partial + halo_min_of(first + j, a.n_splits - 1) * (dim + 2) + 2 + at, h);
        for (uint32_t j = 0; j < AHEAD; j++) {
            const float w = first + j < a.n_splits ? weight[first + j] : 0;
            for (uint32_t k = 0; k < 4; k++)
                out.e[k] = halo_fma(part[j][k / 2].e[k % 2], w, out.e[k]);
        }
    }
    if (i < dim)
        halo_store4(a.out + index * dim, i, dim, out);
    if (a.act)
        halo_quantize4(out, i < dim ? head * dim + i : n, n,
                       static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
}

#define HALO_ATTEND_LDS(g, d) typedef attend_lds<g, d> attend_lds_g##g##_d##d;
HALO_ATTEND_LDS(1, 128)
HALO_ATTEND_LDS(4, 128)
HALO_ATTEND_LDS(8, 128)
HALO_ATTEND_LDS(1, 256)
HALO_ATTEND_LDS(4, 256)
HALO_ATTEND_LDS(8, 256)

#define HALO_ATTEND_KERNEL(TYPE, type, g, d)                                                                           \
    HALO_KERNEL(attend_##type##_g##g##_d##d, halo_attend_args, 128)                                                    \
    {                                                                                                                  \
        HALO_LDS(attend_lds_g##g##_d##d, lds);                                                                         \
        attend<HALO_KV_##TYPE, g, d>(a, lds);                                                                          \
    }
#define HALO_ATTEND_KERNELS(TYPE, type)                                                                                \
    HALO_ATTEND_KERNEL(TYPE, type, 1, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 4, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 8, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 1, 256)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 4, 256)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 8, 256)
HALO_ATTEND_KERNELS(F32, f32)
HALO_ATTEND_KERNELS(F16, f16)
HALO_ATTEND_KERNELS(Q8, q8)
