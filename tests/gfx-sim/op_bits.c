/* op_bits.c: vector instructions on bits, halves and bytes: what is undefined follows each half. */
#include "numbers.h"
#include "values.h"

/* x, y, z as in op_valu.c; halves stay apart. */
#define BITS_2(name, expr)                                                                                             \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, b;                                                                                            \
        uint32_t r[N_LANES];                                                                                           \
        src(w, i, 1, &a);                                                                                              \
        src(w, i, 2, &b);                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint32_t x = a.v[l], y = b.v[l];                                                                     \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        put(w, &i->o[0], 0, r, a.lo | b.lo, a.hi | b.hi);                                                              \
    }
#define BITS_3(name, expr)                                                                                             \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, b, c;                                                                                         \
        uint32_t r[N_LANES];                                                                                           \
        src(w, i, 1, &a);                                                                                              \
        src(w, i, 2, &b);                                                                                              \
        src(w, i, 3, &c);                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint32_t x = a.v[l], y = b.v[l], z = c.v[l];                                                         \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        put(w, &i->o[0], 0, r, a.lo | b.lo | c.lo, a.hi | b.hi | c.hi);                                                \
    }

/* Bitwise ones know what a constant hides. */
/* Lanes where the half is all zero and known. */
static uint32_t hidden(const struct values *x, uint32_t half)
{
    uint32_t ret = 0;
    for (int l = 0; l < N_LANES; l++)
        ret |= (uint32_t)((x->v[l] & half) == 0) << l;
    return ret & ~(half == 0xffff ? x->lo : x->hi);
}

OP(v_not_b32)
{
    struct values a;
    uint32_t r[N_LANES];
    src(w, i, 1, &a);
    for (int l = 0; l < N_LANES; l++)
        r[l] = ~a.v[l];
    put(w, &i->o[0], 0, r, a.lo, a.hi);
}

OP(v_and_b32)
{
    struct values a, b;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = a.v[l] & b.v[l];
    uint32_t lo = a.lo | b.lo, hi = a.hi | b.hi;
    if (lo)
        lo &= ~(hidden(&a, 0xffff) | hidden(&b, 0xffff));
    if (hi)
        hi &= ~(hidden(&a, 0xffff0000) | hidden(&b, 0xffff0000));
    put(w, &i->o[0], 0, r, lo, hi);
}

BITS_2(v_or_b32, x | y)
BITS_2(v_xor_b32, x ^ y)
BITS_3(v_or3_b32, x | y | z)
BITS_3(v_bfi_b32, (x & y) | (~x & z))
OP(v_and_or_b32)
{
    struct values a, b, c;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++)
        r[l] = (a.v[l] & b.v[l]) | c.v[l];
    uint32_t lo = a.lo | b.lo, hi = a.hi | b.hi;
    if (lo)
        lo &= ~(hidden(&a, 0xffff) | hidden(&b, 0xffff));
    if (hi)
        hi &= ~(hidden(&a, 0xffff0000) | hidden(&b, 0xffff0000));
    put(w, &i->o[0], 0, r, lo | c.lo, hi | c.hi);
}

/* Shifts by 16 move halves. */
static void shifted(const struct values *by, const struct values *x, bool left, uint32_t *lo, uint32_t *hi)
{
    uint32_t both = by->lo | by->hi;
    *lo = *hi = 0;
    for (int l = 0; l < N_LANES; l++) {
        uint32_t n = by->v[l] & 31, xl = x->lo >> l & 1, xh = x->hi >> l & 1;
        if (left) {
            *lo |= (n < 16 ? xl : 0) << l;
            *hi |= (n == 0 ? xh : n < 16 ? xl | xh : xl) << l;
        } else {
            *hi |= (n < 16 ? xh : 0) << l;
            *lo |= (n == 0 ? xl : n < 16 ? xl | xh : xh) << l;
        }
    }
    *lo |= both;
    *hi |= both;
}

OP(v_lshlrev_b32)
{
    struct values a, b;
    uint32_t r[32], lo, hi;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = b.v[l] << (a.v[l] & 31);
    shifted(&a, &b, true, &lo, &hi);
    put(w, &i->o[0], 0, r, lo, hi);
}

OP(v_lshrrev_b32)
{
    struct values a, b;
    uint32_t r[32], lo, hi;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = b.v[l] >> (a.v[l] & 31);
    shifted(&a, &b, false, &lo, &hi);
    put(w, &i->o[0], 0, r, lo, hi);
}

OP(v_lshl_or_b32)
{
    struct values a, b, c;
    uint32_t r[32], lo, hi;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++)
        r[l] = a.v[l] << (b.v[l] & 31) | c.v[l];
    shifted(&b, &a, true, &lo, &hi);
    put(w, &i->o[0], 0, r, lo | c.lo, hi | c.hi);
}

OP(v_alignbit_b32)
{
    struct values a, b, c;
    uint32_t r[32], lo = 0, hi = 0;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++) {
        const uint32_t by = c.v[l] & 31, any = (a.lo | a.hi | b.lo | b.hi) >> l & 1, is_half = by == 16;
        r[l] = (uint32_t)(((uint64_t)a.v[l] << 32 | b.v[l]) >> by);
        lo |= (is_half ? b.hi >> l & 1 : any) << l;
        hi |= (is_half ? a.lo >> l & 1 : any) << l;
    }
    put(w, &i->o[0], 0, r, lo | c.lo | c.hi, hi | c.lo | c.hi);
}

