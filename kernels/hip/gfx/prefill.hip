/* prefill.hip: attention of a prompt: many rows of one sequence, by matrix tiles with f16 operands. Chips without
 * matrix units have none of these kernels and use attend.hip.
 *
 * A block has one q head and 8192 / D rows. The context goes by KEYS positions: all threads convert their K and,
 * transposed, their V to f16 in LDS; a wave multiplies its 16 rows of q with K, turns the scores into probabilities by
 * an online softmax, and multiplies those with V. Two lanes have the softmax of a row; scores and probabilities pass
 * through LDS, so that nothing depends on how a tile lies in registers. Where 16 rows have several waves, each makes
 * the scores and its part of the output. D is the largest head dimension of the kernel. Scores are in units of log2, so
 * that exp2 does.
 */
#include "hadamard.h"
#include "heads.h"
#include "kv.h"

#if !defined(HALO_NO_MATRIX)
constexpr float NOTHING = -1e30f; /* the maximum of no scores: finite, so that differences are numbers */

template <int D> struct prefill_shape {
    static constexpr uint32_t ROWS = 8192 / D, KEYS = D > 256 ? 16 : 4096 / D, GROUPS = ROWS / 16, PARTS = 4 / GROUPS;
    static constexpr uint32_t TILES = D / 16 / PARTS; /* of a wave's output */
    /* Keep rows 16-byte aligned and off each other's banks. */
    static constexpr uint32_t PITCH = D + 8, V_PITCH = KEYS + 8, S_PITCH = KEYS + 1;
    /* Heads of 512: V takes K's place once the scores are made. Both beside each other exceed the 48 KiB of static LDS
     * that NVIDIA's chips allow a block. */
    static constexpr bool V_REPLACES_K = D > 256;
    static constexpr uint32_t K_SIZE = KEYS * PITCH, V_SIZE = D * V_PITCH, V_AT = V_REPLACES_K ? 0 : K_SIZE,
                              KV_SIZE = V_AT + V_SIZE;
    static_assert(KV_SIZE >= K_SIZE, "K fits too");
};

template <int D> struct prefill_lds {
    typedef prefill_shape<D> shape;
    alignas(16) uint16_t q[shape::ROWS * shape::PITCH], kv[shape::KV_SIZE];
#if !defined(HALO_MMA_CHAINS)
    union {
        float score[16 * shape::S_PITCH];
        alignas(16) uint16_t p[16 * shape::V_PITCH];
    } wave[4];
#endif
    float row[4][16]; /* of a wave's rows: what their sums shrink by, at the end 1 / sum */
};

/* What the block has to do. */
struct prefill_job {
    uint32_t head, kv_head, first_row, n_rows, first_pos, end; /* end: behind the last position that any row sees */
};

/* Of a cache in 4 bits: rotated, a row by a wave. */
template <int D>
HALO_DEVICE void prefill_rotate_q(const halo_prefill_args &a, const prefill_job &job, prefill_lds<D> &lds)
{
    typedef prefill_shape<D> shape;
    const uint32_t dim = a.kv.head_dim_k;
    for (uint32_t r = halo_wave(); r < shape::ROWS; r += 4) {
        const uint32_t row = job.first_row + halo_min_of(r, job.n_rows - 1);
        const float scale = r < job.n_rows ? kv_score_scale(a.score, (int32_t)(job.first_pos + r)) : 0;
        float q[D / 32];
        load_head<D / 32>(a.q + ((uint64_t)row * a.n_head + job.head) * dim, dim, q);
        hadamard_strided<D / 32>(dim, q);
        for (uint32_t i = 0; i < D / 32; i++)
            lds.q[r * shape::PITCH + halo_lane() + 32 * i] = halo_float_half(q[i] * scale);
    }
}

template <uint32_t TYPE, int D>
HALO_DEVICE void prefill_load_q(const halo_prefill_args &a, const prefill_job &job, prefill_lds<D> &lds)
{
    typedef prefill_shape<D> shape;
    const uint32_t dim = a.kv.head_dim_k;
    if constexpr (TYPE == HALO_KV_Q4) {
        prefill_rotate_q<D>(a, job, lds);
        return;
    }
    for (uint32_t i = halo_tid(); i < shape::ROWS * D; i += 128) {
        const uint32_t r = i / D, d = i % D;
        const float *q = a.q + ((uint64_t)(job.first_row + r) * a.n_head + job.head) * dim;
        const float scale = kv_score_scale(a.score, (int32_t)(job.first_pos + r));
        lds.q[r * shape::PITCH + d] = r < job.n_rows && d < dim ? halo_float_half(q[d] * scale) : 0;
    }
}

