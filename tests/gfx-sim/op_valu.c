/* op_valu.c: vector instructions on f32 and integers. */
#include "numbers.h"
#include "values.h"

/* x, y, z: the sources of a lane. Undefined as a whole when any half of any source is. */
#define VECTOR_1(name, expr)                                                                                           \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a;                                                                                               \
        uint32_t r[N_LANES], p;                                                                                        \
        src(w, i, 1, &a);                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint32_t x = a.v[l];                                                                                 \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        p = a.lo | a.hi;                                                                                               \
        put(w, &i->o[0], 0, r, p, p);                                                                                  \
    }
#define VECTOR_2(name, expr)                                                                                           \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, b;                                                                                            \
        uint32_t r[N_LANES], p;                                                                                        \
        src(w, i, 1, &a);                                                                                              \
        src(w, i, 2, &b);                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint32_t x = a.v[l], y = b.v[l];                                                                     \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        p = a.lo | a.hi | b.lo | b.hi;                                                                                 \
        put(w, &i->o[0], 0, r, p, p);                                                                                  \
    }
#define VECTOR_3(name, expr)                                                                                           \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, b, c;                                                                                         \
        uint32_t r[N_LANES], p;                                                                                        \
        src(w, i, 1, &a);                                                                                              \
        src(w, i, 2, &b);                                                                                              \
        src(w, i, 3, &c);                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint32_t x = a.v[l], y = b.v[l], z = c.v[l];                                                         \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi;                                                                   \
        put(w, &i->o[0], 0, r, p, p);                                                                                  \
    }

OP(v_mov_b32)
{
    struct values a;
    src(w, i, 1, &a);
    uint32_t r[32];
    memcpy(r, a.v, 128);
    put(w, &i->o[0], 0, r, a.lo, a.hi);
}

VECTOR_2(v_add_f32, u_of(f_of(x) + f_of(y)))
VECTOR_2(v_sub_f32, u_of(f_of(x) - f_of(y)))
VECTOR_2(v_mul_f32, u_of(f_of(x) * f_of(y)))
VECTOR_2(v_max_f32, u_of(max_float(f_of(x), f_of(y))))
VECTOR_2(v_min_f32, u_of(min_float(f_of(x), f_of(y))))
VECTOR_3(v_min3_f32, u_of(min_float(min_float(f_of(x), f_of(y)), f_of(z))))
VECTOR_3(v_minmax_f32, u_of(max_float(min_float(f_of(x), f_of(y)), f_of(z))))
VECTOR_3(v_maxmin_f32, u_of(min_float(max_float(f_of(x), f_of(y)), f_of(z))))
VECTOR_3(v_max3_f32, u_of(max_float(max_float(f_of(x), f_of(y)), f_of(z))))
VECTOR_3(v_fma_f32, u_of(fmaf(f_of(x), f_of(y), f_of(z))))
OP(v_fmac_f32)
{
    struct values a, b;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    const uint16_t d = i->o[0].reg;
    for (int l = 0; l < N_LANES; l++)
        r[l] = u_of(fmaf(f_of(a.v[l]), f_of(b.v[l]), f_of(w->v[d][l])));
    uint32_t p = a.lo | a.hi | b.lo | b.hi | w->vp[d][0] | w->vp[d][1];
    put(w, &i->o[0], 0, r, p, p);
}

