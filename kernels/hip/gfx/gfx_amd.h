/* gfx_amd.h: gfx.h for AMD's chips, by clang's own builtins: no ROCm headers, no device libraries. Wave32. */
#ifndef HALO_GFX_AMD_H
#define HALO_GFX_AMD_H

#define HALO_DEVICE static __attribute__((device)) inline __attribute__((always_inline))
#define HALO_DEVICE_MEMBER __attribute__((device)) inline __attribute__((always_inline))
#define HALO_CONSTANT static const __attribute__((device))
#define HALO_KERNEL(name, type, threads)                                                                               \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void name(type a)
#define HALO_KERNEL_EARLY(name, type, threads) HALO_KERNEL(name, type, threads)
#define HALO_KERNEL_RESIDENT(name, type, threads, blocks) HALO_KERNEL(name, type, threads)
#define HALO_PLAIN_STEPS 2
#define HALO_GEMM_WAVE_COLS 32
#define HALO_LDS(type, name) static __attribute__((shared)) type name

#if defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) ||                    \
    defined(__gfx1150__) || defined(__gfx1151__) || defined(__gfx1152__) || defined(__gfx1153__)
#define HALO_GFX11 1
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define HALO_GFX12 1
#elif defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__)
#define HALO_GFX103 1
#endif
#if HALO_GFX11 || HALO_GFX12
#define HALO_GEMM_BATCH 4
#else /* without a matrix unit gemm is not tuned */
#define HALO_GEMM_BATCH 1
#endif

HALO_DEVICE uint32_t halo_tid(void)
{
    return __builtin_amdgcn_workitem_id_x();
}
HALO_DEVICE uint32_t halo_lane(void)
{
    return __builtin_amdgcn_workitem_id_x() & 31;
}
/* The same in all lanes of a wave, and known to the compiler as such, so that addresses are scalar. */
HALO_DEVICE uint32_t halo_wave(void)
{
    return __builtin_amdgcn_readfirstlane(__builtin_amdgcn_workitem_id_x() >> 5);
}
HALO_DEVICE uint32_t halo_block_x(void)
{
    return __builtin_amdgcn_workgroup_id_x();
}
HALO_DEVICE uint32_t halo_block_y(void)
{
    return __builtin_amdgcn_workgroup_id_y();
}
HALO_DEVICE uint32_t halo_block_z(void)
{
    return __builtin_amdgcn_workgroup_id_z();
}

HALO_DEVICE void halo_inputs_ready(void)
{
} /* a launch begins when the one before has ended */

HALO_DEVICE void halo_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* Without the fences of halo_barrier, which wait for all loads and empty the cache of the CU. The compiler itself waits
 * for all loads in front of a barrier that it knows as one. */
HALO_DEVICE void halo_lds_barrier(void)
{
#if HALO_GFX11
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_waitcnt_vscnt null, 0x0\n\ts_barrier" ::: "memory");
#else
    halo_barrier();
#endif
}