/* K of positions base .. base + KEYS - 1. What lies behind `end` is zero: its memory may hold anything. */
template <uint32_t TYPE, int D>
HALO_DEVICE void prefill_load_k(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page, uint32_t base,
                                prefill_lds<D> &lds)
{
    typedef prefill_shape<D> shape;
    constexpr uint32_t CHUNK = kv_chunk<TYPE>;
    const uint8_t *head = page + job.kv_head * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_k);
    const uint32_t dim = a.kv.head_dim_k;
    for (uint32_t i = halo_tid(); i < shape::KEYS * (D / CHUNK); i += 128) {
        const uint32_t key = i % shape::KEYS, c = i / shape::KEYS, at = base % KV_PAGE + key;
        const bool real = base + key < job.end && c < dim / CHUNK;
        float scale = 1;
        halo_u4 chunk = {{0, 0, 0, 0}};
        if (real)
            chunk = halo_load<halo_u4>(head, c * KV_PAGE + at);
        if (kv_scaled<TYPE> && real)
            scale = halo_half_float(halo_load<uint16_t>(head + kv_scales_at<TYPE>(dim), c * CHUNK / 32 * KV_PAGE + at));
        uint16_t *to = lds.kv + key * shape::PITCH + c * CHUNK;
        if constexpr (TYPE == HALO_KV_F16) {
            *reinterpret_cast<halo_u4 *>(to) = chunk;
            continue;
        }
        uint32_t pairs[CHUNK / 2];
        for (uint32_t e = 0; e < CHUNK; e += 2)
            pairs[e / 2] = halo_float_half(kv_element<TYPE>(chunk, e) * scale) |
                           (uint32_t)halo_float_half(kv_element<TYPE>(chunk, e + 1) * scale) << 16;
        for (uint32_t e = 0; e < CHUNK / 2; e++)
            *reinterpret_cast<uint32_t *>(to + 2 * e) = pairs[e];
    }
}

/* V likewise, a row for each element of the head: two positions and a few elements to a thread. Neighbouring lanes have
 * neighbouring positions, so that what a wave stores together lies in different banks. */
template <uint32_t TYPE, int D>
HALO_DEVICE void prefill_load_v(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page, uint32_t base,
                                prefill_lds<D> &lds)
{
    typedef prefill_shape<D> shape;
    const uint8_t *head = page + a.kv.n_head_kv * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_k) +
                          job.kv_head * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_v);
    const uint32_t dim = a.kv.head_dim_v;
    constexpr uint32_t N = TYPE == HALO_KV_F32 ? 4 : 8, PAIRS = shape::KEYS / 2;
    for (uint32_t i = halo_tid(); i < PAIRS * (D / N); i += 128) {
        const uint32_t d = i / PAIRS * N, key = i % PAIRS * 2;
        float v[2][N] = {};
        for (uint32_t j = 0; j < 2; j++)
            if (base + key + j < job.end && d < dim) {
                kv_values<TYPE, N> values;
                values.load(head, dim, base % KV_PAGE + key + j, d);
                for (uint32_t e = 0; e < N; e++)
                    v[j][e] = values.get((int)e);
            }
        for (uint32_t e = 0; e < N; e++)
            *reinterpret_cast<uint32_t *>(lds.kv + shape::V_AT + (d + e) * shape::V_PITCH + key) =
                halo_float_half(v[0][e]) | (uint32_t)halo_float_half(v[1][e]) << 16;
    }
}

/* Scores of 16 rows and KEYS positions. */
template <int D>
HALO_DEVICE void prefill_scores(uint32_t dim, uint32_t group, const prefill_lds<D> &lds,
                                halo_acc (&s)[prefill_shape<D>::KEYS / 16])
{
    typedef prefill_shape<D> shape;
    constexpr uint32_t N = shape::KEYS / 16;
#pragma unroll 1
    for (uint32_t d = 0; d < dim; d += 16) {
        const halo_frag q = halo_mma_load(lds.q + group * 16 * shape::PITCH + d, shape::PITCH);
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
            s[n] = halo_mma(q, halo_mma_load(lds.kv + n * 16 * shape::PITCH + d, shape::PITCH), s[n]);
    }
}

