/* ctl_priv.h: what the files of haloctl share.
 *
 * One thread. A verb is a function that takes its own arguments and returns the exit status. Nothing here keeps state
 * outside `struct halo_ctl` but the count of interrupts in link.c.
 */
#ifndef HALO_CTL_PRIV_H
#define HALO_CTL_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/size.h>
#include <protocol/json_write.h>
#include <protocol/line.h>
#include <protocol/message.h>

/* Exit statuses; haloctl(1) documents them. */
enum halo_ctl_exit {
    HALO_CTL_OK = 0,
    HALO_CTL_FAILED = 1,    /* accepted, then ended with an error */
    HALO_CTL_USAGE = 2,     /* the command line or the input is wrong; nothing was sent */
    HALO_CTL_REFUSED = 3,   /* the daemon would not do it: bad request, not found, unsupported, no room, queue full */
    HALO_CTL_NO_DAEMON = 4, /* no connection, or it broke before the end */
    HALO_CTL_CUT = 5,       /* the reply ended where the context did, before the limit that was asked for */
    HALO_CTL_DEADLINE = 6,  /* the reply ended because its deadline passed */
    HALO_CTL_INTERRUPTED = 130,
};

/* Events of a score or of a long reply are longer than a request may be. */
#define HALO_CTL_LINE_BYTES ((size_t)1 << 30)

struct halo_ctl_kept;

struct halo_ctl {
    const char *socket_path; /* NULL: search */
    bool json;               /* events as they come, one line each */
    bool quiet;              /* no progress, no figures, no notices */
    bool verbose;            /* figures although stderr is no terminal */
    bool out_is_tty, err_is_tty;
    bool bar_shown;   /* a progress bar stands on the last line of stderr */
    bool mid_line;    /* the last line of the terminal holds a part of the reply */
    int out_error;    /* 0, or the errno with which standard output failed */
    int64_t until_ms; /* answers are not waited for after this time of client/clock.h; 0: no limit */
    int fd;           /* -1: not connected */
    int64_t next_id;
    struct halo_line_reader lines;
    struct halo_json out;       /* scratch for encoding */
    struct halo_ctl_kept *kept; /* texts that live as long as this */
};

/* ---- link.c: the connection ---- */

/* Connects to the socket given, else $HALO_SOCKET, the user's, /run/halod/halod.sock, unless there is a connection that
 * the daemon has not closed. False: what was tried, and why none answers, stands in `tried`. */
bool halo_ctl_try_connect(struct halo_ctl *ctl, char *tried, size_t n_bytes);
/* The same with a message; an exit status. */
int halo_ctl_connect(struct halo_ctl *ctl);
void halo_ctl_disconnect(struct halo_ctl *ctl);

/* 0 or a negative errno. */
int halo_ctl_send(struct halo_ctl *ctl, const struct halo_msg *msg);
/* The next line of the daemon, valid until the next call. 0; -EINTR at a signal; -ETIMEDOUT after ctl->until_ms;
 * another negative errno when the connection is broken. */
int halo_ctl_next_line(struct halo_ctl *ctl, const char **ret_line, size_t *ret_len);

/* Counts SIGINT; call once in main. */
void halo_ctl_catch_signals(void);
int halo_ctl_interrupts(void);
void halo_ctl_forget_interrupts(void);

/* ---- run.c: one request and its events ---- */

/* Called with each event of the request but `progress`, `notice` and `error`, which halo_ctl_run() prints itself. */
typedef void (*halo_ctl_event_fn)(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud);

/* Sends `msg` (its id is set here) and hands over its events until the terminal one. An error is printed to stderr,
 * with the models of similar names when the one that is asked for is not there. An interrupt cancels the request (a
 * load goes on in the daemon) and waits for its end; a second one leaves at once. Returns an exit status. With
 * ctl->json the events go to stdout unchanged and `on_event` is called as well. */
int halo_ctl_run(struct halo_ctl *ctl, struct halo_msg *msg, halo_ctl_event_fn on_event, void *ud);

/* Begins a new line of the terminal where the reply has not: for what is said in the middle of it. */
void halo_ctl_end_line(struct halo_ctl *ctl);

/* Flushes stdout; false once it has failed, and ctl->out_error says how. */
bool halo_ctl_flush(struct halo_ctl *ctl);

/* ---- input.c: text from arguments and standard input ---- */

/* The words of `argv` joined by spaces and, after a newline, what a pipe or a file on standard input holds; or `file`
 * (`-`: standard input) alone. The text is malloc'ed, NUL-terminated, and fit to be sent; NULL after a message. */
char *halo_ctl_read_text(char **argv, int argc, const char *file, const char *what, size_t *ret_n);

/* Frees what halo_ctl_model() made. */
void halo_ctl_forget_kept(struct halo_ctl *ctl);

/* See halo_client_model(); the text ends with `ctl`. False after a message. */
bool halo_ctl_model(struct halo_ctl *ctl, const char *text, struct halo_str *ret);

/* ---- progress.c: a bar on stderr when it is a terminal, nothing otherwise; numbers for people ---- */

