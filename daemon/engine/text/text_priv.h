/* text_priv.h: the text thread: everything that needs a tokenizer or a template.
 *
 *   text.c    the thread's loop
 *   prompt.c  generate and score: from a prompt to a sequence
 *   chat.c    conversations and their templates
 *   tokens.c  tokenize and detokenize
 *   encode.c, changes.c  what these share
 *
 * A job fails with job->fault; its results lie in it.
 */
#ifndef HALO_ENGINE_TEXT_PRIV_H
#define HALO_ENGINE_TEXT_PRIV_H

#include <engine/phase.h>

#include "port/job_priv.h"

struct halo_text_thread {
    pthread_t thread;
    struct halo_mailbox box;
    struct halo_mailbox *port;
    struct halo_phase phase;
    struct halo_arena arena, scratch; /* of one conversation after another: what it is, what its rendering needs */
};

/* Starts it. 0 or a negative errno. It ends with the process. */
int halo_text_thread_start(struct halo_text_thread *text);

/* ---- the jobs ---- */

void halo_text_job_generate(struct halo_text_thread *text, struct halo_job *job); /* prompt.c */
void halo_text_job_score(struct halo_text_thread *text, struct halo_job *job);
void halo_text_job_template(struct halo_text_thread *text, struct halo_job *job); /* chat.c */
void halo_text_job_tokenize(struct halo_text_thread *text, struct halo_job *job); /* tokens.c */
void halo_text_job_detokenize(struct halo_text_thread *text, struct halo_job *job);

/* ---- what they share ---- */

/* chat.c: appends the ids of generate's messages; sets the MD5s and newline_runs. */
int halo_text_encode_messages(struct halo_text_thread *text, struct halo_job *job, struct halo_tokens *out);

/* encode.c */
/* Appends the ids of a text, the start token in front when `bos` asks for it and the text does not spell it itself. */
int halo_text_encode(struct halo_job *job, struct halo_str text, bool bos, bool special, struct halo_tokens *out);
bool halo_text_adds_bos(const struct halo_job *job); /* whether the model wants a start token */
/* UNSUPPORTED, with the numbers, for an answer of more JSON values than one may have. */
int halo_text_check_values(struct halo_job *job, size_t n_tokens, size_t n_values);

/* changes.c: names something that is done differently from what was asked. 0, or the fault of no memory. */
__attribute__((format(printf, 2, 3))) int halo_text_add_change(struct halo_job *job, const char *format, ...);

#endif
