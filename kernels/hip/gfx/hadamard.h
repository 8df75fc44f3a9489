/* hadamard.h: the rotation of a head's row that is kept in 4 bits: by a Hadamard matrix for each block of it, divided
 * by the root of its size, so that it is its own inverse. A block is the largest power of two that divides the row, 32
 * at least. K, q and V are rotated, and what attention makes of V is rotated back. By a wave, which has whole rows. */
#ifndef HALO_GFX_HADAMARD_H
#define HALO_GFX_HADAMARD_H

#include "gfx.h"

HALO_DEVICE uint32_t hadamard_block(uint32_t dim)
{
    return dim & (0 - dim);
}

/* Sums and differences with the lane ^ M. */
template <int M> HALO_DEVICE float hadamard_lanes(float v)
{
    const float other = halo_xor<M>(v);
    return (halo_lane() & M) != 0 ? other - v : v + other;
}

HALO_DEVICE void hadamard_pair(float &a, float &b)
{
    const float sum = a + b;
    b = a - b;
    a = sum;
}

/* Lane l has elements l, l + 32, ... of the row. */
template <int N> HALO_DEVICE void hadamard_strided(uint32_t dim, float (&v)[N])
{
    const uint32_t block = hadamard_block(dim);
    const float scale = halo_rsqrt((float)block);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = hadamard_lanes<16>(hadamard_lanes<8>(hadamard_lanes<4>(hadamard_lanes<2>(hadamard_lanes<1>(v[i]))))) *
               scale;
#pragma unroll
    for (int half = 1; half < N; half *= 2)
        if (block > 32 * (uint32_t)half) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if ((i & half) == 0)
                    hadamard_pair(v[i], v[i + half]);
        }
}

/* A row in LDS, of up to 32 N elements. */
template <int N> HALO_DEVICE void hadamard_row(uint32_t dim, float *x)
{
    float v[N];
    for (uint32_t i = 0; i < N; i++)
        v[i] = halo_lane() + 32 * i < dim ? x[halo_lane() + 32 * i] : 0;
    hadamard_strided<N>(dim, v);
    for (uint32_t i = 0; i < N; i++)
        if (halo_lane() + 32 * i < dim)
            x[halo_lane() + 32 * i] = v[i];
    halo_wave_barrier();
}

/* Lane l has elements 4 l .. 4 l + 3 of every 128 of the row. */
template <int N> HALO_DEVICE void hadamard_fours(uint32_t dim, halo_f4 (&v)[N])
{
    const uint32_t block = hadamard_block(dim);
    const float scale = halo_rsqrt((float)block);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float(&e)[4] = v[i].e;
        hadamard_pair(e[0], e[1]);
        hadamard_pair(e[2], e[3]);
        hadamard_pair(e[0], e[2]);
        hadamard_pair(e[1], e[3]);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            e[j] = hadamard_lanes<4>(hadamard_lanes<2>(hadamard_lanes<1>(e[j]))) * scale;
            if (block > 32)
                e[j] = hadamard_lanes<8>(e[j]);
            if (block > 64)
                e[j] = hadamard_lanes<16>(e[j]);
        }
    }
#pragma unroll
    for (int half = 1; half < N; half *= 2)
        if (block > 128 * (uint32_t)half) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if ((i & half) == 0)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        hadamard_pair(v[i].e[j], v[i + half].e[j]);
        }
}

#endif
