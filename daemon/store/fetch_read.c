/* fetch_read.c: the life of a read: queued, issued, arrived, reaped. Every function is called with the lock held. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include <base/state.h>

#include "fetch_priv.h"

static const unsigned moves[] = {
    [FETCH_IDLE] = HALO_STATE_BIT(FETCH_QUEUED),
    [FETCH_QUEUED] = HALO_STATE_BIT(FETCH_ISSUED),
    [FETCH_ISSUED] = HALO_STATE_BIT(FETCH_ARRIVED),
    [FETCH_ARRIVED] = HALO_STATE_BIT(FETCH_IDLE),
};

static void read_move(struct fetch_read *read, enum fetch_state state, struct halo_list *list)
{
    read->state = halo_state_move(moves, read->state, state);
    halo_list_remove(&read->node);
    halo_list_append(list, &read->node);
}

static void read_arrive(struct halo_fetch *f, struct fetch_read *read)
{
    read_move(read, FETCH_ARRIVED, &f->arrived);
    if (read->error == 0) {
        f->stats.reads[read->asked.priority]++;
        f->stats.bytes[read->asked.priority] += read->asked.n_bytes;
    } else if (read->error == -ECANCELED) {
        f->stats.n_cancelled++;
    } else {
        f->stats.n_failed++;
    }
    pthread_cond_signal(&f->arrival);
}

void fetch_read_submit(struct halo_fetch *f, const struct halo_fetch_read *asked)
{
    struct fetch_read *read = HALO_LIST_ITEM(f->idle.first, struct fetch_read, node);
    read->asked = *asked;
    read->next = halo_hull_begin(asked->offset);
    read->end = halo_hull_end(asked->offset + asked->n_bytes);
    read->n_blocks = 0;
    read->error = 0;
    read->failed_at = read->file_bytes = 0;
    f->files[asked->file].n_reads++;
    read_move(read, FETCH_QUEUED, &f->queued[asked->priority]);
}

void fetch_read_fail(struct halo_fetch *f, struct fetch_read *read, int error)
{
    if (!read->error)
        read->error = error;
    if (read->state == FETCH_QUEUED)
        read_move(read, FETCH_ISSUED, &f->issued);
    if (read->state == FETCH_ISSUED && read->n_blocks == 0)
        read_arrive(f, read);
}

void fetch_read_cut(struct halo_fetch *f, struct fetch_read *read, struct fetch_block *block)
{
    const struct halo_fetch_read *asked = &read->asked;
    uint64_t left = read->end - read->next, wanted = asked->offset + asked->n_bytes - read->next;
    assert(read->state == FETCH_QUEUED && left > 0);
    block->read = read;
    block->offset = read->next;
    block->n = (uint32_t)(left < f->options.block_bytes ? left : f->options.block_bytes);
    block->need = (uint32_t)(wanted < block->n ? wanted : block->n);
    block->dest = (uint8_t *)asked->dest + (read->next - asked->offset);
    block->got = block->tries = 0;
    block->bounced = block->retried = false;
    read->next += block->n;
    read->n_blocks++;
    if (read->next == read->end)
        read_move(read, FETCH_ISSUED, &f->issued);
}

void fetch_read_block_ended(struct halo_fetch *f, struct fetch_read *read)
{
    assert(read->n_blocks > 0);
    read->n_blocks--;
    if (read->state == FETCH_ISSUED && read->n_blocks == 0)
        read_arrive(f, read);
}

void fetch_read_reap(struct halo_fetch *f, struct fetch_read *read, struct halo_fetch_done *ret)
{
    const struct halo_fetch_read *asked = &read->asked;
    *ret = (struct halo_fetch_done){.slot = asked->slot,
                                    .generation = asked->generation,
                                    .offset = asked->offset,
                                    .n_bytes = asked->n_bytes,
                                    .file = asked->file,
                                    .error = read->error,
                                    .failed_at = read->failed_at,
                                    .file_bytes = read->file_bytes};
    assert(f->files[asked->file].n_reads > 0);
    f->files[asked->file].n_reads--;
    read_move(read, FETCH_IDLE, &f->idle);
}
