/* strip.h: products of 5 to 64 rows on chips with matrix units, where dot products of each row by itself would take
 * longer than memory, and tiles of 128 weight rows would be too few blocks to cover its latency: what the strip kernels
 * of all types share.
 *
 * A block computes a panel of 16 weight rows, or two, for all rows of x. Its waves share the units of the rows,
 * HALO_STRIP_PARTS units at once to a wave; at the end their sums are added in LDS. A lane converts its unit to f16 in
 * registers and the matrix unit reads it there (gfx.h) for HALO_STRIP_TILE rows of x at a time: weights are loaded and
 * converted once, 16 bytes a lane, and x is read once for a block. x is in f16, of quantized types in the order of
 * strips (layout.h), of plain types in its own.
 */
#ifndef HALO_GFX_STRIP_H
#define HALO_GFX_STRIP_H

#include "gemm.h"

#if !defined(HALO_NO_MATRIX)
constexpr uint32_t STRIP_WAVES = 8, STRIP_STEP = STRIP_WAVES * HALO_STRIP_PARTS;

/* X: rows of x that the kernel takes. */
template <uint32_t X> struct strip_lds {
    float sum[STRIP_WAVES][X][HALO_STRIP_COLS];
};
template <uint32_t X> constexpr uint32_t strip_tiles = HALO_HIP_CEIL(X, HALO_STRIP_TILE);

/* What a lane holds of a weight row at units base .. base + HALO_STRIP_PARTS - 1, and where the same of x is: chunk p
 * is 8 halves of x. */
template <uint32_t TYPE> struct strip_code {
    typedef halo_type_code<TYPE> code;
    typedef typename code::raw raw;
    static constexpr float FACTOR = HALO_HALVES_FACTOR;
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t base, uint32_t n)
    {
        return code::load(row, at, halo_min_of(base + halo_strip_part(), n - 1));
    }
    HALO_DEVICE void halves(const raw &r, uint32_t base, uint32_t ret[16])
    {
        halo_unit w;
        halo_expand<TYPE>(r, base + halo_strip_part(), halo_book<TYPE>::table(), &w);
        halo_unit_halves<code>(w, ret);
    }
    HALO_DEVICE uint32_t x_at(uint32_t base, uint32_t p)
    {
        return halo_strip_at(base + halo_strip_part(), p);
    }
    HALO_DEVICE bool exists(uint32_t base, uint32_t, uint32_t n)
    {
        return base + halo_strip_part() < n;
    }
};

/* Plain types: the lanes of a row share its pieces in stage, so that they read neighbours. */
template <uint32_t TYPE> struct strip_plain {
    typedef gemv_plain_code<TYPE> code;
    struct raw {
        halo_u4 e[4];
    };
    static constexpr float FACTOR = 1;
    HALO_DEVICE uint32_t chunk(uint32_t base, uint32_t p)
    {
        return 4 * base + p * HALO_STRIP_PARTS + halo_strip_part();
    }
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &, uint32_t base, uint32_t n)
    {
        raw r;
#pragma unroll
        for (uint32_t p = 0; p < 4; p++)
            r.e[p] = halo_load<halo_u4>(row, halo_min_of(chunk(base, p), 4 * n - 1));
        return r;
    }
    HALO_DEVICE void halves(const raw &r, uint32_t, uint32_t ret[16])
    {
#pragma unroll
        for (uint32_t i = 0; i < 16; i++)
            ret[i] = TYPE == HALO_TYPE_F16
                         ? r.e[i / 4].e[i % 4]
                         : gemm_pair(code::weight(r.e[i / 4], i % 4 * 2), code::weight(r.e[i / 4], i % 4 * 2 + 1));
    }
    HALO_DEVICE uint32_t x_at(uint32_t base, uint32_t p)
    {
        return chunk(base, p) * 8;
    }
    HALO_DEVICE bool exists(uint32_t base, uint32_t p, uint32_t n)
    {
        return chunk(base, p) < 4 * n;
    }
};
template <> struct strip_code<HALO_TYPE_F16> : strip_plain<HALO_TYPE_F16> {
};
template <> struct strip_code<HALO_TYPE_BF16> : strip_plain<HALO_TYPE_BF16> {
};

template <uint32_t TYPE> struct strip_stage {
    typename strip_code<TYPE>::raw raw[HALO_STRIP_ROWS];
};

