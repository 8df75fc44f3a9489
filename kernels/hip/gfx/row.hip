/* row.hip: ops on rows of values: norms, sums, activations, and their conversion into what the products read.
 *
 * Four neighbouring elements to a thread. Loops run the same number of times in all threads of a block, since lanes of
 * a unit exchange values.
 */
#include "glu.h"
#include "norm.h"
#include <kernels/digest.h>

HALO_KERNEL_EARLY(rmsnorm, halo_rmsnorm_args, 1024)
{
    HALO_LDS(norm_lds, lds);
    const uint32_t n = a.n_cols, first = halo_tid() * 4;
    const halo_f4 w = halo_load4_or_ones(a.weight, first, n);
    halo_inputs_ready();
    const uint32_t row = a.row_index ? a.row_index[halo_block_x()] : halo_block_x();
    float *x = a.x + (uint64_t)row * n, squares = 0;
    halo_f4 v = {{0, 0, 0, 0}};
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        v = halo_load4(x, i, n);
        if (a.add) {
            norm_join(a, halo_load4(a.add + (uint64_t)row * n, i, n), &v);
            halo_store4(x, i, n, v);
        }
        squares = norm_squares(v, squares);
    }
    norm_leave(a, x, squares, v, w, lds);
}

struct layernorm_lds {
    float sum[NORM_THREADS / 32], squares[NORM_THREADS / 32];
};

/* The mean first, then the squares of what is left, so that a large mean costs no digits. */
HALO_KERNEL(layernorm, halo_rmsnorm_args, 1024)
{
    HALO_LDS(layernorm_lds, lds);
    const uint32_t row = halo_block_x(), n = a.n_cols, first = halo_tid() * 4;
    float *x = a.x + (uint64_t)row * n;
    const float *add = a.add ? a.add + (uint64_t)row * n : nullptr;
    float sum = 0, squares = 0;
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        halo_f4 v = halo_load4(x, i, n);
        if (add) {
            norm_join(a, halo_load4(add, i, n), &v);
            halo_store4(x, i, n, v);
        }
        for (int j = 0; j < 4; j++)
            sum += v.e[j];
    }
    sum = halo_wave_sum(sum);
    if (halo_lane() == 0)
        lds.sum[halo_wave()] = sum;
    halo_barrier();
    const float mean = halo_wave_sum(lds.sum[halo_lane()]) / (float)n;
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        const halo_f4 v = halo_load4(x, i, n);
        for (uint32_t j = 0; j < 4; j++) {
            const float y = i + j < n ? v.e[j] - mean : 0;
            squares = halo_fma(y, y, squares);
        }
    }
    squares = halo_wave_sum(squares);
    if (halo_lane() == 0)
        lds.squares[halo_wave()] = squares;
    halo_barrier();
    const float scale = halo_rsqrt(halo_wave_sum(lds.squares[halo_lane()]) / (float)n + a.eps);
    for (uint32_t base = 0; base < n; base += NORM_COLS) {
        const uint32_t i = base + first;
        halo_f4 v = halo_load4(x, i, n);
        const halo_f4 w = halo_load4_or_ones(a.weight, i, n);
        const halo_f4 b = a.bias ? halo_load4(a.bias, i, n) : halo_f4{{0, 0, 0, 0}};
        for (int j = 0; j < 4; j++)
            v.e[j] = halo_fma((v.e[j] - mean) * scale, w.e[j], b.e[j]);
        if (a.out)
            halo_store4(a.out + (uint64_t)row * n, i, n, v);
        if (a.act)
            halo_quantize4(v, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
    }
}

