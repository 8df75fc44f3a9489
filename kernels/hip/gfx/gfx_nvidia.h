/* gfx_nvidia.h: gfx.h for NVIDIA's chips, by clang (without a CUDA toolkit) or by nvcc. Instructions are written as
 * PTX, so that both compilers generate the same code. Needs sm_80 or later, for the matrix tiles and redux. */
#ifndef HALO_GFX_NVIDIA_H
#define HALO_GFX_NVIDIA_H

/* HALO_CONSTANT is not const: compilers would put it into constant memory, which has 64 KiB for all kernels and serves
 * one address of a wave at a time. */
#if defined(__clang__)
#define HALO_DEVICE static __attribute__((device)) inline __attribute__((always_inline))
#define HALO_CONSTANT static __attribute__((device, unused))
#define HALO_ENTRY(threads, blocks)                                                                                    \
    extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, blocks))) void
#define HALO_LDS(type, name) static __attribute__((shared)) type name
#define HALO_DEVICE_MEMBER __attribute__((device)) inline __attribute__((always_inline))
#else
#define HALO_DEVICE static __device__ __forceinline__
#define HALO_CONSTANT static __device__
#define HALO_ENTRY(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define HALO_LDS(type, name) __shared__ type name
#define HALO_DEVICE_MEMBER __device__ __forceinline__
#endif
#define HALO_LAUNCHES_OVERLAP 1
#define HALO_KERNEL(name, type, threads)                                                                               \
    HALO_DEVICE void name##_after_inputs(const type &a);                                                               \
    HALO_KERNEL_EARLY(name, type, threads)                                                                             \
    {                                                                                                                  \
        halo_inputs_ready();                                                                                           \
        name##_after_inputs(a);                                                                                        \
    }                                                                                                                  \
    HALO_DEVICE void name##_after_inputs(const type &a)
#define HALO_KERNEL_EARLY(name, type, threads) HALO_KERNEL_RESIDENT(name, type, threads, (threads) <= 256 ? 2 : 1)
#define HALO_KERNEL_RESIDENT(name, type, threads, blocks) HALO_ENTRY(threads, blocks) name(type a)

/* A launch that may overlap the one before it begins before its inputs are there. The next may begin as soon as all
 * blocks of this one have waited for theirs, so after the launch before this one has ended: were it earlier, several
 * launches would hold registers and wait. Where launches do not overlap this does nothing. */
HALO_DEVICE void halo_inputs_ready(void)
{
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
}
HALO_DEVICE void halo_next_may_begin(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#define HALO_SPECIAL(fn, reg)                                                                                          \
    HALO_DEVICE uint32_t fn(void)                                                                                      \
    {                                                                                                                  \
        uint32_t v;                                                                                                    \
        asm("mov.u32 %0, %%" reg ";" : "=r"(v));                                                                       \
        return v;                                                                                                      \
    }
HALO_SPECIAL(halo_tid, "tid.x")
HALO_SPECIAL(halo_block_x, "ctaid.x")
HALO_SPECIAL(halo_block_y, "ctaid.y")
HALO_SPECIAL(halo_block_z, "ctaid.z")
#undef HALO_SPECIAL
HALO_DEVICE uint32_t halo_lane(void)
{
    return halo_tid() & 31;
}
HALO_DEVICE uint32_t halo_wave(void)
{
    return halo_tid() >> 5;
}

#define HALO_PLAIN_STEPS 4
#define HALO_GEMM_BATCH 1
#define HALO_GEMM_WAVE_COLS 64

/* 16 bytes past the first cache. */
#define HALO_STREAM(p, e)                                                                                              \
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"                                                  \
        : "=r"((e)[0]), "=r"((e)[1]), "=r"((e)[2]), "=r"((e)[3])                                                       \
        : "l"(p))

HALO_DEVICE void halo_barrier(void)
{
    asm volatile("bar.sync 0;" ::: "memory");
}
HALO_DEVICE void halo_lds_barrier(void)
{
    halo_barrier();
}

#define HALO_BLOCK_FENCES 1
HALO_DEVICE void halo_fence(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
HALO_DEVICE uint32_t halo_count(uint32_t *p)
{
    uint32_t r;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(r) : "l"(p) : "memory");
    return r;
}

HALO_DEVICE void halo_wave_barrier(void)
{
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/* Byte i of the result is byte sel[i] (0 .. 7) of hi:lo; prmt wants the four selectors as nibbles. */
HALO_DEVICE uint32_t halo_permute(uint32_t hi, uint32_t lo, uint32_t sel)
{
    uint32_t pairs = (sel | sel >> 4) & 0x00ff00ff, r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(pairs | pairs >> 8));
    return r;
}

HALO_DEVICE int halo_shuffle(int v, uint32_t lane)
{
    int r;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lane));
    return r;
}
HALO_DEVICE float halo_shuffle(float v, uint32_t lane)
{
    return __builtin_bit_cast(float, halo_shuffle(__builtin_bit_cast(int, v), lane));
}
HALO_DEVICE uint32_t halo_broadcast(uint32_t v, uint32_t lane)
{
    return (uint32_t)halo_shuffle((int)v, lane);
}
template <int M> HALO_DEVICE int halo_xor(int v)
{
    int r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "n"(M));
    return r;
}
template <int M> HALO_DEVICE float halo_xor(float v)
{
    return __builtin_bit_cast(float, halo_xor<M>(__builtin_bit_cast(int, v)));
}