template <uint32_t TYPE, uint32_t PANELS>
HALO_DEVICE void strip_load(const uint8_t *const (*row)[HALO_STRIP_ROWS], const halo_row_layout &at, uint32_t base,
                            uint32_t n, strip_stage<TYPE> *ret)
{
#pragma unroll
    for (uint32_t p = 0; p < PANELS; p++)
#pragma unroll
        for (int i = 0; i < HALO_STRIP_ROWS; i++)
            ret[p].raw[i] = strip_code<TYPE>::load(row[p][i], at, base, n);
}

/* The rows of x of a tile, as far as they exist. */
template <uint32_t TYPE> HALO_DEVICE void strip_load_x(const uint16_t *x, uint32_t base, uint32_t n, uint32_t ret[16])
{
    typedef strip_code<TYPE> code;
#pragma unroll
    for (uint32_t p = 0; p < 4; p++) {
        halo_u4 v = {{0, 0, 0, 0}}; /* what does not exist adds nothing */
        if (code::exists(base, p, n))
            v = halo_load<halo_u4>(x + code::x_at(base, p));
        for (uint32_t i = 0; i < 4; i++)
            ret[4 * p + i] = v.e[i];
    }
}

/* Whether a tile of x is loaded while the one in front of it is multiplied. Kernels of fewer tiles have two blocks to
 * an SM, and no registers for it. */
template <uint32_t X> constexpr bool strip_ahead = X > HALO_STRIP_X;

/* Products of the rows of x with what `stage` has of the units from `base` on. `xs` has the first tile of x where
 * strip_ahead; at the end that of the next step. */
template <uint32_t TYPE, uint32_t X, uint32_t PANELS>
HALO_DEVICE void strip_products(const strip_stage<TYPE> (&stage)[PANELS], const uint16_t *const *x, uint32_t n_rows,
                                uint32_t base, uint32_t n, uint32_t (&xs)[16], float (*sums)[PANELS][HALO_STRIP_SUMS])
{
    uint32_t w[PANELS][HALO_STRIP_ROWS][16];
#pragma unroll
    for (uint32_t p = 0; p < PANELS; p++)
#pragma unroll
        for (int i = 0; i < HALO_STRIP_ROWS; i++)
            strip_code<TYPE>::halves(stage[p].raw[i], base, w[p][i]);
#pragma unroll
    for (uint32_t t = 0; t < strip_tiles<X>; t++) {
        const bool last = t + 1 == strip_tiles<X> || (t + 1) * HALO_STRIP_TILE >= n_rows;
        uint32_t now[16];
        if (!strip_ahead<X>)
            strip_load_x<TYPE>(x[t], base, n, xs);
#pragma unroll
        for (uint32_t i = 0; i < 16; i++)
            now[i] = xs[i];
        if (strip_ahead<X>)
            strip_load_x<TYPE>(last ? x[0] : x[(t + 1) % strip_tiles<X>], last ? base + STRIP_STEP : base, n, xs);
#pragma unroll
        for (uint32_t p = 0; p < PANELS; p++)
            halo_strip_mma(w[p], now, sums[t][p]);
        if (last)
            break;
    }
}

/* The waves' sums of a panel: an output to a thread at a time. */
template <uint32_t TYPE, uint32_t X, uint32_t PANELS>
HALO_DEVICE void strip_store(const halo_strip_args &a, const halo_matrix_arg &matrix, uint32_t row0, uint32_t panel,
                             strip_lds<X> &lds, const float (*sums)[PANELS][HALO_STRIP_SUMS])
{
#pragma unroll
    for (uint32_t t = 0; t < strip_tiles<X>; t++)
#pragma unroll
        for (int i = 0; i < HALO_STRIP_SUMS; i++) {
            const uint32_t r = t * HALO_STRIP_TILE + halo_strip_sum_x(i);
            if (r < X)
                lds.sum[halo_wave()][r][halo_strip_sum_row(i)] = sums[t][panel][i];
        }
    halo_barrier();
    const uint32_t i = halo_tid() % HALO_STRIP_COLS;
    if (row0 + i >= matrix.n_rows)
        return;
    const float bias = matrix.bias ? matrix.bias[row0 + i] : 0;
    for (uint32_t r = halo_tid() / HALO_STRIP_COLS; r < a.n_rows; r += STRIP_WAVES * 32 / HALO_STRIP_COLS) {
        float sum = 0;
        for (uint32_t w = 0; w < STRIP_WAVES; w++)
            sum += lds.sum[w][r][i];
        const float scale = a.scale[a.row_index ? a.row_index[r] : r] * (1 / strip_code<TYPE>::FACTOR);
        matrix.out[(uint64_t)r * matrix.out_stride + row0 + i] = halo_fma(sum, scale, bias);
    }
}

