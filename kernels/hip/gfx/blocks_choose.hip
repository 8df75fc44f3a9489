/* blocks_choose.hip: the compressed blocks with the largest scores.
 *
 * block_scores: a thread has the key of one block in registers, and q of some heads is in LDS, where all threads read
 * the same element. blocks_choose: a block has the orders of a row, the first of them in registers, and finds that of
 * the last block that is chosen bit by bit, as top.hip does; then the blocks are taken in ascending order, of those
 * that tie for the last places the first ones.
 */
#include "blocks.h"
#include "order.h"
#include "rows.h"

constexpr uint32_t SCORE_THREADS = 128, SCORE_HEADS = 32, KEY_PARTS = HALO_KEY_DIM / 4;
struct scores_lds {
    alignas(16) float q[SCORE_HEADS][HALO_KEY_DIM];
    float weight[SCORE_HEADS];
};

/* Heads first .. first + n - 1 of a row into LDS; elements beyond the key are zero. */
HALO_DEVICE void bring_queries(const halo_block_scores_args &a, uint32_t row, uint32_t first, uint32_t n,
                               scores_lds &lds)
{
    const uint32_t dim = a.blocks.kv.head_dim_k;
    const float *q = a.q + ((uint64_t)row * a.n_head + first) * dim;
    halo_barrier();
    for (uint32_t i = halo_tid(); i < n * KEY_PARTS; i += SCORE_THREADS) {
        const uint32_t head = i / KEY_PARTS, d = i % KEY_PARTS * 4;
        *reinterpret_cast<halo_f4 *>(&lds.q[head][d]) =
            d < dim ? halo_load<halo_f4>(q + head * dim + d) : halo_f4{{0, 0, 0, 0}};
    }
    if (halo_tid() < n)
        lds.weight[halo_tid()] = a.weight[(uint64_t)row * a.n_head + first + halo_tid()] * a.scale;
    halo_barrier();
}

template <uint32_t TYPE> HALO_DEVICE void block_scores(const halo_block_scores_args &a, scores_lds &lds)
{
    const halo_blocks_arg &b = a.blocks;
    const uint32_t row = halo_block_z(), dim = b.kv.head_dim_k, n_blocks = blocks_seen(b, b.kv.pos[row]);
    if (n_blocks <= a.top_k)
        return;
    const uint32_t *pages = block_pages(b, row);
    for (uint32_t base = halo_block_x() * SCORE_THREADS; base < n_blocks; base += a.n_splits * SCORE_THREADS) {
        const uint32_t block = base + halo_tid();
        const block_place place = block_place_of(b, pages, halo_min_of(block, n_blocks - 1));
        float key[HALO_KEY_DIM], score = 0;
#pragma unroll
        for (uint32_t k = 0; k < KEY_PARTS; k++) {
            kv_values<TYPE, 4> part;
            part.load(place.page, dim, place.row, 4 * k < dim ? 4 * k : 0, b.page_rows);
#pragma unroll
            for (int e = 0; e < 4; e++)
                key[4 * k + (uint32_t)e] = part.get(e);
        }
        for (uint32_t first = 0; first < a.n_head; first += SCORE_HEADS) {
            const uint32_t n = halo_min_of(a.n_head - first, SCORE_HEADS);
            bring_queries(a, row, first, n, lds);
#pragma unroll 1
            for (uint32_t h = 0; h < n; h++) {
                halo_f4 sum = {{0, 0, 0, 0}};
#pragma unroll
                for (uint32_t k = 0; k < KEY_PARTS; k++) {
                    const halo_f4 q = halo_load<halo_f4>(&lds.q[h][4 * k]);
#pragma unroll
                    for (uint32_t e = 0; e < 4; e++)
                        sum.e[e] = halo_fma(q.e[e], key[4 * k + e], sum.e[e]);
                }
                const float product = (sum.e[0] + sum.e[1]) + (sum.e[2] + sum.e[3]);
                score = halo_fma(lds.weight[h], product > 0 || product != product ? product : 0, score);
            }
        }
        if (block < n_blocks)
            a.order[(uint64_t)row * a.n_most + block] = order_of(score);
    }
}

