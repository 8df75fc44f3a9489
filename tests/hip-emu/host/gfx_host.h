/* gfx_host.h: gfx.h for the host: every thread of a block is a fiber; blocks run one after the other.
 *
 * Barriers, shuffles and matrix tiles are synchronization points: a fiber waits there until the others of its block or
 * wave have arrived. Threads that wait for each other at different points are detected at once and end the launch with
 * -EDEADLK. The matrix tile has the register layout of RDNA3; lanes 16 .. 31 that do not repeat lanes 0 .. 15 are an
 * error. LDS is filled with NaNs before each block; under AddressSanitizer the bytes behind it are poisoned; under
 * ThreadSanitizer each fiber is a thread of its own, ordered by the synchronization points alone, so that a missing
 * barrier is a data race. With HALO_NO_DOT4 and HALO_NO_MATRIX it stands for the oldest supported GPU, gfx1010, and
 * kernels take the paths that they take there. The implementation is gfx_host.cpp. Several OS threads may each run a
 * launch.
 */
#ifndef HALO_GFX_HOST_H
#define HALO_GFX_HOST_H

#include "host_abi.h"

#include <cmath>
#include <cstring>

#define HALO_DEVICE [[maybe_unused]] static inline
#define HALO_DEVICE_MEMBER [[maybe_unused]] inline
#define HALO_CONSTANT static const
#define HALO_PLAIN_STEPS 2
#define HALO_GEMM_WAVE_COLS 32
#define HALO_GEMM_BATCH 4
/* AMD's chips allow a block 64 KiB, NVIDIA's 48 KiB of static memory: the smaller limit is checked in every build. */
#define HALO_LDS(type, name)                                                                                           \
    static_assert(sizeof(type) <= 48 * 1024, #type " exceeds the static LDS of NVIDIA's chips");                       \
    type &name = *static_cast<type *>(halo_host_lds(sizeof(type)))
#define HALO_KERNEL_EARLY(name, type, threads) HALO_KERNEL(name, type, threads)
#define HALO_KERNEL_RESIDENT(name, type, threads, blocks) HALO_KERNEL(name, type, threads)
#define HALO_KERNEL(name, type, threads)                                                                               \
    static void name(type a);                                                                                          \
    static void name##_entry(void **args)                                                                              \
    {                                                                                                                  \
        name(*static_cast<type *>(args[0]));                                                                           \
    }                                                                                                                  \
    static halo_host_kernel name##_kernel = {#name, name##_entry, threads, sizeof(type), nullptr};                     \
    [[maybe_unused]] static const bool name##_registered = halo_host_register(&name##_kernel);                         \
    static void name(type a)

HALO_DEVICE void halo_inputs_ready(void)
{
} /* launches run one after the other */
HALO_DEVICE void halo_next_may_begin(void)
{
}

struct halo_host_where {
    uint32_t tid, lane, wave, block[3];
};

/* The stack of a fiber lies at a multiple of its size, behind a guard page, and begins with the address of where it
 * is. */
#define HALO_HOST_STACK_BYTES (512 * 1024)
#define HALO_HOST_GUARD_BYTES 4096
HALO_DEVICE halo_host_where &halo_host_here(void)
{
    uintptr_t sp;
    __asm__("movq %%rsp, %0" : "=r"(sp));
    return **reinterpret_cast<halo_host_where **>(sp / HALO_HOST_STACK_BYTES * HALO_HOST_STACK_BYTES +
                                                  HALO_HOST_GUARD_BYTES);
}

bool halo_host_register(halo_host_kernel *kernel);
void *halo_host_lds(uint32_t n_bytes);
void halo_host_barrier(void);
int halo_host_exchange(int value, uint32_t lane); /* of an exited lane: 0x7fc0dead, a NaN */

HALO_DEVICE uint32_t halo_tid(void)
{
    return halo_host_here().tid;
}
HALO_DEVICE uint32_t halo_lane(void)
{
    return halo_host_here().lane;
}
HALO_DEVICE uint32_t halo_wave(void)
{
    return halo_host_here().wave;
}
HALO_DEVICE uint32_t halo_block_x(void)
{
    return halo_host_here().block[0];
}
HALO_DEVICE uint32_t halo_block_y(void)
{
    return halo_host_here().block[1];
}
HALO_DEVICE uint32_t halo_block_z(void)
{
    return halo_host_here().block[2];
}
HALO_DEVICE void halo_barrier(void)
{
    halo_host_barrier();
}
HALO_DEVICE void halo_lds_barrier(void)
{
    halo_barrier();
}

#define HALO_LAUNCHES_OVERLAP 1 /* they do not, but what uses it is tested here */

/* Blocks run one after the other; the counter orders them for ThreadSanitizer. */
HALO_DEVICE void halo_fence(void)
{
}
HALO_DEVICE uint32_t halo_count(uint32_t *p)
{
    return __atomic_fetch_add(p, 1u, __ATOMIC_ACQ_REL);
}

HALO_DEVICE void halo_wave_barrier(void)
{
    (void)halo_host_exchange(0, 0);
}

HALO_DEVICE uint32_t halo_permute(uint32_t hi, uint32_t lo, uint32_t sel)
{
    uint64_t bytes = (uint64_t)hi << 32 | lo;
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 8)
        r |= (uint32_t)(bytes >> (sel >> i & 7) * 8 & 255) << i;
    return r;
}

