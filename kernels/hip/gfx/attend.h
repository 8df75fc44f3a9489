/* attend.h: what the parts of decode attention (attend.hip) share: a block's job, its LDS, and what a wave loads of a
 * page. */
#ifndef HALO_GFX_ATTEND_H
#define HALO_GFX_ATTEND_H

#include "kv.h"

constexpr uint32_t WAVES = 4, V_ROWS = KV_PAGE / WAVES;
constexpr float NOTHING = -1e30f; /* the maximum of no scores: finite, so that differences are numbers */

template <int G, int D> struct alignas(16) attend_lds {
    float q[G][D];
    float fresh[2][D]; /* k and v of the row */
    float out[2][G][D];
    float score[WAVES][G][KV_PAGE];
    float p[KV_PAGE][G];
    float shrink[G], max[G], sum[G];
    float weight[WAVES][HALO_SPLITS_MAX];
    uint32_t last;
};

/* The block's heads and pages. */
struct attend_job {
    uint32_t row, kv_head, first_head, n_heads;
    int32_t pos;
    uint32_t lowest;              /* position that the row sees */
    uint32_t begin, end, n_pages; /* its pages; the pages of the row */
    uint32_t n_splits;            /* of the row: those that have a page */
    const uint32_t *pages;        /* of the row */
};

HALO_DEVICE attend_job job_of(const halo_attend_args &a, uint32_t n_heads_max)
{
    const uint32_t row = halo_block_z(), kv_head = halo_block_y() / a.n_parts, group = a.n_head / a.kv.n_head_kv;
    const uint32_t first = halo_block_y() % a.n_parts * n_heads_max;
    const int32_t pos = a.kv.pos[row];
    const uint32_t n_pages = pos < 0 ? 0 : (uint32_t)pos / KV_PAGE + 1, lowest = kv_lowest(a.score, pos);
    const uint32_t n_seen = n_pages - lowest / KV_PAGE, length = HALO_HIP_CEIL(n_seen, a.n_splits);
    const uint32_t begin = lowest / KV_PAGE + halo_min_of(halo_block_x() * length, n_seen);
    attend_job job;
    job.row = row;
    job.kv_head = kv_head;
    job.first_head = kv_head * group + first;
    job.n_heads = halo_min_of(group - first, n_heads_max);
    job.pos = pos;
    job.lowest = lowest;
    job.begin = begin;
    job.end = halo_min_of(begin + length, n_pages);
    job.n_pages = n_pages;
    job.n_splits = length ? HALO_HIP_CEIL(n_seen, length) : 0;
    job.pages = a.kv.pages + a.kv.page_first[row];
    return job;
}

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
