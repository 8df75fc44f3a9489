/* scheduler_priv.h: what the files of the scheduler share. On the floor queue.c (who waits, who runs, who ends) and
 * states.c (copies of pages and states); on it
 * admit.c (who comes in, and with which pages), batch.c (the rows of a step), commit.c (what becomes of the logits); on
 * these step.c. scheduler.c is its life. */
#ifndef HALO_ENGINE_SCHEDULER_PRIV_H
#define HALO_ENGINE_SCHEDULER_PRIV_H

#include <engine/scheduler.h>

#define HALO_SCHEDULER_TOPS 64 /* alternatives reported with a row, at most */

/* batch.c: fills scheduler->batch and parts. Takes pages, preempts. Returns the number of rows. */
uint32_t halo_batch_build(struct halo_scheduler *scheduler);

/* commit.c: reads the logits of one part that ran. May end the sequence. */
void halo_commit_part(struct halo_scheduler *scheduler, const struct halo_batch_part *part, uint64_t now_ns);

/* admit.c: moves sequences from the queue to the running list while there is room, strictly in order. */
void halo_scheduler_admit(struct halo_scheduler *scheduler, uint64_t now_ns);

/* queue.c */
/* Settles the end of a sequence of the step. It is handed to the port when the step is over, so it may be looked at
 * until then. */
void halo_scheduler_end(struct halo_scheduler *scheduler, struct halo_sequence *sequence, enum halo_outcome outcome);
/* Frees at least one page by sending another sequence back to the queue: the youngest paused one, else of those younger
 * than `keep` the youngest one of the user who has the most running. False: there is none, or `keep` is of a user who
 * has more running than theirs: then it has to go itself. The oldest one never has to. */
bool halo_scheduler_preempt(struct halo_scheduler *scheduler, const struct halo_sequence *keep);
/* Sends this running sequence back to the queue. */
void halo_scheduler_requeue(struct halo_scheduler *scheduler, struct halo_sequence *sequence);

/* How many of this user run. */
uint32_t halo_scheduler_running_of(const struct halo_scheduler *scheduler, uint64_t user);
/* Who can make room for one more of this user: the youngest running sequence of the user who has the most, at least two
 * more than this one. NULL: nobody has. */
struct halo_sequence *halo_scheduler_crowding(const struct halo_scheduler *scheduler, uint64_t user);
/* The youngest paused sequence but `keep`, or NULL. */
struct halo_sequence *halo_scheduler_youngest_paused(const struct halo_scheduler *scheduler,
                                                     const struct halo_sequence *keep);
/* Whether the reader is behind. Raises `stalled` before it looks again, so that the port cannot make room unseen. */
bool halo_scheduler_reader_behind(struct halo_sequence *sequence);
/* states.c */
/* Copies to the sequence what from[group] holds: to page `at` of its table, or to its slot of states. HALO_KV_NO_PAGE:
 * nothing of that group. False: the device failed. */
bool halo_scheduler_copy(struct halo_scheduler *scheduler, const struct halo_sequence *sequence, uint32_t at,
                         const uint32_t from[HALO_KV_GROUPS_MAX]);
/* Its next position, behind those that are computed, where its states are kept for others; UINT32_MAX: none. */
uint32_t halo_scheduler_next_checkpoint(const struct halo_scheduler *scheduler, const struct halo_sequence *sequence);
/* Keeps its states for others, if such a position is where it is. */
void halo_scheduler_checkpoint(struct halo_scheduler *scheduler, const struct halo_sequence *sequence);
/* Takes *at out of the queue. */
void halo_scheduler_unqueue(struct halo_scheduler *scheduler, struct halo_sequence **at);
/* Puts a sequence into the queue at its place by arrival. */
void halo_scheduler_enqueue(struct halo_scheduler *scheduler, struct halo_sequence *sequence);
void halo_scheduler_remove_running(struct halo_scheduler *scheduler, uint32_t at);
/* The sequence is the port's from here on. */
void halo_scheduler_hand_over(struct halo_scheduler *scheduler, struct halo_sequence *sequence);
/* Ends and hands over one that is in neither list any more. */
void halo_scheduler_retire(struct halo_scheduler *scheduler, struct halo_sequence *sequence, enum halo_outcome outcome);
/* Counts up or down who waits and who runs. */
void halo_scheduler_publish(struct halo_scheduler *scheduler, int queued, int running);

/* How many of its first positions need not be computed if somebody has them: all but the last id, whose logits are
 * wanted; of a score all in front of the first row that is still to be reported. */
static inline uint32_t halo_sequence_reusable(const struct halo_sequence *sequence)
{
    uint32_t limit = sequence->n_ids - 1;
    if (sequence->kind == HALO_SEQUENCE_SCORE && sequence->score_from + sequence->n_scored < limit)
        limit = sequence->score_from + sequence->n_scored;
    return limit;
}

/* Ids that are not computed yet. */
static inline uint32_t halo_sequence_left(const struct halo_sequence *sequence)
{
    return sequence->n_ids - sequence->n_filled;
}

#endif
