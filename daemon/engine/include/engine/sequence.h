/* sequence.h: one text in the engine: the ids of a prompt, what was committed after them, and where its K and V are.
 *
 * Both `generate` and `score` are sequences. A text worker creates one (all of its memory is taken then), posts it to
 * the device thread, which owns it until it posts HALO_NOTE_SEQUENCE_DONE back; then it is the port's, who destroys it.
 * In between the port may touch only the fields under "shared" and read the ring.
 *
 * A sequence can lose its pages (preemption) and be computed again from its ids: with a batch-invariant device the ids
 * that follow are the same as if nothing had happened.
 */
#ifndef HALO_ENGINE_SEQUENCE_H
#define HALO_ENGINE_SEQUENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <base/arena.h>
#include <base/fault.h>
#include <detect/detect.h>
#include <tokenizer/text.h>

#include <engine/kv_pages.h>
#include <engine/note.h>
#include <engine/ring.h>
#include <engine/sampler.h>

/* What the vocabulary says about an id. An interface, so that the scheduler knows no tokenizer. Any thread, nothing is
 * allocated. */
struct halo_pieces {
    const void *ud;
    struct halo_span (*piece)(const void *ud, int32_t id); /* its bytes in running text */
    bool (*is_end)(const void *ud, int32_t id);            /* it ends a reply */
    size_t max_piece_bytes;
};

enum halo_sequence_kind { HALO_SEQUENCE_GENERATE, HALO_SEQUENCE_SCORE };

enum halo_sequence_state {
    HALO_SEQUENCE_QUEUED,  /* holds no pages: new, or preempted */
    HALO_SEQUENCE_PREFILL, /* more than one id is not computed yet */
    HALO_SEQUENCE_DECODE,  /* one id a step */
    HALO_SEQUENCE_PAUSED,  /* holds pages, its reader does not read */
    HALO_SEQUENCE_DONE,
    HALO_N_SEQUENCE_STATES
};

enum halo_outcome {
    HALO_OUTCOME_NONE,
    HALO_OUTCOME_STOP_TOKEN,  /* stop_token */
    HALO_OUTCOME_STOP_STRING, /* text.stopped_by */
    HALO_OUTCOME_LENGTH,
    HALO_OUTCOME_SCORED,
    HALO_OUTCOME_CANCELLED,
    HALO_OUTCOME_DEADLINE,
    HALO_OUTCOME_FAULT, /* fault */
};

struct halo_instance;

#define HALO_SEQUENCE_NOBODY UINT64_MAX

struct halo_sequence_setup {
    enum halo_sequence_kind kind;
    const int32_t *ids; /* prompt, then what a resumed reply had committed; copied */
    uint32_t n_prompt, n_committed;
    uint32_t max_tokens;                /* of the reply; n_prompt + max_tokens <= the context. 0 for a score */
    struct halo_sampler_params sampler; /* biases are copied */
    const struct halo_span *stops;      /* copied */
    uint32_t n_stops;
    uint32_t n_stable; /* ids of the prompt that the next turn of a conversation repeats; 0: unknown */
    bool ignore_eos;
    bool want_logprob;
    bool cache_prompt;                /* take from the prefix index and leave to it */
    bool detect_loops;                /* report once when the reply repeats a cycle */
    uint64_t user;                    /* whose prefixes; HALO_SEQUENCE_NOBODY: of no user by name */
    uint32_t n_top;                   /* alternatives reported with a token or row */
    uint32_t score_from;              /* first position reported */
    uint64_t bytes_sent;              /* resume: text that the client has */
    uint64_t elapsed_ns;              /* resume: since `started` */
    uint64_t arrived_ns, deadline_ns; /* halo_clock_ns(); no deadline: 0 */
};

struct halo_sequence {
    struct halo_note events_note; /* to the port: the ring has something */
    struct halo_note note;        /* to the device thread, then the last one to the port */
    struct halo_sequence *next;   /* in the scheduler's queue */
    struct halo_job *job;         /* who waits for it */
    struct halo_instance *model;  /* what it runs on, held by the request */
    struct halo_arena arena;      /* everything below that is not freed by name */