/* Which of KEYS positions from base on a row sees: hidden .. seen - 1. */
struct prefill_sight {
    uint32_t hidden, seen;
};

HALO_DEVICE prefill_sight prefill_sees(const halo_prefill_args &a, uint32_t pos, uint32_t base)
{
    const uint32_t lowest = kv_lowest(a.score, (int32_t)pos);
    return prefill_sight{lowest < base ? 0 : lowest - base, pos < base ? 0 : pos - base + 1};
}

#if defined(HALO_MMA_CHAINS)
/* The softmax of two rows, with the lanes that have their other columns; sums are the lane's own. */
struct prefill_state {
    float max[2], sum[2];
};

HALO_DEVICE float prefill_chain_max(float v)
{
    v = halo_max(v, halo_xor<1>(v));
    return halo_max(v, halo_xor<2>(v));
}

/* Scores become probabilities and the operand of the products with V; `out` shrinks as the maximum grows. */
template <int D>
HALO_DEVICE void prefill_softmax(const halo_prefill_args &a, uint32_t first_pos, uint32_t base, prefill_lds<D> &,
                                 halo_acc (&s)[prefill_shape<D>::KEYS / 16], prefill_state *state,
                                 halo_acc (&out)[prefill_shape<D>::TILES], halo_frag (&p)[prefill_shape<D>::KEYS / 16])
{
    constexpr uint32_t N = prefill_shape<D>::KEYS / 16;
    const float cap = a.score.cap * LOG2_E;
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const prefill_sight sight = prefill_sees(a, first_pos + halo_mma_chain_row(r), base);
        float max = state->max[r], sum = 0;
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (halo_mma_chain_of(i) == r) {
                    const uint32_t at = 16 * n + halo_mma_col(i);
                    const float v = cap > 0 ? halo_capped(s[n][i], cap) : s[n][i];
                    s[n][i] = at >= sight.hidden && at < sight.seen ? v : 2 * NOTHING;
                    max = halo_max(max, s[n][i]);
                }
        max = prefill_chain_max(max);
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (halo_mma_chain_of(i) == r) {
                    s[n][i] = halo_exp2(s[n][i] - max);
                    sum += s[n][i];
                }
        shrink[r] = halo_exp2(state->max[r] - max);
        state->sum[r] = halo_fma(state->sum[r], shrink[r], sum);
        state->max[r] = max;
    }
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
        p[n] = halo_mma_chain(s[n]);
#pragma unroll
    for (uint32_t t = 0; t < prefill_shape<D>::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            out[t][i] *= shrink[halo_mma_chain_of(i)];
}

/* What the rows are divided by at the end, into LDS. */
template <int D>
HALO_DEVICE void prefill_finish(const halo_prefill_args &a, uint32_t head, const prefill_state &state,
                                prefill_lds<D> &lds)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = state.sum[r] + halo_xor<1>(state.sum[r]);
        sum += halo_xor<2>(sum);
        if (halo_lane() % 4 == 0)
            lds.row[halo_wave()][halo_mma_chain_row(r)] =
                sum > 0 ? halo_rcp(sum + kv_sink(a.score, head, state.max[r])) : 0;
    }
    halo_wave_barrier();
}
#else
/* The softmax of half a row: lane 2 r and 2 r + 1 have row r of the wave's group. */
struct prefill_state {
    float max[1], sum[1];
};

/* Scores become probabilities by way of the wave's LDS; `out` shrinks as the maximum grows. */
template <int D>
HALO_DEVICE void prefill_softmax(const halo_prefill_args &a, uint32_t first_pos, uint32_t base, prefill_lds<D> &lds,
                                 halo_acc (&s)[prefill_shape<D>::KEYS / 16], prefill_state *state,
                                 halo_acc (&out)[prefill_shape<D>::TILES],
                                 halo_frag (&ret)[prefill_shape<D>::KEYS / 16])
{
    typedef prefill_shape<D> shape;
    constexpr uint32_t N = shape::KEYS / 2;
    const uint32_t row = halo_lane() / 2, first = halo_lane() % 2 * N;
    const prefill_sight sight = prefill_sees(a, first_pos + row, base);
    const uint32_t hidden = sight.hidden, seen = sight.seen;
    const float cap = a.score.cap * LOG2_E;
    auto &own = lds.wave[halo_wave()];
#pragma unroll
    for (uint32_t n = 0; n < shape::KEYS / 16; n++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            own.score[halo_mma_row(i) * shape::S_PITCH + 16 * n + halo_mma_col(i)] = s[n][i];
    halo_wave_barrier();
    float p[N], max = state->max[0], sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        p[i] = own.score[row * shape::S_PITCH + first + i];
    if (cap > 0) {
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
            p[i] = halo_capped(p[i], cap);
    }
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        p[i] = first + i >= hidden && first + i < seen ? p[i] : NOTHING;
        max = halo_max(max, p[i]);
    }
    max = halo_max(max, halo_xor<1>(max));
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        p[i] = first + i >= hidden && first + i < seen ? halo_exp2(p[i] - max) : 0;
        sum += p[i];
    }
    const float shrink = halo_exp2(state->max[0] - max);
    state->sum[0] = halo_fma(state->sum[0], shrink, sum + halo_xor<1>(sum));
    state->max[0] = max;
    halo_wave_barrier(); /* all scores are read */
