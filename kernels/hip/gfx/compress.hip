/* compress.hip: the keys of some positions become one row of the cache.
 *
 * compress: a thread has one element of one sequence and takes the rows in order, some of which are loaded together, so
 * that their latencies overlap. The softmax goes on from one position to the next, so that a block has the same bits
 * however its positions come. compress_store: a wave has a row that ends a block.
 */
#include "blocks.h"
#include "heads.h"
#include "kv_store.h"
#include "state.h"

constexpr uint32_t TOGETHER = 4; /* rows */

/* The softmax so far of one element of a block. Without a position its sum is 0. */
struct block_softmax {
    float max, sum, out;
};

HALO_DEVICE void softmax_take(block_softmax &b, float u, float score)
{
    const float factor = halo_exp(-halo_abs(score - b.max));
    const bool first = b.sum == 0, larger = first || score > b.max;
    const float keep = first ? 0 : larger ? factor : 1, gain = larger ? 1 : factor;
    b.max = larger ? score : b.max;
    b.sum = first ? 1 : halo_fma(b.sum, keep, gain);
    b.out = first ? u : halo_fma(b.out, keep, gain * u);
}

HALO_DEVICE block_softmax softmax_load(const state_rows &s, uint32_t at, uint32_t dim)
{
    return s.begins ? block_softmax{0, 0, 0} : block_softmax{s.state[at], s.state[at + dim], s.state[at + 2 * dim]};
}

HALO_DEVICE void softmax_store(const state_rows &s, uint32_t at, uint32_t dim, const block_softmax &b)
{
    s.state[at] = b.max;
    s.state[at + dim] = b.sum;
    s.state[at + 2 * dim] = b.out;
}

/* Elements of u and scores, of a row's own block and of the next one. */
struct compress_row {
    float u[2], score[2];
};

template <bool OVERLAP> HALO_DEVICE void compress(const halo_compress_args &a)
{
    const uint32_t c = halo_block_x() * HALO_COMPRESS_COLS + halo_tid(), dim = a.dim;
    constexpr uint32_t HALVES = OVERLAP ? 2 : 1;
    const uint32_t width = HALVES * dim;
    if (c >= dim)
        return;
    const state_rows s = state_rows_of(a.state, halo_block_y());
    block_softmax now = softmax_load(s, c, dim), next = {0, 0, 0};
    if (OVERLAP)
        next = softmax_load(s, 3 * dim + c, dim);
    uint32_t phase = (uint32_t)a.state.pos[s.first] % a.ratio;
    for (uint32_t r = 0; r < s.n_rows; r += TOGETHER) {
        compress_row rows[TOGETHER];
        uint32_t ahead = phase;
#pragma unroll
        for (uint32_t j = 0; j < TOGETHER; j++) {
            const uint64_t at = (uint64_t)(s.first + halo_min_of(r + j, s.n_rows - 1)) * width + c;
#pragma unroll
            for (uint32_t h = 0; h < HALVES; h++) { /* the last half is the block's own */
                const uint32_t half = (HALVES - 1 - h) * dim;
                rows[j].u[h] = a.u[at + half];
                rows[j].score[h] = a.z[at + half] + a.bias[(uint64_t)ahead * width + c + half];
            }
            ahead = ahead + 1 == a.ratio ? 0 : ahead + 1;
        }
#pragma unroll
        for (uint32_t j = 0; j < TOGETHER; j++) {
            if (r + j >= s.n_rows)
                break;
            if (phase == 0) {
                now = next;
                next = {0, 0, 0};
            }
            softmax_take(now, rows[j].u[0], rows[j].score[0]);
            if (OVERLAP)
                softmax_take(next, rows[j].u[HALVES - 1], rows[j].score[HALVES - 1]);
            phase = phase + 1 == a.ratio ? 0 : phase + 1;
            if (phase == 0)
                a.u[(uint64_t)(s.first + r + j) * width + c] = now.out / now.sum;
        }
    }
    softmax_store(s, c, dim, now);
    if (OVERLAP)
        softmax_store(s, 3 * dim + c, dim, next);
}

HALO_KERNEL(compress, halo_compress_args, 32)
{
    if (a.overlap)
        compress<true>(a);
    else
        compress<false>(a);
}

constexpr int STORE_N = HALO_LATENT_DIM_K / 32;
struct compress_store_lds {
    float x[HALO_LATENT_DIM_K];
};

template <uint32_t TYPE> HALO_DEVICE void compress_store(const halo_compress_store_args &a, float *x)
{
    const halo_blocks_arg &b = a.blocks;
    const uint32_t row = halo_block_x(), dim = b.kv.head_dim_k, pos = (uint32_t)b.kv.pos[row];
    if ((pos + 1) % b.ratio != 0)
        return;
    head_tables<STORE_N> tables;
    float values[STORE_N];
    load_tables<STORE_N>(a.norm, dim, a.table + (uint64_t)row * a.n_rot, a.n_rot, &tables);
    load_head<STORE_N>(a.u + (uint64_t)row * a.u_stride, dim, values);
    norm_head<STORE_N>(tables, dim, a.eps, values);
    leave_head<STORE_N>(values, dim, x);
    rotate_head<STORE_N>(tables, a.n_rot, a.neox, x + dim - a.n_rot);
    const block_place place = block_place_of(b, block_pages(b, row), pos / b.ratio);
    store_head<TYPE, true>(place.page, x, dim, place.row, 0, 32, b.page_rows);
}

#define HALO_COMPRESS_STORE_KERNEL(TYPE, type)                                                                         \
    HALO_KERNEL(compress_store_##type, halo_compress_store_args, 32)                                                   \
    {                                                                                                                  \
        HALO_LDS(compress_store_lds, lds);                                                                             \
        compress_store<HALO_KV_##TYPE>(a, lds.x);                                                                      \
    }
HALO_COMPRESS_STORE_KERNEL(F32, f32)
HALO_COMPRESS_STORE_KERNEL(F16, f16)
HALO_COMPRESS_STORE_KERNEL(Q8, q8)
