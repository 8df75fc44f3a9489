/* top.hip: the largest logits of a row, so that a step brings a few bytes to the host.
 *
 * largest: the one. A block reads the row, each thread keeps its best.
 * top: the k largest. A block has the orders of a part of the row in registers and finds that of the k-th largest bit
 * by bit, from the highest down: is a number with this bit reached by at least k? That is 32 counts at most, and fewer
 * when one finds exactly k, whatever k is. Of those that tie for the last places the first ones are found in the same
 * way. What is left is put in order by counting for each how many are before it. The lists of the parts are the row of
 * the next launch, until one part is all. Equal logits stand by rising id in them as in the row itself, so that a place
 * decides every tie.
 */
#include "order.h"

HALO_DEVICE halo_candidate candidate_of(float logit, uint32_t id, uint32_t order)
{
    return halo_candidate{logit, order == BROKEN ? -1 : (int32_t)id};
}

constexpr uint32_t LARGEST_THREADS = 1024, LARGEST_WAVES = LARGEST_THREADS / 32;

struct largest_lds {
    uint32_t order[LARGEST_WAVES], id[LARGEST_WAVES];
};

HALO_DEVICE void take_larger(float logit, uint32_t i, uint32_t *order, uint32_t *id)
{
    const uint32_t o = order_or_broken(logit);
    *id = o > *order ? i : *id;
    *order = o > *order ? o : *order;
}

HALO_KERNEL(largest, halo_top_args, 1024)
{
    HALO_LDS(largest_lds, lds);
    const uint32_t row = halo_block_y(), n = a.n, quads = n % 4 == 0 ? n / 4 : 0;
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
        a.to[row] = candidate_of(logits[id], id, order);
}

constexpr uint32_t TOP_THREADS = 256, TOP_WAVES = TOP_THREADS / 32, PER_THREAD = HALO_TOP_PART / TOP_THREADS;
static_assert(TOP_THREADS >= HALO_CANDIDATES_MAX, "a thread for each that is kept");
static_assert(PER_THREAD <= 32, "a bit for each number of a thread");

struct place_order {
    uint32_t order, place;
};
struct top_lds {
    uint32_t sums[2][TOP_WAVES];
    place_order best[HALO_CANDIDATES_MAX];
};

/* What a block knows of its part. A thread has the places tid, tid + TOP_THREADS, and so on. */
struct part {
    const float *logits; /* of its first place, or NULL: */
    const halo_candidate *from;
    uint32_t first, n;          /* place in the row; numbers in the part */
    uint32_t order[PER_THREAD]; /* 0: none, below every number */
    top_lds &lds;
    uint32_t round;
};

HALO_DEVICE uint32_t place_of(uint32_t j)
{
    return j * TOP_THREADS + halo_tid();
}

/* Whether the j-th place is before `end`; the difference is the same for all threads. */
HALO_DEVICE bool is_before(uint32_t j, uint32_t end)
{
    return (int32_t)halo_tid() < (int32_t)end - (int32_t)(j * TOP_THREADS);
}

HALO_DEVICE halo_candidate candidate_at(const part &p, uint32_t place)
{
    return p.logits ? halo_candidate{p.logits[place], (int32_t)(p.first + place)} : p.from[place];
}

/* Every thread loads, from the last place where there is none of its own: loads behind a branch would wait for each
 * other. What fills a short list has no id; what is broken has none either. */
