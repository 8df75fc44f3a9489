/* attend_blocks.hip: attention over the window of a row and over compressed blocks of what lies before, in one softmax,
 * on every chip; of prompts too. Where there are matrix units, f16 and q8 take attend_blocks_tiles.hip.
 *
 * As latent.hip. What a row sees are the pages of its window, and then its blocks, 32 at a time; both are divided among
 * the splits. Where the rows of 32 blocks are is found by the lanes, a block each, so that the loads of which block and
 * of its page are waited for once.
 */
#include "attend_blocks.h"
#include "latent.h"

/* Up to 32 blocks from `first` on. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void attend_part_of_blocks(const halo_attend_blocks_args &a, const blocks_job &b, const uint32_t *pages,
                                       uint32_t first, latent_state<K_GROUPS> *state)
{
    const uint32_t n = halo_min_of(b.n_blocks - first, KV_PAGE), dim = a.blocks.kv.head_dim_k;
    const uint32_t code = seen_code(a, b, pages, first + halo_min_of(halo_lane(), n - 1));
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
    const blocks_job b = blocks_job_of(a, HALO_LATENT_HEADS);
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
