/* attend_heads.h: how decode attention prepares its heads: q in LDS and, where they come straight from their product,
 * the new entry of the cache. */
#ifndef HALO_GFX_ATTEND_HEADS_H
#define HALO_GFX_ATTEND_HEADS_H

#include "attend.h"
#include "hadamard.h"
#include "heads.h"
#include "kv_store.h"

/* Whether q, k and v come straight from their product: not for heads larger than those of heads_<kv type>. */
template <int D> HALO_DEVICE bool takes_product(const halo_attend_args &a)
{
    return D <= HALO_HEADS_DIM && a.k;
}

/* The tables of both, loaded where this kernel needs them. */
template <int D> struct attend_tables {
    head_tables<D / 32> q, k;
    HALO_DEVICE_MEMBER void load(const halo_attend_args &a, uint32_t row)
    {
        if (!takes_product<D>(a))
            return;
        const float *table = a.table + (uint64_t)row * a.n_rot;
        load_tables<D / 32>(a.q_weight, a.kv.head_dim_k, table, a.n_rot, &q);
        load_tables<D / 32>(a.k_weight, a.kv.head_dim_k, table, a.n_rot, &k);
    }
};

/* One head of q or k into LDS, normalised and rotated if this kernel does that. */
template <int D>
HALO_DEVICE void bring_head(const halo_attend_args &a, const head_tables<D / 32> &tables, float *values, float *x)
{
    if (takes_product<D>(a) && a.q_weight)
        norm_head<D / 32>(tables, a.kv.head_dim_k, a.eps, values);
    leave_head<D / 32>(values, D, x);
    if (takes_product<D>(a))
        rotate_head<D / 32>(tables, a.n_rot, a.neox, x);
}

/* The block's heads of q into LDS, and, for the split that has the row's own position, k and v there and into the
 * cache: each head by a wave. */
template <uint32_t TYPE, int G, int D, uint32_t WAVES, typename LDS>
HALO_DEVICE void bring_heads(const halo_attend_args &a, const attend_job &job, const attend_tables<D> &tables,
                             bool newest, LDS &lds)
{
    constexpr int N = D / 32;
    constexpr uint32_t K_WAVE = G % WAVES, V_WAVE = (G + 1) % WAVES, EACH = (G + WAVES - 1) / WAVES;
    const uint32_t wave = halo_wave(), dim = a.kv.head_dim_k, at = (uint32_t)job.pos % KV_PAGE;
    const float scale = kv_score_scale(a.score, job.pos);
    float fresh[N], values[EACH][N] = {};
    if (newest)
        load_head<N>((wave == K_WAVE ? a.k : a.v) + ((uint64_t)job.row * a.kv.n_head_kv + job.kv_head) * dim, dim,
                     fresh);
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        if (wave + WAVES * i < job.n_heads)
            load_head<N>(a.q + ((uint64_t)job.row * a.n_head + job.first_head + wave + WAVES * i) * dim, dim,
                         values[i]);
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t g = wave + WAVES * i;
        if (g >= G)
            break;
        if (g < job.n_heads) {
            bring_head<D>(a, tables.q, values[i], lds.q[g]);
            if constexpr (TYPE == HALO_KV_Q4)
                hadamard_row<N>(dim, lds.q[g]);
        } else {
            leave_head<N>(values[i], D, lds.q[g]);
        }
        for (uint32_t d = halo_lane(); d < D; d += 32)
            lds.q[g][d] *= scale;
    }
    if (!newest)
        return;
    uint8_t *page = kv_page(a.kv, job.row, (uint32_t)job.pos);
    if (wave == K_WAVE) {
        bring_head<D>(a, tables.k, fresh, lds.fresh[0]);
        if constexpr (TYPE == HALO_KV_Q4)
            hadamard_row<N>(dim, lds.fresh[0]);
        store_head<TYPE, false>(kv_head_k<TYPE>(a.kv, page, job.kv_head), lds.fresh[0], dim, at, 0, 32);
    } else if (wave == V_WAVE) {
        leave_head<N>(fresh, D, lds.fresh[1]);
        if constexpr (TYPE == HALO_KV_Q4)
            hadamard_row<N>(dim, lds.fresh[1]);
        store_head<TYPE, true>(kv_head_v<TYPE>(a.kv, page, job.kv_head), lds.fresh[1], dim, at, 0, 32);
    }
}

#endif
