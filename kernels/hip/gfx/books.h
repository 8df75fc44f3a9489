/* books.h: the code books of the grid types as kernels use them, in the memory of the GPU and in LDS.
 *
 * An entry is what an index stands for, ready for a dot product: of IQ3 the magnitudes of four weights, a byte each; of
 * IQ2 those of eight; of IQ1 eight times the codes 0, 1, 2 of eight weights: weight i of four at bit 8 i + 3, weight 4
 * + i at bit 8 i + 5. Lanes look up entries at random, which costs LDS some four clocks a wave and the caches more, so
 * that products of few rows have the book in LDS, and read it once a block.
 */
#ifndef HALO_GFX_BOOKS_H
#define HALO_GFX_BOOKS_H

#include "gfx.h"

constexpr uint32_t halo_book_byte(uint64_t values, uint32_t code)
{
    return (uint32_t)(values >> 8 * code & 255);
}
/* Four codes of `bits` bits each; byte c of `values`: what code c stands for. */
constexpr uint32_t halo_book_word(uint64_t values, uint32_t bits, uint32_t codes)
{
    const uint32_t mask = (1u << bits) - 1;
    return halo_book_byte(values, codes & mask) | halo_book_byte(values, codes >> bits & mask) << 8 |
           halo_book_byte(values, codes >> 2 * bits & mask) << 16 |
           halo_book_byte(values, codes >> 3 * bits & mask) << 24;
}

/* HALO_IQ3_XXS_VALUES, odd numbers, HALO_IQ2_VALUES (kernels/quant.h), and twice eight times the code; the tests
 * compare. */
constexpr uint64_t HALO_BOOK_IQ3_XXS = 0x3e342c241c140c04u, HALO_BOOK_IQ3_S = 0x0f0d0b0907050301u,
                   HALO_BOOK_IQ2 = 0x2b1908u, HALO_BOOK_IQ1 = 0x100800u;

#define X(code) halo_book_word(HALO_BOOK_IQ3_XXS, 3, code),
alignas(16) HALO_CONSTANT uint32_t halo_book_iq3_xxs[] = {
#include <kernels/grid_iq3_xxs.def>
};
#undef X
#define X(code) halo_book_word(HALO_BOOK_IQ3_S, 3, code),
alignas(16) HALO_CONSTANT uint32_t halo_book_iq3_s[] = {
#include <kernels/grid_iq3_s.def>
};
#undef X
#define X(code) {{halo_book_word(HALO_BOOK_IQ2, 2, code), halo_book_word(HALO_BOOK_IQ2, 2, (code) >> 8)}},
alignas(16) HALO_CONSTANT halo_u2 halo_book_iq2_xxs[] = {
#include <kernels/grid_iq2_xxs.def>
};
alignas(16) HALO_CONSTANT halo_u2 halo_book_iq2_xs[] = {
#include <kernels/grid_iq2_xs.def>
};
alignas(16) HALO_CONSTANT halo_u2 halo_book_iq2_s[] = {
#include <kernels/grid_iq2_s.def>
};
#undef X
#define X(code) halo_book_word(HALO_BOOK_IQ1, 2, code) | halo_book_word(HALO_BOOK_IQ1, 2, (code) >> 8) << 2,
alignas(16) HALO_CONSTANT uint32_t halo_book_iq1[] = {
#include <kernels/grid_iq1.def>
};
#undef X

/* The book of a type, with ENTRIES 0 where it has none. */
template <uint32_t TYPE> struct halo_book {
    typedef uint32_t entry;
    static constexpr uint32_t ENTRIES = 0;
    HALO_DEVICE const entry *table(void)
    {
        return nullptr;
    }
};
#define HALO_BOOK(TYPE, ENTRY, table_of)                                                                               \
    template <> struct halo_book<HALO_TYPE_##TYPE> {                                                                   \
        typedef ENTRY entry;                                                                                           \
        static constexpr uint32_t ENTRIES = sizeof(table_of) / sizeof(entry);                                          \
        HALO_DEVICE const entry *table(void)                                                                           \
        {                                                                                                              \
            return table_of;                                                                                           \
        }                                                                                                              \
    }
HALO_BOOK(IQ3_XXS, uint32_t, halo_book_iq3_xxs);
HALO_BOOK(IQ3_S, uint32_t, halo_book_iq3_s);
HALO_BOOK(IQ2_XXS, halo_u2, halo_book_iq2_xxs);
HALO_BOOK(IQ2_XS, halo_u2, halo_book_iq2_xs);
HALO_BOOK(IQ2_S, halo_u2, halo_book_iq2_s);
HALO_BOOK(IQ1_S, uint32_t, halo_book_iq1);
HALO_BOOK(IQ1_M, uint32_t, halo_book_iq1);
#undef HALO_BOOK

/* A book in LDS; nothing for a type without one. */
template <uint32_t TYPE, uint32_t N = halo_book<TYPE>::ENTRIES> struct halo_book_lds {
    alignas(16) typename halo_book<TYPE>::entry book[N];
};
template <uint32_t TYPE> struct halo_book_lds<TYPE, 0> {
};

/* Fills it, for all threads of the block; there after the next barrier. */
template <uint32_t TYPE, uint32_t THREADS> HALO_DEVICE void halo_book_fill(halo_book_lds<TYPE> &lds)
{
    constexpr uint32_t N = sizeof(halo_book_lds<TYPE>) / sizeof(halo_u4);
#pragma unroll
    for (uint32_t i = 0; i < N; i += THREADS)
        if (N % THREADS == 0 || i + halo_tid() < N)
            reinterpret_cast<halo_u4 *>(lds.book)[i + halo_tid()] =
                halo_load<halo_u4>(halo_book<TYPE>::table(), i + halo_tid());
}

/* The book in LDS of a kernel that has nothing else there, filled; for all threads of a block of THREADS. NULL for a
 * type without one. */
template <uint32_t TYPE, uint32_t THREADS> HALO_DEVICE const void *halo_book_ready(void)
{
    if constexpr (halo_book<TYPE>::ENTRIES != 0) {
        typedef halo_book_lds<TYPE> book_lds;
        HALO_LDS(book_lds, lds);
        halo_book_fill<TYPE, THREADS>(lds);
        halo_barrier();
        return lds.book;
    } else {
        return nullptr;
    }
}

#endif
