/* units.h: units of 32 weights of every quantized type, from the packed layout (layout.h) into registers.
 *
 * halo_type_code<TYPE> has, for each type: `raw`, what a lane loads for a unit, load(), and expand() into a halo_unit.
 * What a weight is:
 *   w[i] = d * s[i / 16] * (q[i] - OFFSET) + m          MINIMUM == HALO_MIN_ADD
 *   ...                                    - m * sm[i / 16]   MINIMUM == HALO_MIN_HALVES
 *   s is 1 unless HALVES; with FLOATS it is e, which is no integer. q is below 128 and not negative unless SIGNED.
 * Planes of 16 bytes a unit are streamed (gfx.h) in the types where that was measured to help.
 * d and m are f32 with the value of the file's f16, times an integer of 6 bits for the K types: exact. Loads only; no
 * fault is possible for a unit below n_cols / 32.
 */
#ifndef HALO_GFX_UNITS_H
#define HALO_GFX_UNITS_H

#include "gfx.h"

enum halo_minimum { HALO_MIN_NONE, HALO_MIN_ADD, HALO_MIN_HALVES };

struct halo_unit {
    int q[8]; /* four weights each, in order */
    float d, m;
    int s[2], sm[2];
    float e[2];
};

/* The sub-block scale and minimum of Q4_K and Q5_K. */
HALO_DEVICE void halo_pack_k_unit(const halo_u4 &k, uint32_t u, halo_unit *ret)
{
    uint32_t j = u & 7, sm = (j < 4 ? k.e[1] : k.e[2]) >> (j & 3) * 8, high = k.e[3] >> j * 4 & 15;
    ret->d = halo_half_float((uint16_t)k.e[0]) * (float)(sm & 63);
    ret->m = -halo_half_float((uint16_t)(k.e[0] >> 16)) * (float)((sm >> 6 & 3) | high << 2);
}

HALO_DEVICE void halo_nibbles(const halo_u4 &n, int *q)
{
    for (int i = 0; i < 4; i++) {
        q[i] = (int)(n.e[i] & 0x0f0f0f0f);
        q[4 + i] = (int)(n.e[i] >> 4 & 0x0f0f0f0f);
    }
}

/* Adds bit i of `bits` as bit `AT` of weight i: four bits spread to four bytes by one multiplication of 24 bits. */
template <int AT> HALO_DEVICE void halo_add_bits(uint32_t bits, int *q)
{
    for (int i = 0; i < 8; i++)
        q[i] |= (int)(((bits >> i * 4 & 15) * 0x204081 & 0x01010101) << AT);
}

template <int AT> HALO_DEVICE void halo_add_pairs(const halo_u2 &pairs, int *q)
{
    for (int i = 0; i < 8; i++)
        q[i] |= (int)((pairs.e[i & 1] >> (i >> 1) * 2 & 0x03030303) << AT);
}

/* Each of the four low nibbles of n through a table of 16 bytes. */
HALO_DEVICE int halo_look_up(uint32_t n, const uint32_t *table)
{
    uint32_t index = n & 0x07070707, upper = (n >> 3 & 0x01010101) * 255;
    uint32_t low = halo_permute(table[1], table[0], index), high = halo_permute(table[3], table[2], index);
    return (int)((low & ~upper) | (high & upper));
}

HALO_DEVICE void halo_look_up_all(const halo_u4 &n, const uint32_t *table, int *q)
{
    for (int i = 0; i < 4; i++) {
        q[i] = halo_look_up(n.e[i] & 0x0f0f0f0f, table);
        q[4 + i] = halo_look_up(n.e[i] >> 4 & 0x0f0f0f0f, table);
    }
}

/* HALO_IQ4_NL_VALUES and HALO_MXFP4_VALUES2 (kernels/quant.h), four to a word; the tests compare. */
#define HALO_IQ4_NL_WORDS                                                                                              \
    {                                                                                                                  \
        0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u                                                             \
    }
#define HALO_MXFP4_WORDS                                                                                               \
    {                                                                                                                  \
        0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu                                                             \
    }

template <uint32_t TYPE> struct halo_type_code;

