/* prefill.hip: attention of a prompt: many rows of one sequence, by matrix tiles with f16 operands. Chips without
 * matrix units have none of these kernels and use attend.hip.
 *
 * A block has one q head and 64 rows, of heads above 256 elements 32. The context goes by KEYS positions: all threads
 * convert their K and, transposed, their V to f16 in LDS; a wave multiplies its 16 rows of q with K, turns the scores
 * into probabilities by an online softmax, and multiplies those with V. A lane's scores are of one row or two, and its
 * probabilities are an operand of the product with V (halo_chain): neither passes through LDS. Where 16 rows have
 * several waves, each makes its part of the output. D is the largest head dimension of the kernel. Scores are in units
 * of log2, so that exp2 does.
 *
 * q stays in registers, and so do the next K and V on their way while these are multiplied. Waves that share 16 rows
 * have a slice of q each; they add up their scores in LDS.
 */
#include "gfx.h"

#if !defined(HALO_NO_MATRIX)
#include "hadamard.h"
#include "heads.h"
#include "kv_half.h"

constexpr float NOTHING = -1e30f; /* the maximum of no scores: finite, so that differences are numbers */
#define PREFILL_THREADS(dim) ((dim) > 128 ? 256 : 128)

template <int D> struct prefill_shape {
    static constexpr uint32_t THREADS = PREFILL_THREADS(D), WAVES = THREADS / 32;
    static constexpr uint32_t HEAD = D, ROWS = HALO_PREFILL_ROWS / HALO_PREFILL_BLOCKS(D),
                              KEYS = D > 256 ? 16 : 4096 / D, GROUPS = ROWS / 16, PARTS = WAVES / GROUPS;
    static constexpr uint32_t SLICE = D / PARTS, TILES = SLICE / 16; /* of a wave's output */
    /* Keep rows 16-byte aligned and off each other's banks. */
    static constexpr uint32_t PITCH = D + 8, V_PITCH = KEYS + 8;
    /* Heads of 512: V takes K's place once the scores are made. Both beside each other exceed the 48 KiB of static LDS
     * that NVIDIA's chips allow a block. */
    static constexpr bool V_REPLACES_K = D > 256, SHARED = PARTS > 1;
    /* Between eight rows of V and the next: a wave stores pairs of positions to rows that are eight apart. */
    static constexpr uint32_t V_SKEW = HALO_CHAIN_ROWS == 1 ? KEYS : 0; /* NVIDIA's: measured without */
    static constexpr uint32_t Q_SIZE = ROWS * PITCH, K_SIZE = KEYS * PITCH, V_SIZE = D * V_PITCH + D / 8 * V_SKEW;
    static constexpr uint32_t K_AT = 0, V_AT = K_AT + (V_REPLACES_K ? 0 : K_SIZE), KV_END = V_AT + V_SIZE,
                              SIZE = KV_END > Q_SIZE ? KV_END : Q_SIZE;
    static_assert(KV_END >= K_AT + K_SIZE, "K fits too");
    HALO_DEVICE_MEMBER static uint32_t v_row(uint32_t d)
    {
        return d * V_PITCH + d / 8 * V_SKEW;
    }
};