HALO_DEVICE void halo_fence(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent");
}
HALO_DEVICE uint32_t halo_count(uint32_t *p)
{
    return __hip_atomic_fetch_add(p, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/* Orders the LDS accesses of a wave. */
HALO_DEVICE void halo_wave_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}

/* Byte i of the result is byte sel[i] (0 .. 7) of hi:lo. */
HALO_DEVICE uint32_t halo_permute(uint32_t hi, uint32_t lo, uint32_t sel)
{
    return __builtin_amdgcn_perm(hi, lo, sel);
}

HALO_DEVICE int halo_shuffle(int v, uint32_t lane)
{
    return __builtin_amdgcn_ds_bpermute((int)(lane << 2), v);
}
HALO_DEVICE float halo_shuffle(float v, uint32_t lane)
{
    return __builtin_bit_cast(float, halo_shuffle(__builtin_bit_cast(int, v), lane));
}
HALO_DEVICE uint32_t halo_broadcast(uint32_t v, uint32_t lane)
{
    return (uint32_t)__builtin_amdgcn_readlane((int)v, (int)lane);
}

/* Within a row of 16 lanes by DPP row_xmask, which folds into the next operation; across rows by permlanex16. No
 * LDS. */
template <int M> HALO_DEVICE int halo_xor(int v)
{
    if constexpr (M == 16)
        return __builtin_amdgcn_permlanex16(v, v, 0x76543210u, 0xfedcba98u, true, false);
    else
        return __builtin_amdgcn_update_dpp(v, v, 0x160 | M, 0xf, 0xf, true);
}
template <int M> HALO_DEVICE float halo_xor(float v)
{
    return __builtin_bit_cast(float, halo_xor<M>(__builtin_bit_cast(int, v)));
}

#if HALO_GFX11 || HALO_GFX12
HALO_DEVICE int halo_dot4(int a, int b, int c)
{
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
}
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    return __builtin_amdgcn_sudot4(false, a, true, b, c, false);
}
#elif HALO_GFX103
/* No mixed signs here. The unsigned operand of all callers is below 128, which reads the same either way. */
HALO_DEVICE int halo_dot4(int a, int b, int c)
{
    return __builtin_amdgcn_sdot4(a, b, c, false);
}
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    return __builtin_amdgcn_sdot4(a, b, c, false);
}
#else
#define HALO_NO_DOT4 1
HALO_DEVICE int halo_dot4(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8)
        c += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return c;
}
HALO_DEVICE int halo_dot4_u(int a, int b, int c)
{
    return halo_dot4(a, b, c);
}
#endif

/* The scheduler moves nothing across: keeps registers from being taken early. */
HALO_DEVICE void halo_schedule_here(void)
{
    __builtin_amdgcn_sched_barrier(0);
}

HALO_DEVICE float halo_half_float(uint16_t h)
{
    return (float)__builtin_bit_cast(_Float16, h);
}
HALO_DEVICE uint16_t halo_float_half(float f)
{
    return __builtin_bit_cast(uint16_t, (_Float16)f);
}
HALO_DEVICE float halo_exp2(float x)
{
    return __builtin_amdgcn_exp2f(x);
}
HALO_DEVICE float halo_log2(float x)
{
    return __builtin_amdgcn_logf(x);
}
HALO_DEVICE float halo_rcp(float x)
{
    return __builtin_amdgcn_rcpf(x);
}
HALO_DEVICE float halo_rsqrt(float x)
{
    return __builtin_amdgcn_rsqf(x);
}
HALO_DEVICE float halo_fma(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
HALO_DEVICE float halo_rint(float x)
{
    return __builtin_rintf(x);
}
HALO_DEVICE float halo_max(float x, float y)
{
    return __builtin_fmaxf(x, y);
}
HALO_DEVICE float halo_abs(float x)
{
    return __builtin_fabsf(x);
}

typedef _Float16 halo_half2 __attribute__((ext_vector_type(2)));
HALO_DEVICE uint32_t halo_pair_add(uint32_t a, uint32_t b)
{
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(halo_half2, a) + __builtin_bit_cast(halo_half2, b));
}
HALO_DEVICE uint32_t halo_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return __builtin_bit_cast(uint32_t, __builtin_elementwise_fma(__builtin_bit_cast(halo_half2, a),
                                                                  __builtin_bit_cast(halo_half2, b),
                                                                  __builtin_bit_cast(halo_half2, c)));
}

#if HALO_GFX11 || HALO_GFX12 || HALO_GFX103
#define HALO_DOT2 1
#endif
HALO_DEVICE float halo_dot2(uint32_t x, uint32_t y, float c)
{
    const halo_half2 a = __builtin_bit_cast(halo_half2, x), b = __builtin_bit_cast(halo_half2, y);
#if defined(HALO_DOT2)
    return __builtin_amdgcn_fdot2(a, b, c, false);
#else
    return __builtin_fmaf((float)a[1], (float)b[1], __builtin_fmaf((float)a[0], (float)b[0], c));
#endif
}

