/* batch_room.h: the arrays of one step: what a batch points to.
 *
 * Owner: whoever builds steps (a scheduler, a bench). Memory: all at init; nothing afterwards.
 */
#ifndef HALO_ENGINE_BATCH_ROOM_H
#define HALO_ENGINE_BATCH_ROOM_H

#include <kernels/device.h>

struct halo_batch_room {
    int32_t *token, *pos; /* [n_rows] */
    uint32_t *seq;        /* [n_rows] */
    struct halo_batch_seq *seqs;
    uint32_t *output;           /* [n_outputs] */
    bool *whole;                /* [n_outputs] whose row came, when the batch asks for lists */
    struct halo_candidate *top; /* [n_outputs][batch.n_top]; room for [n_outputs][HALO_CANDIDATES_MAX] */
    float *logits;              /* [n_outputs][n_vocab], 64-byte aligned */
};

/* 0 or -ENOMEM. */
int halo_batch_room_init(struct halo_batch_room *room, uint32_t n_rows, uint32_t n_seqs, uint32_t n_outputs,
                         uint32_t n_vocab);
void halo_batch_room_finish(struct halo_batch_room *room); /* may be zeroed */

/* An empty batch over the arrays. */
struct halo_batch halo_batch_room_begin(const struct halo_batch_room *room);

#endif