template <int D> struct prefill_lds {
    typedef prefill_shape<D> shape;
    alignas(16) uint16_t tiles[shape::SIZE]; /* q; K and V behind it, or in its place */
    /* a wave's share of its scores */
    halo_f4 sums[shape::SHARED ? shape::WAVES : 1][shape::KEYS / 8][shape::SHARED ? 32 : 1];
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
    for (uint32_t r = halo_wave(); r < shape::ROWS; r += shape::WAVES) {
        const uint32_t row = job.first_row + halo_min_of(r, job.n_rows - 1);
        const float scale = r < job.n_rows ? kv_score_scale(a.score, (int32_t)(job.first_pos + r)) : 0;
        float q[D / 32];
        load_head<D / 32>(a.q + ((uint64_t)row * a.n_head + job.head) * dim, dim, q);
        hadamard_strided<D / 32>(dim, q);
        /* In the order that eight elements of K have as halves. */
        const uint32_t at = halo_lane() / 8 * 8 + kv_half_place<HALO_KV_Q4>(halo_lane() % 8);
        for (uint32_t i = 0; i < D / 32; i++)
            lds.tiles[r * shape::PITCH + at + 32 * i] = halo_float_half(q[i] * scale);
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
    for (uint32_t i = halo_tid(); i < shape::ROWS * D; i += shape::THREADS) {
        const uint32_t r = i / D, d = i % D;
        const float *q = a.q + ((uint64_t)(job.first_row + r) * a.n_head + job.head) * dim;
        const float scale = kv_score_scale(a.score, (int32_t)(job.first_pos + r));
        lds.tiles[r * shape::PITCH + d] = r < job.n_rows && d < dim ? halo_float_half(q[d] * scale) : 0;
    }
}

/* Neighbouring chunks of K of KEYS positions, as they are on their way. What lies behind `end` is zero: its memory may
 * hold anything. */
template <uint32_t TYPE, int D> struct prefill_k {
    typedef prefill_shape<D> shape;
    static constexpr bool HELD = TYPE != HALO_KV_F32 || D == 256; /* ahead; the others take too many registers */
    static constexpr uint32_t CHUNK = kv_chunk<TYPE>, STEP = shape::THREADS / shape::KEYS; /* chunks to the next item */
    static constexpr bool HALF = D / CHUNK < STEP; /* only the first threads have a chunk */
    static constexpr uint32_t N = HALF ? 1 : D / CHUNK / STEP;
    halo_u4 chunk[HELD ? N : 1];
    uint16_t scale[HELD ? N : 1];
    /* The same offset in all tiles and items: what differs is the same in all lanes. */
    template <bool WHOLE>
    HALO_DEVICE_MEMBER void fetch(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page,
                                  uint32_t base, uint32_t i, uint32_t slot)
    {
        const uint8_t *head = page + job.kv_head * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_k);
        const uint32_t dim = a.kv.head_dim_k, key = halo_tid() % shape::KEYS, c = halo_tid() / shape::KEYS,
                       at = base % KV_PAGE;
        const bool real = (WHOLE && (!HALF || c < D / CHUNK)) || (base + key < job.end && c + STEP * i < dim / CHUNK);
        if (!WHOLE) {
            chunk[slot] = halo_u4{{0, 0, 0, 0}};
            scale[slot] = 0;
        }
        if (real)
            chunk[slot] = halo_load<halo_u4>(head + (STEP * i * KV_PAGE + at) * 16, c * KV_PAGE + key);
        if (kv_scaled<TYPE> && real)
            scale[slot] = halo_load<uint16_t>(head + kv_scales_at<TYPE>(dim) + at * 2,
                                              (c + STEP * i) * CHUNK / 32 * KV_PAGE + key);
    }
    HALO_DEVICE_MEMBER void settle(uint32_t i, uint32_t slot, uint16_t *k) const
    {
        if (HALF && halo_tid() / shape::KEYS >= D / CHUNK)
            return;
        uint16_t *to = k + halo_tid() % shape::KEYS * shape::PITCH + (halo_tid() / shape::KEYS + STEP * i) * CHUNK;
        if constexpr (TYPE != HALO_KV_F32) {
            halo_u4 halves[CHUNK / 8];
            kv_chunk_half<TYPE>(chunk[slot], scale[slot], halves);
            for (uint32_t e = 0; e < CHUNK / 8; e++)
                reinterpret_cast<halo_u4 *>(to)[e] = halves[e];
        } else {
            for (uint32_t e = 0; e < CHUNK; e += 2)
                *reinterpret_cast<uint32_t *>(to + e) = halo_float_half(kv_element<TYPE>(chunk[slot], e)) |
                                                        (uint32_t)halo_float_half(kv_element<TYPE>(chunk[slot], e + 1))
                                                            << 16;
        }
    }
};

/* V likewise, a row for each element of the head: two positions and a few elements to a thread. Neighbouring lanes have
 * neighbouring positions, so that what a wave stores together lies in different banks. */
