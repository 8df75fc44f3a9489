/* gemm.h: the products of many rows: f16 matrix tiles with f32 sums. What the gemm and moe_gemm kernels of all types
 * share.
 *
 * A block of four waves computes up to 128 rows of x by 128 weight rows. The K axis goes by slabs of 32 columns or 64.
 * Slabs of x lie in LDS, the next ones on their way while the waves multiply one. Weights in f16 are brought like x;
 * of other types a thread loads one unit of 32, or two, while the slab before is multiplied, and expands them to f16
 * in LDS when that is done.
 * A wave has HALO_GEMM_WAVE_COLS weight rows (GEMM_M x GEMM_N tiles of 16 x 16), half of them in the first half of the
 * block's (gemm_store.h). On AMD's chips that is 32 with all rows of x, and it multiplies no tile without rows, so that
 * a block costs what its rows are in sixteens, and what bringing the weights to f16 takes.
 * In a tile A is x and B is the weights: neighbouring lanes hold neighbouring outputs of a row, which are stored
 * together.
 */
#ifndef HALO_GFX_GEMM_H
#define HALO_GFX_GEMM_H

#include "gemm_store.h"
#include "gemv.h"

constexpr uint32_t GEMM_THREADS = 128;

/* Where copies pass through registers, two slabs of 32 need one barrier a slab. Where they do not, three slabs of f16
 * weights are in flight; of other types slabs of 64 make full use of the sectors that 16-byte loads of a unit touch,
 * and there is LDS for one slab of weights beside two of x: a barrier more, while the SM's other block multiplies. */
template <uint32_t TYPE> struct gemm_shape {
    static constexpr bool COPIED = TYPE == HALO_TYPE_F16;
#if defined(HALO_ASYNC_COPY)
    static constexpr bool WIDE = !gemv_plain_type<TYPE>;
    static constexpr uint32_t SLAB = WIDE ? 64 : 32, X_SLABS = COPIED ? 3 : 2, W_SLABS = COPIED ? 3 : WIDE ? 1 : 2;
#else
    static constexpr uint32_t SLAB = 32, X_SLABS = 2, W_SLABS = 2;
#endif
    static constexpr uint32_t AHEAD = X_SLABS - 1;
    /* Units that a thread loads together: a unit is 16 bytes or fewer of a line of each plane, and by the next slab the
     * cache has lost that line. */
    static constexpr uint32_t BATCH = gemv_plain_type<TYPE> ? 1 : HALO_GEMM_BATCH;
    /* Slabs of a turn of the loop, in which the place of each is known when it is compiled. */
#if defined(HALO_ASYNC_COPY)
    static constexpr uint32_t TURNS = 1;
#else
    static constexpr uint32_t TURNS = BATCH > X_SLABS ? BATCH : X_SLABS;
#endif
};

/* Where slabs of 64 take all LDS, books are read through the caches. */
#if defined(HALO_ASYNC_COPY)
template <uint32_t TYPE> struct gemm_book {
};
#else
template <uint32_t TYPE> struct gemm_book : halo_book_lds<TYPE> {
};
#endif

/* LDS that a block takes to have fewer beside it. A unit of Q5_1 is of four planes: with a fourth block on a WGP, the
 * first cache loses lines before all their units are loaded. */
template <uint32_t TYPE> struct gemm_spare {
};
#if !defined(HALO_ASYNC_COPY)
template <> struct gemm_spare<HALO_TYPE_Q5_1> {
    uint8_t spare[8192];
};
#endif

template <uint32_t TYPE> struct gemm_lds : gemm_book<TYPE>, gemm_spare<TYPE> {
    typedef gemm_shape<TYPE> shape;
    alignas(16) uint16_t x[shape::X_SLABS][HALO_GEMM_ROWS * shape::SLAB];
    alignas(16) uint16_t w[shape::W_SLABS][HALO_GEMM_COLS * shape::SLAB];
};

