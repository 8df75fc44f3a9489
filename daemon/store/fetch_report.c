/* fetch_report.c: what a halo_fetch says of itself. Any thread; takes the lock to copy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>

#include "fetch_priv.h"

enum halo_fetch_method halo_fetch_method(struct halo_fetch *f)
{
    pthread_mutex_lock(&f->lock);
    enum halo_fetch_method method = f->method;
    pthread_mutex_unlock(&f->lock);
    return method;
}

void halo_fetch_notices(struct halo_fetch *f, struct halo_remarks *ret)
{
    pthread_mutex_lock(&f->lock);
    *ret = f->notices;
    pthread_mutex_unlock(&f->lock);
}

/* With the lock held. */
static const struct fetch_block *block_oldest(const struct halo_fetch *f)
{
    const struct fetch_block *oldest = NULL;
    for (uint32_t i = 0; i < f->options.depth; i++) {
        const struct fetch_block *block = &f->blocks[i];
        if (block->read && !halo_list_is_linked(&block->node) && (!oldest || block->begun_ns < oldest->begun_ns))
            oldest = block;
    }
    return oldest;
}

void halo_fetch_in_flight(struct halo_fetch *f, struct halo_fetch_in_flight *ret)
{
    *ret = (struct halo_fetch_in_flight){0};
    pthread_mutex_lock(&f->lock);
    const struct fetch_block *block = block_oldest(f);
    ret->n_demand = (uint32_t)f->queued[HALO_FETCH_DEMAND].n;
    ret->n_ahead = (uint32_t)f->queued[HALO_FETCH_AHEAD].n;
    if (block) {
        ret->n_blocks = f->n_in_flight;
        ret->slot = block->read->asked.slot;
        ret->generation = block->read->asked.generation;
        ret->file = block->read->asked.file;
        ret->offset = block->offset;
        ret->n_bytes = block->n;
        ret->since_ns = block->begun_ns;
    }
    pthread_mutex_unlock(&f->lock);
}

void halo_fetch_describe(struct halo_fetch *f, char *text, size_t size)
{
    char name[FETCH_NAME_BYTES];
    struct halo_fetch_in_flight now;
    text[0] = '\0';
    halo_fetch_in_flight(f, &now);
    if (now.n_blocks == 0)
        return;
    pthread_mutex_lock(&f->lock);
    memcpy(name, f->files[now.file].name, sizeof(name));
    pthread_mutex_unlock(&f->lock);
    snprintf(text, size,
             "%" PRIu64 " bytes at %" PRIu64 " of %s, in flight for %.1f s; blocks in flight: %u, reads queued: %u",
             now.n_bytes, now.offset, name, (double)(halo_clock_ns() - now.since_ns) / 1e9, now.n_blocks,
             now.n_demand + now.n_ahead);
}

void halo_fetch_stats(struct halo_fetch *f, struct halo_fetch_stats *ret)
{
    pthread_mutex_lock(&f->lock);
    *ret = f->stats;
    if (f->n_in_flight > 0)
        ret->busy_ns += halo_clock_ns() - f->busy_since_ns;
    pthread_mutex_unlock(&f->lock);
}
