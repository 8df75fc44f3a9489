/* latent.hip: decode attention over a latent cache, on every chip.
 *
 * A block takes one split of one row for up to HALO_LATENT_HEADS heads, a wave four of them (latent.h). The waves of a
 * block read the same rows at about the same time, all but one of them from the first cache. Where there are matrix
 * units, f16 and q8 take latent_tiles.hip.
 */
#include "latent.h"

template <uint32_t TYPE> HALO_DEVICE void latent(const halo_attend_args &a, latent_lds &lds)
{
    const attend_job job = job_of(a, HALO_LATENT_HEADS);
    if (job.begin >= job.end)
        return;
    uint32_t n_heads;
    const uint32_t first = latent_heads(job, &n_heads);
    latent_state<K_GROUPS_MAX> state;
    latent_begin(a, job, first, n_heads, &state);
    latent_pages<TYPE, K_GROUPS_MAX>(a, job, job.begin, job.end, &state);
    latent_finish<TYPE>(a, job, first, n_heads, state, lds);
}

#define HALO_LATENT_KERNEL(TYPE, type)                                                                                 \
    HALO_KERNEL(latent_##type, halo_attend_args, 128)                                                                  \
    {                                                                                                                  \
        HALO_LDS(latent_lds, lds);                                                                                     \
        latent<HALO_KV_##TYPE>(a, lds);                                                                                \
    }
HALO_LATENT_KERNEL(F32, f32)
HALO_LATENT_KERNEL(F16, f16)
HALO_LATENT_KERNEL(Q8, q8)