/* The book that weights are expanded by. */
template <uint32_t TYPE> HALO_DEVICE const void *gemm_book_ready(gemm_book<TYPE> &lds)
{
    (void)lds;
#if !defined(HALO_ASYNC_COPY)
    if constexpr (halo_book<TYPE>::ENTRIES != 0) {
        halo_book_fill<TYPE, GEMM_THREADS>(lds);
        halo_barrier();
        return lds.book;
    }
#endif
    return halo_book<TYPE>::table();
}

HALO_DEVICE uint32_t gemm_pair(float low, float high)
{
    return halo_float_half(low) | (uint32_t)halo_float_half(high) << 16;
}

/* A unit of a weight row: loaded early, brought to f16 late. */
template <uint32_t TYPE> struct gemm_weight {
    typedef halo_type_code<TYPE> code;
    typedef typename code::raw raw;
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return code::load(row, at, u);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t u, const void *book, halo_u4 ret[4])
    {
        halo_unit w;
        uint32_t halves[16];
        halo_expand<TYPE>(r, u, book, &w);
        halo_unit_halves<code>(w, halves);
#pragma unroll
        for (int i = 0; i < 4; i++)
            ret[i] = halo_u4{{halves[4 * i], halves[4 * i + 1], halves[4 * i + 2], halves[4 * i + 3]}};
    }
    static constexpr float FACTOR = HALO_HALVES_FACTOR; /* of what is stored */
};

template <uint32_t TYPE> struct gemm_plain {
    typedef gemv_plain_code<TYPE> code;
    static constexpr uint32_t N = HALO_HIP_UNIT / code::CHUNK;
    static constexpr float FACTOR = 1;
    struct raw {
        halo_u4 e[N];
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &, uint32_t u)
    {
        raw r;
        for (uint32_t i = 0; i < N; i++)
            r.e[i] = halo_load<halo_u4>(row, u * N + i);
        return r;
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const void *, halo_u4 ret[4])
    {
        for (uint32_t i = 0; i < HALO_HIP_UNIT; i += 8)
            for (uint32_t k = 0; k < 8; k += 2) {
                const halo_u4 &from = r.e[(i + k) / code::CHUNK];
                ret[i / 8].e[k / 2] =
                    gemm_pair(code::weight(from, (i + k) % code::CHUNK), code::weight(from, (i + k + 1) % code::CHUNK));
            }
    }
};
template <> struct gemm_weight<HALO_TYPE_F32> : gemm_plain<HALO_TYPE_F32> {
};
template <> struct gemm_weight<HALO_TYPE_BF16> : gemm_plain<HALO_TYPE_BF16> {
};

HALO_DEVICE void gemm_end_copies(void)
{
#if defined(HALO_ASYNC_COPY)
    halo_copies_end();
#endif
}
template <int N> HALO_DEVICE void gemm_wait_copies(void)
{
#if defined(HALO_ASYNC_COPY)
    halo_copies_wait<N>();
#endif
}

