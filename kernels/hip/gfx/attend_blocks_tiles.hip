/* attend_blocks_tiles.hip: attention over the window of a row and over compressed blocks by matrix tiles
 * (latent_tiles.h), of a cache in f16 or q8. Chips without matrix units have none of these kernels and use
 * attend_blocks.hip.
 *
 * The queries of a block are heads of one row of the batch, of prompts too: each row chooses blocks of its own. A step
 * is 16 positions of the window or, behind them, 16 blocks. A thread loads parts of the same two rows of the cache in
 * every step, and finds out a step ahead where they are.
 */
#include "gfx.h"

#if !defined(HALO_NO_MATRIX)
#include "attend_blocks.h"
#include "latent_tiles.h"

struct blocks_tiles {
    blocks_job b;
    tiles_job job;
    const uint32_t *pages; /* of the blocks */
    uint32_t n_window;     /* steps */
};

/* Page and row of the thread's two blocks. */
struct tiles_codes {
    uint32_t code[2];
};

HALO_DEVICE tiles_codes codes_of(const halo_attend_blocks_args &a, const blocks_tiles &t, uint32_t step)
{
    tiles_codes ret = {};
    if (step < t.n_window)
        return ret;
    const uint32_t first = (step - t.n_window) * KEYS + halo_tid() % (KEYS / 2) * 2;
    for (uint32_t j = 0; j < 2; j++)
        ret.code[j] = seen_code(a, t.b, t.pages, halo_min_of(first + j, t.b.n_blocks - 1));
    return ret;
}

HALO_DEVICE uint32_t window_base(const blocks_tiles &t, uint32_t step)
{
    return t.b.job.lowest / KV_PAGE * KV_PAGE + step * KEYS;
}

template <uint32_t TYPE>
HALO_DEVICE void blocks_load(const halo_attend_blocks_args &a, const blocks_tiles &t, uint32_t step,
                             const tiles_codes &codes, tiles_step<TYPE> *ret)
{
    const uint32_t dim = a.blocks.kv.head_dim_k;
    if (step < t.n_window) {
        tiles_load<TYPE>(a.attend, t.job, window_base(t, step), ret);
        return;
    }
    for (uint32_t j = 0; j < 2; j++) {
        const block_place place = block_place_at(a.blocks, codes.code[j]);
        for (uint32_t n = 0; n < LOADS; n++) {
            const uint32_t d = (halo_tid() + THREADS * n) / (KEYS / 2) * CHUNK;
            if (d < dim)
                ret->chunk[n][j].load(place.page, dim, place.row, d, a.blocks.page_rows);
        }
    }
}

template <uint32_t TYPE> HALO_DEVICE void attend_blocks_tiles(const halo_attend_blocks_args &a, latent_tiles_lds &lds)
{
    blocks_tiles t = {blocks_job_of(a, QUERIES), {}, nullptr, 0};
    const attend_job &of = t.b.job;
    if (of.begin >= of.end)
        return;
    t.job = {of.row, of.first_head, of.n_heads, (uint32_t)of.pos, 0, (uint32_t)of.pos + 1, of.n_splits};
    t.pages = block_pages(a.blocks, of.row);
    t.n_window = t.b.n_window * (KV_PAGE / KEYS);
    tiles_wave w = tiles_wave_of(a.attend, t.job);
    tiles_q all;
    tiles_load_q(a.attend, t.job, &all);
    tiles_step<TYPE> step;
    uint32_t s = of.begin * (KV_PAGE / KEYS);
    const uint32_t end = of.end * (KV_PAGE / KEYS);
    blocks_load<TYPE>(a, t, s, codes_of(a, t, s), &step);
    tiles_codes next = s + 1 < end ? codes_of(a, t, s + 1) : tiles_codes{};
    halo_frag q[STEPS];
    tiles_put_q(a.attend, t.job, all, w.index, w.part, lds, q);
    tiles_clear(a.attend, lds.step);
    halo_acc out[TILES] = {};
#pragma unroll 1
    for (; s < end; s++) {
        const bool window = s < t.n_window;
        tiles_put<TYPE>(a.attend, step, lds.step);
        if (s + 1 < end)
            blocks_load<TYPE>(a, t, s + 1, next, &step);
        if (s + 2 < end)
            next = codes_of(a, t, s + 2);
        w.own.lowest = window ? of.lowest : 0;
        w.own.pos = window ? (uint32_t)of.pos : t.b.n_blocks - 1;
        tiles_take(a.attend, window ? window_base(t, s) : (s - t.n_window) * KEYS, q, &w, lds.step, out);
    }
    tiles_finish<TYPE>(a.attend, t.job, w, lds, out);
}

#define HALO_ATTEND_BLOCKS_TILES_KERNEL(TYPE, type)                                                                    \
    HALO_KERNEL_RESIDENT(attend_blocks_tiles_##type, halo_attend_blocks_args, 256, 1)                                  \
    {                                                                                                                  \
        HALO_LDS(latent_tiles_lds, lds);                                                                               \
        halo_inputs_ready();                                                                                           \
        attend_blocks_tiles<HALO_KV_##TYPE>(a, lds);                                                                   \
    }
HALO_ATTEND_BLOCKS_TILES_KERNEL(F16, f16)
HALO_ATTEND_BLOCKS_TILES_KERNEL(Q8, q8)
#endif
