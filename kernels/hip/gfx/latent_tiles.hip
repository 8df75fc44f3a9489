/* latent_tiles.hip: attention over a latent cache by matrix tiles (latent_tiles.h): of prompts, and of single rows of
 * an f16 or q8 cache. Chips without matrix units have none of these kernels and use latent.hip. */
#include "gfx.h"

#if !defined(HALO_NO_MATRIX)
#include "latent_tiles.h"

/* Of a prompt's tile: no splits. */
HALO_DEVICE tiles_job prompt_job(const halo_attend_args &a)
{
    const halo_prefill_tile tile = a.tile[halo_block_x()];
    const uint32_t n_all = tile.n_rows * a.n_head, first = halo_block_y() * QUERIES;
    tiles_job job = {};
    if (first >= n_all || a.kv.pos[tile.first_row] < 0)
        return job;
    job.row = tile.first_row;
    job.first = first;
    job.n = halo_min_of(n_all - first, QUERIES);
    job.pos = (uint32_t)a.kv.pos[tile.first_row];
    job.begin = kv_lowest(a.score, (int32_t)(job.pos + first / a.n_head));
    job.end = job.pos + (first + job.n - 1) / a.n_head + 1;
    job.n_splits = 1;
    return job;
}

/* Of a split of a single row. */
HALO_DEVICE tiles_job row_job(const halo_attend_args &a)
{
    const attend_job of = job_of(a, QUERIES);
    tiles_job job = {of.row, of.first_head, of.n_heads, (uint32_t)of.pos, 0, 0, of.n_splits};
    if (of.begin < of.end) {
        job.begin = of.begin * KV_PAGE + hidden_of(of, of.begin);
        job.end = halo_min_of(of.end * KV_PAGE, job.pos + 1);
    }
    return job;
}

template <uint32_t TYPE> HALO_DEVICE void latent_tiles(const halo_attend_args &a, latent_tiles_lds &lds)
{
    const tiles_job job = a.tile ? prompt_job(a) : row_job(a);
    if (job.begin >= job.end)
        return;
    tiles_wave w = tiles_wave_of(a, job);
    tiles_q all;
    tiles_load_q(a, job, &all);
    tiles_step<TYPE> step;
    uint32_t base = job.begin / KEYS * KEYS;
    tiles_load<TYPE>(a, job, base, &step);
    halo_frag q[STEPS];
    tiles_put_q(a, job, all, w.index, w.part, lds, q);
    tiles_clear(a, lds.step);
    halo_acc out[TILES] = {};
#pragma unroll 1
    for (; base < job.end; base += KEYS) {
        tiles_put<TYPE>(a, step, lds.step);
        if (base + KEYS < job.end)
            tiles_load<TYPE>(a, job, base + KEYS, &step);
        tiles_take(a, base, q, &w, lds.step, out);
    }
    tiles_finish<TYPE>(a, job, w, lds, out);
}

#define HALO_LATENT_TILES_KERNEL(TYPE, type)                                                                           \
    HALO_KERNEL_RESIDENT(latent_tiles_##type, halo_attend_args, 256, 1)                                                \
    {                                                                                                                  \
        HALO_LDS(latent_tiles_lds, lds);                                                                               \
        halo_inputs_ready();                                                                                           \
        latent_tiles<HALO_KV_##TYPE>(a, lds);                                                                          \
    }
HALO_LATENT_TILES_KERNEL(F32, f32)
HALO_LATENT_TILES_KERNEL(F16, f16)
HALO_LATENT_TILES_KERNEL(Q8, q8)
#endif