/* Rows of halves into slabs in LDS, a few 16-byte chunks to a thread. */
template <uint32_t SLAB, uint32_t ROWS> struct gemm_copies {
    static constexpr uint32_t CHUNKS = SLAB / 8, STEP = GEMM_THREADS / CHUNKS, N = ROWS / STEP;
    const uint8_t *base[2]; /* of rows below 64, and of the others */
    uint32_t offset[N];     /* of the thread's chunk in each of its rows, in bytes */
#if !defined(HALO_ASYNC_COPY)
    halo_u4 v[N];
#endif
    HALO_DEVICE_MEMBER static uint32_t row(uint32_t i)
    {
        return halo_tid() / CHUNKS + STEP * i;
    }
    HALO_DEVICE_MEMBER static uint32_t chunk(void)
    {
        return halo_tid() % CHUNKS;
    }
    HALO_DEVICE_MEMBER static constexpr uint32_t half_of(uint32_t i)
    {
        return STEP * i / GEMM_HALF;
    }
    HALO_DEVICE_MEMBER void place(uint32_t i, uint32_t row_offset)
    {
        offset[i] = row_offset + chunk() * 16;
    }
    /* Columns first .. first + SLAB - 1; those behind n_cols are zeros. */
    HALO_DEVICE_MEMBER void fetch(uint32_t first, uint32_t n_cols, uint16_t *slab)
    {
        const bool real = SLAB == HALO_HIP_UNIT || first + chunk() * 8 < n_cols;
        /* The same in all lanes: offsets of 32 bits are enough. */
        const uint8_t *from[2] = {base[0] + (real ? first * 2 : 0), base[1] + (real ? first * 2 : 0)};
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
#if defined(HALO_ASYNC_COPY)
            halo_copy16(slab + halo_slab_at<SLAB>(row(i), chunk()), from[half_of(i)] + offset[i], real);
#else
            static_assert(SLAB == HALO_HIP_UNIT, "n_cols is a multiple of it");
            (void)slab;
            v[i] = halo_load<halo_u4>(from[half_of(i)] + offset[i]);
#endif
        }
    }
    /* What was fetched last is in its slab after the next barrier. */
    HALO_DEVICE_MEMBER void settle(uint16_t *slab)
    {
        (void)slab;
#if !defined(HALO_ASYNC_COPY)
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
            *reinterpret_cast<halo_u4 *>(slab + halo_slab_at<SLAB>(row(i), chunk())) = v[i];
#endif
    }
};

/* The block's weights on their way into slabs: in f16 they are copied, others are expanded by the thread that loaded
 * them. */
template <uint32_t TYPE> struct gemm_weights {
    typedef gemm_weight<TYPE> weight;
    static constexpr uint32_t SLAB = gemm_shape<TYPE>::SLAB, N = SLAB / HALO_HIP_UNIT, BATCH = gemm_shape<TYPE>::BATCH;
    static constexpr float FACTOR = weight::FACTOR;
    halo_row_layout at;
    const uint8_t *base[N]; /* rows of the thread's units */
    uint32_t n_units;
    const void *book; /* of the type, or NULL */
    typename weight::raw raw[BATCH][N];
    /* Two units of a row lie in neighbouring groups of eight lanes: their loads share sectors. */
    HALO_DEVICE_MEMBER static uint32_t row(uint32_t i)
    {
        return SLAB == HALO_HIP_UNIT ? halo_tid()
                                     : i * 64 + halo_wave() * 16 + (halo_lane() & 7) + (halo_lane() >> 4) * 8;
    }
    HALO_DEVICE_MEMBER static uint32_t unit(uint32_t slab)
    {
        return SLAB == HALO_HIP_UNIT ? slab : slab * 2 + (halo_lane() >> 3 & 1);
    }
    HALO_DEVICE_MEMBER void begin(const gemm_job &job, const void *book_of)
    {
        book = book_of;
        at = halo_hip_row_layout(TYPE, job.n_cols);
        n_units = job.n_cols / HALO_HIP_UNIT;
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
            base[i] = gemm_weight_row(job, SLAB == HALO_HIP_UNIT ? halo_wave() / 2 : i, row(i) % GEMM_HALF, at.stride);
    }
    /* `turn`: of the slab in its batch, whose first one brings all. Behind the last unit, where x is zero, it is loaded
     * again. */
    HALO_DEVICE_MEMBER void fetch(uint32_t slab, uint32_t turn, uint16_t *)
    {
        if (turn > 0)
            return;
        if constexpr (BATCH == 1) {
            const uint32_t u = real_unit(slab);
#pragma unroll
            for (uint32_t i = 0; i < N; i++)
                raw[0][i] = weight::load(base[i], at, u);
        } else {
            fetch_planes(slab);
        }
    }
    /* Plane by plane, which a word of all units at a time comes to: the units of a plane share a line, which the cache
     * would lose while the other planes are loaded. Rows of super-blocks are whole batches, whose small planes then
     * have one load. */
    HALO_DEVICE_MEMBER void fetch_planes(uint32_t slab)
    {
        constexpr uint32_t WORDS = sizeof(raw[0][0]) / sizeof(uint32_t);
        const bool whole = halo_hip_planes(TYPE) >> 25 != 0;
        static_assert(N == 1 && WORDS * sizeof(uint32_t) == sizeof(raw[0][0]), "whole words of one unit");
        const uint32_t first = whole ? halo_min_of(slab, n_units - BATCH) / BATCH * BATCH : slab;
        uint32_t words[BATCH][WORDS];
#pragma unroll
        for (uint32_t k = 0; k < WORDS; k++)
#pragma unroll
            for (uint32_t b = 0; b < BATCH; b++) {
                uint32_t all[WORDS];
                const typename weight::raw unit = weight::load(base[0], at, whole ? first + b : real_unit(first + b));
                __builtin_memcpy(all, &unit, sizeof(unit));
                words[b][k] = all[k];
            }
#pragma unroll
        for (uint32_t b = 0; b < BATCH; b++)
            __builtin_memcpy(&raw[b][0], words[b], sizeof(raw[b][0]));
    }
    HALO_DEVICE_MEMBER uint32_t real_unit(uint32_t slab) const
    {
        return SLAB == HALO_HIP_UNIT && BATCH == 1 ? slab : halo_min_of(unit(slab), n_units - 1);
    }
    HALO_DEVICE_MEMBER void settle(uint32_t slab, uint32_t turn, uint16_t *to)
    {
        const uint32_t u = real_unit(slab);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            halo_u4 halves[4];
            weight::expand(raw[turn][i], u, book, halves);
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                *reinterpret_cast<halo_u4 *>(to + halo_slab_at<SLAB>(row(i), unit(0) * 4 + k)) = halves[k];
        }
    }
};

