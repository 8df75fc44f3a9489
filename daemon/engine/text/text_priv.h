/* text_priv.h: the text workers: everything that needs a tokenizer or a template.
 *
 *   text.c      the workers and their turns
 *   queue.c     whose turn it is
 *   prompt.c    generate and score: from a prompt to a sequence
 *   encode.c    text to ids; what fits into a context or an answer
 *   chat.c      conversations; the job `template`
 *   tokens.c    the jobs `tokenize` and `detokenize`
 *   changes.c   what of a request is done differently
 *
 * One worker runs at a time, so that text takes one processor from the device at most. Users take turns of
 * HALO_TEXT_SLICE_NS, whatever their requests hold; the requests of one user are served in order of arrival, one after
 * the other. A worker whose turn is over waits in the middle of its request. So a request waits for one slice of each
 * other user at most, as long as no more than HALO_TEXT_WORKERS users have requests under way.
 */
#ifndef HALO_ENGINE_TEXT_PRIV_H
#define HALO_ENGINE_TEXT_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <base/arena.h>
#include <base/list.h>
#include <base/mailbox.h>
#include <base/turn.h>
#include <protocol/message.h>
#include <tokenizer/tokenizer.h>

#include <engine/phase.h>

#define HALO_TEXT_WORKERS 8
#define HALO_TEXT_SLICE_NS 4000000u

struct halo_job;
struct halo_text_thread;
struct halo_text_worker;

/* ---- whose turn it is ---- */

/* A request among those of the workers; a part of its job. */
struct halo_text_place {
    uint64_t user;
    struct halo_text_worker *worker; /* has begun it; NULL: nobody has */
    struct halo_list_node node;      /* in the queue's `users`, of a user's first request */
    struct halo_text_place *next;    /* the same user's next request */
};

struct halo_text_queue {
    struct halo_list users; /* the first request of each, in the order of their turns */
};

/* Last of its user's. */
void halo_text_queue_add(struct halo_text_queue *queue, struct halo_text_place *place);
/* Takes a request out; the user keeps its turn for the next one. */
void halo_text_queue_remove(struct halo_text_queue *queue, struct halo_text_place *place);
/* The turn of this user is over; the request is its first. */
void halo_text_queue_end_turn(struct halo_text_queue *queue, struct halo_text_place *place);
/* The request whose turn it is: the first of `users` that has begun; with may_begin, the first of all. NULL: none. */
struct halo_text_place *halo_text_queue_next(const struct halo_text_queue *queue, bool may_begin);

/* ---- workers ---- */

struct halo_text_worker {
    struct halo_turn turn; /* first: its check finds the worker */
    struct halo_text_thread *text;
    pthread_t thread;
    pthread_cond_t wake;
    struct halo_job *job;             /* NULL: idle */
    uint64_t since_ns;                /* of its turn */
    bool keeps_memory;                /* between two conversations */
    struct halo_arena arena, scratch; /* of one conversation after another: what it is, what its rendering needs */

    /* ids that are encoded now, and how many end the encoding; NULL: any number is fine */
    const struct halo_tokens *ids;
    size_t most_ids;
};

struct halo_text_thread {
    struct halo_mailbox *port;
    struct halo_phase phase; /* of the worker that runs */
    struct halo_text_worker workers[HALO_TEXT_WORKERS];

    pthread_mutex_t lock; /* of what follows, and of the workers' `job` */
    struct halo_text_queue queue;
    struct halo_text_worker *running; /* NULL: there is nothing to do */
};

/* Starts the workers. They end with the process. 0 or a negative errno. */
int halo_text_thread_start(struct halo_text_thread *text);
/* The port: hands a request over; it comes back as HALO_NOTE_TEXT_DONE. */
void halo_text_submit(struct halo_text_thread *text, struct halo_job *job, uint64_t user);
/* The port: takes one back that nobody has begun. False: it is under way, or about to come back. */
bool halo_text_withdraw(struct halo_text_thread *text, struct halo_job *job);

/* ---- the jobs: a worker's, set job->fault or results ---- */

void halo_text_job_generate(struct halo_text_worker *worker, struct halo_job *job); /* prompt.c */
void halo_text_job_score(struct halo_text_worker *worker, struct halo_job *job);
void halo_text_job_template(struct halo_text_worker *worker, struct halo_job *job); /* chat.c */
void halo_text_job_tokenize(struct halo_text_worker *worker, struct halo_job *job); /* tokens.c */
void halo_text_job_detokenize(struct halo_text_worker *worker, struct halo_job *job);

/* chat.c: appends the ids of generate's messages; sets the MD5s, newline_runs and n_stable. */
int halo_text_encode_messages(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *out);

/* encode.c */
/* Appends the ids of a text, the start token in front when `bos` asks for it and the text does not spell it itself. */
int halo_text_encode(struct halo_text_worker *worker, struct halo_job *job, struct halo_str text, bool bos,
                     bool special, struct halo_tokens *out);
bool halo_text_adds_bos(const struct halo_job *job); /* whether the model wants a start token */
/* CONTEXT_OVERFLOW for a text that has more ids than the context holds, `n_reply` more included, whatever they are. */
int halo_text_check_fit(struct halo_job *job, struct halo_str text, size_t n_reply);
/* The ids of a prompt are about to be encoded into `ids`: more than some contexts of them end that. */
void halo_text_count_to(struct halo_text_worker *worker, const struct halo_job *job, const struct halo_tokens *ids);
/* Whether they did: CONTEXT_OVERFLOW. */
int halo_text_check_counted(struct halo_text_worker *worker, struct halo_job *job);
/* CONTEXT_OVERFLOW for a number of ids, with `n_reply` after them. Advises a larger context only where a load accepts
 * it. */
int halo_text_overflow(struct halo_job *job, size_t n_prompt, size_t n_reply);
/* UNSUPPORTED, with the numbers, for an answer of more JSON values than one may have. */
int halo_text_check_values(struct halo_job *job, size_t n_tokens, size_t n_values);

/* changes.c: names something that is done differently from what was asked. 0, or the fault of no memory. */
__attribute__((format(printf, 2, 3))) int halo_text_add_change(struct halo_job *job, const char *format, ...);

#endif
