/* attend_blocks.h: what a block of attention over a window and compressed blocks has to do. */
#ifndef HALO_GFX_ATTEND_BLOCKS_H
#define HALO_GFX_ATTEND_BLOCKS_H

#include "attend.h"
#include "blocks.h"

/* The pages of the window, of which the row sees something, and the parts of 32 blocks behind them. */
struct blocks_job {
    attend_job job;
    uint32_t n_window, n_blocks; /* pages; blocks */
};

/* For up to n_heads_max heads to a block. */
HALO_DEVICE blocks_job blocks_job_of(const halo_attend_blocks_args &a, uint32_t n_heads_max)
{
    blocks_job ret;
    ret.job = job_of(a.attend, n_heads_max);
    attend_job &job = ret.job;
    const uint32_t lowest = job.lowest / KV_PAGE, n_blocks = blocks_seen(a.blocks, job.pos);
    ret.n_window = job.n_pages - lowest;
    ret.n_blocks = a.chosen ? halo_min_of(n_blocks, a.n_chosen) : n_blocks;
    const uint32_t n = ret.n_window + HALO_HIP_CEIL(ret.n_blocks, KV_PAGE);
    const uint32_t length = HALO_HIP_CEIL(n, a.attend.n_splits);
    job.begin = halo_min_of(halo_block_x() * length, n);
    job.end = halo_min_of(job.begin + length, n);
    job.n_splits = length ? HALO_HIP_CEIL(n, length) : 0;
    return ret;
}

/* Page and row of a block that the row sees (blocks.h). */
HALO_DEVICE uint32_t seen_code(const halo_attend_blocks_args &a, const blocks_job &b, const uint32_t *pages, uint32_t i)
{
    return block_code(a.blocks, pages, a.chosen ? (uint32_t)a.chosen[(uint64_t)b.job.row * a.n_chosen + i] : i);
}

#endif