HALO_KERNEL(quantize, halo_quantize_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 v = halo_load4(a.x + (uint64_t)row * n, i, n);
    halo_quantize4(v, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
}

/* The largest magnitude of every `step`-th four elements from `first` on. */
HALO_DEVICE float half_largest(const float *x, uint32_t n, uint32_t first, uint32_t step)
{
    float most = 0;
    for (uint32_t i = first; i < n; i += step)
        most = halo_most4(halo_load4(x, i, n), most);
    return most;
}

/* Stores them as halves; max is the row's largest. */
HALO_DEVICE void half_store(const halo_half_args &a, uint32_t row, uint32_t first, uint32_t step, float max)
{
    const uint32_t n = a.n_cols;
    const float *x = a.x + (uint64_t)row * n;
    const int shift = halo_half_shift(max);
    uint16_t *half = a.half + (uint64_t)row * (a.strips ? halo_hip_strip_stride(n) : n);
    for (uint32_t i = first; i < n; i += step)
        halo_store4_half(half + (a.strips ? halo_strip_at(i / 32, i / 8 % 4) + i % 8 : i), halo_load4(x, i, n),
                         halo_power2(-shift));
    if (first == 0)
        a.scale[row] = halo_power2(shift);
}

struct half_lds {
    float part[NORM_THREADS / 32];
};

HALO_KERNEL(half_rows, halo_half_args, 1024)
{
    HALO_LDS(half_lds, lds);
    const uint32_t row = halo_block_x(), first = halo_tid() * 4;
    const float max = halo_wave_max(half_largest(a.x + (uint64_t)row * a.n_cols, a.n_cols, first, NORM_COLS));
    if (halo_lane() == 0)
        lds.part[halo_wave()] = max;
    halo_barrier();
    half_store(a, row, first, NORM_COLS, halo_wave_max(lds.part[halo_lane()]));
}

/* No wave waits for another: short rows leave no threads without work. */
HALO_KERNEL(half_waves, halo_half_args, 256)
{
    const uint32_t row = halo_block_x() * HALO_HALF_WAVES + halo_wave(), first = halo_lane() * 4;
    if (row >= a.n_rows)
        return;
    half_store(a, row, first, 128, halo_wave_max(half_largest(a.x + (uint64_t)row * a.n_cols, a.n_cols, first, 128)));
}

HALO_KERNEL(half_align, halo_half_align_args, 256)
{
    const uint32_t row = halo_block_x() * HALO_HALF_WAVES + halo_wave(), n = a.n_cols / HALO_GLU_SEGMENT;
    if (row >= a.n_rows)
        return;
    const uint8_t *shift = a.shift + (uint64_t)row * n;
    uint32_t most = 0;
    for (uint32_t i = halo_lane(); i < n; i += 32)
        most = shift[i] > most ? shift[i] : most;
    most = halo_wave_most(most);
    if (halo_lane() == 0)
        a.scale[row] = halo_power2((int)most);
    if (most == 0)
        return; /* as usual */
    for (uint32_t i = halo_lane(); i < n; i += 32) {
        uint32_t *pairs = reinterpret_cast<uint32_t *>(a.half + (uint64_t)row * a.n_cols + i * HALO_GLU_SEGMENT);
        const uint32_t down = halo_float_half(halo_power2((int)shift[i] - (int)most));
        for (uint32_t k = 0; k < HALO_GLU_SEGMENT / 2; k++)
            pairs[k] = halo_pair_fma(pairs[k], down | down << 16, 0);
    }
}

/* Elements i .. i + 3 of a row of n; up: or nullptr. */
template <halo_glu_act ACT>
HALO_DEVICE halo_f4 glu_of(const float *gate_row, const float *up_row, uint32_t i, uint32_t n, float limit)
{
    halo_f4 gate = halo_load4(gate_row, i, n);
    halo_f4 up = halo_load4_or_ones(up_row, i, n);
    for (int j = 0; j < 4 && limit > 0; j++) {
        gate.e[j] = halo_min(gate.e[j], limit);
        up.e[j] = halo_max(halo_min(up.e[j], limit), -limit);
    }
    for (int j = 0; j < 4; j++)
        gate.e[j] = activated<ACT>(gate.e[j], up.e[j]);
    return gate;
}

template <halo_glu_act ACT> HALO_DEVICE void glu(const halo_glu_args &a)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    const halo_f4 v = glu_of<ACT>(a.gate + (uint64_t)row * n, a.up ? a.up + (uint64_t)row * n : nullptr, i, n, a.limit);
    if (a.out)
        halo_store4(a.out + (uint64_t)row * n, i, n, v);
    if (a.act)
        halo_quantize4(v, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
}

#define HALO_GLU_KERNEL(ACT, act)                                                                                      \
    HALO_KERNEL(glu_##act, halo_glu_args, 256)                                                                         \
    {                                                                                                                  \
        glu<HALO_GLU_##ACT>(a);                                                                                        \
    }
HALO_GLU_KERNEL(SILU, silu)
HALO_GLU_KERNEL(GELU, gelu)
HALO_GLU_KERNEL(RELU2, relu2)
HALO_GLU_KERNEL(CLAMPED, clamped)
HALO_GLU_KERNEL(LINEAR, linear)
HALO_GLU_KERNEL(SIGMOID, sigmoid)

struct glu_half_lds {
    float part[8];
};

/* A row of up to PARTS * HALO_QUANTIZE_COLS elements stays in registers until its largest is known. */
template <halo_glu_act ACT, uint32_t PARTS>
HALO_DEVICE void glu_half_row(const halo_glu_half_args &a, glu_half_lds &lds)
{
    const uint32_t row = halo_block_x(), n = a.n_cols, first = halo_tid() * 4;
    const float *gate = a.gate + (uint64_t)row * n, *up = a.up ? a.up + (uint64_t)row * n : nullptr;
    halo_f4 v[PARTS];
    float most = 0;
#pragma unroll
    for (uint32_t k = 0; k < PARTS; k++) {
        v[k] = glu_of<ACT>(gate, up, first + k * HALO_QUANTIZE_COLS, n, a.limit);
        most = first + k * HALO_QUANTIZE_COLS < n ? halo_most4(v[k], most) : most;
    }
    const int shift = halo_half_shift(halo_block_max(most, lds.part));
    const float down = halo_power2(-shift);
#pragma unroll
    for (uint32_t k = 0; k < PARTS; k++) {
        const uint32_t i = first + k * HALO_QUANTIZE_COLS;
        if (i < n)
            halo_store4_half(a.half + (uint64_t)row * n + i, v[k], down);
    }
    if (first == 0)
        a.scale[row] = halo_power2(shift);
}

template <halo_glu_act ACT> HALO_DEVICE void glu_half(const halo_glu_half_args &a, glu_half_lds &lds)
{
    if (a.n_cols <= HALO_QUANTIZE_COLS)
        glu_half_row<ACT, 1>(a, lds);
    else if (a.n_cols <= 4 * HALO_QUANTIZE_COLS)
        glu_half_row<ACT, 4>(a, lds);
    else
        glu_half_row<ACT, HALO_GLU_HALF_COLS / HALO_QUANTIZE_COLS>(a, lds);
}

#define HALO_GLU_HALF_KERNEL(ACT, act)                                                                                 \
    HALO_KERNEL(glu_half_##act, halo_glu_half_args, 256)                                                               \
    {                                                                                                                  \
        HALO_LDS(glu_half_lds, lds);                                                                                   \
        glu_half<HALO_GLU_##ACT>(a, lds);                                                                              \
    }
HALO_GLU_HALF_KERNEL(SILU, silu)
HALO_GLU_HALF_KERNEL(GELU, gelu)
HALO_GLU_HALF_KERNEL(RELU2, relu2)
HALO_GLU_HALF_KERNEL(CLAMPED, clamped)
HALO_GLU_HALF_KERNEL(LINEAR, linear)
HALO_GLU_HALF_KERNEL(SIGMOID, sigmoid)

HALO_KERNEL(limit, halo_limit_args, 256)
{
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 v = halo_load4(a.x, i, a.n);
    for (int j = 0; j < 4; j++) {
        v.e[j] *= a.scale;
        v.e[j] = a.cap > 0 ? halo_capped(v.e[j], a.cap) : v.e[j];
    }
    halo_store4(a.x, i, a.n, v);
}

HALO_KERNEL(add, halo_add_args, 256)
{
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 v = halo_load4(a.x, i, a.n), w = halo_load4(a.add, i, a.n);
    for (int j = 0; j < 4; j++)
        v.e[j] += w.e[j];
    halo_store4(a.x, i, a.n, v);
}

HALO_KERNEL(concat, halo_concat_args, 256)
{
    const uint32_t row = halo_block_y(), width = a.n_a + a.n_b, n = a.n_head * width;
    const uint32_t first = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid();
    const float *from_a = a.a + (uint64_t)row * a.n_head * a.a_stride + a.a_first;
    const float *from_b = a.b + (uint64_t)row * (a.b_stride ? a.n_head * a.b_stride : a.n_b);
    for (uint32_t i = first; i < n && i < first + HALO_QUANTIZE_COLS; i += 256) {
        const uint32_t head = i / width, d = i % width;
        a.out[(uint64_t)row * n + i] =
            d < a.n_a ? from_a[head * a.a_stride + d] : from_b[head * a.b_stride + d - a.n_a];
    }
}

HALO_KERNEL(gather_rows, halo_gather_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_store4(a.out + (uint64_t)row * n, i, n, halo_load4(a.x + (uint64_t)a.row[row] * n, i, n));
}

constexpr uint32_t DIGEST_THREADS = 256;
struct digest_lds {
    uint64_t sum[DIGEST_THREADS];
};

template <typename T> HALO_DEVICE T span_of(const T *spans, uint32_t i)
{
    return i == 0 ? spans[0] : i == 1 ? spans[1] : i == 2 ? spans[2] : spans[3];
}

HALO_KERNEL(digest, halo_digest_args, 256)
{
    HALO_LDS(digest_lds, lds);
    static_assert(HALO_DIGEST_SPANS == 4, "span_of knows four");
    const uint32_t *from = span_of(a.from, halo_block_y());
    const uint32_t n = span_of(a.n, halo_block_y()), tid = halo_tid();
    uint64_t sum = 0;
    for (uint64_t i = halo_block_x() * DIGEST_THREADS + tid; i < n; i += HALO_DIGEST_BLOCKS * DIGEST_THREADS)
        sum += halo_digest_word(from[i], (uint32_t)i);
    lds.sum[tid] = sum;
    for (uint32_t half = DIGEST_THREADS / 2; half > 0; half /= 2) {
        halo_barrier();
        if (tid < half)
            lds.sum[tid] += lds.sum[tid + half];
    }
    if (tid == 0)
        a.to[halo_block_y() * HALO_DIGEST_BLOCKS + halo_block_x()] = lds.sum[0];
}

HALO_KERNEL(copy, halo_copy_args, 256)
{
    const halo_u4 *from = static_cast<const halo_u4 *>(a.from);
    halo_u4 *to = static_cast<halo_u4 *>(a.to);
    for (uint32_t j = 0; j < HALO_COPY_WORDS; j += 256) {
        uint32_t i = halo_block_x() * HALO_COPY_WORDS + j + halo_tid();
        if (i < a.n)
            to[i] = from[i];
    }
}
