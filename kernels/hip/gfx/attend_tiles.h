/* attend_tiles.h: what a wave of attend_tiles.hip loads of a step of the cache, and as halves for its matrix tiles. */
#ifndef HALO_GFX_ATTEND_TILES_H
#define HALO_GFX_ATTEND_TILES_H

#include "attend.h"
#include "kv_half.h"

constexpr uint32_t HEADS = HALO_ATTEND_TILE_HEADS; /* q heads of a block */
constexpr uint32_t STEP = HALO_ATTEND_TILE_STEP;   /* positions that a wave takes together */
constexpr uint32_t AHEAD = 2;                      /* steps that a wave has in registers */
constexpr uint32_t TILE_WAVES = HALO_ATTEND_TILE_LEAST;
constexpr uint32_t ROWS = HALO_STRIP_ROWS, PARTS = HALO_STRIP_PARTS, SUMS = HALO_STRIP_SUMS;
constexpr uint32_t POSITIONS = STEP / PARTS; /* of V that a lane has */
static_assert(HALO_STRIP_STEP * 2 == POSITIONS, "the positions of a step are one tile's");

/* Eight neighbouring elements of a V row. */
template <uint32_t TYPE> struct tiles_eight {
    kv_values<TYPE, 8> raw;
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first)
    {
        raw.load(head, dim, position, first);
    }
    HALO_DEVICE_MEMBER halo_u4 halves() const
    {
        return kv_eight_half<TYPE>(raw);
    }
};
template <> struct tiles_eight<HALO_KV_F16> {
    halo_u4 raw;
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first)
    {
        raw = halo_load<halo_u4>(head + (position * dim + first) * 2);
    }
    HALO_DEVICE_MEMBER halo_u4 halves() const
    {
        return raw;
    }
};

/* What a lane has of a step: of the K of its strip rows, which are positions, every PARTS-th chunk; of the V of its
 * positions eight elements for each of its strip rows, which are elements, in every 128. */
template <uint32_t TYPE, int D> struct tiles_part {
    static constexpr uint32_t CHUNKS = D / kv_chunk<TYPE> / PARTS, GROUPS = D / 128;
    halo_u4 k[ROWS][CHUNKS];
    uint16_t scale[ROWS][CHUNKS];
    tiles_eight<TYPE> v[POSITIONS][GROUPS][ROWS];
};

/* A step's place in its page. What does not exist, or may not be read yet, reads the last position that is there. */
struct tiles_step {
    uint8_t *page;
    uint32_t first, last;
};

template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_load_k(const halo_attend_args &a, const attend_job &job, const tiles_step &step,
                              tiles_part<TYPE, D> *ret)
{
    constexpr uint32_t CHUNK = kv_chunk<TYPE>;
    const uint32_t dim = a.kv.head_dim_k;
    const uint8_t *head = kv_head_k<TYPE>(a.kv, step.page, job.kv_head);
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t position = halo_min_of(step.first + halo_strip_row((int)i), step.last);
#pragma unroll
        for (uint32_t j = 0; j < ret->CHUNKS; j++) {
            const uint32_t c = halo_min_of(j * PARTS + halo_strip_part(), dim / CHUNK - 1);
            ret->k[i][j] = halo_load<halo_u4>(head, c * KV_PAGE + position);
            if (kv_scaled<TYPE>)
                ret->scale[i][j] =
                    halo_load<uint16_t>(head + kv_scales_at<TYPE>(dim), c * CHUNK / 32 * KV_PAGE + position);
        }
    }
}

template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_load_v(const halo_attend_args &a, const attend_job &job, const tiles_step &step,
                              tiles_part<TYPE, D> *ret)
{
    const uint32_t dim = a.kv.head_dim_v;
    const uint8_t *head = kv_head_v<TYPE>(a.kv, step.page, job.kv_head);
#pragma unroll
    for (uint32_t j = 0; j < POSITIONS; j++) {
        const uint32_t position = halo_min_of(step.first + halo_strip_part() * POSITIONS + j, step.last);
#pragma unroll
        for (uint32_t u = 0; u < ret->GROUPS; u++)
#pragma unroll
            for (uint32_t i = 0; i < ROWS; i++) {
                const uint32_t d = 128 * u + 8 * halo_strip_row((int)i);
                ret->v[j][u][i].load(head, dim, position, d < dim ? d : 0);
            }
    }
}

/* The lane's halves of its strip rows of K: 32 for each strip of 32 * PARTS columns. */
template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_k(const tiles_part<TYPE, D> &part, uint32_t strip, uint32_t (&w)[ROWS][16])
{
    constexpr uint32_t N = 32 / kv_chunk<TYPE>, EIGHTS = 4 / N; /* chunks of a strip, eights of a chunk */
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
        for (uint32_t n = 0; n < N; n++) {
            halo_u4 halves[EIGHTS];
            kv_chunk_half<TYPE>(part.k[i][strip * N + n], part.scale[i][strip * N + n], halves);
#pragma unroll
            for (uint32_t e = 0; e < 4 * EIGHTS; e++)
                w[i][n * 4 * EIGHTS + e] = halves[e / 4].e[e % 4];
        }
}

#endif
