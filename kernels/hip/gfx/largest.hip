/* largest.hip: the id of the largest logit, so that greedy decoding brings a few bytes to the host. */
#include "order.h"

constexpr uint32_t LARGEST_THREADS = 1024, LARGEST_WAVES = LARGEST_THREADS / 32;
constexpr uint32_t BROKEN = UINT32_MAX; /* the order of a NaN or an infinity: above all numbers here */

struct largest_lds { uint32_t order[LARGEST_WAVES], id[LARGEST_WAVES]; };

HALO_DEVICE void take_larger(float logit, uint32_t i, uint32_t *order, uint32_t *id)
{
    const bool broken = (halo_float_bits(logit) & 0x7f800000) == 0x7f800000;
    const uint32_t o = broken ? BROKEN : order_of(logit);
    *id = o > *order ? i : *id;
    *order = o > *order ? o : *order;
}

HALO_KERNEL(largest, halo_largest_args, 1024)
{
    HALO_LDS(largest_lds, lds);
    const uint32_t row = halo_block_x(), n = a.n, quads = n % 4 == 0 ? n / 4 : 0;
    const float *logits = a.logits + (uint64_t)row * n;
    uint32_t order = 0, id = UINT32_MAX;
#pragma unroll 4
    for (uint32_t i = halo_tid(); i < quads; i += LARGEST_THREADS) {
        const halo_f4 v = halo_load<halo_f4>(logits, i);
        for (uint32_t j = 0; j < 4; j++)
            take_larger(v.e[j], 4 * i + j, &order, &id);
    }
    for (uint32_t i = 4 * quads + halo_tid(); i < n; i += LARGEST_THREADS)
        take_larger(logits[i], i, &order, &id);
    wave_best(&order, &id);
    if (halo_lane() == 0) {
        lds.order[halo_wave()] = order;
        lds.id[halo_wave()] = id;
    }
    halo_barrier();
    order = lds.order[halo_lane()];
    id = lds.id[halo_lane()];
    wave_best(&order, &id);
    if (halo_tid() == 0)
        a.id[row] = order == BROKEN ? -1 : (int32_t)id;
}