    /* fixed at creation */
    enum halo_sequence_kind kind;
    struct halo_pieces pieces;
    struct halo_sampler_params sampler;
    uint32_t n_prompt, n_resumed, max_tokens, capacity; /* ids: n_prompt + max_tokens */
    bool ignore_eos, want_logprob;
    uint64_t user;
    uint32_t n_top, score_from;
    uint64_t elapsed_ns, arrived_ns, deadline_ns;
    uint32_t step_bytes;  /* of the ring: the most that one computed row can write */
    uint32_t final_bytes; /* of the ring: what ending may still write */
    const char *replay;   /* resume: text of committed ids that the client has not got; whole characters */
    size_t n_replay;

    /* the device thread's, the port's after DONE */
    int32_t *ids;
    uint32_t n_ids;    /* prompt and committed */
    uint32_t n_filled; /* positions whose K and V are in the pages */
    uint32_t rank;     /* the scheduler's: which prompt of its user it is in this step, from 0 */
    uint32_t n_kept;   /* of its pages: offered to the prefix index, from the first on */
    uint32_t n_cached; /* positions that were never computed here */
    bool cache_prompt; /* reads and feeds the prefix index; a reset clears it */
    uint32_t n_scored; /* score: rows reported; the next one is score_from + n_scored */
    double nll_sum;
    uint32_t n_nll;
    bool detect_loops;      /* still to be told */
    uint32_t n_loop_looked; /* ids of the reply when it was looked at last */
    struct halo_cycle loop; /* constant from the moment that its record is in the ring */
    struct halo_kv_table table;
    struct halo_text_stream text;
    struct halo_ring_top *tops; /* [n_top] scratch of the sampler's report */
    uint64_t serial;            /* order of arrival at the scheduler */
    uint64_t progress_ns;       /* last progress event */
    uint32_t queue_place, queue_start;
    uint64_t started_ns, prefilled_ns, first_token_ns, last_token_ns, ended_ns; /* 0: not yet */
    uint32_t n_preempted;
    enum halo_outcome outcome;
    int32_t stop_token;
    struct halo_fault fault;

    /* shared */
    struct halo_ring ring;
    _Atomic int state;         /* enum halo_sequence_state; written by the owner */
    atomic_bool cancel;        /* the port: end it at the next step */
    atomic_bool hold;          /* the port: leave the batch for now */
    atomic_bool events_posted; /* events_note is on its way */
    atomic_bool stalled;       /* the device thread: waits for room in the ring; the port kicks when it made some */
};

/* Takes all memory, replays what was committed into the text. A reply that was complete before comes with its outcome
 * set. BAD_REQUEST (stop strings), OUT_OF_MEMORY. */
int halo_sequence_create(struct halo_sequence **ret, const struct halo_sequence_setup *setup,
                         const struct halo_pieces *pieces, struct halo_fault *fault);
void halo_sequence_destroy(struct halo_sequence *sequence);
/* How many there are in this process, whoever has them. Any thread. */
uint32_t halo_sequence_n_live(void);

static inline enum halo_sequence_state halo_sequence_state_of(const struct halo_sequence *sequence)
{
    return (enum halo_sequence_state)atomic_load(&sequence->state);
}
const char *halo_sequence_state_name(enum halo_sequence_state state);

/* Moves to another state; aborts when the table of moves has no such move. */
void halo_sequence_move(struct halo_sequence *sequence, enum halo_sequence_state to);

/* Device thread: whether the ring has room for the events of n more rows and for ending afterwards. */
bool halo_sequence_has_room(const struct halo_sequence *sequence, uint32_t n_rows);

/* Device thread: writes events; room was checked before (has_room), so they cannot fail. Tell the port with
 * halo_sequence_tell(). */
void halo_sequence_emit_started(struct halo_sequence *sequence, uint64_t now_ns); /* n_cached is settled */
void halo_sequence_emit_progress(struct halo_sequence *sequence, enum halo_ring_kind kind, uint64_t a, uint64_t b);
void halo_sequence_emit_committed(struct halo_sequence *sequence, int32_t id, uint64_t now_ns, double logprob,
                                  uint32_t n_top);
void halo_sequence_emit_row(struct halo_sequence *sequence, uint32_t pos, bool has_logprob, double logprob,
                            uint32_t n_top);
void halo_sequence_emit_loop(struct halo_sequence *sequence); /* loop is settled */
void halo_sequence_emit_text(struct halo_sequence *sequence, struct halo_span text);

/* Device thread: wakes the port if it does not know yet. */
void halo_sequence_tell(struct halo_sequence *sequence, struct halo_mailbox *port);

#endif