template <uint32_t TYPE, int D> struct prefill_v {
    typedef prefill_shape<D> shape;
    static constexpr bool HELD = prefill_k<TYPE, D>::HELD;
    static constexpr uint32_t E = TYPE == HALO_KV_F32 ? 4 : 8, PAIRS = shape::KEYS / 2;
    static constexpr uint32_t STEP = shape::THREADS / PAIRS * E; /* elements to the next item */
    static_assert(D % STEP == 0, "all threads have some");
    static constexpr uint32_t N = D / STEP;
    kv_values<TYPE, E> values[HELD ? N : 1][2];
    template <bool WHOLE>
    HALO_DEVICE_MEMBER void fetch(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page,
                                  uint32_t base, uint32_t i, uint32_t slot)
    {
        const uint8_t *head = page + a.kv.n_head_kv * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_k) +
                              job.kv_head * halo_hip_kv_head_bytes(TYPE, a.kv.head_dim_v);
        const uint32_t dim = a.kv.head_dim_v, d = halo_tid() / PAIRS * E, key = halo_tid() % PAIRS * 2,
                       at = base % KV_PAGE;
        for (uint32_t j = 0; j < 2; j++) {
            if (!WHOLE)
                values[slot][j] = {};
            if (!WHOLE && (base + key + j >= job.end || d + STEP * i >= dim))
                continue;
            if constexpr (kv_scaled<TYPE>)
                values[slot][j].load(head, dim, at + key + j, d + STEP * i);
            else
                values[slot][j].load(head + ((at + j) * dim + STEP * i) * (TYPE == HALO_KV_F32 ? 4 : 2), dim, key, d);
        }
    }
    HALO_DEVICE_MEMBER void settle(uint32_t i, uint32_t slot, uint16_t *v) const
    {
        uint16_t *to = v + shape::v_row(halo_tid() / PAIRS * E) + halo_tid() % PAIRS * 2 + shape::v_row(STEP * i);
        if constexpr (TYPE != HALO_KV_F32) {
            const halo_u4 left = kv_eight_half<TYPE>(values[slot][0]), right = kv_eight_half<TYPE>(values[slot][1]);
            for (uint32_t e = 0; e < 8; e++) {
                const uint32_t at = kv_half_place<TYPE>(e), l = left.e[at / 2], r = right.e[at / 2];
                *reinterpret_cast<uint32_t *>(to + e * shape::V_PITCH) =
                    at % 2 ? kv_second_halves(l, r) : kv_first_halves(l, r);
            }
        } else {
            for (uint32_t e = 0; e < E; e++)
                *reinterpret_cast<uint32_t *>(to + e * shape::V_PITCH) =
                    halo_float_half(values[slot][0].get((int)e)) |
                    (uint32_t)halo_float_half(values[slot][1].get((int)e)) << 16;
        }
    }
};

template <bool WHOLE, typename T>
HALO_DEVICE void prefill_items(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page, uint32_t base,
                               T &tile, uint16_t *to)
{
#pragma unroll
    for (uint32_t i = 0; i < T::N; i++) {
        tile.template fetch<WHOLE>(a, job, page, base, i, T::HELD ? i : 0);
        if constexpr (!T::HELD)
            tile.settle(i, 0, to);
        if (!T::HELD && i % 4 == 3)
            halo_schedule_here(); /* else the registers for all of them are taken at once */
    }
}

/* Into registers, or if they are not held there to LDS. `dim`: what the head has of the kernel's D elements. */
template <typename T>
HALO_DEVICE void prefill_bring(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page, uint32_t base,
                               uint32_t dim, T &tile, uint16_t *to)
{
    if (base + T::shape::KEYS <= job.end && dim == T::shape::HEAD) {
        prefill_items<true>(a, job, page, base, tile, to);
    } else {
        prefill_items<false>(a, job, page, base, tile, to);
    }
}

template <typename T>
HALO_DEVICE void prefill_settle(const halo_prefill_args &a, const prefill_job &job, const uint8_t *page, uint32_t base,
                                uint32_t dim, T &tile, uint16_t *to)
{
    if constexpr (T::HELD) {
#pragma unroll
        for (uint32_t i = 0; i < T::N; i++)
            tile.settle(i, i, to);
    } else {
        prefill_bring(a, job, page, base, dim, tile, to);
    }
}

/* The operands of the wave's 16 rows of q, from its slice. */
template <int D> struct prefill_q {
    typedef prefill_shape<D> shape;
    halo_frag frag[shape::SLICE / 16];
};

template <int D>
HALO_DEVICE void prefill_keep_q(uint32_t group, uint32_t part, const prefill_lds<D> &lds, prefill_q<D> &q)
{
    typedef prefill_shape<D> shape;
    halo_barrier();
#pragma unroll
    for (uint32_t i = 0; i < shape::SLICE / 16; i++)
        q.frag[i] = halo_mma_load(lds.tiles + group * 16 * shape::PITCH + part * shape::SLICE + 16 * i, shape::PITCH);
}

