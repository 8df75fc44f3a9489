/* simd_priv.h: the vector operations that the kernels are written in.
 *
 * Every kernel file is compiled once for each instruction set; HALO_SIMD(name) gives its functions different names. A
 * register has HALO_LANES 32-bit lanes, each of which belongs to one row: 16 (AVX-512) is a whole group, 8 (AVX2) is
 * half of one.
 */
#ifndef HALO_CPU_SIMD_PRIV_H
#define HALO_CPU_SIMD_PRIV_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* The kernels are written once for all types and take what is special about a type as constants: only when all is
 * inlined do these cost nothing. Under a sanitizer the same code stays a set of functions: inlined and instrumented it
 * takes a compiler minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HALO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HALO_SANITIZED 1
#endif
#endif
#ifdef HALO_SANITIZED
#define HALO_INLINE static __attribute__((noinline, unused))
#define HALO_UNROLL
#else
#define HALO_INLINE static inline __attribute__((always_inline))
#define HALO_UNROLL _Pragma("GCC unroll 8")
#endif

#ifdef __AVX512F__
#include "simd_avx512_priv.h"
#else
#include "simd_avx2_priv.h"
#endif

/* A pointer of unknown origin from here on: loads through it are not shared with others, kept in registers that are
 * needed elsewhere, or moved up; and addresses are not gathered into a vector only to be taken out again. */
#define HALO_KEEP_SCALAR(pointer) __asm__ volatile("" : "+r"(pointer))
/* Keeps gcc from turning a chain of integer additions into a tree, for which there are not enough registers. */
#define HALO_KEEP_ORDER(vector) __asm__("" : "+x"(vector))

#define HALO_PREFETCH_BYTES 8192 /* ahead of the columns at work */

/* Asks the second cache for n_bytes of weights that are wanted soon. Its queue is longer: a prefetch into the first
 * cache is thought to keep one of the core's few fill buffers from the loads until the memory has answered
 * (docs/negative-results.md). */
HALO_INLINE void halo_prefetch(const uint8_t *from, unsigned n_bytes)
{
    for (unsigned line = 0; line < n_bytes; line += 64)
        _mm_prefetch((const char *)from + line, _MM_HINT_T1);
}

/* The first cache: for one row of activations with AVX-512, which takes blocks of 32 weights faster than the second
 * cache hands them on. */
HALO_INLINE void halo_prefetch_first(const uint8_t *from, unsigned n_bytes)
{
    for (unsigned line = 0; line < n_bytes; line += 64)
        _mm_prefetch((const char *)from + line, _MM_HINT_T0);
}

HALO_INLINE int32_t halo_load_i32(const void *p)
{
    int32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* The bits of `mask` (a byte) from bit `shift` of every byte. The 16-bit shift drags in bits of the neighbour byte; the
 * mask drops them, as long as shift plus the width of the mask is at most 8. */
HALO_INLINE halo_vint v_bits(halo_vint x, unsigned shift, int mask)
{
    return v_and(v_srl16(x, shift), v_set8(mask));
}

/* The same bits, but moved to bit `to` instead of bit 0. */
HALO_INLINE halo_vint v_moved_bits(halo_vint x, unsigned from, unsigned to, int mask)
{
    return v_and(from < to ? v_sll16(x, to - from) : v_srl16(x, from - to), v_set8(mask << to));
}

#endif