HALO_DEVICE int halo_shuffle(int v, uint32_t lane)
{
    return halo_host_exchange(v, lane);
}
HALO_DEVICE float halo_shuffle(float v, uint32_t lane)
{
    return __builtin_bit_cast(float, halo_host_exchange(__builtin_bit_cast(int, v), lane));
}
HALO_DEVICE uint32_t halo_broadcast(uint32_t v, uint32_t lane)
{
    return (uint32_t)halo_host_exchange((int)v, lane);
}
template <int M> HALO_DEVICE int halo_xor(int v)
{
    return halo_host_exchange(v, halo_lane() ^ M);
}
template <int M> HALO_DEVICE float halo_xor(float v)
{
    return halo_shuffle(v, halo_lane() ^ M);
}

HALO_DEVICE int halo_dot4(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8)
        c += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return c;
}
#if defined(HALO_NO_DOT4)
/* As in gfx_amd.h: below 128 it is the same. */
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    return halo_dot4(a, b, c);
}
#else
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8)
        c += (int)(uint8_t)(a >> i) * (int)(int8_t)(b >> i);
    return c;
}
#endif

HALO_DEVICE void halo_schedule_here(void)
{
}

/* In integer arithmetic, since not every host compiler has a half type. The exponents of half and float differ by 112;
 * halves below 2^-14 (subnormal) are corrected by a subtraction of floats. */