#define HALO_WAVE_REDUCES 1
HALO_DEVICE uint32_t halo_wave_most(uint32_t v)
{
    uint32_t r;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}
HALO_DEVICE uint32_t halo_wave_least(uint32_t v)
{
    uint32_t r;
    asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}

HALO_DEVICE int halo_dot4(int a, int b, int c)
{
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    int r;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

#if defined(__clang__)
/* Builtins where clang has them: it takes every asm statement for convergent and unrolls no loop that contains one. */
HALO_DEVICE float halo_exp2(float x)
{
    return __nvvm_ex2_approx_f(x);
}
HALO_DEVICE float halo_log2(float x)
{
    return __nvvm_lg2_approx_f(x);
}
HALO_DEVICE float halo_rcp(float x)
{
    return __nvvm_rcp_approx_ftz_f(x);
}
HALO_DEVICE float halo_rsqrt(float x)
{
    return __nvvm_rsqrt_approx_f(x);
}
HALO_DEVICE float halo_rint(float x)
{
    return __builtin_rintf(x);
}
HALO_DEVICE float halo_abs(float x)
{
    return __builtin_fabsf(x);
}
HALO_DEVICE float halo_fma(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
HALO_DEVICE float halo_max(float x, float y)
{
    return __builtin_fmaxf(x, y);
}
HALO_DEVICE float halo_half_float(uint16_t h)
{
    return (float)__builtin_bit_cast(_Float16, h);
}
HALO_DEVICE uint16_t halo_float_half(float f)
{
    return __builtin_bit_cast(uint16_t, (_Float16)f);
}
#else
#define HALO_UNARY(fn, op)                                                                                             \
    HALO_DEVICE float fn(float x)                                                                                      \
    {                                                                                                                  \
        float r;                                                                                                       \
        asm(op " %0, %1;" : "=f"(r) : "f"(x));                                                                         \
        return r;                                                                                                      \
    }
HALO_UNARY(halo_exp2, "ex2.approx.f32")
HALO_UNARY(halo_log2, "lg2.approx.f32")
HALO_UNARY(halo_rcp, "rcp.approx.ftz.f32")
HALO_UNARY(halo_rsqrt, "rsqrt.approx.f32")
HALO_UNARY(halo_rint, "cvt.rni.f32.f32")
HALO_UNARY(halo_abs, "abs.f32")
#undef HALO_UNARY
HALO_DEVICE float halo_fma(float x, float y, float z)
{
    float r;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(x), "f"(y), "f"(z));
    return r;
}
HALO_DEVICE float halo_max(float x, float y)
{
    float r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
HALO_DEVICE float halo_half_float(uint16_t h)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
    return r;
}
HALO_DEVICE uint16_t halo_float_half(float f)
{
    uint16_t r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(f));
    return r;
}
#endif
HALO_DEVICE void halo_schedule_here(void)
{
}

