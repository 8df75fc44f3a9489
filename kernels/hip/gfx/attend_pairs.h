/* attend_pairs.h: the products of decode attention (attend.hip) with a cache in f16, q8 or q4, two to an instruction:
 * of pairs of halves, with sums in f32. Neighbouring elements of K are a pair, and an element of V at two neighbouring
 * positions. q and the probabilities are rounded to halves, as they are for matrix tiles.
 */
#ifndef HALO_GFX_ATTEND_PAIRS_H
#define HALO_GFX_ATTEND_PAIRS_H

#include "attend.h"
#include "kv_half.h"

/* The wave's heads of q as halves, where they are in LDS, in the order that chunks of K have as halves. */
template <uint32_t TYPE, int G, int D> HALO_DEVICE void pairs_halve_q(attend_lds<G, D> &lds)
{
    const uint32_t at = halo_lane() / 8 * 8 + kv_half_place<TYPE>(halo_lane() % 8);
    halo_wave_barrier();
    for (uint32_t g = halo_wave(); g < G; g += WAVES) {
        float q[D / 32];
        for (uint32_t i = 0; i < D / 32; i++)
            q[i] = lds.q[g][halo_lane() + 32 * i];
        halo_wave_barrier();
        uint16_t *half = reinterpret_cast<uint16_t *>(lds.q[g]);
        for (uint32_t i = 0; i < D / 32; i++)
            half[at + 32 * i] = halo_float_half(q[i]);
    }
}

/* The wave's part of the scores. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void pairs_scores(uint32_t dim, const attend_part<TYPE, D> &part, attend_lds<G, D> &lds)
{
    constexpr uint32_t CHUNK = kv_chunk<TYPE>;
    float s[G] = {};
    for (uint32_t j = 0; j < part.CHUNKS; j++) {
        const uint32_t first = (halo_wave() + WAVES * j) * CHUNK / 8;
        if (D == 128 && first * 8 >= dim)
            break;
        halo_u4 k[CHUNK / 8];
        kv_chunk_whole<TYPE>(part.k[j], k);
        float sum[G];
        for (int g = 0; g < G; g++)
            sum[g] = kv_scaled<TYPE> ? 0 : s[g];
        for (uint32_t i = 0; i < CHUNK / 8; i++)
            for (int g = 0; g < G; g++) {
                const halo_u4 q = halo_load<halo_u4>(lds.q[g], first + i);
                for (uint32_t e = 0; e < 4; e++)
                    sum[g] = halo_dot2(k[i].e[e], q.e[e], sum[g]);
            }
        const float scale = kv_scaled<TYPE> ? halo_half_float(part.scale[j]) : 1;
        for (int g = 0; g < G; g++)
            s[g] = kv_scaled<TYPE> ? halo_fma(sum[g], scale, s[g]) : sum[g];
    }
    for (int g = 0; g < G; g++)
        lds.score[halo_wave()][g][halo_lane()] = s[g];
}

/* Where the probabilities of a head stand as halves: [pair of positions][head]. */
template <int G, int D> HALO_DEVICE void pairs_leave_p(attend_lds<G, D> &lds, uint32_t g, float p)
{
    reinterpret_cast<uint16_t *>(lds.p)[(halo_lane() / 2 * G + g) * 2 + halo_lane() % 2] = halo_float_half(p);
}

/* Rows first .. first + ROWS - 1 of the wave's, which are in `part`, by their probabilities. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void pairs_weigh(uint32_t first, const attend_part<TYPE, D> &part, const attend_lds<G, D> &lds,
                             float (&out)[G][D / 32])
{
    for (uint32_t j = 0; j < part.ROWS; j += 2) {
        uint32_t v[D / 32];
        kv_rows_half<TYPE, D / 32>(part.v[j], part.v[j + 1], v);
        for (int g = 0; g < G; g++) {
            const uint32_t p = halo_load<uint32_t>(lds.p, (halo_wave() * V_ROWS + first + j) / 2 * G + (uint32_t)g);
            for (int i = 0; i < D / 32; i++)
                out[g][i] = halo_dot2(v[i], p, out[g][i]);
        }
    }
}

#endif