typedef _Float16 halo_mma_16 __attribute__((ext_vector_type(16)));
typedef _Float16 halo_mma_8 __attribute__((ext_vector_type(8)));
typedef float halo_mma_f8 __attribute__((ext_vector_type(8)));
typedef halo_mma_f8 halo_acc;

#if HALO_GFX12
/* RDNA4: lane l holds row l % 16, k = 8 (l / 16) .. + 7; sums: row i + 8 (l / 16), column l % 16. */
typedef halo_mma_8 halo_frag;
HALO_DEVICE halo_frag halo_mma_load(const uint16_t *tile, uint32_t pitch)
{
    return *reinterpret_cast<const halo_mma_8 *>(tile + (halo_lane() & 15) * pitch + (halo_lane() >> 4) * 8);
}
HALO_DEVICE halo_frag halo_mma_load2(const uint16_t *k0, const uint16_t *k8)
{
    return *reinterpret_cast<const halo_mma_8 *>(halo_lane() >> 4 ? k8 : k0);
}
HALO_DEVICE halo_acc halo_mma(halo_frag x, halo_frag y, halo_acc c)
{
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
}
HALO_DEVICE uint32_t halo_mma_row(int i)
{
    return (uint32_t)i + (halo_lane() >> 4) * 8;
}
#else
/* RDNA3: lane l holds row l % 16, k = 0 .. 15 (lanes 16 .. 31 repeat lanes 0 .. 15); sums: row 2 i + l / 16, column l %
 * 16. */