VECTOR_1(v_rcp_f32, u_of(about(1 / (double)flush(f_of(x)))))
VECTOR_1(v_rcp_iflag_f32, u_of(about(1 / (double)flush(f_of(x)))))
VECTOR_1(v_rsq_f32, u_of(about(1 / sqrt((double)flush(f_of(x))))))
VECTOR_1(v_exp_f32, u_of(about(exp2((double)flush(f_of(x))))))
VECTOR_1(v_log_f32, u_of(about(log2((double)flush(f_of(x))))))
VECTOR_1(v_sqrt_f32, u_of(about(sqrt((double)flush(f_of(x))))))
VECTOR_1(v_floor_f32, u_of(floorf(f_of(x))))
VECTOR_1(v_ceil_f32, u_of(ceilf(f_of(x))))
VECTOR_1(v_rndne_f32, u_of(rintf(f_of(x))))
VECTOR_1(v_trunc_f32, u_of(truncf(f_of(x))))
VECTOR_1(v_cvt_f32_i32, u_of((float)(int32_t)x))
VECTOR_1(v_cvt_f32_u32, u_of((float)x))
VECTOR_1(v_cvt_i32_f32, (uint32_t)to_i32(f_of(x)))
VECTOR_1(v_cvt_u32_f32, to_u32(f_of(x)))
VECTOR_1(v_cvt_f32_ubyte0, u_of((float)(x & 255)))
VECTOR_1(v_cvt_f32_ubyte1, u_of((float)(x >> 8 & 255)))
VECTOR_1(v_cvt_f32_ubyte2, u_of((float)(x >> 16 & 255)))
VECTOR_1(v_cvt_f32_ubyte3, u_of((float)(x >> 24)))
VECTOR_2(v_add_nc_u32, x + y)
VECTOR_2(v_sub_nc_u32, i->clamp ? (x > y ? x - y : 0) : x - y)
VECTOR_2(v_subrev_nc_u32, i->clamp ? (y > x ? y - x : 0) : y - x)
VECTOR_2(v_min_u32, x < y ? x : y)
VECTOR_2(v_max_u32, x > y ? x : y)
VECTOR_2(v_min_i32, (int32_t)x < (int32_t)y ? x : y)
VECTOR_2(v_max_i32, (int32_t)x > (int32_t)y ? x : y)
VECTOR_3(v_med3_u32, x > y ? (y > z ? y : x > z ? z : x) : (x > z ? x : y > z ? z : y))
VECTOR_3(v_max3_u32, x > y ? (x > z ? x : z) : (y > z ? y : z))
VECTOR_3(v_max3_i32, (int32_t)x > (int32_t)y ? ((int32_t)x > (int32_t)z ? x : z) : ((int32_t)y > (int32_t)z ? y : z))
VECTOR_2(v_mul_lo_u32, (x) * (y))
VECTOR_2(v_mul_hi_u32, (uint32_t)(((uint64_t)x * y) >> 32))
VECTOR_2(v_mul_u32_u24, (x & 0xffffff) * (y & 0xffffff))
VECTOR_2(v_mul_i32_i24, (uint32_t)(((int32_t)(x << 8) >> 8) * ((int32_t)(y << 8) >> 8)))
VECTOR_2(v_mul_hi_i32_i24, (uint32_t)((int64_t)((int32_t)(x << 8) >> 8) * ((int32_t)(y << 8) >> 8) >> 32))
VECTOR_3(v_mad_u32_u24, (x & 0xffffff) * (y & 0xffffff) + z)
VECTOR_3(v_mad_i32_i24, (uint32_t)(((int32_t)(x << 8) >> 8) * ((int32_t)(y << 8) >> 8)) + z)
VECTOR_3(v_add3_u32, x + y + z)
VECTOR_3(v_add_lshl_u32, (x + y) << (z & 31))
VECTOR_3(v_lshl_add_u32, (x << (y & 31)) + z)
VECTOR_3(v_xad_u32, (x ^ y) + z)
VECTOR_2(v_bcnt_u32_b32, (uint32_t)__builtin_popcount(x) + y)
VECTOR_2(v_ashrrev_i32, (uint32_t)((int32_t)y >> (x & 31)))
VECTOR_3(v_bfe_i32,
         (z & 31)
             ? (uint32_t)((int32_t)(x << (32 - (z & 31) - ((y & 31) + (z & 31) > 32 ? 32 - (z & 31) : (y & 31)))) >>
                          (32 - (z & 31)))
             : 0)