template <> struct gemm_weights<HALO_TYPE_F16> {
    static constexpr uint32_t SLAB = gemm_shape<HALO_TYPE_F16>::SLAB;
    static constexpr float FACTOR = 1;
    gemm_copies<SLAB, HALO_GEMM_COLS> copies;
    uint32_t n_cols;
    HALO_DEVICE_MEMBER void begin(const gemm_job &job, const void *)
    {
        const uint32_t stride = halo_hip_row_layout(HALO_TYPE_F16, job.n_cols).stride;
        n_cols = job.n_cols;
        const uint32_t last = job.n_weight_rows - 1;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
            copies.base[h] = gemm_weight_row(job, h, 0, stride);
#pragma unroll
        for (uint32_t i = 0; i < copies.N; i++) {
            const uint32_t first = halo_min_of(job.col[copies.half_of(i)], last);
            copies.place(i, halo_min_of(copies.row(i) % GEMM_HALF, last - first) * stride);
        }
    }
    HALO_DEVICE_MEMBER void fetch(uint32_t slab, uint32_t, uint16_t *to)
    {
        copies.fetch(slab * SLAB, n_cols, to);
    }
    HALO_DEVICE_MEMBER void settle(uint32_t, uint32_t, uint16_t *to)
    {
        copies.settle(to);
    }
};