/* mma.m16n8k16, two of them for a tile: lane l holds rows l / 4 and l / 4 + 8, k = 2 (l % 4) + {0, 1, 8, 9}. */
struct halo_frag {
    uint32_t e[4];
};
struct halo_acc {
    float e[8];
    HALO_DEVICE_MEMBER float &operator[](int i)
    {
        return e[i];
    }
};
HALO_DEVICE halo_frag halo_mma_load(const uint16_t *tile, uint32_t pitch)
{
    const uint16_t *p = tile + (halo_lane() >> 2) * pitch + (halo_lane() & 3) * 2;
    const uint16_t *q = p + 8 * pitch;
    return halo_frag{{*reinterpret_cast<const uint32_t *>(p), *reinterpret_cast<const uint32_t *>(q),
                      *reinterpret_cast<const uint32_t *>(p + 8), *reinterpret_cast<const uint32_t *>(q + 8)}};
}
HALO_DEVICE halo_acc halo_mma(halo_frag x, halo_frag y, halo_acc c)
{
    for (int n = 0; n < 2; n++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c.e[4 * n]), "+f"(c.e[4 * n + 1]), "+f"(c.e[4 * n + 2]), "+f"(c.e[4 * n + 3])
                     : "r"(x.e[0]), "r"(x.e[1]), "r"(x.e[2]), "r"(x.e[3]), "r"(y.e[n]), "r"(y.e[n + 2]));
    return c;
}
/* 16 bytes straight into LDS, or as many zeros; a thread waits for all but its last N groups. */
#define HALO_ASYNC_COPY 1
HALO_DEVICE void halo_copy16(void *lds, const void *from, bool real)
{
    asm volatile("{\n\t.reg .u64 to;\n\t.reg .u32 at;\n\tcvta.to.shared.u64 to, %0;\n\tcvt.u32.u64 at, to;\n\t"
                 "cp.async.cg.shared.global [at], [%1], 16, %2;\n\t}"
                 :
                 : "l"(lds), "l"(from), "r"(real ? 16 : 0)
                 : "memory");
}
HALO_DEVICE void halo_copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> HALO_DEVICE void halo_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Slabs of 32 or 64 columns. Lane l holds chunk l % 4 of 32 columns of rows l / 4 and l / 4 + 8: columns are multiplied
 * in another order than they lie in, x and weights alike. Chunks of eight rows that a wave stores together, and those
 * that it loads together, lie in different banks. */
