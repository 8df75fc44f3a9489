/* gfx.h: what device code is written in: one source, four targets.
 *
 *   clang -x hip   amdgcn    gfx_amd.h       AMD's chips
 *   clang -x cuda  nvptx64   gfx_nvidia.h
 *   nvcc                     gfx_nvidia.h
 *   g++, clang++   host      gfx_host.h      the emulator of tests/hip-emu: a fiber for each thread of a block
 *
 * Each gives the same functions, all for waves of 32 lanes:
 *   halo_tid halo_lane halo_wave halo_block_x halo_block_y halo_block_z
 *   halo_barrier              all threads of the block, orders LDS and global memory of the block
 *   halo_lds_barrier          orders LDS alone: loads from global memory may stay under way
 *   halo_wave_barrier         all lanes of the wave, orders their LDS
 *   halo_fence, halo_count    orders global memory for the whole GPU; adds 1 to a counter there, gives what it was:
 *                             see halo_last_block. With HALO_BLOCK_FENCES one thread's fence between two barriers is
 *                             that of the block
 *   halo_shuffle              the value of another lane; halo_xor<1|2|4|8|16>: of lane ^ M. All live lanes of the wave
 *                             must take part. halo_broadcast: of one lane, the same for all of them
 *   halo_dot4 halo_dot4_u     c + sum of four products of bytes: signed times signed, unsigned times signed; exact
 *   halo_dot2(a, b, c)        c + the products of two pairs of halves, summed in f32 (AMD, host); HALO_DOT2 is defined
 *                             where that is one instruction
 *   halo_permute(hi, lo, sel) four bytes chosen from eight
 *   halo_stream(words, index) words[index], 16 bytes that nobody reads again: what else the caches hold may stay
 *   halo_schedule_here        the compiler reorders nothing across it
 *   halo_half_float halo_float_half   f16 bits, to nearest even
 *   halo_exp2 halo_rcp halo_rsqrt halo_fma halo_rint halo_max halo_abs
 *   HALO_KERNEL(name, struct args, threads) { ... }   the kernel; its argument is `a`
 *   HALO_KERNEL_EARLY(...), halo_inputs_ready()       one that may begin while the launch before still runs: until it
 *                             calls halo_inputs_ready, which it must, it reads nothing but weights, the step's inputs
 *                             from the host and what earlier steps have left, and writes nothing. The launch before
 *                             the one in front of it has then ended, and so have all earlier ones
 *   HALO_KERNEL_RESIDENT(name, struct args, threads, blocks)   an EARLY one with so few registers that a
 *                             multiprocessor holds `blocks` blocks of it at once, on NVIDIA's chips; the other kernels
 *                             there: 2 of up to 256 threads, else 1. AMD's compiler has its own way
 *   HALO_LAUNCHES_OVERLAP     defined where an EARLY launch does begin before the one in front of it has ended. There
 *                             halo_next_may_begin() lets the launch behind begin while the one in front still runs:
 *                             only before halo_inputs_ready, where what that one writes is read here alone
 *   HALO_PLAIN_STEPS          chunks of each row that a lane loads in a stage (persistent.h), of plain weights
 *   HALO_GEMM_WAVE_COLS       weight rows of a wave of gemm: 32 with all rows of x of its block, 64 with half of them
 *   HALO_GEMM_BATCH           units of a weight row that a thread of gemm loads together
 *   HALO_LDS(struct type, name)   the one LDS object of a kernel; undefined until written
 * and 16x16x16 matrix tiles (f16 in, f32 sums), whose register layout is the target's own:
 *   halo_mma_load(tile, pitch)    operand from 16 rows of 16 halves in LDS (16-byte aligned rows, pitch in halves)
 *   halo_mma_load2(k0, k8)        the same from where the lane's row, halo_lane() % 16, has k = 0 .. 7 and k = 8 .. 15
 *   halo_mma(a, b, c)             c[i] += sum over k of A[row][k] * B[col][k], with row, col = halo_mma_row(i),
 *                                 halo_mma_col(i)
 * Chained products, whose sums are an operand of the next one: a lane's sums are of HALO_CHAIN_ROWS rows.
 *   halo_chain_load(tile, pitch, skew)   operand b, whose rows 8 .. 15 lie `skew` halves further on where skew is not
 *                                 0, which targets with one chain row allow; operand a is that of halo_mma_load
 *   halo_chain_mma(a, b, c)       c[i] += sum over k of A[row][k] * B[col][k], with row = halo_chain_row of
 *                                 halo_chain_of(i), col = halo_chain_col(i)
 *   halo_chain(c)                 the sums as operand a, whose k are the columns of c
 *   halo_chain_max, halo_chain_sum   over the lanes that have the other columns of a row
 * Slabs in LDS are the operands of products of many rows: rows of SLAB halves in chunks of 8.
 *   halo_slab_at<SLAB>(row, chunk)                          where a chunk lies, in halves
 *   halo_slab_load<SLAB>(slab, row, column)                 operand from 16 rows (row % 16 == 0) and HALO_SLAB_STEP
 *                                                           columns
 *   halo_slab_mma(a, b, c)                                  as halo_mma
 * Where there is HALO_ASYNC_COPY:
 *   halo_copy16(lds, from, real)   16 bytes into LDS, or zeros if not real, without waiting;
 *   halo_copies_end, halo_copies_wait<N>   end a group of copies; wait for all but the thread's last N groups, after
 *                             which a barrier shows them to the block
 * and, where there is a matrix unit (no HALO_NO_MATRIX), strips: 16 rows of weights by HALO_STRIP_TILE of x straight
 * from registers. A lane brings 32 halves, in any order that is the same for weights and x, of HALO_STRIP_ROWS weight
 * rows and of one row of x, all of part halo_strip_part() of HALO_STRIP_PARTS that the lanes of a row share:
 *   halo_strip_row(i)             the weight row of the lane's operand i; halo_strip_x_row(): its row of x in the tile
 *   halo_strip_mma(w, x, sums)    sums[i] += products of weight row halo_strip_sum_row(i) and row of x
 *                                 halo_strip_sum_x(i), i < HALO_STRIP_SUMS
 *   With HALO_STRIP_STEP it goes by steps, which can be taken alone, of so many words of a lane's halves:
 *   halo_strip_step(w, x, k, sums)   the step of words k .. k + HALO_STRIP_STEP - 1
 *   halo_strip_sum_of(i)          which of the lane's HALO_STRIP_HEADS rows of x sum i is of: halo_strip_sum_x of that
 *   halo_strip_rows_max, halo_strip_rows_sum   over the lanes that have other weight rows of the same row of x
 * and on pairs of halves: halo_pair_add(a, b), halo_pair_fma(a, b, c), one rounding each.
 * Sources of the layouts: AMD's RDNA3 and RDNA4 ISA documents, NVIDIA's PTX ISA (mma.m16n8k16).
 */