void halo_ctl_progress(struct halo_ctl *ctl, const struct halo_ev_progress *progress);
void halo_ctl_progress_clear(struct halo_ctl *ctl);

/* Whether a terminal of the kind in $TERM knows escape sequences. */
bool halo_ctl_obeys_sequences(void);

/* "4.8 MB". */
static inline const char *halo_ctl_bytes(int64_t n, char buf[static HALO_SIZE_TEXT])
{
    return halo_size_decimal((double)n, 1, buf);
}
/* "2 days 3 h", "4 min 10 s", "1.5 s". */
const char *halo_ctl_duration(int64_t ms, char buf[static 32]);

/* ---- facts.c: a JSON object for people ---- */

/* A line for each member, "KEY  VALUE", deeper ones indented; sizes and histograms in words. `title`: of the whole. */
void halo_ctl_print_facts(const char *title, struct halo_raw json);

/* A line for each GPU of those that divide a model: its layers, bytes, name and free memory. */
void halo_ctl_print_stages(const struct halo_part_stage_info_list *stages);

/* ---- options.c: long options straight into message fields ---- */

enum halo_ctl_kind {
    HALO_CTL_STRING, /* struct halo_str */
    HALO_CTL_MODEL,  /* struct halo_str; see halo_ctl_model() */
    HALO_CTL_INTEGER,
    HALO_CTL_SECONDS, /* int64_t, also as 90s, 5m, 1h, 2d */
    HALO_CTL_BYTES,   /* int64_t, also as 512M, 7.5GB (powers of 1000), 8GiB (of 1024) */
    HALO_CTL_NUMBER,
    HALO_CTL_TRUE,
    HALO_CTL_FALSE,
    HALO_CTL_TEXT,    /* const char *, sent to the daemon */
    HALO_CTL_PATH,    /* const char *, of a file that haloctl opens: any bytes */
    HALO_CTL_STRINGS, /* repeatable, into struct halo_ctl_strings */
    HALO_CTL_KV,
    HALO_CTL_TIERS,
    HALO_CTL_ROUTING,
    HALO_CTL_DEVICE,
};

#define HALO_CTL_NO_HAS SIZE_MAX
struct halo_ctl_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum halo_ctl_kind kind;
    size_t offset, has; /* in the target; has: of its presence flag, or HALO_CTL_NO_HAS */
    const char *value_name, *help;
};

struct halo_ctl_strings {
    struct halo_str at[HALO_LIMIT_STOP_STRINGS];
    size_t n;
};

/* Parses argv (argv[0] is the verb) into `target`. Options may stand anywhere before `--`; the other arguments are
 * moved behind them. Returns the index of the first of those, or -1 after a message, or -2 after --help was printed.
 * The range of numbers is the daemon's to check. `options` NULL: the verb has none. */
int halo_ctl_parse(struct halo_ctl *ctl, int argc, char **argv, const struct halo_ctl_option *options, void *target,
                   const char *usage);

/* The one argument of a verb that takes a model, as halo_ctl_model() makes it. False after a message. */
bool halo_ctl_only_model(struct halo_ctl *ctl, int argc, char **argv, int at, struct halo_str *ret);

/* ---- verbs ---- */

int halo_ctl_generate(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_chat(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_load(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_unload(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_models(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_status(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_stats(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_diag(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_ping(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_reset(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_tokenize(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_detokenize(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_template(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_score(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_plan(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_bench(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_profile(struct halo_ctl *ctl, int argc, char **argv);
int halo_ctl_raw(struct halo_ctl *ctl, int argc, char **argv);

/* ---- sampling.c: the options of generate and chat, whose target is a struct halo_ctl_sampling ---- */
struct halo_ctl_sampling {
    struct halo_msg_generate msg;
    struct halo_ctl_strings stops;
    const char *file, *system, *messages, *tools, *vars;
};
extern const struct halo_ctl_option halo_ctl_sampling_options[];

/* Prints what `started`, `token` and `done` say to a person. `limit`: the max_tokens asked for, 0 for none. */
void halo_ctl_print_reply(struct halo_ctl *ctl, const struct halo_ev *ev, int64_t limit);

/* ---- plan_svg.c ---- */

/* Draws a plan with its placement: layers by tier, and the speed over the budget. 0 or a negative errno; -ENODATA when
 * the plan has no placement. */
int halo_ctl_plan_svg(const char *path, const struct halo_ev_plan *plan);

/* ---- editor.c: a turn of chat typed at a terminal, with line editing and history ---- */

struct halo_ctl_editor;

/* NULL after a message. */
struct halo_ctl_editor *halo_ctl_editor_create(void);
void halo_ctl_editor_destroy(struct halo_ctl_editor *editor); /* takes NULL */

/* One turn, malloc'ed, without its last newline; a paste of several lines is one turn. 0; -EINTR when it was given up
 * by Ctrl-C; -ENODATA at the end of input. */
int halo_ctl_editor_read(struct halo_ctl_editor *editor, char **ret, size_t *ret_n);

#endif