HALO_DEVICE uint32_t halo_mma_row(int i)
{
    return 2 * (uint32_t)i + (halo_lane() >> 4);
}
#if HALO_GFX11
struct halo_frag {
    halo_mma_8 half[2];
};
HALO_DEVICE halo_frag halo_mma_load(const uint16_t *tile, uint32_t pitch)
{
    const halo_mma_8 *row = reinterpret_cast<const halo_mma_8 *>(tile + (halo_lane() & 15) * pitch);
    return halo_frag{{row[0], row[1]}};
}
HALO_DEVICE halo_frag halo_mma_load2(const uint16_t *k0, const uint16_t *k8)
{
    return halo_frag{{*reinterpret_cast<const halo_mma_8 *>(k0), *reinterpret_cast<const halo_mma_8 *>(k8)}};
}
HALO_DEVICE halo_acc halo_mma(halo_frag x, halo_frag y, halo_acc c)
{
    halo_mma_16 wide_x =
        __builtin_shufflevector(x.half[0], x.half[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    halo_mma_16 wide_y =
        __builtin_shufflevector(y.half[0], y.half[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(wide_x, wide_y, c);
}
#else
/* No matrix unit; gemm.h takes another path. The layout of sums is that of RDNA3. */
#define HALO_NO_MATRIX 1
#endif
#endif
HALO_DEVICE uint32_t halo_mma_col(int)
{
    return halo_lane() & 15;
}

#if !defined(HALO_NO_MATRIX)
/* Chained products have their rows in columns of the matrix unit, so that a lane's sums are of one row: lane l % 16.
 * Which columns it has depends on which rows of the other operand come as which. */
#define HALO_CHAIN_ROWS 1
HALO_DEVICE uint32_t halo_chain_row(int)
{
    return halo_lane() & 15;
}
HALO_DEVICE int halo_chain_of(int)
{
    return 0;
}
HALO_DEVICE halo_acc halo_chain_mma(halo_frag a, halo_frag b, halo_acc c)
{
    return halo_mma(b, a, c);
}
#if HALO_GFX12
HALO_DEVICE uint32_t halo_chain_col(int i)
{
    return halo_mma_row(i);
}
HALO_DEVICE halo_frag halo_chain_load(const uint16_t *tile, uint32_t pitch, uint32_t skew = 0)
{
    return halo_mma_load(tile + (halo_lane() >> 3 & 1) * skew, pitch);
}
/* A lane has 8 l / 16 .. + 7 of its row: the columns that it needs. */
HALO_DEVICE halo_frag halo_chain(halo_acc c)
{
    return __builtin_convertvector(c, halo_mma_8);
}
#else
/* Sums 4 i .. 4 i + 3 are of columns 8 i + 4 (l / 16) .. + 3. The rows of a tile that eight lanes read are neighbours,
 * which have no banks in common. */
HALO_DEVICE uint32_t halo_chain_col(int i)
{
    return ((uint32_t)i & 4) * 2 + (halo_lane() >> 4) * 4 + ((uint32_t)i & 3);
}
HALO_DEVICE halo_frag halo_chain_load(const uint16_t *tile, uint32_t pitch, uint32_t skew = 0)
{
    const uint32_t row = (halo_lane() & 8) + (halo_lane() & 1) * 4 + (halo_lane() >> 1 & 3);
    const halo_mma_8 *from = reinterpret_cast<const halo_mma_8 *>(tile + row * pitch + row / 8 * skew);
    return halo_frag{{from[0], from[1]}};
}
/* The lanes l and l ^ 16 exchange what they have, and hold the same then. */
HALO_DEVICE halo_frag halo_chain(halo_acc c)
{
    typedef uint32_t words __attribute__((ext_vector_type(4)));
    const words own = __builtin_bit_cast(words, __builtin_convertvector(c, halo_mma_8));
    const bool upper = halo_lane() >= 16;
    words ret[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t other = (uint32_t)halo_xor<16>((int)own[i]);
        ret[i / 2][i % 2] = upper ? other : own[i];
        ret[i / 2][i % 2 + 2] = upper ? own[i] : other;
    }
    return halo_frag{{__builtin_bit_cast(halo_mma_8, ret[0]), __builtin_bit_cast(halo_mma_8, ret[1])}};
}
#endif
HALO_DEVICE float halo_chain_max(float v)
{
    return halo_max(v, halo_xor<16>(v));
}
HALO_DEVICE float halo_chain_sum(float v)
{
    return v + halo_xor<16>(v);
}

/* Strips: A is the weights, B is x, with the layouts above. */
#define HALO_STRIP_TILE 16
#define HALO_STRIP_ROWS 1
#define HALO_STRIP_SUMS 8
#if HALO_GFX12
#define HALO_STRIP_PARTS 2
#else
#define HALO_STRIP_PARTS 1
#endif
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
    return HALO_STRIP_PARTS == 2 ? halo_lane() >> 4 : 0;
}
HALO_DEVICE uint32_t halo_strip_sum_row(int i)
{
    return halo_mma_row(i);
}
HALO_DEVICE uint32_t halo_strip_sum_x(int)
{
    return halo_lane() & 15;
}
typedef uint32_t halo_words_4 __attribute__((ext_vector_type(4)));
HALO_DEVICE halo_mma_8 halo_strip_8(const uint32_t *v)
{
    return __builtin_bit_cast(halo_mma_8, halo_words_4{v[0], v[1], v[2], v[3]});
}
HALO_DEVICE void halo_strip_mma(const uint32_t w[HALO_STRIP_ROWS][16], const uint32_t x[16],
                                float sums[HALO_STRIP_SUMS])
{
    halo_acc c = {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]};
#if HALO_GFX12
    for (int k = 0; k < 16; k += 4)
        c = halo_mma(halo_strip_8(w[0] + k), halo_strip_8(x + k), c);
#else
    for (int k = 0; k < 16; k += 8)
        c = halo_mma(halo_frag{{halo_strip_8(w[0] + k), halo_strip_8(w[0] + k + 4)}},
                     halo_frag{{halo_strip_8(x + k), halo_strip_8(x + k + 4)}}, c);
#endif
    for (int i = 0; i < 8; i++)
        sums[i] = c[i];
}
#endif

#endif
