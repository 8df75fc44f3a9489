/* op_wide.c: 64 bits, carries, division. */
#include "numbers.h"
#include "values.h"

/* 64 bits, carries. */
OP(v_add_co_u32)
{
    struct values a, b;
    uint32_t r[32], carry = 0;
    src(w, i, 2, &a);
    src(w, i, 3, &b);
    for (int l = 0; l < N_LANES; l++) {
        r[l] = a.v[l] + b.v[l];
        carry |= (uint32_t)(r[l] < a.v[l]) << l;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi;
    put(w, &i->o[0], 0, r, p, p);
    put_mask(w, &i->o[1], carry, p);
}

OP(v_sub_co_u32)
{
    struct values a, b;
    uint32_t r[32], borrow = 0;
    src(w, i, 2, &a);
    src(w, i, 3, &b);
    for (int l = 0; l < N_LANES; l++) {
        r[l] = a.v[l] - b.v[l];
        borrow |= (uint32_t)(a.v[l] < b.v[l]) << l;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi;
    put(w, &i->o[0], 0, r, p, p);
    put_mask(w, &i->o[1], borrow, p);
}

OP(v_add_co_ci_u32)
{
    struct values a, b;
    uint32_t r[32], carry = 0, mp, m = scalar_of(w, &i->o[4], &mp);
    src(w, i, 2, &a);
    src(w, i, 3, &b);
    for (int l = 0; l < N_LANES; l++) {
        uint64_t s = (uint64_t)a.v[l] + b.v[l] + (m >> l & 1);
        r[l] = (uint32_t)s;
        carry |= (uint32_t)(s >> 32) << l;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | mp;
    put(w, &i->o[0], 0, r, p, p);
    put_mask(w, &i->o[1], carry, p);
}

/* from - what - the borrow of the lane */
static void sub_borrow(struct wave *w, const struct ins *i, int from, int what)
{
    struct values a, b;
    uint32_t r[32], borrow = 0, mp, m = scalar_of(w, &i->o[4], &mp);
    src(w, i, from, &a);
    src(w, i, what, &b);
    for (int l = 0; l < N_LANES; l++) {
        const uint64_t d = (uint64_t)a.v[l] - b.v[l] - (m >> l & 1);
        r[l] = (uint32_t)d;
        borrow |= (uint32_t)(d >> 32 & 1) << l;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | mp;
    put(w, &i->o[0], 0, r, p, p);
    put_mask(w, &i->o[1], borrow, p);
}

OP(v_sub_co_ci_u32)
{
    sub_borrow(w, i, 2, 3);
}

OP(v_subrev_co_ci_u32)
{
    sub_borrow(w, i, 3, 2);
}

OP(v_mad_u64_u32)
{
    struct values a, b, c, d;
    uint32_t r[32], h[32], carry = 0;
    src(w, i, 2, &a);
    src(w, i, 3, &b);
    raw_word(w, &i->o[4], 0, &c);
    raw_word(w, &i->o[4], 1, &d);
    for (int l = 0; l < N_LANES; l++) {
        uint64_t p = (uint64_t)a.v[l] * b.v[l], q = c.v[l] | (uint64_t)d.v[l] << 32, s = p + q;
        r[l] = (uint32_t)s;
        h[l] = (uint32_t)(s >> 32);
        carry |= (uint32_t)(s < p) << l;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi, q = p | d.lo | d.hi;
    put(w, &i->o[0], 0, r, p, p);
    put(w, &i->o[0], 1, h, q, q);
    put_mask(w, &i->o[1], carry, q);
}

/* low_poison: what makes the low word undefined beside the amount and the low word; upper: of the high word. */
#define SHIFT_64(name, shift, low_poison)                                                                              \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        struct values a, c, d;                                                                                         \
        uint32_t r[32], h[32];                                                                                         \
        src(w, i, 1, &a);                                                                                              \
        raw_word(w, &i->o[2], 0, &c);                                                                                  \
        raw_word(w, &i->o[2], 1, &d);                                                                                  \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            uint64_t s = (c.v[l] | (uint64_t)d.v[l] << 32) shift(a.v[l] & 63);                                         \
            r[l] = (uint32_t)s;                                                                                        \
            h[l] = (uint32_t)(s >> 32);                                                                                \
        }                                                                                                              \
        const uint32_t upper = d.lo | d.hi, p = a.lo | a.hi | c.lo | c.hi, q = p | (low_poison);                       \
        put(w, &i->o[0], 0, r, q, q);                                                                                  \
        put(w, &i->o[0], 1, h, p | upper, p | upper);                                                                  \
    }
SHIFT_64(v_lshlrev_b64, <<, 0)
SHIFT_64(v_lshrrev_b64, >>, upper)

/* Division. Operands of div_scale: what is scaled, denominator, numerator; of div_fixup: quotient, denominator,
 * numerator. */
static int exponent(float f)
{
    return (int)(u_of(f) >> 23 & 255);
}

static bool denormal(double d)
{
    return d != 0 && fabs(d) < 0x1p-126;
}

OP(v_div_scale_f32)
{
    struct values a, b, c;
    uint32_t r[32], flag = 0;
    src(w, i, 2, &a);
    src(w, i, 3, &b);
    src(w, i, 4, &c);
    for (int l = 0; l < N_LANES; l++) {
        float s0 = f_of(a.v[l]), s1 = f_of(b.v[l]), s2 = f_of(c.v[l]), d = s0;
        if (s2 == 0 || s1 == 0)
            d = NAN;
        else if (exponent(s2) - exponent(s1) >= 96) {
            flag |= 1u << l;
            if (a.v[l] == b.v[l])
                d = ldexpf(s0, 64);
        } else if (denormal(s1))
            d = ldexpf(s0, 64);
        else if (denormal(1 / (double)s1) && denormal((double)s2 / s1)) {
            flag |= 1u << l;
            if (a.v[l] == b.v[l])
                d = ldexpf(s0, 64);
        } else if (denormal(1 / (double)s1))
            d = ldexpf(s0, -64);
        else if (denormal((double)s2 / s1)) {
            flag |= 1u << l;
            if (a.v[l] == c.v[l])
                d = ldexpf(s0, 64);
        } else if (exponent(s2) <= 23)
            d = ldexpf(s0, 64);
        r[l] = u_of(d);
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi;
    put(w, &i->o[0], 0, r, p, p);
    put_mask(w, &i->o[1], flag, p);
}

OP(v_div_fmas_f32)
{
    struct values a, b, c;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++) {
        float f = fmaf(f_of(a.v[l]), f_of(b.v[l]), f_of(c.v[l]));
        if (w->s[VCC] >> l & 1)
            f = ldexpf(f, exponent(f_of(c.v[l])) > 127 ? 64 : -64);
        r[l] = u_of(f);
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi | w->sp[VCC];
    put(w, &i->o[0], 0, r, p, p);
}

OP(v_div_fixup_f32)
{
    struct values a, b, c;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    for (int l = 0; l < N_LANES; l++) {
        float q = f_of(a.v[l]), d = f_of(b.v[l]), n = f_of(c.v[l]);
        uint32_t sign = (b.v[l] ^ c.v[l]) & 0x80000000;
        if (isnan(n) || isnan(d))
            r[l] = u_of(n + d);
        else if ((n == 0 && d == 0) || (isinf(n) && isinf(d)))
            r[l] = 0xffc00000;
        else if (d == 0 || isinf(n))
            r[l] = sign | 0x7f800000;
        else if (isinf(d) || n == 0)
            r[l] = sign;
        else if (exponent(n) - exponent(d) < -150)
            r[l] = sign;
        else if (exponent(d) == 255)
            r[l] = sign | 0x7f800000;
        else
            r[l] = sign | (u_of(q) & 0x7fffffff);
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi;
    put(w, &i->o[0], 0, r, p, p);
}

const struct op_entry isa_ops_wide[] = {
    ENTRY(v_add_co_u32, C_VALU, 2, 0),
    ENTRY(v_add_co_ci_u32, C_VALU, 2, 0),
    ENTRY(v_sub_co_u32, C_VALU, 2, 0),
    ENTRY(v_sub_co_ci_u32, C_VALU, 2, 0),
    ENTRY(v_subrev_co_ci_u32, C_VALU, 2, 0),
    ENTRY(v_mad_u64_u32, C_VALU, 2, F_QUARTER),
    VALU(v_lshlrev_b64),
    VALU(v_lshrrev_b64),
    ENTRY(v_div_scale_f32, C_VALU, 2, 0),
    VALU(v_div_fmas_f32),
    VALU(v_div_fixup_f32),
    {.name = NULL},
};