#pragma unroll
    for (uint32_t i = 0; i < N; i += 2)
        *reinterpret_cast<uint32_t *>(own.p + row * shape::V_PITCH + first + i) =
            halo_float_half(p[i]) | (uint32_t)halo_float_half(p[i + 1]) << 16;
    if (first == 0)
        lds.row[halo_wave()][row] = shrink;
    halo_wave_barrier();
#pragma unroll
    for (uint32_t k = 0; k < shape::KEYS; k += 16)
        ret[k / 16] = halo_mma_load(own.p + k, shape::V_PITCH);
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            out[t][i] *= lds.row[halo_wave()][halo_mma_row(i)];
}

/* What the rows are divided by at the end, into LDS. */
template <int D>
HALO_DEVICE void prefill_finish(const halo_prefill_args &a, uint32_t head, const prefill_state &state,
                                prefill_lds<D> &lds)
{
    halo_wave_barrier();
    if (halo_lane() % 2 == 0)
        lds.row[halo_wave()][halo_lane() / 2] =
            state.sum[0] > 0 ? halo_rcp(state.sum[0] + kv_sink(a.score, head, state.max[0])) : 0;
    halo_wave_barrier();
}
#endif

template <int D>
HALO_DEVICE void prefill_outputs(uint32_t part, const prefill_lds<D> &lds,
                                 const halo_frag (&p)[prefill_shape<D>::KEYS / 16],
                                 halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
        for (uint32_t k = 0; k < shape::KEYS; k += 16)
            out[t] = halo_mma(p[k / 16],
                              halo_mma_load(lds.kv + shape::V_AT + (part * shape::TILES + t) * 16 * shape::V_PITCH + k,
                                            shape::V_PITCH),
                              out[t]);
}

template <int D>
HALO_DEVICE void prefill_store(const halo_prefill_args &a, const prefill_job &job, uint32_t group, uint32_t part,
                               const prefill_lds<D> &lds, halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
    const uint32_t dim = a.kv.head_dim_v;
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t own = halo_mma_row(i), r = group * 16 + own,
                           d = (part * shape::TILES + t) * 16 + halo_mma_col(i);
            if (r < job.n_rows && d < dim)
                a.out[((uint64_t)(job.first_row + r) * a.n_head + job.head) * dim + d] =
                    out[t][i] * lds.row[halo_wave()][own];
        }
}

/* Of a cache in 4 bits: rotated back, by way of LDS, where q, K and V are no longer needed. */
template <int D>
HALO_DEVICE void prefill_rotate_store(const halo_prefill_args &a, const prefill_job &job, uint32_t group, uint32_t part,
                                      prefill_lds<D> &lds, halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
    static_assert(sizeof(lds.q) + sizeof(lds.kv) >= shape::ROWS * D * sizeof(float), "they overlap");
    const uint32_t dim = a.kv.head_dim_v;
    float *rows = reinterpret_cast<float *>(&lds);
    halo_barrier();
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t own = halo_mma_row(i);
            rows[(group * 16 + own) * D + (part * shape::TILES + t) * 16 + halo_mma_col(i)] =
                out[t][i] * lds.row[halo_wave()][own];
        }
    halo_barrier();
    for (uint32_t r = halo_wave(); r < job.n_rows; r += 4) {
        float v[D / 32];
        for (uint32_t i = 0; i < D / 32; i++)
            v[i] = rows[r * D + halo_lane() + 32 * i];
        hadamard_strided<D / 32>(dim, v);
        float *to = a.out + ((uint64_t)(job.first_row + r) * a.n_head + job.head) * dim;
        for (uint32_t i = 0; i < D / 32; i++)
            if (halo_lane() + 32 * i < dim)
                to[halo_lane() + 32 * i] = v[i];
    }
}