/* Types that are nibbles and a small scale. */
struct halo_code_nibbles {
    static constexpr bool SIGNED = false, HALVES = false, FLOATS = false;
    static constexpr halo_minimum MINIMUM = HALO_MIN_NONE;
    static constexpr int OFFSET = 0;
};

template <> struct halo_type_code<HALO_TYPE_Q8_0> : halo_code_nibbles {
    static constexpr bool SIGNED = true;
    struct raw {
        halo_u4 low, high;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_stream(row, u), halo_stream(row + at.high, u), halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        for (int i = 0; i < 4; i++) {
            ret->q[i] = (int)r.low.e[i];
            ret->q[4 + i] = (int)r.high.e[i];
        }
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q4_0> : halo_code_nibbles {
    static constexpr int OFFSET = 8;
    struct raw {
        halo_u4 n;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q4_1> : halo_code_nibbles {
    static constexpr halo_minimum MINIMUM = HALO_MIN_ADD;
    struct raw {
        halo_u4 n;
        uint32_t dm;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint32_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        ret->d = halo_half_float((uint16_t)r.dm);
        ret->m = halo_half_float((uint16_t)(r.dm >> 16));
    }
};

template <> struct halo_type_code<HALO_TYPE_Q5_0> : halo_code_nibbles {
    static constexpr int OFFSET = 16;
    struct raw {
        halo_u4 n;
        uint32_t bits;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint32_t>(row + at.bits, u),
                   halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        halo_add_bits<4>(r.bits, ret->q);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q5_1> : halo_code_nibbles {
    static constexpr halo_minimum MINIMUM = HALO_MIN_ADD;
    struct raw {
        halo_u4 n;
        uint32_t bits, dm;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint32_t>(row + at.bits, u),
                   halo_load<uint32_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        halo_add_bits<4>(r.bits, ret->q);
        ret->d = halo_half_float((uint16_t)r.dm);
        ret->m = halo_half_float((uint16_t)(r.dm >> 16));
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ4_NL> : halo_code_nibbles {
    static constexpr bool SIGNED = true;
    struct raw {
        halo_u4 n;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        const uint32_t table[4] = HALO_IQ4_NL_WORDS;
        halo_look_up_all(r.n, table, ret->q);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_MXFP4> : halo_code_nibbles {
    static constexpr bool SIGNED = true;
    struct raw {
        halo_u4 n;
        uint8_t e;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint8_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        const uint32_t table[4] = HALO_MXFP4_WORDS;
        halo_look_up_all(r.n, table, ret->q);
        /* 2^(e - 128); the two smallest are denormal. */
        ret->d = halo_bits_float(r.e < 2 ? 0x00200000u << r.e : (uint32_t)(r.e - 1) << 23);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q4_K> : halo_code_nibbles {
    static constexpr halo_minimum MINIMUM = HALO_MIN_ADD;
    struct raw {
        halo_u4 n, k;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_stream(row, u), halo_load<halo_u4>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t u, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        halo_pack_k_unit(r.k, u, ret);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q5_K> : halo_code_nibbles {
    static constexpr halo_minimum MINIMUM = HALO_MIN_ADD;
    struct raw {
        halo_u4 n, k;
        uint32_t bits;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<halo_u4>(row + at.super, u / 8),
                   halo_load<uint32_t>(row + at.bits, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t u, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        halo_add_bits<4>(r.bits, ret->q);
        halo_pack_k_unit(r.k, u, ret);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q6_K> : halo_code_nibbles {
    static constexpr bool HALVES = true;
    static constexpr int OFFSET = 32;
    struct raw {
        halo_u4 n;
        halo_u2 pairs;
        uint16_t s, d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_stream(row, u), halo_load<halo_u2>(row + at.pairs, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        halo_nibbles(r.n, ret->q);
        halo_add_pairs<4>(r.pairs, ret->q);
        ret->s[0] = (int8_t)r.s;
        ret->s[1] = (int8_t)(r.s >> 8);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q2_K> : halo_code_nibbles {
    static constexpr bool HALVES = true;
    static constexpr halo_minimum MINIMUM = HALO_MIN_HALVES;
    struct raw {
        halo_u2 pairs;
        uint16_t s;
        uint32_t dm;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<uint32_t>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        for (int i = 0; i < 8; i++)
            ret->q[i] = 0;
        halo_add_pairs<0>(r.pairs, ret->q);
        for (int h = 0; h < 2; h++) {
            ret->s[h] = r.s >> 8 * h & 15;
            ret->sm[h] = r.s >> (8 * h + 4) & 15;
        }
        ret->d = halo_half_float((uint16_t)r.dm);
        ret->m = halo_half_float((uint16_t)(r.dm >> 16));
    }
};

template <> struct halo_type_code<HALO_TYPE_Q3_K> : halo_code_nibbles {
    static constexpr bool HALVES = true;
    static constexpr int OFFSET = 4;
    struct raw {
        halo_u2 pairs;
        uint32_t bits;
        uint16_t s, d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint32_t>(row + at.bits, u),
                   halo_load<uint16_t>(row + at.scales, u), halo_load<uint16_t>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        for (int i = 0; i < 8; i++)
            ret->q[i] = 0;
        halo_add_pairs<0>(r.pairs, ret->q);
        halo_add_bits<2>(r.bits, ret->q);
        ret->s[0] = (int8_t)r.s;
        ret->s[1] = (int8_t)(r.s >> 8);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ4_XS> : halo_code_nibbles {
    static constexpr bool SIGNED = true;
    struct raw {
        halo_u4 n;
        int8_t s;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<int8_t>(row + at.scales, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        const uint32_t table[4] = HALO_IQ4_NL_WORDS;
        halo_look_up_all(r.n, table, ret->q);
        ret->d = halo_half_float(r.d) * (float)r.s;
    }
};

template <> struct halo_type_code<HALO_TYPE_Q2_0> : halo_code_nibbles {
    static constexpr int OFFSET = 1;
    struct raw {
        halo_u2 pairs;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        for (int i = 0; i < 8; i++)
            ret->q[i] = 0;
        halo_add_pairs<0>(r.pairs, ret->q);
        ret->d = halo_half_float(r.d);
    }
};

template <> struct halo_type_code<HALO_TYPE_Q1_0> : halo_code_nibbles {
    static constexpr int OFFSET = 1;
    struct raw {
        uint32_t bits;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<uint32_t>(row + at.bits, u), halo_load<uint16_t>(row + at.scales, u)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        for (int i = 0; i < 8; i++)
            ret->q[i] = 0;
        halo_add_bits<1>(r.bits, ret->q);
        ret->d = halo_half_float(r.d);
    }
};

/* An E4M3 is the f16 of 2^-8 times its value; 0x7f has become 0 when the row was packed. */
template <> struct halo_type_code<HALO_TYPE_NVFP4> : halo_code_nibbles {
    static constexpr bool SIGNED = true, HALVES = true, FLOATS = true;
    struct raw {
        halo_u4 n;
        uint16_t e;
        float factor;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u4>(row, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<float>(row + at.super)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, halo_unit *ret)
    {
        const uint32_t table[4] = HALO_MXFP4_WORDS;
        halo_look_up_all(r.n, table, ret->q);
        ret->e[0] = halo_half_float((uint16_t)((r.e & 0x7f) << 7)) * 256;
        ret->e[1] = halo_half_float((uint16_t)((r.e >> 8 & 0x7f) << 7)) * 256;
        ret->d = r.factor * 0.5f;
    }
};

/* The scale of a half. */
template <typename CODE> HALO_DEVICE float halo_unit_scale(const halo_unit &w, int half)
{
    return CODE::FLOATS ? w.d * w.e[half] : CODE::HALVES ? w.d * (float)w.s[half] : w.d;
}

/* Weight 4 i + j of the unit. */
template <typename CODE> HALO_DEVICE float halo_unit_weight(const halo_unit &w, int i, int j)
{
    int q = (CODE::SIGNED ? (int)(int8_t)(w.q[i] >> 8 * j) : w.q[i] >> 8 * j & 255) - CODE::OFFSET;
    float scale = halo_unit_scale<CODE>(w, i / 4);
    switch (CODE::MINIMUM) {
    case HALO_MIN_ADD: return halo_fma(scale, (float)q, w.m);
    case HALO_MIN_HALVES: return halo_fma(scale, (float)q, -w.m * (float)w.sm[i / 4]);
    default: return scale * (float)q;
    }
}

/* The unit's 32 weights times HALO_HALVES_FACTOR in f16, in order. The factor keeps the scales of small weights out of
 * the denormal numbers; weights must be below 1000 in magnitude. A byte behind 0x64 is the half 1024 + q, and taking
 * off an integer of that size is exact. */
#define HALO_HALVES_FACTOR 64
HALO_DEVICE uint32_t halo_pair_of(float f)
{
    return halo_float_half(f) * 0x00010001u;
}

template <typename CODE> HALO_DEVICE void halo_unit_halves(const halo_unit &w, uint32_t ret[16])
{
    const uint32_t base = halo_pair_of(-(1024 + CODE::OFFSET + (CODE::SIGNED ? 128 : 0)));
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float m = w.m * HALO_HALVES_FACTOR;
        const uint32_t scale = halo_pair_of(halo_unit_scale<CODE>(w, h) * HALO_HALVES_FACTOR);
        const uint32_t add = CODE::MINIMUM == HALO_MIN_ADD      ? halo_pair_of(m)
                             : CODE::MINIMUM == HALO_MIN_HALVES ? halo_pair_of(-m * (float)w.sm[h])
                                                                : 0;
#pragma unroll
        for (int i = 4 * h; i < 4 * h + 4; i++) {
            const uint32_t q = (uint32_t)w.q[i] ^ (CODE::SIGNED ? 0x80808080u : 0);
            const uint32_t low = halo_permute(0x64646464, q, 0x04010400),
                           high = halo_permute(0x64646464, q, 0x04030402);
            ret[2 * i] = halo_pair_fma(halo_pair_add(low, base), scale, add);
            ret[2 * i + 1] = halo_pair_fma(halo_pair_add(high, base), scale, add);
        }
    }
}

/* An activation unit in registers (layout.h). */
struct halo_act {
    halo_u4 low, high;
    halo_act_unit u;
};

HALO_DEVICE halo_act halo_act_load(const uint8_t *row, uint32_t n_cols, uint32_t u)
{
    return halo_act{halo_load<halo_u4>(row, u), halo_load<halo_u4>(row + n_cols / 2, u),
                    halo_load<halo_act_unit>(row + halo_hip_act_units(n_cols), u)};
}

/* acc plus the product of the units: integers up to the scales. All integers stay below 2^24 in magnitude. */
template <typename CODE> HALO_DEVICE float halo_unit_dot(const halo_unit &w, const halo_act &x, float acc)
{
    int sum[2] = {0, 0}, sum16[2] = {x.u.sum[0], x.u.sum[1]};
    for (int i = 0; i < 4; i++) {
        sum[0] =
            CODE::SIGNED ? halo_dot4(w.q[i], (int)x.low.e[i], sum[0]) : halo_dot4_u(w.q[i], (int)x.low.e[i], sum[0]);
        sum[1] = CODE::SIGNED ? halo_dot4(w.q[4 + i], (int)x.high.e[i], sum[1])
                              : halo_dot4_u(w.q[4 + i], (int)x.high.e[i], sum[1]);
    }
    if (CODE::OFFSET != 0)
        for (int h = 0; h < 2; h++)
            sum[h] -= CODE::OFFSET * sum16[h];
    float product;
    if (CODE::FLOATS)
        product = w.d * halo_fma(w.e[1], (float)sum[1], w.e[0] * (float)sum[0]);
    else
        product = w.d * (float)(CODE::HALVES ? w.s[0] * sum[0] + w.s[1] * sum[1] : sum[0] + sum[1]);
    if (CODE::MINIMUM == HALO_MIN_ADD)
        product = halo_fma(w.m, (float)(sum16[0] + sum16[1]), product);
    if (CODE::MINIMUM == HALO_MIN_HALVES)
        product = halo_fma(-w.m, (float)(w.sm[0] * sum16[0] + w.sm[1] * sum16[1]), product);
    return halo_fma(product, x.u.d, acc);
}

#endif
