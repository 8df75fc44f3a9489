/* units_grid.h: units of the grid types, whose weights are indices into a code book (books.h), a sign each, and scales.
 * As the other types in units.h; expand() is given the book.
 *
 * Signs are in a word: bit 8 j + i is that of weight 4 i + j, so that those of four neighbours are one mask. Types with
 * an even number of minus signs in eight weights leave out that of weight l of the l-th eight (HALO_SIGNS_SPARE) and
 * have a bit of something else there.
 */
#ifndef HALO_GFX_UNITS_GRID_H
#define HALO_GFX_UNITS_GRID_H

#include "books.h"
#include "units.h"

#define HALO_SIGNS_SPARE 0x40100401u

/* Puts in the signs that were left out. */
HALO_DEVICE uint32_t halo_even_signs(uint32_t word)
{
    word &= ~HALO_SIGNS_SPARE;
    uint32_t ones = word ^ (word >> 16 | word << 16);
    ones ^= ones >> 8 | ones << 24; /* of each i, over all j: the same in all bytes */
    ones ^= ones >> 1;              /* of the l-th eight: bit 2 l of each byte */
    return word | (ones & HALO_SIGNS_SPARE);
}

/* The four spare bits as a number s: 8 (2 s + 1). */
HALO_DEVICE int halo_spare_scale(uint32_t word)
{
    return halo_dot4_u((int)(word & HALO_SIGNS_SPARE), 0x02040810, 8);
}

/* Four magnitudes, none of them 0, with the signs of weights 4 i .. 4 i + 3. */
template <int I> HALO_DEVICE int halo_signed(uint32_t magnitudes, uint32_t signs)
{
    const uint32_t minus = (I < 2 ? signs << (2 - I) : signs >> (I - 2)) & 0x04040404;
    return (int)halo_permute(0x01010100u - magnitudes, magnitudes, 0x03020100u | minus);
}

/* Byte k of `low`, and bit AT of `high` as the ninth: an index. */
template <int K> HALO_DEVICE uint32_t halo_index(uint32_t low)
{
    return K < 3 ? low >> 8 * K & 255 : low >> 24;
}
template <int AT> HALO_DEVICE uint32_t halo_bit_256(uint32_t high)
{
    return (AT < 8 ? high << (8 - AT) : high >> (AT - 8)) & 256;
}

struct halo_code_grid : halo_code_nibbles {
    static constexpr bool SIGNED = true;
};

/* The l-th eight weights of IQ2. */
template <int L> HALO_DEVICE void halo_put_iq2(const halo_u2 &entry, uint32_t signs, halo_unit *ret)
{
    ret->q[2 * L] = halo_signed<2 * L>(entry.e[0], signs);
    ret->q[2 * L + 1] = halo_signed<2 * L + 1>(entry.e[1], signs);
}