VECTOR_2(v_bfm_b32, ((1u << (x & 31)) - 1) << (y & 31))
OP(v_bfe_u32)
{
    struct values a, b, c;
    uint32_t r[32], q = 0;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++) {
        uint32_t first = b.v[l] & 31, n = c.v[l] & 31, last = first + n - 1;
        r[l] = a.v[l] >> first & ((1u << n) - 1);
        if (n)
            q |= ((first < 16 ? a.lo >> l & 1 : 0) | (last > 15 ? a.hi >> l & 1 : 0)) << l;
    }
    uint32_t p = b.lo | b.hi | c.lo | c.hi;
    put(w, &i->o[0], 0, r, q | p, q | p);
}

const struct op_entry isa_ops_valu[] = {
    VALU(v_mov_b32),
    VALU(v_add_f32),
    VALU(v_sub_f32),
    VALU(v_mul_f32),
    VALU(v_max_f32),
    VALU(v_min_f32),
    VALU(v_min3_f32),
    VALU(v_minmax_f32),
    VALU(v_maxmin_f32),
    DUAL(min_f32),
    VALU(v_max3_f32),
    VALU(v_fma_f32),
    ENTRY(v_fmac_f32, C_VALU, 1, F_RMW),
    ENTRY(v_rcp_f32, C_VALU, 1, F_TRANS),
    ENTRY(v_rcp_iflag_f32, C_VALU, 1, F_TRANS),
    ENTRY(v_rsq_f32, C_VALU, 1, F_TRANS),
    ENTRY(v_exp_f32, C_VALU, 1, F_TRANS),
    ENTRY(v_log_f32, C_VALU, 1, F_TRANS),
    ENTRY(v_sqrt_f32, C_VALU, 1, F_TRANS),
    VALU(v_floor_f32),
    VALU(v_ceil_f32),
    VALU(v_rndne_f32),
    VALU(v_trunc_f32),
    NAMED("v_fmaak_f32", op_v_fma_f32, C_VALU, 1, 0),
    NAMED("v_fmamk_f32", op_v_fma_f32, C_VALU, 1, 0),
    NAMED("v_dual_fmaak_f32", op_v_fma_f32, C_VALU, 1, 0),
    NAMED("v_dual_fmamk_f32", op_v_fma_f32, C_VALU, 1, 0),
    VALU(v_cvt_f32_i32),
    VALU(v_cvt_f32_u32),
    VALU(v_cvt_i32_f32),
    VALU(v_cvt_u32_f32),
    VALU(v_cvt_f32_ubyte0),
    VALU(v_cvt_f32_ubyte1),
    VALU(v_cvt_f32_ubyte2),
    VALU(v_cvt_f32_ubyte3),
    VALU(v_add_nc_u32),
    VALU(v_sub_nc_u32),
    VALU(v_subrev_nc_u32),
    VALU(v_min_u32),
    VALU(v_max_u32),
    VALU(v_min_i32),
    VALU(v_max_i32),
    VALU(v_med3_u32),
    VALU(v_max3_u32),
    VALU(v_max3_i32),
    ENTRY(v_mul_lo_u32, C_VALU, 1, F_QUARTER),
    ENTRY(v_mul_hi_u32, C_VALU, 1, F_QUARTER),
    VALU(v_mul_u32_u24),
    VALU(v_mul_i32_i24),
    VALU(v_mul_hi_i32_i24),
    VALU(v_mad_u32_u24),
    VALU(v_mad_i32_i24),
    VALU(v_add3_u32),
    VALU(v_add_lshl_u32),
    VALU(v_lshl_add_u32),
    VALU(v_xad_u32),
    VALU(v_bcnt_u32_b32),
    VALU(v_ashrrev_i32),
    VALU(v_bfe_i32),
    VALU(v_bfe_u32),
    VALU(v_bfm_b32),
    DUAL(mov_b32),
    DUAL(add_f32),
    DUAL(sub_f32),
    DUAL(mul_f32),
    DUAL(max_f32),
    {"v_dual_fmac_f32", op_v_fmac_f32, C_VALU, 1, F_RMW},
    DUAL(add_nc_u32),
    {.name = NULL},
};
