/* fetch_block.c: which block is next, and what to make of the result of an attempt, for both back ends.
 * Which calls need the lock: fetch_priv.h.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <base/clock.h>

#include "direct_priv.h"
#include "fetch_priv.h"

/* Demand first; ahead reads may fill only part of the queue, so that a demand read never waits behind all of it. */
static struct fetch_read *read_next(struct halo_fetch *f)
{
    struct halo_list_node *node = f->queued[HALO_FETCH_DEMAND].first;
    if (!node && !f->paused && f->n_ahead_in_flight < f->options.ahead_depth)
        node = f->queued[HALO_FETCH_AHEAD].first;
    return HALO_LIST_ITEM(node, struct fetch_read, node);
}

static void block_aim(struct halo_fetch *f, struct fetch_block *block)
{
    const struct fetch_file *file = &f->files[block->read->asked.file];
    block->direct = file->direct;
    block->fd = file->direct ? file->fd_direct : file->fd;
}

static void block_begin(struct halo_fetch *f, struct fetch_block *block, uint64_t now_ns)
{
    block->ahead = block->read->asked.priority == HALO_FETCH_AHEAD;
    block->begun_ns = now_ns;
    f->n_ahead_in_flight += block->ahead;
    if (f->n_in_flight++ == 0)
        f->busy_since_ns = now_ns;
    block_aim(f, block);
}

/* No longer in flight. */
static void block_leave(struct halo_fetch *f, struct fetch_block *block, uint64_t now_ns)
{
    assert(f->n_in_flight > 0);
    f->n_ahead_in_flight -= block->ahead;
    if (--f->n_in_flight == 0)
        f->stats.busy_ns += now_ns - f->busy_since_ns;
}

struct fetch_block *fetch_block_next(struct halo_fetch *f)
{
    struct fetch_block *block = HALO_LIST_ITEM(f->blocks_returned.first, struct fetch_block, node);
    if (!block) {
        block = HALO_LIST_ITEM(f->blocks_idle.first, struct fetch_block, node);
        struct fetch_read *read = block ? read_next(f) : NULL;
        if (!read)
            return NULL;
        fetch_read_cut(f, read, block);
    }
    halo_list_remove(&block->node);
    block_begin(f, block, halo_clock_ns());
    return block;
}

struct fetch_attempt fetch_block_attempt(const struct fetch_block *block)
{
    return (struct fetch_attempt){.fd = block->fd,
                                  .at = (block->bounced ? block->bounce : block->dest) + block->got,
                                  .n = block->n - block->got,
                                  .offset = block->offset + block->got};
}

void fetch_block_landed(const struct fetch_block *block, int64_t result)
{
    if (result <= 0)
        return;
    if (block->bounced)
        memcpy(block->dest + block->got, block->bounce + block->got, (size_t)result);
    if (!block->direct) {
        uint64_t from = block->offset + halo_hull_begin(block->got);
        posix_fadvise(block->fd, (off_t)from, (off_t)block->got + result - (off_t)halo_hull_begin(block->got),
                      POSIX_FADV_DONTNEED);
    }
}

static void latency_count(struct halo_fetch_stats *stats, uint64_t elapsed_ns)
{
    uint64_t us = elapsed_ns / 1000;
    unsigned i = us == 0 ? 0 : 63 - (unsigned)__builtin_clzll(us);
    stats->latency_us[i < HALO_FETCH_LATENCIES ? i : HALO_FETCH_LATENCIES - 1]++;
    stats->n_blocks++;
}

static bool block_fail(struct halo_fetch *f, struct fetch_block *block, int error)
{
    struct fetch_read *read = block->read;
    if (!read->error)
        read->failed_at = block->offset + block->got;
    fetch_read_fail(f, read, error);
    return false;
}

static bool block_again(struct halo_fetch *f, struct fetch_block *block, int error)
{
    if (++block->tries > DIRECT_TRIES)
        return block_fail(f, block, error);
    f->stats.n_retries++;
    return true;
}

/* Fewer bytes came than needed: either the file ends there, or the kernel wants to be asked again. */
static bool block_short(struct halo_fetch *f, struct fetch_block *block)
{
    struct stat facts;
    if (fstat(block->fd, &facts) < 0)
        return block_fail(f, block, -errno);
    if ((uint64_t)facts.st_size < block->offset + block->need) {
        if (!block->read->error)
            block->read->file_bytes = (uint64_t)facts.st_size;
        return block_fail(f, block, -ENODATA);
    }
    if (block->direct) /* the next direct read has to begin on a boundary again */
        block->got = (uint32_t)halo_hull_begin(block->got);
    return block_again(f, block, -EIO);
}

static bool block_bytes(struct halo_fetch *f, struct fetch_block *block, uint32_t n)
{
    assert(n <= block->n - block->got);
    f->stats.disk_bytes += n;
    block->got += n;
    if (block->got >= block->need)
        return false;
    if (n >= HALO_HULL_ALIGN)
        block->tries = 0;
    return block_short(f, block);
}

/* The destination cannot be pinned: memory of a device, or a mapping of something else than memory. */
static bool block_bounce(struct halo_fetch *f, struct fetch_block *block)
{
    if (!f->bounce_told)
        halo_remarks_add(&f->notices,
                         "the memory of slot %u refuses direct reads (%s): reading through a bounce buffer",
                         block->read->asked.slot, strerror(EFAULT));
    f->bounce_told = true;
    block->bounced = true;
    return block_again(f, block, -EFAULT);
}

/* Whether the block is to be tried again. */
static bool block_error(struct halo_fetch *f, struct fetch_block *block, int error)
{
    switch (-error) {
    case EINTR:
    case EAGAIN: return block_again(f, block, error);
    case EIO:
        if (block->retried)
            return block_fail(f, block, error);
        block->retried = true;
        return block_again(f, block, error);
    case EFAULT: return block->bounced ? block_fail(f, block, error) : block_bounce(f, block);
    case EINVAL:
    case EOPNOTSUPP:
        if (!block->direct)
            return block_fail(f, block, error);
        fetch_file_buffered(f, &f->files[block->read->asked.file], -error);
        return block_again(f, block, error);
    default: return block_fail(f, block, error);
    }
}

bool fetch_block_result(struct halo_fetch *f, struct fetch_block *block, int64_t result)
{
    struct fetch_read *read = block->read;
    bool again = result < 0 ? block_error(f, block, (int)result) : block_bytes(f, block, (uint32_t)result);
    if (again && !read->error) {
        block_aim(f, block);
        return true;
    }
    uint64_t now_ns = halo_clock_ns();
    if (!read->error)
        latency_count(&f->stats, now_ns - block->begun_ns);
    block_leave(f, block, now_ns);
    block->read = NULL;
    halo_list_append(&f->blocks_idle, &block->node);
    fetch_read_block_ended(f, read);
    return false;
}

void fetch_block_return(struct halo_fetch *f, struct fetch_block *block)
{
    block_leave(f, block, halo_clock_ns());
    halo_list_append(&f->blocks_returned, &block->node);
}