/* A block has PANELS times HALO_STRIP_COLS weight rows. */
template <uint32_t TYPE, uint32_t X, uint32_t PANELS>
HALO_DEVICE void strip(const halo_strip_args &a, strip_lds<X> &lds)
{
    constexpr uint32_t COLS = PANELS * HALO_STRIP_COLS;
    uint32_t block = halo_block_x(), m = 0;
    for (; m + 1 < a.n_matrices && block >= HALO_HIP_CEIL(a.matrix[m].n_rows, COLS); m++)
        block -= HALO_HIP_CEIL(a.matrix[m].n_rows, COLS);
    const halo_matrix_arg matrix = m == 0 ? a.matrix[0] : m == 1 ? a.matrix[1] : a.matrix[2];
    const halo_row_layout at = halo_hip_row_layout(TYPE, a.n_cols);
    const uint32_t n = a.n_cols / HALO_HIP_UNIT, row0 = block * COLS;
    const uint8_t *row[PANELS][HALO_STRIP_ROWS];
#pragma unroll
    for (uint32_t p = 0; p < PANELS; p++)
#pragma unroll
        for (int i = 0; i < HALO_STRIP_ROWS; i++)
            row[p][i] =
                static_cast<const uint8_t *>(matrix.weight) +
                (uint64_t)halo_min_of(row0 + p * HALO_STRIP_COLS + halo_strip_row(i), matrix.n_rows - 1) * at.stride;
    uint32_t base = halo_wave() * HALO_STRIP_PARTS;
    strip_stage<TYPE> now[PANELS] = {};
    if (base < n)
        strip_load<TYPE, PANELS>(row, at, base, n, now);
    halo_inputs_ready();
    const uint16_t *x[strip_tiles<X>];
#pragma unroll
    for (uint32_t t = 0; t < strip_tiles<X>; t++) {
        const uint32_t r = halo_min_of(t * HALO_STRIP_TILE + halo_strip_x_row(), a.n_rows - 1);
        x[t] = a.half + (uint64_t)(a.row_index ? a.row_index[r] : r) * a.x_stride;
    }
    float sums[strip_tiles<X>][PANELS][HALO_STRIP_SUMS] = {};
    uint32_t xs[16];
    if (strip_ahead<X>)
        strip_load_x<TYPE>(x[0], base, n, xs);
#pragma unroll 1
    for (; base < n; base += STRIP_STEP) {
        strip_stage<TYPE> next[PANELS];
#pragma unroll
        for (uint32_t p = 0; p < PANELS; p++)
            next[p] = now[p];
        if (base + STRIP_STEP < n)
            strip_load<TYPE, PANELS>(row, at, base + STRIP_STEP, n, next);
        strip_products<TYPE, X, PANELS>(now, x, a.n_rows, base, n, xs, sums);
#pragma unroll
        for (uint32_t p = 0; p < PANELS; p++)
            now[p] = next[p];
    }
#pragma unroll
    for (uint32_t p = 0; p < PANELS; p++) {
        if (p > 0)
            halo_barrier();
        strip_store<TYPE, X, PANELS>(a, matrix, row0 + p * HALO_STRIP_COLS, p, lds, sums);
    }
}

#define HALO_STRIP_KERNEL(TYPE, X, PANELS, resident, name)                                                             \
    typedef strip_lds<X> name##_lds;                                                                                   \
    HALO_KERNEL_RESIDENT(name, halo_strip_args, 256, resident)                                                         \
    {                                                                                                                  \
        HALO_LDS(name##_lds, lds);                                                                                     \
        strip<HALO_TYPE_##TYPE, X, PANELS>(a, lds);                                                                    \
    }
#define HALO_STRIP_KERNELS(TYPE, type)                                                                                 \
    HALO_STRIP_KERNEL(TYPE, 8, 1, 2, strip_##type)                                                                     \
    HALO_STRIP_KERNEL(TYPE, HALO_STRIP_X, 1, 2, strip_##type##_x32)
#define HALO_STRIP_WIDE_KERNEL(TYPE, type)                                                                             \
    HALO_STRIP_KERNEL(TYPE, HALO_STRIP_X_WIDE, HALO_STRIP_PANELS_WIDE, 1, strip_##type##_x64)
#endif

#endif