HALO_DEVICE void load_orders(part &p)
{
    const uint32_t last = p.n - 1;
    if (p.logits) {
#pragma unroll
        for (uint32_t j = 0; j < PER_THREAD; j++)
            p.order[j] = order_or_broken(p.logits[halo_min_of(place_of(j), last)]);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < PER_THREAD; j++) {
            const halo_candidate c = p.from[halo_min_of(place_of(j), last)];
            p.order[j] = order_or_broken(c.logit);
            p.order[j] = c.id < 0 && p.order[j] != BROKEN ? 0 : p.order[j];
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        p.order[j] = is_before(j, p.n) ? p.order[j] : 0;
}

/* Sums over the block. There are two sets of partial ones, so that one barrier does. */
HALO_DEVICE uint32_t block_total(part &p, uint32_t n)
{
    uint32_t *sums = p.lds.sums[p.round++ & 1], total = 0;
    n += (uint32_t)halo_xor<16>((int)n);
    n += (uint32_t)halo_xor<8>((int)n);
    n += (uint32_t)halo_xor<4>((int)n);
    n += (uint32_t)halo_xor<2>((int)n);
    n += (uint32_t)halo_xor<1>((int)n);
    if (halo_lane() == 0)
        sums[halo_wave()] = n;
    halo_barrier();
    for (uint32_t w = 0; w < TOP_WAVES; w++)
        total += sums[w];
    return total;
}

/* How many of the block's are at least, or above, `border`. */
HALO_DEVICE uint32_t count_reaching(part &p, uint32_t border)
{
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        n += p.order[j] >= border;
    return block_total(p, n);
}
HALO_DEVICE uint32_t count_above(part &p, uint32_t border)
{
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        n += p.order[j] > border;
    return block_total(p, n);
}
HALO_DEVICE uint32_t count_ties(part &p, uint32_t border, uint32_t end)
{
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        n += p.order[j] == border && is_before(j, end);
    return block_total(p, n);
}

/* Those above the border are kept, and of those on it the ones at places before `end`. */
struct border {
    uint32_t order, end;
};

HALO_DEVICE border find_border(part &p, uint32_t keep)
{
    uint32_t order = 0, n = HALO_TOP_PART, last = 0;
    for (uint32_t bit = 1u << 31; bit && n != keep; bit >>= 1) {
        const uint32_t n_reaching = count_reaching(p, order | bit);
        if (n_reaching >= keep) {
            order |= bit;
            n = n_reaching;
        }
    }
    if (n == keep)
        return border{order, HALO_TOP_PART};
    const uint32_t n_ties = keep - count_above(p, order); /* that are kept */
    for (uint32_t bit = HALO_TOP_PART / 2; bit; bit >>= 1)
        if (count_ties(p, order, last | bit) < n_ties)
            last |= bit;
    return border{order, last + 1};
}

/* Brings what is kept together in LDS, in no order. */
HALO_DEVICE void gather(part &p, border b)
{
    uint32_t kept = 0, *sums = p.lds.sums[p.round++ & 1]; /* a bit for each number of the thread */
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        kept |= (uint32_t)(p.order[j] > b.order || (p.order[j] == b.order && is_before(j, b.end))) << j;
    const uint32_t n = (uint32_t)__builtin_popcount(kept);
    uint32_t at = n; /* then that of the lanes below as well */
    for (uint32_t d = 1; d < 32; d *= 2) {
        const uint32_t below = (uint32_t)halo_shuffle((int)at, (halo_lane() - d) & 31);
        at += halo_lane() >= d ? below : 0;
    }
    if (halo_lane() == 31)
        sums[halo_wave()] = at;
    halo_barrier();
    at -= n;
    for (uint32_t w = 0; w < TOP_WAVES; w++)
        at += w < halo_wave() ? sums[w] : 0;
#pragma unroll
    for (uint32_t j = 0; j < PER_THREAD; j++)
        if (kept >> j & 1)
            p.lds.best[at++] = place_order{p.order[j], place_of(j)};
    halo_barrier();
}

HALO_KERNEL(top, halo_top_args, 256)
{
    HALO_LDS(top_lds, lds);
    const uint32_t first = halo_block_x() * HALO_TOP_PART, n_parts = HALO_HIP_CEIL(a.n, HALO_TOP_PART);
    const uint64_t begin = (uint64_t)halo_block_y() * a.n + first;
    part p = {a.logits ? a.logits + begin : nullptr,
              a.logits ? nullptr : a.from + begin,
              first,
              halo_min_of(a.n - first, (uint32_t)HALO_TOP_PART),
              {},
              lds,
              0};
    load_orders(p);
    const uint32_t keep = halo_min_of(a.k, p.n), i = halo_tid();
    gather(p, find_border(p, keep));
    halo_candidate *to = a.to + ((uint64_t)halo_block_y() * n_parts + halo_block_x()) * a.k;
    if (i >= keep) {
        if (i < a.k)
            to[i] = halo_candidate{0, -1};
        return;
    }
    const place_order mine = lds.best[i];
    uint32_t rank = 0;
    for (uint32_t j = 0; j < keep; j++) {
        const place_order other = lds.best[j];
        rank += other.order > mine.order || (other.order == mine.order && other.place < mine.place);
    }
    const halo_candidate c = candidate_at(p, mine.place);
    to[rank] = candidate_of(c.logit, (uint32_t)c.id, mine.order);
}
