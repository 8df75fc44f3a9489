/* attend.h: what the parts of decode attention (attend.hip) share: a block's job, its LDS, and what a wave loads of a
 * page. */
#ifndef HALO_GFX_ATTEND_H
#define HALO_GFX_ATTEND_H

#include "kv.h"

constexpr uint32_t WAVES = 4, V_ROWS = KV_PAGE / WAVES;
constexpr float NOTHING = -1e30f; /* the maximum of no scores: finite, so that differences are numbers */

template <int G, int D> struct alignas(16) attend_lds {
    union {
        struct {
            float q[G][D];
            float fresh[2][D]; /* k and v of the row */
            float score[WAVES][G][KV_PAGE];
            float p[KV_PAGE][G];
        };
        float out[2][G][D];                   /* behind the last page */
        float weight[WAVES][HALO_SPLITS_MAX]; /* in the block that merges, when its own part is stored */
    };
    float shrink[G], max[G], sum[G];
    uint32_t last;
};

/* How the pages of a row, or steps of fewer positions, are divided. */
struct attend_splits {
    uint32_t lowest;         /* position that the row sees */
    uint32_t n_pages, first; /* of the row; the first one that it sees */
    uint32_t length, n;      /* pages of a split; the splits that have a page */
};

/* Splits are no shorter than `least`. */
HALO_DEVICE attend_splits splits_of(const halo_attend_args &a, int32_t pos, uint32_t step, uint32_t least)
{
    attend_splits splits;
    splits.lowest = kv_lowest(a.score, pos);
    splits.n_pages = pos < 0 ? 0 : (uint32_t)pos / step + 1;
    splits.first = splits.lowest / step;
    const uint32_t n_seen = splits.n_pages - splits.first, even = HALO_HIP_CEIL(n_seen, a.n_splits);
    splits.length = n_seen && even < least ? least : even;
    splits.n = splits.length ? HALO_HIP_CEIL(n_seen, splits.length) : 0;
    return splits;
}

/* The block's heads and pages. */
struct attend_job {
    uint32_t row, kv_head, first_head, n_heads;
    int32_t pos;
    uint32_t lowest;              /* position that the row sees */
    uint32_t begin, end, n_pages; /* its pages; the pages of the row */
    uint32_t n_splits;            /* of the row: those that have a page */
    const uint32_t *pages;        /* of the row */
};

template <uint32_t STEP = KV_PAGE>
HALO_DEVICE attend_job job_of(const halo_attend_args &a, uint32_t n_heads_max, uint32_t least = 1)
{
    const uint32_t row = halo_block_z(), kv_head = halo_block_y() / a.n_parts, group = a.n_head / a.kv.n_head_kv;
    const uint32_t first = halo_block_y() % a.n_parts * n_heads_max;
    const int32_t pos = a.kv.pos[row];
    const attend_splits splits = splits_of(a, pos, STEP, least);
    attend_job job;
    job.row = row;
    job.kv_head = kv_head;
    job.first_head = kv_head * group + first;
    job.n_heads = halo_min_of(group - first, n_heads_max);
    job.pos = pos;
    job.lowest = splits.lowest;
    job.begin = splits.first + halo_min_of(halo_block_x() * splits.length, splits.n_pages - splits.first);
    job.end = halo_min_of(job.begin + splits.length, splits.n_pages);
    job.n_pages = splits.n_pages;
    job.n_splits = splits.n;
    job.pages = a.kv.pages + a.kv.page_first[row];
    return job;
}

/* Whether the products of a cache are those of pairs (attend_pairs.h). */
#if defined(HALO_DOT2)
template <uint32_t TYPE> constexpr bool takes_pairs = TYPE != HALO_KV_F32;
#else
template <uint32_t TYPE> constexpr bool takes_pairs = false;
#endif

/* What a wave has of a page. V of large heads in f32 has no room in registers beside K: two rows at a time; of heads of
 * 512, four. */
template <uint32_t TYPE, int D> struct attend_part {
    static constexpr uint32_t CHUNKS = D / kv_chunk<TYPE> / WAVES;
    static constexpr uint32_t ROWS = TYPE == HALO_KV_F32 && D > 128 ? 2 : D > 256 ? 4 : V_ROWS;
    halo_u4 k[CHUNKS];
    uint16_t scale[CHUNKS];
    kv_values<TYPE, D / 32> v[ROWS];
};

HALO_DEVICE uint32_t positions_of(const attend_job &job, uint32_t page)
{
    return halo_min_of((uint32_t)job.pos + 1 - page * KV_PAGE, KV_PAGE);
}

/* Positions at the begin of a page that the row does not see. */
HALO_DEVICE uint32_t hidden_of(const attend_job &job, uint32_t page)
{
    return job.lowest > page * KV_PAGE ? job.lowest - page * KV_PAGE : 0;
}

/* Of the n positions of a page; what does not exist reads the last position, or chunk. */
template <uint32_t TYPE, int D>
HALO_DEVICE void load_k(const halo_attend_args &a, const attend_job &job, uint8_t *page, uint32_t n,
                        attend_part<TYPE, D> *ret)
{
    const uint32_t position = halo_min_of(halo_lane(), n - 1);
    const uint32_t dim = a.kv.head_dim_k, last = dim / kv_chunk<TYPE> - 1;
    const uint8_t *head = kv_head_k<TYPE>(a.kv, page, job.kv_head);
    for (uint32_t j = 0; j < ret->CHUNKS; j++) {
        const uint32_t c = halo_min_of(halo_wave() + WAVES * j, last);
        ret->k[j] = halo_load<halo_u4>(head, c * KV_PAGE + position);
        if (kv_scaled<TYPE>)
            ret->scale[j] =
                halo_load<uint16_t>(head + kv_scales_at<TYPE>(dim), c * kv_chunk<TYPE> / 32 * KV_PAGE + position);
    }
}

/* The wave's rows from `first_row` on. */
template <uint32_t TYPE, int D>
HALO_DEVICE void load_v(const halo_attend_args &a, const attend_job &job, uint8_t *page, uint32_t n,
                        attend_part<TYPE, D> *ret, uint32_t first_row = 0)
{
    const uint32_t dim = a.kv.head_dim_v, first = halo_lane() * (D / 32);
    const uint8_t *head = kv_head_v<TYPE>(a.kv, page, job.kv_head);
    for (uint32_t j = 0; j < ret->ROWS; j++)
        ret->v[j].load(head, dim, halo_min_of(halo_wave() * V_ROWS + first_row + j, n - 1), first < dim ? first : 0);
}

#endif