#define HALO_SLAB_STEP 32
template <uint32_t SLAB> HALO_DEVICE uint32_t halo_slab_at(uint32_t row, uint32_t chunk)
{
    const uint32_t low = row >> 1 & 3, turn = SLAB == 64 ? low | (row & 1) << 2 : low;
    return row * SLAB + (chunk ^ turn) * 8;
}
struct halo_slab_frag {
    uint32_t e[2][4];
};
template <uint32_t SLAB>
HALO_DEVICE halo_slab_frag halo_slab_load(const uint16_t *slab, uint32_t first_row, uint32_t column)
{
    struct alignas(16) words {
        uint32_t e[4];
    };
    halo_slab_frag f;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const words v = *reinterpret_cast<const words *>(
            slab + halo_slab_at<SLAB>(first_row + (halo_lane() >> 2) + 8 * i, column / 8 + (halo_lane() & 3)));
#pragma unroll
        for (int k = 0; k < 4; k++)
            f.e[i][k] = v.e[k];
    }
    return f;
}
HALO_DEVICE halo_acc halo_slab_mma(const halo_slab_frag &x, const halo_slab_frag &y, halo_acc c)
{
#pragma unroll
    for (int k = 0; k < 4; k += 2)
        c = halo_mma(halo_frag{{x.e[0][k], x.e[1][k], x.e[0][k + 1], x.e[1][k + 1]}},
                     halo_frag{{y.e[0][k], y.e[1][k], y.e[0][k + 1], y.e[1][k + 1]}}, c);
    return c;
}
/* Strips: mma.m16n8k16. Lane l has rows l / 4 and l / 4 + 8 of the weights, row l / 4 of x, part l % 4. */
#define HALO_STRIP_TILE 8
#define HALO_STRIP_ROWS 2
#define HALO_STRIP_PARTS 4
#define HALO_STRIP_SUMS 4
HALO_DEVICE uint32_t halo_strip_row(int i)
{
    return (halo_lane() >> 2) + 8 * (uint32_t)i;
}
HALO_DEVICE uint32_t halo_strip_x_row(void)
{
    return halo_lane() >> 2;
}
HALO_DEVICE uint32_t halo_strip_part(void)
{
    return halo_lane() & 3;
}
HALO_DEVICE uint32_t halo_strip_sum_row(int i)
{
    return (halo_lane() >> 2) + 8 * ((uint32_t)i >> 1);
}
HALO_DEVICE uint32_t halo_strip_sum_x(int i)
{
    return (halo_lane() & 3) * 2 + ((uint32_t)i & 1);
}
#define HALO_STRIP_STEP 2
template <int N>
HALO_DEVICE void halo_strip_step(const uint32_t (&w)[HALO_STRIP_ROWS][N], const uint32_t (&x)[N], int k,
                                 float (&sums)[HALO_STRIP_SUMS])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(w[0][k]), "r"(w[1][k]), "r"(w[0][k + 1]), "r"(w[1][k + 1]), "r"(x[k]), "r"(x[k + 1]));
}
#define HALO_STRIP_HEADS 2
HALO_DEVICE int halo_strip_sum_of(int i)
{
    return i & 1;
}
HALO_DEVICE float halo_strip_rows_max(float v)
{
    v = halo_max(v, halo_xor<4>(v));
    v = halo_max(v, halo_xor<8>(v));
    return halo_max(v, halo_xor<16>(v));
}
HALO_DEVICE float halo_strip_rows_sum(float v)
{
    v += halo_xor<4>(v);
    v += halo_xor<8>(v);
    return v + halo_xor<16>(v);
}
HALO_DEVICE void halo_strip_mma(const uint32_t (&w)[HALO_STRIP_ROWS][16], const uint32_t (&x)[16],
                                float (&sums)[HALO_STRIP_SUMS])
{
#pragma unroll
    for (int k = 0; k < 16; k += HALO_STRIP_STEP)
        halo_strip_step(w, x, k, sums);
}
HALO_DEVICE uint32_t halo_pair_add(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
HALO_DEVICE uint32_t halo_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
/* A lane's sums are of two rows; the other columns are in the lanes of the same l / 4. */
HALO_DEVICE uint32_t halo_mma_row(int i)
{
    return (halo_lane() >> 2) + 8 * ((uint32_t)i >> 1 & 1);
}
HALO_DEVICE uint32_t halo_mma_col(int i)
{
    return 8 * ((uint32_t)i >> 2) + (halo_lane() & 3) * 2 + ((uint32_t)i & 1);
}

#define HALO_CHAIN_ROWS 2
HALO_DEVICE uint32_t halo_chain_row(int i)
{
    return (halo_lane() >> 2) + 8 * (uint32_t)i;
}
HALO_DEVICE int halo_chain_of(int i)
{
    return i >> 1 & 1;
}
HALO_DEVICE uint32_t halo_chain_col(int i)
{
    return halo_mma_col(i);
}
HALO_DEVICE halo_frag halo_chain_load(const uint16_t *tile, uint32_t pitch, uint32_t = 0)
{
    return halo_mma_load(tile, pitch);
}
HALO_DEVICE halo_acc halo_chain_mma(const halo_frag &a, const halo_frag &b, const halo_acc &c)
{
    return halo_mma(a, b, c);
}
HALO_DEVICE halo_frag halo_chain(const halo_acc &c)
{
    halo_frag f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        f.e[i] = halo_float_half(c.e[2 * i]) | (uint32_t)halo_float_half(c.e[2 * i + 1]) << 16;
    return f;
}
HALO_DEVICE float halo_chain_max(float v)
{
    v = halo_max(v, halo_xor<1>(v));
    return halo_max(v, halo_xor<2>(v));
}
HALO_DEVICE float halo_chain_sum(float v)
{
    v += halo_xor<1>(v);
    return v + halo_xor<2>(v);
}

#endif
