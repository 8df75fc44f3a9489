/* batch_room.c: see batch_room.h. */
#include <engine/batch_room.h>

#include <errno.h>
#include <stdlib.h>

int halo_batch_room_init(struct halo_batch_room *room, uint32_t n_rows, uint32_t n_seqs, uint32_t n_outputs,
                         uint32_t n_vocab)
{
    size_t logit_bytes = (size_t)n_outputs * n_vocab * sizeof(float);
    *room = (struct halo_batch_room){
        .token = calloc(n_rows, sizeof(*room->token)),
        .pos = calloc(n_rows, sizeof(*room->pos)),
        .seq = calloc(n_rows, sizeof(*room->seq)),
        .seqs = calloc(n_seqs, sizeof(*room->seqs)),
        .output = calloc(n_outputs, sizeof(*room->output)),
        .whole = calloc(n_outputs, sizeof(*room->whole)),
        .top = calloc(n_outputs, HALO_CANDIDATES_MAX * sizeof(*room->top)),
        .logits = aligned_alloc(64, (logit_bytes + 63) & ~(size_t)63),
    };
    if (room->token && room->pos && room->seq && room->seqs && room->output && room->whole && room->top && room->logits)
        return 0;
    halo_batch_room_finish(room);
    return -ENOMEM;
}

void halo_batch_room_finish(struct halo_batch_room *room)
{
    free(room->token);
    free(room->pos);
    free(room->seq);
    free(room->seqs);
    free(room->output);
    free(room->whole);
    free(room->top);
    free(room->logits);
    *room = (struct halo_batch_room){0};
}

struct halo_batch halo_batch_room_begin(const struct halo_batch_room *room)
{
    return (struct halo_batch){.token = room->token,
                               .pos = room->pos,
                               .seq = room->seq,
                               .seqs = room->seqs,
                               .output = room->output,
                               .logits = room->logits};
}