#if defined(HALO_NO_MATRIX)
template <uint32_t SLAB> HALO_DEVICE uint32_t gemm_pair_of(const uint16_t *slab, uint32_t row, uint32_t k)
{
    return *reinterpret_cast<const uint32_t *>(slab + halo_slab_at<SLAB>(row, k / 8) + k % 8);
}
/* Two halves of K at a time by dot products: the same sums in the same lanes. */
template <uint32_t SLAB>
HALO_DEVICE void gemm_products(const uint16_t *x, uint32_t row0, const uint16_t *w, uint32_t col0, int n_tiles,
                               gemm_sums &acc)
{
    for (uint32_t k = 0; k < SLAB; k += 2) {
        uint32_t b[GEMM_N];
#pragma unroll
        for (int j = 0; j < GEMM_N; j++)
            b[j] = gemm_pair_of<SLAB>(w, gemm_w_row(col0, j) + halo_mma_col(0), k);
#pragma unroll
        for (int i = 0; i < GEMM_M; i++) {
            if (i >= n_tiles)
                continue;
#pragma unroll
            for (int v = 0; v < 8; v++) {
                const uint32_t a = gemm_pair_of<SLAB>(x, row0 + 16 * (uint32_t)i + halo_mma_row(v), k);
#pragma unroll
                for (int j = 0; j < GEMM_N; j++)
                    acc[i][j][v] = halo_dot2(a, b[j], acc[i][j][v]);
            }
        }
    }
}
#else
template <uint32_t SLAB>
HALO_DEVICE void gemm_products(const uint16_t *x, uint32_t row0, const uint16_t *w, uint32_t col0, int n_tiles,
                               gemm_sums &acc)
{
#pragma unroll
    for (uint32_t k = 0; k < SLAB; k += HALO_SLAB_STEP) {
        halo_slab_frag b[GEMM_N];
#pragma unroll
        for (int j = 0; j < GEMM_N; j++)
            b[j] = halo_slab_load<SLAB>(w, gemm_w_row(col0, j), k);
#pragma unroll
        for (int i = 0; i < GEMM_M; i++) {
            if (i < n_tiles) {
                const halo_slab_frag a = halo_slab_load<SLAB>(x, row0 + (uint32_t)i * 16, k);
#pragma unroll
                for (int j = 0; j < GEMM_N; j++)
                    acc[i][j] = halo_slab_mma(a, b[j], acc[i][j]);
            }
            halo_schedule_here();
        }
    }
}
#endif

/* Where a wave is: its part of the outputs, and the slabs s and s + AHEAD among those in LDS. */
struct gemm_place {
    uint32_t row0, col0, at, behind;
    int n_tiles; /* of rows, that are not all behind the block's last */
};

/* Conditions around single tiles cost NVIDIA's chips an eighth of a prompt's speed: loads of a tile stay behind the one
 * in front of it. So a wave multiplies all of its tiles there; in products of experts, many of which have few rows
 * (SPARSE), the first half of them, or none, where no others have rows. */
template <uint32_t SLAB, bool SPARSE>
HALO_DEVICE void gemm_multiply(const uint16_t *x, const uint16_t *w, const gemm_place &place, gemm_sums &acc)
{
#if defined(HALO_ASYNC_COPY)
    if (!SPARSE || place.n_tiles > GEMM_M / 2)
        gemm_products<SLAB>(x, place.row0, w, place.col0, GEMM_M, acc);
    else if (place.n_tiles > 0)
        gemm_products<SLAB>(x, place.row0, w, place.col0, GEMM_M / 2, acc);
#else
    gemm_products<SLAB>(x, place.row0, w, place.col0, place.n_tiles, acc);
#endif
}

