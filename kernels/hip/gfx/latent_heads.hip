/* latent_heads.hip: with a latent cache, what happens between the product of q and the one that takes each head's q
 * down, in one launch: the norm of the compressed row, rotations, the new row of the cache.
 *
 * A wave has the row of the cache, or a head of q; what is rotated passes through LDS of its own.
 */
#include "heads.h"
#include "kv_store.h"
#include "rows.h"

constexpr int ROT = HALO_LATENT_ROT / 32, ROW = HALO_LATENT_DIM_V / 32, LOW = HALO_LATENT_LOW / 128;

struct latent_heads_lds {
    float x[HALO_HEAD_WAVES][HALO_LATENT_DIM_K];
};

/* The norm of c and the rotation of k_rot, beside each other in the cache. */
template <uint32_t TYPE>
HALO_DEVICE void cache_row(const halo_latent_heads_args &a, uint32_t row, const head_tables<ROT> &tables, float *x)
{
    const uint32_t dim = a.kv.head_dim_k, n = dim - a.n_rot;
    head_tables<ROW> norm = {};
    load_head<ROW>(a.weight, n, norm.weight);
    halo_inputs_ready();
    float c[ROW], rotated[ROT];
    load_head<ROW>(a.c + (uint64_t)row * n, n, c);
    load_head<ROT>(a.k_rot + (uint64_t)row * a.n_rot, a.n_rot, rotated);
    norm_head<ROW>(norm, n, a.eps, c);
    leave_head<ROW>(c, n, x);
    leave_head<ROT>(rotated, a.n_rot, x + n);
    rotate_head<ROT>(tables, a.n_table, a.neox, x + n);
    const int32_t pos = a.kv.pos[row];
    if (pos >= 0)
        store_head<TYPE, true>(kv_page(a.kv, row, (uint32_t)pos), x, dim, (uint32_t)pos % KV_PAGE, 0, 32);
}

HALO_DEVICE void query_head(const halo_latent_heads_args &a, uint32_t row, uint32_t head,
                            const head_tables<ROT> &tables, float *x)
{
    const uint32_t dim = a.kv.head_dim_k, n = a.n_low;
    const uint64_t index = (uint64_t)row * a.n_head + head;
    const float *from = a.q_up + index * (n + a.n_rot);
    halo_inputs_ready();
    float rotated[ROT];
    halo_f4 low[LOW];
    load_head<ROT>(from + n, a.n_rot, rotated);
    for (uint32_t k = 0; k < LOW; k++)
        low[k] = halo_load4(from, 4 * halo_lane() + 128 * k, n);
    for (uint32_t k = 0; k < LOW; k++) {
        const uint32_t i = 4 * halo_lane() + 128 * k;
        if (a.q_low)
            halo_store4(a.q_low + index * n, i, n, low[k]);
        if (a.act)
            halo_quantize4(low[k], i, n, static_cast<uint8_t *>(a.act) + index * halo_hip_act_bytes(n));
    }
    leave_head<ROT>(rotated, a.n_rot, x);
    rotate_head<ROT>(tables, a.n_table, a.neox, x);
    float *to = a.q + index * dim + dim - a.n_rot;
    for (uint32_t i = halo_lane(); i < a.n_rot; i += 32)
        to[i] = x[i];
}

template <uint32_t TYPE> HALO_DEVICE void latent_heads(const halo_latent_heads_args &a, float *x)
{
    const uint32_t row = halo_block_y(), index = halo_block_x() * HALO_HEAD_WAVES + halo_wave();
    if (index > a.n_head)
        return;
    head_tables<ROT> tables;
    load_tables<ROT>(nullptr, 0, a.table + (uint64_t)row * a.n_table, a.n_table, &tables);
    if (index == 0)
        cache_row<TYPE>(a, row, tables, x);
    else
        query_head(a, row, index - 1, tables, x);
}

#define HALO_LATENT_HEADS_KERNEL(TYPE, type)                                                                           \
    HALO_KERNEL_EARLY(latent_heads_##type, halo_latent_heads_args, 256)                                                \
    {                                                                                                                  \
        HALO_LDS(latent_heads_lds, lds);                                                                               \
        latent_heads<HALO_KV_##TYPE>(a, lds.x[halo_wave()]);                                                           \
    }
HALO_LATENT_HEADS_KERNEL(F32, f32)
HALO_LATENT_HEADS_KERNEL(F16, f16)
HALO_LATENT_HEADS_KERNEL(Q8, q8)