HALO_DEVICE float halo_half_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13, exponent = rest & 0x0f800000;
    if (exponent == 0x0f800000)
        return __builtin_bit_cast(float, sign | rest | 0x7f800000);
    if (exponent == 0)
        return __builtin_bit_cast(
            float, sign | __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, rest + 0x38800000) - 0x1p-14f));
    return __builtin_bit_cast(float, sign | (rest + 0x38000000));
}
HALO_DEVICE uint16_t halo_float_half(float f)
{
    uint32_t bits = __builtin_bit_cast(uint32_t, f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* the adder rounds at 2^-24 */
        return (uint16_t)(sign | (__builtin_bit_cast(uint32_t, __builtin_bit_cast(float, rest) + 0.5f) & 0xffff));
    return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}
HALO_DEVICE float halo_exp2(float x)
{
    return exp2f(x);
}
HALO_DEVICE float halo_log2(float x)
{
    return log2f(x);
}
HALO_DEVICE float halo_rcp(float x)
{
    return 1 / x;
}
HALO_DEVICE float halo_rsqrt(float x)
{
    return 1 / sqrtf(x);
}
HALO_DEVICE float halo_fma(float x, float y, float z)
{
    return fmaf(x, y, z);
}
HALO_DEVICE float halo_rint(float x)
{
    return rintf(x);
}
HALO_DEVICE float halo_max(float x, float y)
{
    return fmaxf(x, y);
}
HALO_DEVICE float halo_abs(float x)
{
    return fabsf(x);
}

#if !defined(HALO_NO_DOT4) /* as on the chips that it stands for */
#define HALO_DOT2 1
#endif
HALO_DEVICE float halo_dot2(uint32_t x, uint32_t y, float c)
{
    c = fmaf(halo_half_float((uint16_t)x), halo_half_float((uint16_t)y), c);
    return fmaf(halo_half_float((uint16_t)(x >> 16)), halo_half_float((uint16_t)(y >> 16)), c);
}

struct halo_frag {
    uint16_t e[16];
};
struct halo_acc {
    float e[8];
    float &operator[](int i)
    {
        return e[i];
    }
};
/* All lanes publish their operands, add, and continue. */
halo_acc halo_host_mma(const halo_frag &x, const halo_frag &y, halo_acc c);

HALO_DEVICE halo_frag halo_mma_load(const uint16_t *tile, uint32_t pitch)
{
    halo_frag f;
    memcpy(f.e, tile + (halo_lane() & 15) * pitch, sizeof(f.e));
    return f;
}
HALO_DEVICE halo_frag halo_mma_load2(const uint16_t *k0, const uint16_t *k8)
{
    halo_frag f;
    memcpy(f.e, k0, sizeof(f.e) / 2);
    memcpy(f.e + 8, k8, sizeof(f.e) / 2);
    return f;
}
HALO_DEVICE halo_acc halo_mma(const halo_frag &x, const halo_frag &y, halo_acc c)
{
    return halo_host_mma(x, y, c);
}
/* Strips as on RDNA3. */
#define HALO_STRIP_TILE 16
#define HALO_STRIP_ROWS 1
#define HALO_STRIP_PARTS 1
#define HALO_STRIP_SUMS 8
HALO_DEVICE uint32_t halo_strip_row(int)
{
    return halo_lane() & 15;
}
HALO_DEVICE uint32_t halo_strip_x_row(void)
{
    return halo_lane() & 15;
}
HALO_DEVICE uint32_t halo_strip_part(void)
{
    return 0;
}
HALO_DEVICE uint32_t halo_strip_sum_row(int i)
{
    return 2 * (uint32_t)i + (halo_lane() >> 4);
}
HALO_DEVICE uint32_t halo_strip_sum_x(int)
{
    return halo_lane() & 15;
}
#define HALO_STRIP_STEP 8
template <int N>
HALO_DEVICE void halo_strip_step(const uint32_t (&w)[HALO_STRIP_ROWS][N], const uint32_t (&x)[N], int k,
                                 float (&sums)[HALO_STRIP_SUMS])
{
    halo_frag a, b;
    halo_acc c;
    memcpy(a.e, w[0] + k, sizeof(a.e));
    memcpy(b.e, x + k, sizeof(b.e));
    memcpy(c.e, sums, sizeof(c.e));
    c = halo_mma(a, b, c);
    memcpy(sums, c.e, sizeof(c.e));
}
#define HALO_STRIP_HEADS 1
HALO_DEVICE int halo_strip_sum_of(int)
{
    return 0;
}
HALO_DEVICE float halo_strip_rows_max(float v)
{
    return halo_max(v, halo_xor<16>(v));
}
HALO_DEVICE float halo_strip_rows_sum(float v)
{
    return v + halo_xor<16>(v);
}
HALO_DEVICE void halo_strip_mma(const uint32_t (&w)[HALO_STRIP_ROWS][16], const uint32_t (&x)[16],
                                float (&sums)[HALO_STRIP_SUMS])
{
    for (int k = 0; k < 16; k += HALO_STRIP_STEP)
        halo_strip_step(w, x, k, sums);
}
HALO_DEVICE uint32_t halo_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = halo_half_float((uint16_t)(a >> i)), y = halo_half_float((uint16_t)(b >> i)),
                    z = halo_half_float((uint16_t)(c >> i));
        r |= (uint32_t)halo_float_half(fmaf(x, y, z)) << i;
    }
    return r;
}
HALO_DEVICE uint32_t halo_pair_add(uint32_t a, uint32_t b)
{
    return halo_pair_fma(a, 0x3c003c00, b);
}
HALO_DEVICE uint32_t halo_mma_row(int i)
{
    return 2 * (uint32_t)i + (halo_lane() >> 4);
}
HALO_DEVICE uint32_t halo_mma_col(int)
{
    return halo_lane() & 15;
}
/* Chained products as on RDNA3. */
#define HALO_CHAIN_ROWS 1
HALO_DEVICE uint32_t halo_chain_row(int)
{
    return halo_lane() & 15;
}
HALO_DEVICE int halo_chain_of(int)
{
    return 0;
}
HALO_DEVICE uint32_t halo_chain_col(int i)
{
    return ((uint32_t)i & 4) * 2 + (halo_lane() >> 4) * 4 + ((uint32_t)i & 3);
}
HALO_DEVICE halo_frag halo_chain_load(const uint16_t *tile, uint32_t pitch, uint32_t skew = 0)
{
    const uint32_t row = (halo_lane() & 8) + (halo_lane() & 1) * 4 + (halo_lane() >> 1 & 3);
    halo_frag f;
    memcpy(f.e, tile + row * pitch + row / 8 * skew, sizeof(f.e));
    return f;
}
HALO_DEVICE halo_acc halo_chain_mma(const halo_frag &a, const halo_frag &b, halo_acc c)
{
    return halo_mma(b, a, c);
}
HALO_DEVICE halo_frag halo_chain(const halo_acc &c)
{
    uint32_t words[8];
    for (int i = 0; i < 4; i++) {
        const uint32_t own = halo_float_half(c.e[2 * i]) | (uint32_t)halo_float_half(c.e[2 * i + 1]) << 16;
        const uint32_t other = (uint32_t)halo_xor<16>((int)own);
        const int at = i / 2 * 4 + i % 2;
        words[at] = halo_lane() >= 16 ? other : own;
        words[at + 2] = halo_lane() >= 16 ? own : other;
    }
    halo_frag f;
    memcpy(f.e, words, sizeof(f.e));
    return f;
}
HALO_DEVICE float halo_chain_max(float v)
{
    return halo_max(v, halo_xor<16>(v));
}
HALO_DEVICE float halo_chain_sum(float v)
{
    return v + halo_xor<16>(v);
}

#endif