/* `turn`: of slab s in a turn of the loop. */
template <uint32_t TYPE, bool SPARSE>
HALO_DEVICE void gemm_slab(const gemm_job &job, gemm_lds<TYPE> &lds,
                           gemm_copies<gemm_shape<TYPE>::SLAB, HALO_GEMM_ROWS> &x, gemm_weights<TYPE> &w,
                           gemm_place &place, uint32_t s, uint32_t n_slabs, uint32_t turn, gemm_sums &acc)
{
    typedef gemm_shape<TYPE> shape;
    const bool known = shape::TURNS % shape::X_SLABS == 0;
    const uint32_t at = known ? turn % shape::X_SLABS : place.at,
                   behind = known ? (turn + shape::AHEAD) % shape::X_SLABS : place.behind;
    uint16_t *lds_x = lds.x[at], *lds_w = lds.w[shape::W_SLABS > 1 ? at : 0];
    if (shape::W_SLABS == 1)
        halo_lds_barrier(); /* the slab before is multiplied */
    w.settle(s, turn % shape::BATCH, lds_w);
    x.settle(lds_x);
    gemm_wait_copies<shape::AHEAD - 1>();
    halo_lds_barrier();
    const uint32_t next = halo_min_of(s + shape::AHEAD, n_slabs - 1); /* the last again: cheaper than a branch */
    w.fetch(next, (turn + shape::AHEAD) % shape::BATCH, lds.w[shape::W_SLABS > 1 ? behind : 0]);
    x.fetch(next * shape::SLAB, job.n_cols, lds.x[behind]);
    gemm_end_copies();
    gemm_multiply<shape::SLAB, SPARSE>(lds_x, lds_w, place, acc);
    place.at = place.at + 1 < shape::X_SLABS ? place.at + 1 : 0;
    place.behind = place.behind + 1 < shape::X_SLABS ? place.behind + 1 : 0;
}

template <uint32_t TYPE, bool SPARSE> HALO_DEVICE void gemm(const gemm_job &job, gemm_lds<TYPE> &lds)
{
    typedef gemm_shape<TYPE> shape;
    constexpr uint32_t SLAB = shape::SLAB, AHEAD = shape::AHEAD, TURNS = shape::TURNS;
    const uint32_t wave = halo_wave(), n_slabs = HALO_HIP_CEIL(job.n_cols, SLAB);
    constexpr uint32_t ACROSS = HALO_GEMM_COLS / 16 / GEMM_N;
    const uint32_t row0 = wave / ACROSS * GEMM_M * 16;
    gemm_place place = {row0, wave % ACROSS * GEMM_N * 8, 0, AHEAD % shape::X_SLABS,
                        job.n_rows > row0 ? (int)HALO_HIP_CEIL(job.n_rows - row0, 16) : 0};
    gemm_copies<SLAB, HALO_GEMM_ROWS> x;
    x.base[0] = x.base[1] = reinterpret_cast<const uint8_t *>(job.half);
#pragma unroll
    for (uint32_t i = 0; i < x.N; i++)
        x.place(i, gemm_x_row(job, halo_min_of(x.row(i), job.n_rows - 1)) * job.n_cols * 2);
    gemm_weights<TYPE> w;
    w.begin(job, gemm_book_ready<TYPE>(lds));
    gemm_sums acc = {};
#pragma unroll
    for (uint32_t s = 0; s < AHEAD; s++) {
        const uint32_t first = halo_min_of(s, n_slabs - 1);
        w.fetch(first, s % shape::BATCH, lds.w[s % shape::W_SLABS]);
        x.fetch(first * SLAB, job.n_cols, lds.x[s]);
        gemm_end_copies();
    }
    if constexpr (TURNS == 1) {
        for (uint32_t s = 0; s < n_slabs; s++)
            gemm_slab<TYPE, SPARSE>(job, lds, x, w, place, s, n_slabs, 0, acc);
    } else {
        for (uint32_t s = 0; s < n_slabs; s += TURNS)
#pragma unroll
            for (uint32_t turn = 0; turn < TURNS; turn++) {
                if (turn > 0 && s + turn >= n_slabs)
                    break;
                gemm_slab<TYPE, SPARSE>(job, lds, x, w, place, s + turn, n_slabs, turn, acc);
            }
    }
    gemm_wait_copies<0>();
    const float factor = 1 / gemm_weights<TYPE>::FACTOR;
    if (job.glu.half) {
        halo_lds_barrier(); /* the last slabs are multiplied */
        gemm_store_glu(job, factor, place.row0, place.col0, acc, reinterpret_cast<float *>(&lds));
    } else {
        gemm_store(job, factor, place.row0, place.col0, acc);
    }
}