/* Scores of 16 rows and KEYS positions; where waves share them, the sum over the wave's slice. */
template <int D>
HALO_DEVICE void prefill_scores(uint32_t dim, uint32_t part, const prefill_lds<D> &lds, const prefill_q<D> &q,
                                halo_acc (&s)[prefill_shape<D>::KEYS / 16])
{
    typedef prefill_shape<D> shape;
    constexpr uint32_t N = shape::KEYS / 16;
    const uint16_t *k = lds.tiles + shape::K_AT;
    constexpr uint32_t STEP = 64; /* columns that are multiplied or left out together */
#pragma unroll
    for (uint32_t first = 0; first < shape::SLICE; first += STEP) {
        if (shape::SHARED)
            halo_schedule_here();
        if (part * shape::SLICE + first >= dim)
            continue;
#pragma unroll
        for (uint32_t d = first; d < first + STEP; d += 16)
#pragma unroll
            for (uint32_t n = 0; n < N; n++)
                s[n] = halo_chain_mma(
                    q.frag[d / 16], halo_chain_load(k + n * 16 * shape::PITCH + part * shape::SLICE + d, shape::PITCH),
                    s[n]);
    }
}

/* The sums of the waves that share 16 rows: their scores. */
template <int D> HALO_DEVICE void prefill_leave(prefill_lds<D> &lds, halo_acc (&s)[prefill_shape<D>::KEYS / 16])
{
#pragma unroll
    for (uint32_t i = 0; i < prefill_shape<D>::KEYS / 8; i++) {
        halo_acc &c = s[i / 2];
        const uint32_t at = i % 2 * 4;
        lds.sums[halo_wave()][i][halo_lane()] = halo_f4{{c[at], c[at + 1], c[at + 2], c[at + 3]}};
    }
}