#define HALO_BLOCK_SCORES_KERNEL(TYPE, type)                                                                           \
    HALO_KERNEL(block_scores_##type, halo_block_scores_args, 128)                                                      \
    {                                                                                                                  \
        HALO_LDS(scores_lds, lds);                                                                                     \
        block_scores<HALO_KV_##TYPE>(a, lds);                                                                          \
    }
HALO_BLOCK_SCORES_KERNEL(F32, f32)
HALO_BLOCK_SCORES_KERNEL(F16, f16)
HALO_BLOCK_SCORES_KERNEL(Q8, q8)

constexpr uint32_t CHOOSE_THREADS = 256, CHOOSE_WAVES = CHOOSE_THREADS / 32;
constexpr uint32_t HELD = 32; /* orders of a thread in registers: those of the first 8192 blocks */
struct choose_lds {
    uint32_t sums[2][CHOOSE_WAVES];
};

/* The orders of a row's blocks. A thread has blocks tid, tid + CHOOSE_THREADS, and so on. */
struct choice {
    const uint32_t *order;
    uint32_t n, held[HELD]; /* 0: none, below every number */
    choose_lds &lds;
    uint32_t round;
};

/* The sum over the threads in front of this one, and the total. Two sets of partial sums, so that one barrier does. */
struct block_sums {
    uint32_t before, all;
};
HALO_DEVICE block_sums sum_up(choice &c, uint32_t n)
{
    uint32_t *sums = c.lds.sums[c.round++ & 1], at = n;
    for (uint32_t d = 1; d < 32; d *= 2) {
        const uint32_t below = (uint32_t)halo_shuffle((int)at, (halo_lane() - d) & 31);
        at += halo_lane() >= d ? below : 0;
    }
    if (halo_lane() == 31)
        sums[halo_wave()] = at;
    halo_barrier();
    block_sums ret = {at - n, 0};
    for (uint32_t w = 0; w < CHOOSE_WAVES; w++) {
        ret.before += w < halo_wave() ? sums[w] : 0;
        ret.all += sums[w];
    }
    return ret;
}

HALO_DEVICE uint32_t count_reaching(choice &c, uint32_t border)
{
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < HELD; j++)
        n += c.held[j] >= border;
    for (uint32_t i = HELD * CHOOSE_THREADS + halo_tid(); i < c.n; i += CHOOSE_THREADS)
        n += c.order[i] >= border;
    return sum_up(c, n).all;
}

/* The order of the last block of top_k, and how many blocks that have it are taken. */
struct border {
    uint32_t order, n_ties;
};
HALO_DEVICE border find_border(choice &c, uint32_t top_k)
{
    uint32_t order = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1)
        order |= count_reaching(c, order | bit) >= top_k ? bit : 0;
    return {order, top_k - count_reaching(c, order + 1)};
}

HALO_KERNEL(blocks_choose, halo_blocks_choose_args, 256)
{
    HALO_LDS(choose_lds, lds);
    const uint32_t row = halo_block_x(), n_blocks = a.pos[row] < 0 ? 0 : ((uint32_t)a.pos[row] + 1) / a.ratio;
    int32_t *out = a.out + (uint64_t)row * a.top_k;
    if (n_blocks <= a.top_k) {
        for (uint32_t i = halo_tid(); i < a.top_k; i += CHOOSE_THREADS)
            out[i] = i < n_blocks ? (int32_t)i : -1;
        return;
    }
    choice c = {a.order + (uint64_t)row * a.n_most, n_blocks, {}, lds, 0};
#pragma unroll
    for (uint32_t j = 0; j < HELD; j++) {
        const uint32_t i = j * CHOOSE_THREADS + halo_tid();
        const uint32_t order = c.order[halo_min_of(i, n_blocks - 1)];
        c.held[j] = i < n_blocks ? order : 0;
    }
    const border border = find_border(c, a.top_k);
    uint32_t n_above = 0, n_ties = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < n_blocks; first += CHOOSE_THREADS) {
        const uint32_t i = first + halo_tid(), order = i < n_blocks ? c.order[i] : 0;
        const bool above = order > border.order, ties = order == border.order;
        const block_sums sums = sum_up(c, (uint32_t)above | (uint32_t)ties << 16);
        const uint32_t ties_before = n_ties + (sums.before >> 16);
        if (above || (ties && ties_before < border.n_ties))
            out[n_above + (sums.before & 0xffff) + halo_min_of(ties_before, border.n_ties)] = (int32_t)i;
        n_above += sums.all & 0xffff;
        n_ties += sums.all >> 16;
    }
}
