/* attend_blocks.hip: decode attention over the window of a row and over compressed blocks of what lies before, in one
 * softmax; of prompts too.
 *
 * As latent.hip. What a row sees are the pages of its window, and then its blocks, 32 at a time; both are divided among
 * the splits. Where the rows of 32 blocks are is found by the lanes, a block each, so that the loads of which block and
 * of its page are waited for once.
 */
#include "blocks.h"
#include "latent.h"

/* The pages of the window, of which the row sees something, and the parts of 32 blocks behind them. */
struct blocks_job {
    attend_job job;
    uint32_t n_window, n_blocks; /* pages; blocks */
    const int32_t *chosen;       /* of the row, or NULL */
};

HALO_DEVICE blocks_job blocks_job_of(const halo_attend_blocks_args &a)
{
    blocks_job ret;
    ret.job = job_of(a.attend, HALO_LATENT_HEADS);
    attend_job &job = ret.job;
    const uint32_t lowest = job.lowest / KV_PAGE, n_blocks = blocks_seen(a.blocks, job.pos);
    ret.n_window = job.n_pages - lowest;
    ret.n_blocks = a.chosen ? halo_min_of(n_blocks, a.n_chosen) : n_blocks;
    ret.chosen = a.chosen ? a.chosen + (uint64_t)job.row * a.n_chosen : nullptr;
    const uint32_t n = ret.n_window + HALO_HIP_CEIL(ret.n_blocks, KV_PAGE);
    const uint32_t length = HALO_HIP_CEIL(n, a.attend.n_splits);
    job.begin = halo_min_of(halo_block_x() * length, n);
    job.end = halo_min_of(job.begin + length, n);
    job.n_splits = length ? HALO_HIP_CEIL(n, length) : 0;
    return ret;
}

/* Up to 32 blocks from `first` on. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void attend_part_of_blocks(const halo_attend_blocks_args &a, const blocks_job &b, const uint32_t *pages,
                                       uint32_t first, latent_state<K_GROUPS> *state)
{
    const uint32_t n = halo_min_of(b.n_blocks - first, KV_PAGE), dim = a.blocks.kv.head_dim_k;
    const uint32_t mine = first + halo_min_of(halo_lane(), n - 1);
    const uint32_t code = block_code(a.blocks, pages, b.chosen ? (uint32_t)b.chosen[mine] : mine);
#pragma unroll 1
    for (uint32_t p = 0; p < n; p += LATENT_STEP) {
        latent_rows<TYPE, K_GROUPS> rows;
#pragma unroll
        for (uint32_t i = 0; i < LATENT_STEP; i++) {
            const block_place place = block_place_at(a.blocks, halo_broadcast(code, halo_min_of(p + i, n - 1)));
#pragma unroll
            for (uint32_t j = 0; j < K_GROUPS; j++) {
                const uint32_t d = 4 * halo_lane() + 128 * j;
                rows.row[i][j].load(place.page, dim, place.row, d < dim ? d : 0, a.blocks.page_rows);
            }
        }
        latent_positions<TYPE, K_GROUPS>(rows, p, 0, n, 0, state);
    }
}

template <uint32_t TYPE> HALO_DEVICE void attend_blocks(const halo_attend_blocks_args &a, latent_lds &lds)
{
    const blocks_job b = blocks_job_of(a);
    const attend_job &job = b.job;
    if (job.begin >= job.end)
        return;
    uint32_t n_heads;
    const uint32_t first = latent_heads(job, &n_heads), lowest = job.lowest / KV_PAGE;
    latent_state<V_GROUPS> state;
    latent_begin(a.attend, job, first, n_heads, &state);
    latent_pages<TYPE, V_GROUPS>(a.attend, job, lowest + halo_min_of(job.begin, b.n_window),
                                 lowest + halo_min_of(job.end, b.n_window), &state);
    const uint32_t *pages = block_pages(a.blocks, job.row);
#pragma unroll 1
    for (uint32_t i = job.begin > b.n_window ? job.begin : b.n_window; i < job.end; i++)
        attend_part_of_blocks<TYPE, V_GROUPS>(a, b, pages, (i - b.n_window) * KV_PAGE, &state);
    latent_finish<TYPE>(a.attend, job, first, n_heads, state, lds);
}

#define HALO_ATTEND_BLOCKS_KERNEL(TYPE, type)                                                                          \
    HALO_KERNEL(attend_blocks_##type, halo_attend_blocks_args, 128)                                                    \
    {                                                                                                                  \
        HALO_LDS(latent_lds, lds);                                                                                     \
        attend_blocks<HALO_KV_##TYPE>(a, lds);                                                                         \
    }
HALO_ATTEND_BLOCKS_KERNEL(F32, f32)
HALO_ATTEND_BLOCKS_KERNEL(F16, f16)
HALO_ATTEND_BLOCKS_KERNEL(Q8, q8)