template <int D>
HALO_DEVICE void prefill_join(uint32_t group, const prefill_lds<D> &lds, halo_acc (&s)[prefill_shape<D>::KEYS / 16])
{
    typedef prefill_shape<D> shape;
#pragma unroll
    for (uint32_t i = 0; i < shape::KEYS / 8; i++) {
        halo_f4 sum = lds.sums[group * shape::PARTS][i][halo_lane()];
#pragma unroll
        for (uint32_t p = 1; p < shape::PARTS; p++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                sum.e[e] += lds.sums[group * shape::PARTS + p][i][halo_lane()].e[e];
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            s[i / 2][i % 2 * 4 + e] = sum.e[e];
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

/* The softmax of the lane's rows, with the lanes that have their other columns; sums are the lane's own. */
struct prefill_state {
    float max[HALO_CHAIN_ROWS], sum[HALO_CHAIN_ROWS];
    HALO_DEVICE_MEMBER prefill_state(void)
    {
        for (int i = 0; i < HALO_CHAIN_ROWS; i++) {
            max[i] = NOTHING;
            sum[i] = 0;
        }
    }
};

/* Scores become probabilities and the operand of the products with V; `out` shrinks as the maximum grows. */
template <int D>
HALO_DEVICE void prefill_softmax(const halo_prefill_args &a, uint32_t first_pos, uint32_t base,
                                 halo_acc (&s)[prefill_shape<D>::KEYS / 16], prefill_state *state,
                                 halo_acc (&out)[prefill_shape<D>::TILES], halo_frag (&p)[prefill_shape<D>::KEYS / 16])
{
    constexpr uint32_t KEYS = prefill_shape<D>::KEYS, N = KEYS / 16;
    const float cap = a.score.cap * LOG2_E;
    float shrink[HALO_CHAIN_ROWS];
    if (cap > 0) {
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                s[n][i] = halo_capped(s[n][i], cap);
    }
    /* Most tiles hide nothing from any of the 16 rows. */
    if (base + KEYS - 1 > first_pos || kv_lowest(a.score, (int32_t)first_pos + 15) > base) {
#pragma unroll
        for (int r = 0; r < HALO_CHAIN_ROWS; r++) {
            const prefill_sight sight = prefill_sees(a, first_pos + halo_chain_row(r), base);
#pragma unroll
            for (uint32_t n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (halo_chain_of(i) == r) {
                        const uint32_t at = 16 * n + halo_chain_col(i);
                        s[n][i] = at >= sight.hidden && at < sight.seen ? s[n][i] : 2 * NOTHING;
                    }
        }
    }
#pragma unroll
    for (int r = 0; r < HALO_CHAIN_ROWS; r++) {
        float max = state->max[r], sum = 0;
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (halo_chain_of(i) == r)
                    max = halo_max(max, s[n][i]);
        max = halo_chain_max(max);
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (halo_chain_of(i) == r) {
                    s[n][i] = halo_exp2(s[n][i] - max);
                    sum += s[n][i];
                }
        shrink[r] = halo_exp2(state->max[r] - max);
        state->sum[r] = halo_fma(state->sum[r], shrink[r], sum);
        state->max[r] = max;
    }
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
        p[n] = halo_chain(s[n]);
#pragma unroll
    for (uint32_t t = 0; t < prefill_shape<D>::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            out[t][i] *= shrink[halo_chain_of(i)];
}

template <int D>
HALO_DEVICE void prefill_outputs(uint32_t part, const prefill_lds<D> &lds,
                                 const halo_frag (&p)[prefill_shape<D>::KEYS / 16],
                                 halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
    const uint16_t *v = lds.tiles + shape::V_AT;
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++) {
#pragma unroll
        for (uint32_t k = 0; k < shape::KEYS; k += 16)
            out[t] = halo_chain_mma(
                p[k / 16],
                halo_chain_load(v + shape::v_row(part * shape::SLICE + t * 16) + k, shape::V_PITCH, shape::V_SKEW),
                out[t]);
        if (shape::SHARED && t % 4 == 3)
            halo_schedule_here(); /* else the registers for all operands are taken at once */
    }
}

/* Outputs are divided by the sums of the softmax. */
template <int D>
HALO_DEVICE void prefill_divide(const halo_prefill_args &a, uint32_t head, const prefill_state &state,
                                halo_acc (&out)[prefill_shape<D>::TILES])
{
    float factor[HALO_CHAIN_ROWS];
#pragma unroll
    for (int r = 0; r < HALO_CHAIN_ROWS; r++) {
        const float sum = halo_chain_sum(state.sum[r]);
        factor[r] = sum > 0 ? halo_rcp(sum + kv_sink(a.score, head, state.max[r])) : 0;
    }
#pragma unroll
    for (uint32_t t = 0; t < prefill_shape<D>::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            out[t][i] *= factor[halo_chain_of(i)];
}

template <int D>
HALO_DEVICE void prefill_store(const halo_prefill_args &a, const prefill_job &job, uint32_t group, uint32_t part,
                               halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
    const uint32_t dim = a.kv.head_dim_v;
#pragma unroll
    for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t r = group * 16 + halo_chain_row(halo_chain_of(i)),
                           d = part * shape::SLICE + t * 16 + halo_chain_col(i);
            if (r < job.n_rows && d < dim)
                a.out[((uint64_t)(job.first_row + r) * a.n_head + job.head) * dim + d] = out[t][i];
        }
}

/* Of a cache in 4 bits: rotated back, by way of LDS, where q, K and V are no longer needed. */
template <int D>
HALO_DEVICE void prefill_rotate_store(const halo_prefill_args &a, const prefill_job &job, uint32_t group, uint32_t part,
                                      prefill_lds<D> &lds, halo_acc (&out)[prefill_shape<D>::TILES])
{
    typedef prefill_shape<D> shape;
    constexpr uint32_t FIT = sizeof(lds.tiles) / (D * sizeof(float)), N = FIT >= shape::ROWS ? shape::ROWS
                                                                          : FIT >= 32        ? 32
                                                                          : FIT >= 16        ? 16
                                                                                             : 8; /* rows at a time */
    static_assert(FIT >= N, "they overlap");
    const uint32_t dim = a.kv.head_dim_v;
    float *rows = reinterpret_cast<float *>(lds.tiles);
#pragma unroll
    for (uint32_t first = 0; first < shape::ROWS; first += N) {
        halo_barrier();
#pragma unroll
        for (uint32_t t = 0; t < shape::TILES; t++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const uint32_t r = group * 16 + halo_chain_row(halo_chain_of(i)) - first;
                if (r < N)
                    rows[r * D + part * shape::SLICE + t * 16 + halo_chain_col(i)] = out[t][i];
            }
        halo_barrier();
        for (uint32_t r = halo_wave(); r < N && first + r < job.n_rows; r += shape::WAVES) {
            float v[D / 32];
            for (uint32_t i = 0; i < D / 32; i++)
                v[i] = rows[r * D + halo_lane() + 32 * i];
            hadamard_strided<D / 32>(dim, v);
            float *to = a.out + ((uint64_t)(job.first_row + first + r) * a.n_head + job.head) * dim;
            for (uint32_t i = 0; i < D / 32; i++)
                if (halo_lane() + 32 * i < dim)
                    to[halo_lane() + 32 * i] = v[i];
        }
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
    uint32_t base = kv_lowest(a.score, (int32_t)pos0) / shape::KEYS * shape::KEYS;
    uint16_t *k_at = lds.tiles + shape::K_AT, *v_at = lds.tiles + shape::V_AT;
    prefill_k<TYPE, D> k;
    prefill_v<TYPE, D> v;
    const auto fetch_ahead = [&](uint32_t from) {
        if (from >= job.end)
            return;
        const uint8_t *page = kv_page(a.kv, row0, from);
        if constexpr (k.HELD)
            prefill_bring(a, job, page, from, a.kv.head_dim_k, k, k_at);
        if constexpr (v.HELD)
            prefill_bring(a, job, page, from, a.kv.head_dim_v, v, v_at);
    };
    fetch_ahead(base);
    prefill_load_q<TYPE, D>(a, job, lds);
    prefill_q<D> q;
    prefill_keep_q<D>(group, part, lds, q);
    prefill_state state;
    halo_acc out[shape::TILES] = {};
    for (; base < job.end; base += shape::KEYS) {
        const uint8_t *page = kv_page(a.kv, row0, base);
        halo_barrier();
        prefill_settle(a, job, page, base, a.kv.head_dim_k, k, k_at);
        if constexpr (!shape::V_REPLACES_K)
            prefill_settle(a, job, page, base, a.kv.head_dim_v, v, v_at);
        halo_barrier();
        if constexpr (!shape::SHARED)
            fetch_ahead(base + shape::KEYS);
        const bool seen = group * 16 < n_rows && base <= pos0 + group * 16 + 15; /* by a row of the wave */
        halo_acc scores[shape::KEYS / 16] = {};
        if (seen) {
            prefill_scores<D>(a.kv.head_dim_k, part, lds, q, scores);
            if constexpr (shape::SHARED)
                prefill_leave<D>(lds, scores);
        }
        if constexpr (shape::V_REPLACES_K || shape::SHARED)
            halo_barrier();
        if constexpr (shape::V_REPLACES_K) {
            prefill_settle(a, job, page, base, a.kv.head_dim_v, v, v_at);
            halo_barrier();
        }
        if constexpr (shape::SHARED)
            fetch_ahead(base + shape::KEYS);
        if (!seen)
            continue;
        if constexpr (shape::SHARED)
            prefill_join<D>(group, lds, scores);
        halo_frag p[shape::KEYS / 16];
        prefill_softmax<D>(a, pos0 + group * 16, base, scores, &state, out, p);
        if constexpr (shape::SHARED)
            halo_schedule_here(); /* else V takes registers before */
        prefill_outputs<D>(part, lds, p, out);
    }
    prefill_divide<D>(a, job.head, state, out);
    if constexpr (TYPE == HALO_KV_Q4)
        prefill_rotate_store<D>(a, job, group, part, lds, out);
    else
        prefill_store<D>(a, job, group, part, out);
}

typedef prefill_lds<128> prefill_lds_128;
typedef prefill_lds<256> prefill_lds_256;
typedef prefill_lds<512> prefill_lds_512;

/* Resident blocks per SM: of 256 threads whose registers are the most that a thread can have, one. */
template <int D> constexpr int prefill_resident = PREFILL_THREADS(D) > 128 ? 1 : 2;

#define HALO_PREFILL_KERNEL(TYPE, type, d)                                                                             \
    HALO_KERNEL_RESIDENT(prefill_##type##_d##d, halo_prefill_args, PREFILL_THREADS(d), prefill_resident<d>)            \
    {                                                                                                                  \
        HALO_LDS(prefill_lds_##d, lds);                                                                                \
        halo_inputs_ready();                                                                                           \
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