template <uint32_t TYPE> HALO_DEVICE void gemm_run(const halo_gemm_args &a, gemm_lds<TYPE> &lds)
{
    const uint32_t first = halo_block_x() * HALO_GEMM_ROWS, one = HALO_HIP_CEIL(a.matrix[0].n_rows, HALO_GEMM_COLS),
                   two = HALO_HIP_CEIL(a.matrix[1].n_rows, HALO_GEMM_COLS);
    const bool fused = a.glu.half != nullptr;
    const uint32_t tile = halo_block_y(), m = fused || tile < one ? 0 : tile - one < two ? 1 : 2;
    const auto pick = [m](auto x, auto y, auto z) { return m == 0 ? x : m == 1 ? y : z; };
#define GEMM_PICK(field) pick(a.matrix[0].field, a.matrix[1].field, a.matrix[2].field)
    const uint8_t *weight = static_cast<const uint8_t *>(GEMM_PICK(weight));
    const uint32_t before = m == 0 ? 0 : m == 1 ? one : one + two;
    const uint32_t col = fused ? tile * GEMM_HALF : (tile - before) * HALO_GEMM_COLS;
    const gemm_job job = {{weight, fused ? static_cast<const uint8_t *>(a.matrix[1].weight) : weight},
                          {GEMM_PICK(bias), fused ? a.matrix[1].bias : nullptr},
                          {GEMM_PICK(out), nullptr},
                          false,
                          0,
                          a.half,
                          a.scale,
                          nullptr,
                          1,
                          first,
                          a.n_rows - first,
                          {col, fused ? col : col + GEMM_HALF},
                          GEMM_PICK(n_rows),
                          a.n_cols,
                          GEMM_PICK(out_stride),
                          a.glu};
#undef GEMM_PICK
    gemm<TYPE, false>(job, lds);
}

template <uint32_t TYPE> HALO_DEVICE void moe_gemm_run(const halo_moe_gemm_args &a, gemm_lds<TYPE> &lds)
{
    const halo_moe_tile tile = a.tile[halo_block_x()];
    if (tile.n_slots == 0)
        return;
    const uint32_t place = a.place ? a.place[tile.expert] : tile.expert;
    const uint32_t one = HALO_HIP_CEIL(a.matrix[0].n_rows, HALO_GEMM_COLS), block = halo_block_y();
    const bool fused = a.glu.half != nullptr, second = !fused && block >= one;
    const uint64_t expert = place * a.matrix[0].expert_bytes;
    const void *weight = second ? a.matrix[1].weight : a.matrix[0].weight;
    const void *other = fused ? a.matrix[1].weight : weight;
    const uint32_t col = fused ? block * GEMM_HALF : (second ? block - one : block) * HALO_GEMM_COLS;
    const gemm_job job = {{static_cast<const uint8_t *>(weight) + expert, static_cast<const uint8_t *>(other) + expert},
                          {a.matrix[0].bias, a.matrix[1].bias},
                          {a.matrix[0].out, a.matrix[1].out},
                          second,
                          tile.expert * a.matrix[0].n_rows,
                          a.half,
                          a.scale,
                          a.slot + tile.first,
                          a.per_slot ? 1 : a.n_used,
                          0,
                          tile.n_slots,
                          {col, fused ? col : col + GEMM_HALF},
                          a.matrix[0].n_rows,
                          a.n_cols,
                          a.matrix[0].out_stride,
                          a.glu};
    gemm<TYPE, true>(job, lds);
}

#define HALO_GEMM_KERNELS(TYPE, type)                                                                                  \
    typedef gemm_lds<HALO_TYPE_##TYPE> gemm_lds_##type;                                                                \
    HALO_KERNEL(gemm_##type, halo_gemm_args, 128)                                                                      \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_##type, lds);                                                                                \
        gemm_run(a, lds);                                                                                              \
    }                                                                                                                  \
    HALO_KERNEL(moe_gemm_##type, halo_moe_gemm_args, 128)                                                              \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_##type, lds);                                                                                \
        moe_gemm_run(a, lds);                                                                                          \
    }

#endif
