/* heads.hip: what happens to the heads of q, k and v between their product and attention, in one launch: norm,
 * rotation, cache.
 *
 * A wave has one head, and keeps it in LDS of its own between the steps.
 */
#include "hadamard.h"
#include "heads.h"
#include "kv_store.h"

struct heads_lds {
    float x[HALO_HEAD_WAVES][HALO_HEADS_DIM];
};

template <uint32_t TYPE> HALO_DEVICE void heads(const halo_heads_args &a, float *x)
{
    constexpr int N = HALO_HEADS_DIM / 32;
    const uint32_t n_kv = a.kv.n_head_kv, dim = a.kv.head_dim_k, row = halo_block_y();
    const uint32_t index = halo_block_x() * HALO_HEAD_WAVES + halo_wave();
    if (index >= a.n_head + 2 * n_kv)
        return;
    const bool is_q = index < a.n_head, is_v = index >= a.n_head + n_kv;
    const uint32_t head = is_q ? index : is_v ? index - a.n_head - n_kv : index - a.n_head;
    const uint64_t at = ((uint64_t)row * (is_q ? a.n_head : n_kv) + head) * dim;
    head_tables<N> tables;
    load_tables<N>(is_q ? a.q_weight : a.k_weight, dim, a.table + (uint64_t)row * a.n_rot, a.n_rot, &tables);
    halo_inputs_ready();
    float values[N];
    load_head<N>((is_q ? a.q : is_v ? a.v : a.k) + at, dim, values);
    if (!is_v && a.q_weight)
        norm_head<N>(tables, dim, a.eps, values);
    leave_head<N>(values, dim, x);
    if (!is_v) {
        float *back = (is_q ? a.q : a.k) + at;
        rotate_head<N>(tables, a.n_rot, a.neox, x);
        for (uint32_t i = halo_lane(); i < dim; i += 32)
            back[i] = x[i];
    }
    const int32_t pos = a.kv.pos[row];
    if (is_q || pos < 0)
        return;
    uint8_t *page = kv_page(a.kv, row, (uint32_t)pos);
    if constexpr (TYPE == HALO_KV_Q4)
        hadamard_row<N>(dim, x);
    if (is_v)
        store_head<TYPE, true>(kv_head_v<TYPE>(a.kv, page, head), x, dim, (uint32_t)pos % KV_PAGE, 0, 32);
    else
        store_head<TYPE, false>(kv_head_k<TYPE>(a.kv, page, head), x, dim, (uint32_t)pos % KV_PAGE, 0, 32);
}

#define HALO_HEADS_KERNEL(TYPE, type)                                                                                  \
    HALO_KERNEL_EARLY(heads_##type, halo_heads_args, 256)                                                              \
    {                                                                                                                  \
        HALO_LDS(heads_lds, lds);                                                                                      \
        heads<HALO_KV_##TYPE>(a, lds.x[halo_wave()]);                                                                  \
    }
HALO_HEADS_KERNEL(F32, f32)
HALO_HEADS_KERNEL(F16, f16)
HALO_HEADS_KERNEL(Q8, q8)
HALO_HEADS_KERNEL(Q4, q4)