template <uint32_t TYPE, int D> HALO_DEVICE void prefill(const halo_prefill_args &a, prefill_lds<D> &lds)
{
    typedef prefill_shape<D> shape;
    const halo_prefill_tile tile = a.tile[halo_block_x()];
    const uint32_t skip = halo_block_z() * shape::ROWS;
    if (tile.n_rows <= skip || a.kv.pos[tile.first_row] < 0)
        return;
    const uint32_t row0 = tile.first_row + skip, n_rows = halo_min_of(tile.n_rows - skip, shape::ROWS),
                   pos0 = (uint32_t)a.kv.pos[row0];
    const prefill_job job = {halo_block_y(), halo_block_y() / (a.n_head / a.kv.n_head_kv), row0, n_rows, pos0,
                             pos0 + n_rows};
    const uint32_t group = halo_wave() / shape::PARTS, part = halo_wave() % shape::PARTS;
    const uint32_t first_base = kv_lowest(a.score, (int32_t)pos0);
    prefill_load_q<TYPE, D>(a, job, lds);
    prefill_state state;
    for (uint32_t i = 0; i < sizeof(state.max) / sizeof(state.max[0]); i++) {
        state.max[i] = NOTHING;
        state.sum[i] = 0;
    }
    halo_acc out[shape::TILES] = {};
    for (uint32_t base = first_base / shape::KEYS * shape::KEYS; base < job.end; base += shape::KEYS) {
        const uint8_t *page = kv_page(a.kv, row0, base);
        halo_barrier();
        prefill_load_k<TYPE, D>(a, job, page, base, lds);
        if constexpr (!shape::V_REPLACES_K)
            prefill_load_v<TYPE, D>(a, job, page, base, lds);
        halo_barrier();
        const bool seen = base <= pos0 + group * 16 + 15; /* by a row of the wave */
        halo_acc scores[shape::KEYS / 16] = {};
        if (seen)
            prefill_scores<D>(a.kv.head_dim_k, group, lds, scores);
        if constexpr (shape::V_REPLACES_K) {
            halo_barrier();
            prefill_load_v<TYPE, D>(a, job, page, base, lds);
            halo_barrier();
        }
        if (!seen)
            continue;
        halo_frag p[shape::KEYS / 16];
        prefill_softmax<D>(a, pos0 + group * 16, base, lds, scores, &state, out, p);
        prefill_outputs<D>(part, lds, p, out);
    }
    prefill_finish<D>(a, job.head, state, lds);
    if constexpr (TYPE == HALO_KV_Q4)
        prefill_rotate_store<D>(a, job, group, part, lds, out);
    else
        prefill_store<D>(a, job, group, part, lds, out);
}

typedef prefill_lds<128> prefill_lds_128;
typedef prefill_lds<256> prefill_lds_256;
typedef prefill_lds<512> prefill_lds_512;

#define HALO_PREFILL_KERNEL(TYPE, type, d)                                                                             \
    HALO_KERNEL(prefill_##type##_d##d, halo_prefill_args, 128)                                                         \
    {                                                                                                                  \
        HALO_LDS(prefill_lds_##d, lds);                                                                                \
        prefill<HALO_KV_##TYPE, d>(a, lds);                                                                            \
    }
HALO_PREFILL_KERNEL(F32, f32, 128)
HALO_PREFILL_KERNEL(F16, f16, 128)
HALO_PREFILL_KERNEL(Q8, q8, 128)
HALO_PREFILL_KERNEL(Q4, q4, 128)
HALO_PREFILL_KERNEL(F32, f32, 256)
HALO_PREFILL_KERNEL(F16, f16, 256)
HALO_PREFILL_KERNEL(Q8, q8, 256)
HALO_PREFILL_KERNEL(Q4, q4, 256)
HALO_PREFILL_KERNEL(F32, f32, 512)
HALO_PREFILL_KERNEL(F16, f16, 512)
HALO_PREFILL_KERNEL(Q8, q8, 512)
HALO_PREFILL_KERNEL(Q4, q4, 512)
#endif
