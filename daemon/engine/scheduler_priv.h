/* scheduler_priv.h: what the files of the scheduler share: scheduler.c (queue, admission, ends), batch.c (the rows of a
 * step), commit.c (what becomes of the logits). */
#ifndef HALO_ENGINE_SCHEDULER_PRIV_H
#define HALO_ENGINE_SCHEDULER_PRIV_H

#include <engine/scheduler.h>

#define HALO_SCHEDULER_TOPS 64 /* alternatives reported with a row, at most */

/* batch.c: fills scheduler->batch and parts. Takes pages, preempts. Returns the number of rows. */
uint32_t halo_batch_build(struct halo_scheduler *scheduler);

/* commit.c: reads the logits of one part that ran. May end the sequence. */
void halo_commit_part(struct halo_scheduler *scheduler, const struct halo_batch_part *part, uint64_t now_ns);

/* scheduler.c */
/* Settles the end of a sequence of the step. It is handed to the port when the step is over, so it may be looked at
 * until then. */
void halo_scheduler_end(struct halo_scheduler *scheduler, struct halo_sequence *sequence, enum halo_outcome outcome);
/* Frees at least one page by sending the youngest other sequence (paused ones first) back to the queue. False: there is
 * none but `keep` and those older than it. */
bool halo_scheduler_preempt(struct halo_scheduler *scheduler, const struct halo_sequence *keep);
/* Sends this running sequence back to the queue. */
void halo_scheduler_requeue(struct halo_scheduler *scheduler, struct halo_sequence *sequence);

/* Ids that are not computed yet. */
static inline uint32_t halo_sequence_left(const struct halo_sequence *sequence)
{
    return sequence->n_ids - sequence->n_filled;
}

#endif
