/* pace.h: how many rows of prompts a step may hold, so that those who decode do not wait for those who begin.
 *
 * Measured, not assumed: how long a step takes that only decodes, for each number of replies, and what a row of a
 * prompt adds to it. A step that also has pieces of prompts takes at most HALO_PACE_PIECES times longer on their
 * account. The reference is renewed: after HALO_PACE_MIXED mixed steps in a row, and for a number of replies not seen
 * before, one step goes without pieces. Where pieces of that length are short, longer ones are tried now and then,
 * each twice as long as the one before: the first rows of a piece may cost what hundreds do (other kernels than those
 * of replies, a long context that is read once for all of them). If a row costs less than half as much in a longer
 * piece, not every step has one: a piece of at most HALO_PACE_APART_NS is followed by steps that only decode, until
 * both have had the same time. Where nobody decodes a piece is as long as a newcomer or a cancel may have to wait: any
 * number of rows where the numbers do not depend on the cut, else all that the batch holds, or half of them, a quarter
 * and so on.
 *
 * Threads: the device thread. Memory: at init.
 */
#ifndef HALO_ENGINE_PACE_H
#define HALO_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_PACE_PIECES 1.0        /* time of pieces for each unit of decode time: the step is twice as long */
#define HALO_PACE_LEAST_NS 250000   /* pieces may always take this long: nobody sees the difference */
#define HALO_PACE_APART_NS 50000000 /* a longer piece may take so long: a pause that a reader does not see */
#define HALO_PACE_ALONE_NS 250000000
#define HALO_PACE_MIXED 32
#define HALO_PACE_CHUNK 256          /* rows: of a chunk whose cut matters, at least */
#define HALO_PACE_CHUNK_NS 750000000 /* of a longer one, at most */

struct halo_pace {
    uint32_t max_decodes;
    /* [max_decodes + 1] smoothed time of a step with that many replies and nothing else; 0: unknown */
    double *decode_ns;
    double row_ns;       /* smoothed time of one prompt row where nobody decodes, its share of the step; 0: unknown */
    double added_row_ns; /* smoothed time that one prompt row adds to a step of decodes; 0: unknown */
    uint32_t n_mixed;    /* mixed steps since the last one that only decoded */
    /* Longer pieces beside `n_decodes` replies. */
    struct {
        uint32_t n_decodes;
        uint32_t rows;         /* of one; 0: every step has a piece of its share */
        uint32_t n, search_at; /* pieces since longer ones were tried; tried again after so many */
        uint32_t tried, best;  /* while they are tried: rows of the last one, 0: they are not; rows of the best one */
        double tried_ns, best_row_ns; /* what the last one added; what each row of the best one did */
    } apart;
    double owed_ns;      /* time of decode steps until the next longer piece */
    double chunk_row_ns; /* smoothed time of one row of a chunk of HALO_PACE_CHUNK rows or more; 0: unknown */
    /* Chunks that the device was given and that may not have ended. */
    struct {
        uint64_t since_ns, returned_ns; /* when the first of them began, at the earliest; when the last call returned */
        uint32_t n_rows[2], n;
    } queue;
};

/* What the step is for. */
struct halo_pace_load {
    uint32_t n_decodes;    /* replies that have their row in it */
    uint32_t n_left;       /* rows that the batch has room for */
    bool any_cut;          /* a prompt may be cut anywhere: the numbers do not depend on it */
    bool streams;          /* a step costs much however few its rows are: a prompt that nobody waits for takes all */
    double others_ns;      /* what replies on other models add to everybody's wait; 0: there are none */
    uint32_t n_prompts_of; /* models with prompts to work on, this one included */
};

int halo_pace_init(struct halo_pace *pace, uint32_t max_decodes); /* 0 or -ENOMEM */
void halo_pace_finish(struct halo_pace *pace);

/* Rows of prompts for this step, 0 to n_left. */
uint32_t halo_pace_rows(const struct halo_pace *pace, const struct halo_pace_load *load);

/* What a step took. */
void halo_pace_note(struct halo_pace *pace, uint32_t n_decodes, uint32_t n_prompt_rows, uint64_t elapsed_ns);

/* A step of prompts alone whose call began and returned then. `ended`: so has the step; else it and the one before it
 * may still run (HALO_DEVICE_QUEUES). */
void halo_pace_note_chunk(struct halo_pace *pace, uint32_t n_rows, bool ended, uint64_t began_ns, uint64_t returned_ns);

/* Rows of the next chunk of a prompt that nobody waits for, where the cut matters: n_left, or less. */
uint32_t halo_pace_chunk(const struct halo_pace *pace, uint32_t n_left);

/* A step with this many replies alone; from the nearest number that was measured; 0: none was. */
double halo_pace_decode_ns(const struct halo_pace *pace, uint32_t n_decodes);

#endif