#ifndef HALO_GFX_H
#define HALO_GFX_H

#include <stdint.h>

#if defined(__AMDGCN__)
#include "gfx_amd.h"
#elif defined(__NVPTX__) || defined(__CUDACC__)
#include "gfx_nvidia.h"
#else
#include "gfx_host.h"
#endif

#include "args.h"
#include "layout.h"
#include <kernels/quant.h>

#if !defined(HALO_ASYNC_COPY)
/* Slabs of 32: chunks change places, so that those of eight neighbouring rows, which lanes load or store together, and
 * those of two rows lie in different banks. */
#define HALO_SLAB_STEP 16
template <uint32_t SLAB> HALO_DEVICE uint32_t halo_slab_at(uint32_t row, uint32_t chunk)
{
    static_assert(SLAB == 32, "four chunks to a row");
    return row * SLAB + (chunk ^ (row >> 1 & 3)) * 8;
}
#if !defined(HALO_NO_MATRIX)
typedef halo_frag halo_slab_frag;
template <uint32_t SLAB>
HALO_DEVICE halo_slab_frag halo_slab_load(const uint16_t *slab, uint32_t first_row, uint32_t column)
{
    const uint16_t *rows = slab + first_row * SLAB; /* first_row % 16 == 0 */
    const uint32_t row = halo_lane() & 15;
    return halo_mma_load2(rows + halo_slab_at<SLAB>(row, column / 8), rows + halo_slab_at<SLAB>(row, column / 8 + 1));
}
HALO_DEVICE halo_acc halo_slab_mma(const halo_slab_frag &x, const halo_slab_frag &y, const halo_acc &c)
{
    return halo_mma(x, y, c);
}
#endif
#endif

/* 16 bytes that are loaded and stored together. */
struct alignas(16) halo_u4 {
    uint32_t e[4];
};
struct alignas(8) halo_u2 {
    uint32_t e[2];
};
struct alignas(16) halo_f4 {
    float e[4];
};
struct alignas(8) halo_f2 {
    float e[2];
};

template <typename T> HALO_DEVICE T halo_load(const void *p, uint32_t index = 0)
{
    return static_cast<const T *>(p)[index];
}

