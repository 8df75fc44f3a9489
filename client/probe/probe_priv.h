/* probe_priv.h: what the files of coherence-probe share: a source of event lines, the record of a reply, the report. */
#ifndef HALO_PROBE_PRIV_H
#define HALO_PROBE_PRIV_H

#include <sys/types.h>

#include <detect/detect.h>
#include <protocol/line.h>
#include <protocol/message.h>

enum probe_exit { PROBE_CLEAN = 0, PROBE_BROKEN = 1, PROBE_FAILED = 2, PROBE_NOTHING = 3 };

/* ---- source.c: where events come from ---- */

struct probe_source {
    int in_fd, out_fd; /* out_fd -1: nothing can be asked */
    pid_t child;       /* 0: none */
    struct halo_line_reader lines;
};

#define PROBE_E_END 1  /* the stream is over */
#define PROBE_E_SAID 2 /* it failed, and the reason was printed */

void probe_source_stdin(struct probe_source *source);
/* Negative errno. */
int probe_source_socket(struct probe_source *source, const char *path);
int probe_source_spawn(struct probe_source *source, const char *engine, const char *device);
/* Sends a request. -EPIPE and the like. */
int probe_source_send(struct probe_source *source, const struct halo_msg *msg);
/* The next line, valid until the next call. 0, PROBE_E_END, -ETIME after `wait_ms` without one, negative errno. */
int probe_source_next(struct probe_source *source, int wait_ms, const char **ret_line, size_t *ret_len);
void probe_source_close(struct probe_source *source); /* ends and reaps a child */

/* ---- record.c: the events of one reply ---- */

struct probe_record {
    struct probe_record *next;
    struct halo_id id;
    char id_text[HALO_LIMIT_ID_BYTES + 1];
    int32_t *ids;
    double *t_ms, *logprobs;
    size_t *text_at;
    size_t n_ids, room;
    char *text;
    size_t n_text, text_room;
    bool has_logprobs, started, ended, failed; /* failed: an `error` event, in error_text */
    enum halo_detect_end end;
    char model[256], md5[65], error_text[512];
    char notice[512]; /* "CODE: MESSAGE"; empty: none came */
    bool engine_died;
    int64_t seed, prompt_tokens;
    double decode_tok_s, prefill_tok_s, ttft_ms; /* NAN: not told */
};

/* Takes an event of a generate request; others are not its business. 0 or -ENOMEM. */
int probe_record_take(struct probe_record *record, const struct halo_ev *ev);
struct probe_record *probe_record_create(const struct halo_id *id);
void probe_record_destroy(struct probe_record *record);

/* ---- report.c ---- */

enum probe_form { PROBE_TEXT, PROBE_MARKDOWN, PROBE_JSON };

struct probe_context {  /* what the events do not say */
    const char *device; /* NULL: not known */
    const char *prompt, *tools;
    size_t n_prompt, n_tools, stall_ids;
};

/* Judges and prints one reply. *n_judged counts verdicts that are no SKIP. The worst verdict. */
enum halo_verdict probe_report(const struct probe_record *record, const struct probe_context *context,
                               enum probe_form form, size_t *n_judged);
/* Proves the detectors on their own cases; prints those that fail, and a count. An exit status. */
int probe_self_check(void);

#endif
