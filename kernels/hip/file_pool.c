/* file_pool.c: the host memory through which a discrete GPU's weights are read, used again and again.
 *
 * With fresh memory for each weight the kernel would have to find and clear a page for every page of the file. Here
 * weights take their slots one behind the other, in the order in which they are read, and from the beginning again at
 * the end; the oldest weight that is not committed yet is the limit. A slot is whole pages, and the bytes of a large
 * weight begin in it at an address congruent to their file offset, for direct reads.
 *
 * Weights whose experts lie in turns in one tensor of the file (fused gate and up) are read together: the pool holds
 * those, and `ahead` bytes more, so that reads go on while the largest weight is packed.
 *
 * Any thread.
 */
#include <assert.h>
#include <errno.h>

#include "device_priv.h"

static uint64_t add_or_max(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t pages_or_max(uint64_t n)
{
    return add_or_max(n, HALO_HIP_PAGE_BYTES - 1) / HALO_HIP_PAGE_BYTES * HALO_HIP_PAGE_BYTES;
}

static bool is_large(const struct halo_weight *w)
{
    return w->n_bytes >= HALO_HIP_SLACK_MIN;
}

static uint64_t shift_of(const struct halo_weight *w)
{
    return is_large(w) ? w->offset % HALO_HIP_PAGE_BYTES : 0;
}

static uint64_t slot_bytes(const struct halo_weight *w)
{
    return pages_or_max(add_or_max(shift_of(w), w->n_bytes));
}

/* Whether reading `w` has begun and not ended when the first byte of `then` is read. */
static bool is_being_read(const struct halo_weight *w, const struct halo_weight *then)
{
    uint32_t n = halo_weight_n_pieces(w);
    return w->streamed == 0 && w->part == then->part && w->offset <= then->offset &&
           then->offset - w->offset < add_or_max((n - 1) * w->expert_step, w->n_bytes / n);
}

/* What a pool must have so that there is a slot for `w` once everything that can be committed is: its slot, or, with
 * weights that are still being read, all of theirs and the largest of them again. For these may lie in the middle or
 * leave a gap at the end, and what is free beside them is in two parts. */
static uint64_t needed_bytes(const struct halo_plan *plan, const struct halo_weight *w)
{
    uint64_t sum = slot_bytes(w), largest = sum;
    bool alone = true;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *other = &plan->weights[i];
        if (other == w || !is_being_read(other, w))
            continue;
        uint64_t n = slot_bytes(other);
        sum = add_or_max(sum, n);
        largest = n > largest ? n : largest;
        alone = false;
    }
    return alone ? sum : add_or_max(sum, largest);
}

uint64_t halo_hip_pool_bytes(const struct halo_plan *plan, uint64_t ahead)
{
    uint64_t all = 0, needed = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *w = &plan->weights[i];
        if (w->streamed > 0)
            continue;
        uint64_t n = needed_bytes(plan, w);
        all = add_or_max(all, slot_bytes(w));
        needed = n > needed ? n : needed;
    }
    uint64_t n = pages_or_max(add_or_max(needed, ahead));
    return n < all ? n : all;
}

void halo_hip_pool_init(struct halo_hip_pool *pool, struct halo_hip_weight *weights, uint32_t *order,
                        uint32_t n_weights, uint64_t n_bytes)
{
    *pool = (struct halo_hip_pool){.weights = weights, .n_weights = n_weights, .order = order, .n_bytes = n_bytes};
    pthread_mutex_init(&pool->lock, NULL);
}

void halo_hip_pool_finish(struct halo_hip_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
}

/* Where n bytes are free, or UINT64_MAX. */
static uint64_t pool_find(const struct halo_hip_pool *pool, uint64_t n)
{
    if (pool->n == 0)
        return n <= pool->n_bytes ? 0 : UINT64_MAX;
    uint64_t tail = pool->weights[pool->order[pool->first]].slot;
    if (pool->head <= tail)
        return n <= tail - pool->head ? pool->head : UINT64_MAX;
    if (n <= pool->n_bytes - pool->head)
        return pool->head;
    return n <= tail ? 0 : UINT64_MAX;
}

int halo_hip_pool_take(struct halo_hip_pool *pool, uint32_t index)
{
    struct halo_hip_weight *w = &pool->weights[index];
    pthread_mutex_lock(&pool->lock);
    uint64_t n = slot_bytes(w->info), at = w->has_slot ? w->slot : pool_find(pool, n);
    if (!w->has_slot && at != UINT64_MAX) {
        assert(pool->n < pool->n_weights);
        w->has_slot = true;
        w->slot = at;
        w->data = at + shift_of(w->info);
        w->slack = is_large(w->info);
        pool->head = at + n;
        pool->order[(pool->first + pool->n++) % pool->n_weights] = index;
    }
    pthread_mutex_unlock(&pool->lock);
    return at == UINT64_MAX ? -EAGAIN : 0;
}

void halo_hip_pool_give_back(struct halo_hip_pool *pool, uint32_t index)
{
    pthread_mutex_lock(&pool->lock);
    pool->weights[index].has_slot = false;
    while (pool->n > 0 && !pool->weights[pool->order[pool->first]].has_slot) {
        pool->first = (pool->first + 1) % pool->n_weights;
        pool->n--;
    }
    pthread_mutex_unlock(&pool->lock);
}