/* A target without HALO_STREAM gains nothing by it: non-temporal loads are slower on gfx1151. */
HALO_DEVICE halo_u4 halo_stream(const void *p, uint32_t index)
{
    const halo_u4 *at = static_cast<const halo_u4 *>(p) + index;
#if defined(HALO_STREAM)
    halo_u4 v;
    HALO_STREAM(at, v.e);
    return v;
#else
    return *at;
#endif
}

HALO_DEVICE uint32_t halo_float_bits(float f)
{
    return __builtin_bit_cast(uint32_t, f);
}

HALO_DEVICE float halo_bits_float(uint32_t u)
{
    return __builtin_bit_cast(float, u);
}

template <typename T> HALO_DEVICE T halo_min_of(T a, T b)
{
    return a < b ? a : b;
}

HALO_DEVICE float halo_wave_sum(float v)
{
    v += halo_xor<16>(v);
    v += halo_xor<8>(v);
    v += halo_xor<4>(v);
    v += halo_xor<2>(v);
    return v + halo_xor<1>(v);
}

HALO_DEVICE float halo_wave_max(float v)
{
    v = halo_max(v, halo_xor<16>(v));
    v = halo_max(v, halo_xor<8>(v));
    v = halo_max(v, halo_xor<4>(v));
    v = halo_max(v, halo_xor<2>(v));
    return halo_max(v, halo_xor<1>(v));
}

/* The largest and the smallest number of a wave. A target with HALO_WAVE_REDUCES has an instruction for it. */
#if !defined(HALO_WAVE_REDUCES)
template <bool MOST, int M> HALO_DEVICE uint32_t halo_better_of(uint32_t v)
{
    const uint32_t other = (uint32_t)halo_xor<M>((int)v);
    return (v > other) == MOST ? v : other;
}
template <bool MOST> HALO_DEVICE uint32_t halo_wave_extreme(uint32_t v)
{
    v = halo_better_of<MOST, 16>(v);
    v = halo_better_of<MOST, 8>(v);
    v = halo_better_of<MOST, 4>(v);
    v = halo_better_of<MOST, 2>(v);
    return halo_better_of<MOST, 1>(v);
}
HALO_DEVICE uint32_t halo_wave_most(uint32_t v)
{
    return halo_wave_extreme<true>(v);
}
HALO_DEVICE uint32_t halo_wave_least(uint32_t v)
{
    return halo_wave_extreme<false>(v);
}
#endif

/* Sum and maximum over a block of 256; part[8] in LDS, which is free again after the next barrier. */
HALO_DEVICE float halo_block_sum(float v, float *part)
{
    v = halo_wave_sum(v);
    if (halo_lane() == 0)
        part[halo_wave()] = v;
    halo_barrier();
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

HALO_DEVICE float halo_block_max(float v, float *part)
{
    v = halo_wave_max(v);
    if (halo_lane() == 0)
        part[halo_wave()] = v;
    halo_barrier();
    for (int i = 0; i < 8; i++)
        v = halo_max(v, part[i]);
    return v;
}

/* Whether this block is the last of n that come here with the counter, which is zero before and after: it then sees
 * what the others wrote before. For all threads of the block; `flag` in LDS, free again after the next barrier. */
HALO_DEVICE bool halo_last_block(uint32_t *counter, uint32_t n, uint32_t *flag)
{
#if !defined(HALO_BLOCK_FENCES)
    halo_fence();
#endif
    halo_barrier();
    if (halo_tid() == 0) {
#if defined(HALO_BLOCK_FENCES)
        halo_fence();
#endif
        *flag = halo_count(counter) == n - 1;
        if (*flag)
            *counter = 0;
#if defined(HALO_BLOCK_FENCES)
        halo_fence();
#endif
    }
    halo_barrier();
    const bool last = *flag;
#if !defined(HALO_BLOCK_FENCES)
    halo_fence();
#endif
    return last;
}

/* x to the power e of two, for -126 <= e <= 127. */
HALO_DEVICE float halo_power2(int e)
{
    return halo_bits_float((uint32_t)(e + 127) << 23);
}

HALO_DEVICE float halo_exp(float x)
{
    return halo_exp2(x * 1.44269504f);
}

HALO_DEVICE float halo_sigmoid(float x)
{
    return halo_rcp(1 + halo_exp(-x));
}

HALO_DEVICE float halo_min(float x, float y)
{
    return -halo_max(-x, -y);
}

/* cap * tanh(x / cap), cap > 0. */
HALO_DEVICE float halo_capped(float x, float cap)
{
    return cap * (1 - 2 * halo_rcp(1 + halo_exp(2 * x * halo_rcp(cap))));
}

#endif
