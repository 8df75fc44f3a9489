/* kv.hip: stores k and v of a row into the page of its position. A block takes one kv head of one row, a thread one
 * element. Of a latent page k is the one row that is kept. */
#include "hadamard.h"
#include "heads.h"
#include "kv_store.h"

template <uint32_t TYPE> HALO_DEVICE void write(const halo_kv_write_args &a)
{
    const uint32_t head = halo_block_x(), row = halo_block_y();
    const int32_t pos = a.kv.pos[row];
    if (pos < 0)
        return;
    uint8_t *page = kv_page(a.kv, row, (uint32_t)pos);
    const uint64_t index = (uint64_t)row * a.kv.n_head_kv + head;
    if (!a.v) {
        store_head<TYPE, true>(page, a.k + index * a.kv.head_dim_k, a.kv.head_dim_k, (uint32_t)pos % KV_PAGE,
                               halo_wave() * 32, 128);
        return;
    }
    store_head<TYPE, false>(kv_head_k<TYPE>(a.kv, page, head), a.k + index * a.kv.head_dim_k, a.kv.head_dim_k,
                            (uint32_t)pos % KV_PAGE, halo_wave() * 32, 128);
    store_head<TYPE, true>(kv_head_v<TYPE>(a.kv, page, head), a.v + index * a.kv.head_dim_v, a.kv.head_dim_v,
                           (uint32_t)pos % KV_PAGE, halo_wave() * 32, 128);
}

constexpr int ROTATED_DIM = 512; /* of a head, at most */
struct kv_write_lds {
    float x[2][ROTATED_DIM];
};

/* Rows in 4 bits are rotated first: K by one wave, V by another. */
HALO_DEVICE void write_rotated(const halo_kv_write_args &a, kv_write_lds &lds)
{
    constexpr int N = ROTATED_DIM / 32;
    const uint32_t head = halo_block_x(), row = halo_block_y(), value = halo_wave();
    const int32_t pos = a.kv.pos[row];
    if (pos < 0 || value > 1)
        return;
    const uint32_t dim = value ? a.kv.head_dim_v : a.kv.head_dim_k, at = (uint32_t)pos % KV_PAGE;
    uint8_t *page = kv_page(a.kv, row, (uint32_t)pos);
    float *x = lds.x[value], values[N];
    load_head<N>((value ? a.v : a.k) + ((uint64_t)row * a.kv.n_head_kv + head) * dim, dim, values);
    hadamard_strided<N>(dim, values);
    leave_head<N>(values, dim, x);
    if (value)
        store_head<HALO_KV_Q4, true>(kv_head_v<HALO_KV_Q4>(a.kv, page, head), x, dim, at, 0, 32);
    else
        store_head<HALO_KV_Q4, false>(kv_head_k<HALO_KV_Q4>(a.kv, page, head), x, dim, at, 0, 32);
}

HALO_KERNEL(kv_write_f32, halo_kv_write_args, 128)
{
    write<HALO_KV_F32>(a);
}
HALO_KERNEL(kv_write_f16, halo_kv_write_args, 128)
{
    write<HALO_KV_F16>(a);
}
HALO_KERNEL(kv_write_q8, halo_kv_write_args, 128)
{
    write<HALO_KV_Q8>(a);
}
HALO_KERNEL(kv_write_q4, halo_kv_write_args, 128)
{
    HALO_LDS(kv_write_lds, lds);
    write_rotated(a, lds);
}