OP(v_perm_b32)
{
    struct values a, b, c;
    uint32_t r[32], lo = 0, hi = 0;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++) {
        uint64_t all = (uint64_t)a.v[l] << 32 | b.v[l];
        uint32_t v = 0;
        for (int k = 0; k < 4; k++) {
            uint32_t s = c.v[l] >> 8 * k & 255, byte, p = 0;
            if (s < 8) {
                byte = all >> 8 * s & 255;
                p = (s < 2 ? b.lo : s < 4 ? b.hi : s < 6 ? a.lo : a.hi) >> l & 1;
            } else if (s < 12) {
                byte = all >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
                p = (s == 8 ? b.lo : s == 9 ? b.hi : s == 10 ? a.lo : a.hi) >> l & 1;
            } else {
                byte = s == 12 ? 0 : 255;
            }
            v |= byte << 8 * k;
            *(k < 2 ? &lo : &hi) |= p << l;
        }
        r[l] = v;
    }
    uint32_t p = c.lo | c.hi;
    put(w, &i->o[0], 0, r, lo | p, hi | p);
}

OP(v_cndmask_b32)
{
    struct values a, b;
    uint32_t r[32], mask, mp;
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    static const struct operand vcc = {.kind = O_S, .reg = VCC, .n = 1};
    const struct operand *m = i->n > 3 && i->fn2 == NULL ? &i->o[3] : &vcc;
    mask = scalar_of(w, m, &mp);
    for (int l = 0; l < N_LANES; l++)
        r[l] = mask >> l & 1 ? b.v[l] : a.v[l];
    put(w, &i->o[0], 0, r, mp | (a.lo & ~mask) | (b.lo & mask), mp | (a.hi & ~mask) | (b.hi & mask));
}

OP(v_dual_cndmask_b32)
{
    struct values a, b;
    uint32_t r[32], mask = w->s[VCC], mp = w->sp[VCC];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = mask >> l & 1 ? b.v[l] : a.v[l];
    put(w, &i->o[0], 0, r, mp | (a.lo & ~mask) | (b.lo & mask), mp | (a.hi & ~mask) | (b.hi & mask));
}

OP(v_mbcnt_lo_u32_b32)
{
    struct values a, b;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = (uint32_t)__builtin_popcount(a.v[l] & (l ? UINT32_MAX >> (32 - l) : 0)) + b.v[l];
    uint32_t p = a.lo | a.hi | b.lo | b.hi;
    put(w, &i->o[0], 0, r, p, p);
}

/* 16 bits: the upper half stays. */
OP(v_cvt_f16_f32)
{
    struct values a;
    uint32_t r[32];
    src(w, i, 1, &a);
    for (int l = 0; l < N_LANES; l++)
        r[l] = float_half(f_of(a.v[l]));
    put16(w, &i->o[0], r, a.lo | a.hi);
}

OP(v_cvt_f32_f16)
{
    struct values a;
    uint32_t r[32];
    src16(w, i, 1, &a);
    for (int l = 0; l < N_LANES; l++)
        r[l] = u_of(half_float(a.v[l]));
    put(w, &i->o[0], 0, r, a.lo, a.lo);
}

OP(v_mul_f16)
{
    struct values a, b;
    uint32_t r[32];
    src16(w, i, 1, &a);
    src16(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = double_half((double)half_float(a.v[l]) * half_float(b.v[l]));
    put16(w, &i->o[0], r, a.lo | b.lo);
}

#define HALF_2(name, expr)                                                                                             \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, b;                                                                                            \
        uint32_t r[N_LANES];                                                                                           \
        src16(w, i, 1, &a);                                                                                            \
        src16(w, i, 2, &b);                                                                                            \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const uint16_t x = (uint16_t)a.v[l], y = (uint16_t)b.v[l];                                                 \
            r[l] = (uint32_t)(expr);                                                                                   \
        }                                                                                                              \
        put16(w, &i->o[0], r, a.lo | b.lo);                                                                            \
    }

HALF_2(v_lshrrev_b16, y >> (x & 15))
HALF_2(v_lshlrev_b16, y << (x & 15))
HALF_2(v_ashrrev_i16, (int16_t)y >> (x & 15))
HALF_2(v_add_nc_u16, x + y)
HALF_2(v_sub_nc_u16, x - y)
HALF_2(v_mul_lo_u16, x *(uint32_t)y)
HALF_2(v_min_u16, x < y ? x : y)
HALF_2(v_max_u16, x > y ? x : y)

const struct op_entry isa_ops_bits[] = {
    VALU(v_and_b32),      VALU(v_or_b32),
    VALU(v_xor_b32),      VALU(v_not_b32),
    VALU(v_or3_b32),      VALU(v_bfi_b32),
    VALU(v_and_or_b32),   VALU(v_lshlrev_b32),
    VALU(v_lshrrev_b32),  VALU(v_lshl_or_b32),
    VALU(v_alignbit_b32), VALU(v_perm_b32),
    VALU(v_cndmask_b32),  VALU(v_mbcnt_lo_u32_b32),
    VALU(v_cvt_f16_f32),  VALU(v_cvt_f32_f16),
    VALU(v_mul_f16),      VALU(v_lshrrev_b16),
    VALU(v_lshlrev_b16),  VALU(v_ashrrev_i16),
    VALU(v_add_nc_u16),   VALU(v_sub_nc_u16),
    VALU(v_mul_lo_u16),   VALU(v_min_u16),
    VALU(v_max_u16),      DUAL(and_b32),
    DUAL(lshlrev_b32),    {"v_dual_cndmask_b32", op_v_dual_cndmask_b32, C_VALU, 1, 0},
    {.name = NULL},
};