template <> struct halo_type_code<HALO_TYPE_IQ3_XXS> : halo_code_grid {
    struct raw {
        halo_u2 index;
        uint32_t signs;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint32_t>(row + at.bits, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    template <int I> HALO_DEVICE void put(const raw &r, const uint32_t *book, uint32_t signs, halo_unit *ret)
    {
        ret->q[I] = halo_signed<I>(book[halo_index<I % 4>(r.index.e[I / 4])], signs);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const uint32_t *book, halo_unit *ret)
    {
        const uint32_t signs = halo_even_signs(r.signs);
        put<0>(r, book, signs, ret);
        put<1>(r, book, signs, ret);
        put<2>(r, book, signs, ret);
        put<3>(r, book, signs, ret);
        put<4>(r, book, signs, ret);
        put<5>(r, book, signs, ret);
        put<6>(r, book, signs, ret);
        put<7>(r, book, signs, ret);
        ret->d = halo_half_float(r.d) * (0x1p-5f * (float)halo_spare_scale(r.signs));
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ3_S> : halo_code_grid {
    struct raw {
        halo_u2 index;
        uint32_t signs;
        uint8_t high, s;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        const uint8_t *super = row + at.super + u / 8 * 6;
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint32_t>(row + at.bits, u),
                   halo_load<uint8_t>(row + at.scales, u), halo_load<uint8_t>(super + 2, u % 8 / 2),
                   halo_load<uint16_t>(super)};
    }
    template <int I> HALO_DEVICE void put(const raw &r, const uint32_t *book, halo_unit *ret)
    {
        ret->q[I] = halo_signed<I>(book[halo_index<I % 4>(r.index.e[I / 4]) | halo_bit_256<I>(r.high)], r.signs);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t u, const uint32_t *book, halo_unit *ret)
    {
        put<0>(r, book, ret);
        put<1>(r, book, ret);
        put<2>(r, book, ret);
        put<3>(r, book, ret);
        put<4>(r, book, ret);
        put<5>(r, book, ret);
        put<6>(r, book, ret);
        put<7>(r, book, ret);
        ret->d = halo_half_float(r.d) * (float)(2 * (r.s >> u % 2 * 4 & 15) + 1);
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ2_XXS> : halo_code_grid {
    struct raw {
        halo_u2 word; /* indices, signs */
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint16_t>(row + at.super, u / 8)};
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const halo_u2 *book, halo_unit *ret)
    {
        const uint32_t signs = halo_even_signs(r.word.e[1]);
        halo_put_iq2<0>(book[halo_index<0>(r.word.e[0])], signs, ret);
        halo_put_iq2<1>(book[halo_index<1>(r.word.e[0])], signs, ret);
        halo_put_iq2<2>(book[halo_index<2>(r.word.e[0])], signs, ret);
        halo_put_iq2<3>(book[halo_index<3>(r.word.e[0])], signs, ret);
        ret->d = halo_half_float(r.d) * (0x1p-6f * (float)halo_spare_scale(r.word.e[1]));
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ2_XS> : halo_code_grid {
    static constexpr bool HALVES = true;
    struct raw {
        halo_u2 word; /* indices; signs, and the ninth bits of indices */
        uint8_t s;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint8_t>(row + at.scales, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    template <int L> HALO_DEVICE void put(const raw &r, const halo_u2 *book, uint32_t signs, halo_unit *ret)
    {
        halo_put_iq2<L>(book[halo_index<L>(r.word.e[0]) | halo_bit_256<10 * L>(r.word.e[1])], signs, ret);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const halo_u2 *book, halo_unit *ret)
    {
        const uint32_t signs = halo_even_signs(r.word.e[1]);
        put<0>(r, book, signs, ret);
        put<1>(r, book, signs, ret);
        put<2>(r, book, signs, ret);
        put<3>(r, book, signs, ret);
        ret->s[0] = 2 * (r.s & 15) + 1;
        ret->s[1] = 2 * (r.s >> 4) + 1;
        ret->d = halo_half_float(r.d) * 0.125f;
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ2_S> : halo_code_grid {
    static constexpr bool HALVES = true;
    struct raw {
        halo_u2 word; /* indices, signs */
        uint32_t s;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<halo_u2>(row + at.pairs, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    template <int L> HALO_DEVICE void put(const raw &r, const halo_u2 *book, halo_unit *ret)
    {
        halo_put_iq2<L>(book[halo_index<L>(r.word.e[0]) | (r.s >> 2 * L & 3) << 8], r.word.e[1], ret);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const halo_u2 *book, halo_unit *ret)
    {
        put<0>(r, book, ret);
        put<1>(r, book, ret);
        put<2>(r, book, ret);
        put<3>(r, book, ret);
        ret->s[0] = (int)(2 * (r.s >> 8 & 15) + 1);
        ret->s[1] = (int)(2 * (r.s >> 12) + 1);
        ret->d = halo_half_float(r.d) * 0.125f;
    }
};

/* IQ1 in eighths: 8 times the code, plus 2 where the eighth is added, minus 9. `more`: a sign bit of all ones there. */
struct halo_code_iq1 : halo_code_nibbles {
    static constexpr int OFFSET = 9;
    template <int L> HALO_DEVICE void put(uint32_t entry, int more, halo_unit *ret)
    {
        const uint32_t add = (uint32_t)more & 0x02020202;
        ret->q[2 * L] = (int)((entry & 0x18181818) | add);
        ret->q[2 * L + 1] = (int)((entry >> 2 & 0x18181818) | add);
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ1_S> : halo_code_iq1 {
    struct raw {
        uint32_t index, high;
        uint16_t d;
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<uint32_t>(row + at.bits, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<uint16_t>(row + at.super, u / 8)};
    }
    template <int L> HALO_DEVICE void entry(const raw &r, const uint32_t *book, int more, halo_unit *ret)
    {
        put<L>(book[halo_index<L>(r.index) | (r.high >> 3 * L & 7) << 8], more, ret);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t, const uint32_t *book, halo_unit *ret)
    {
        const int more = (int)(r.high << 16) >> 31;
        entry<0>(r, book, more, ret);
        entry<1>(r, book, more, ret);
        entry<2>(r, book, more, ret);
        entry<3>(r, book, more, ret);
        ret->d = halo_half_float(r.d) * (0.125f * (float)(int)(2 * (r.high >> 12 & 7) + 1));
    }
};

template <> struct halo_type_code<HALO_TYPE_IQ1_M> : halo_code_iq1 {
    static constexpr bool HALVES = true;
    struct raw {
        uint32_t index;
        uint32_t high;
        halo_u2 super; /* d, and six bits of scales for each unit */
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return raw{halo_load<uint32_t>(row + at.bits, u), halo_load<uint16_t>(row + at.scales, u),
                   halo_load<halo_u2>(row + at.super, u / 8)};
    }
    template <int L> HALO_DEVICE void entry(const raw &r, const uint32_t *book, halo_unit *ret)
    {
        const int more = (int)(r.high << (28 - 4 * L)) >> 31;
        put<L>(book[halo_index<L>(r.index) | (r.high >> 4 * L & 7) << 8], more, ret);
    }
    HALO_DEVICE void expand(const raw &r, uint32_t u, const uint32_t *book, halo_unit *ret)
    {
        const uint64_t super = r.super.e[0] | (uint64_t)r.super.e[1] << 32;
        const uint32_t scales = (uint32_t)(super >> (16 + 6 * (u & 7)));
        entry<0>(r, book, ret);
        entry<1>(r, book, ret);
        entry<2>(r, book, ret);
        entry<3>(r, book, ret);
        ret->s[0] = (int)(2 * (scales & 7) + 1);
        ret->s[1] = (int)(2 * (scales >> 3 & 7) + 1);
        ret->d = halo_half_float((uint16_t)r.super.e[0]) * 0.125f;
    }
};

/* A unit of any type. `book`: the type's, in LDS or table(). */
template <uint32_t TYPE>
HALO_DEVICE void halo_expand(const typename halo_type_code<TYPE>::raw &r, uint32_t u, const void *book, halo_unit *ret)
{
    if constexpr (halo_book<TYPE>::ENTRIES != 0)
        halo_type_code<TYPE>::expand(r, u, static_cast<const typename halo_book<TYPE>::entry *>(book), ret);
    else
        halo_type_code<TYPE>::expand(r, u, ret);
}

#endif
