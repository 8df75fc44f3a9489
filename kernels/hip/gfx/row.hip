/* row.hip: ops on rows of values: norms, sums, activations, and their conversion into what the products read.
 *
 * Four neighbouring elements to a thread. Loops run the same number of times in all threads of a block, since lanes of
 * a unit exchange values.
 */
#include "rows.h"

/* A row is one block's: as many threads as there are, so that a usual row takes one pass. */
constexpr uint32_t NORM_THREADS = 1024, NORM_COLS = 4 * NORM_THREADS;
struct rmsnorm_lds {
    float part[NORM_THREADS / 32];
};

HALO_KERNEL_EARLY(rmsnorm, halo_rmsnorm_args, 1024)
{
    HALO_LDS(rmsnorm_lds, lds);
    const uint32_t row = halo_block_x(), n = a.n_cols, first = halo_tid() * 4;
    halo_f4 w = halo_load4(a.weight, first, n);
    halo_inputs_ready();
    float *x = a.x + (uint64_t)row * n;
    const float *add = a.add ? a.add + (uint64_t)row * n : nullptr;
    float sum = 0;
    halo_f4 v = {{0, 0, 0, 0}};
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        v = halo_load4(x, i, n);
        if (add) {
            const halo_f4 more = halo_load4(add, i, n);
            for (int j = 0; j < 4; j++)
                v.e[j] += more.e[j];
            halo_store4(x, i, n, v);
        }
        for (int j = 0; j < 4; j++)
            sum = halo_fma(v.e[j], v.e[j], sum);
    }
    sum = halo_wave_sum(sum);
    if (halo_lane() == 0)
        lds.part[halo_wave()] = sum;
    halo_barrier();
    const float scale = halo_rsqrt(halo_wave_sum(lds.part[halo_lane()]) / (float)n + a.eps);
    float *out = a.out ? a.out + (uint64_t)row * n : nullptr;
    uint8_t *act = a.act ? static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n) : nullptr;
    for (uint32_t base = 0; base < n; base += NORM_COLS) {
        const uint32_t i = base + first;
        if (n > NORM_COLS) { /* else v and w are what this thread has loaded above */
            v = halo_load4(x, i, n);
            w = halo_load4(a.weight, i, n);
        }
        for (int j = 0; j < 4; j++)
            v.e[j] = v.e[j] * scale * w.e[j];
        if (out)
            halo_store4(out, i, n, v);
        if (act)
            halo_quantize4(v, i, n, act);
    }
}

HALO_KERNEL(quantize, halo_quantize_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 v = halo_load4(a.x + (uint64_t)row * n, i, n);
    halo_quantize4(v, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
}

HALO_KERNEL(half_rows, halo_half_args, 1024)
{
    HALO_LDS(rmsnorm_lds, lds);
    const uint32_t row = halo_block_x(), n = a.n_cols, first = halo_tid() * 4;
    const float *x = a.x + (uint64_t)row * n;
    float max = 0;
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        halo_f4 v = halo_load4(x, i, n);
        for (int j = 0; j < 4; j++)
            max = halo_max(max, halo_abs(v.e[j]));
    }
    max = halo_wave_max(max);
    if (halo_lane() == 0)
        lds.part[halo_wave()] = max;
    halo_barrier();
    max = halo_wave_max(lds.part[halo_lane()]);
    const int e = (int)(halo_float_bits(max) >> 23 & 255) - 127, shift = e > 14 ? e - 14 : 0;
    const float down = halo_power2(-(shift < 126 ? shift : 126));
    uint16_t *half = a.half + (uint64_t)row * (a.strips ? halo_hip_strip_stride(n) : n);
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        halo_f4 v = halo_load4(x, i, n);
        halo_u2 h;
        for (int j = 0; j < 2; j++)
            h.e[j] = halo_float_half(v.e[2 * j] * down) | (uint32_t)halo_float_half(v.e[2 * j + 1] * down) << 16;
        *reinterpret_cast<halo_u2 *>(half + (a.strips ? halo_strip_at(i / 32, i / 8 % 4) + i % 8 : i)) = h;
    }
    if (halo_tid() == 0)
        a.scale[row] = halo_power2(shift < 126 ? shift : 126);
}

HALO_KERNEL(glu_silu, halo_glu_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 gate = halo_load4(a.gate + (uint64_t)row * n, i, n), up = halo_load4(a.up + (uint64_t)row * n, i, n);
    for (int j = 0; j < 4; j++)
        gate.e[j] = gate.e[j] * halo_rcp(1 + halo_exp(-gate.e[j])) * up.e[j];
    if (a.out)
        halo_store4(a.out + (uint64_t)row * n, i, n, gate);
    if (a.act)
        halo_quantize4(gate, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
}

HALO_KERNEL(add, halo_add_args, 256)
{
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_f4 v = halo_load4(a.x, i, a.n), w = halo_load4(a.add, i, a.n);
    for (int j = 0; j < 4; j++)
        v.e[j] += w.e[j];
    halo_store4(a.x, i, a.n, v);
}

HALO_KERNEL(gather_rows, halo_gather_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    halo_store4(a.out + (uint64_t)row * n, i, n, halo_load4(a.x + (uint64_t)a.row[row] * n, i, n));
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
