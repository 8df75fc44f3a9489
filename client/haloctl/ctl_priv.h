/* ctl_priv.h: what the files of haloctl share.
 *
 * One thread. A verb is a function that takes its own arguments and returns the exit status. Nothing here keeps state
 * outside `struct halo_ctl` but the two signal flags of link.c.
 */
#ifndef HALO_CTL_PRIV_H
#define HALO_CTL_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protocol/json_write.h>
#include <protocol/line.h>
#include <protocol/message.h>

/* Exit statuses; haloctl(1) documents them. */
enum halo_ctl_exit {
    HALO_CTL_OK = 0,
    HALO_CTL_FAILED = 1,    /* accepted, then ended with an error */
    HALO_CTL_USAGE = 2,     /* the command line is wrong; nothing was sent */
    HALO_CTL_REFUSED = 3,   /* the daemon would not do it: bad request, not found, unsupported, no room, queue full */
    HALO_CTL_NO_DAEMON = 4, /* no connection, or it broke before the end */
    HALO_CTL_INTERRUPTED = 130,
};

/* Events of a score or of a long reply are longer than a request may be. */
#define HALO_CTL_LINE_BYTES ((size_t)1 << 30)

struct halo_ctl {
    const char *socket_path; /* NULL: search */
    bool json;               /* events as they come, one line each */
    bool quiet;              /* no progress, no figures */
    bool verbose;            /* figures although stderr is no terminal */
    bool err_is_tty;
    int fd; /* -1: not connected */
    int64_t next_id;
    struct halo_line_reader lines;
    struct halo_json out; /* scratch for encoding */
};

/* ---- link.c: the connection ---- */

/* Connects to the socket given, else $HALO_SOCKET, the user's, /run/halod/halod.sock. Says on stderr what it tried when
 * none answers. */
int halo_ctl_connect(struct halo_ctl *ctl);
void halo_ctl_disconnect(struct halo_ctl *ctl);

/* SIGINT sets a flag that halo_ctl_run() looks at; call once in main. */
void halo_ctl_catch_signals(void);
bool halo_ctl_interrupted(void);
void halo_ctl_forget_interrupt(void);

/* Called with each event of the request but the terminal `error`; the line is the event as it came, without newline. */
typedef void (*halo_ctl_event_fn)(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud);

/* Sends `msg` (its id is set here) and hands over its events until the terminal one. An error is printed to stderr. An
 * interrupt cancels the request (a load goes on in the daemon) and waits for its end; a second one leaves at once.
 * Returns an exit status. With ctl->json the events go to stdout unchanged and `on_event` is called as well. */
int halo_ctl_run(struct halo_ctl *ctl, struct halo_msg *msg, halo_ctl_event_fn on_event, void *ud);

/* Writes all bytes or returns a negative errno. */
int halo_ctl_write_all(int fd, const char *bytes, size_t n);

/* The exit status that an error code means. */
int halo_ctl_exit_of(enum halo_error code);

/* ---- text input and output ---- */

/* The words of `argv` joined by spaces, or the file (`-`: stdin), or stdin when it is no terminal. Exactly one must be
 * there. The text is malloc'ed, NUL-terminated; NULL after a message on stderr. */
char *halo_ctl_read_text(char **argv, int argc, const char *file, const char *what, size_t *ret_n);

/* Bytes for people: "4.8 MB". */
const char *halo_ctl_bytes(int64_t n, char buf[static 32]);

/* progress.c: a bar on stderr when it is a terminal, nothing otherwise. */
void halo_ctl_progress(struct halo_ctl *ctl, const struct halo_ev_progress *progress);
void halo_ctl_progress_clear(struct halo_ctl *ctl);

/* ---- options.c: long options straight into message fields ---- */

enum halo_ctl_kind {
    HALO_CTL_STRING,
    HALO_CTL_INTEGER,
    HALO_CTL_NUMBER,
    HALO_CTL_TRUE,
    HALO_CTL_FALSE,
    HALO_CTL_CSTRING,
    HALO_CTL_STRINGS, /* repeatable, into struct halo_ctl_strings */
    HALO_CTL_KV,
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

/* Parses argv (argv[0] is the verb) into `target`. Returns the index of the first other argument, or -1 after a
 * message, or -2 after --help was printed. The range of numbers is the daemon's to check. */
int halo_ctl_parse(int argc, char **argv, const struct halo_ctl_option *options, void *target, const char *usage);

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
int halo_ctl_raw(struct halo_ctl *ctl, int argc, char **argv);

/* conversation.c: a conversation from the command line and from files. */
struct halo_ctl_talk {
    struct halo_str model;        /* len 0: none is named */
    const char *messages, *tools; /* files of JSON lists; NULL: none */
    const char *vars;             /* JSON text of an object, or NULL */
    const char *system;           /* without messages: NULL or the system message, and what the user says */
    struct halo_str user;
};

/* Makes a checked `template` request of it, which the caller finishes; others take its parts. An exit status, after a
 * message when it is not HALO_CTL_OK. */
int halo_ctl_read_talk(const struct halo_ctl_talk *talk, struct halo_msg *ret);

/* generate.c: the sampling options, shared by generate and chat; their target is a struct halo_ctl_sampling. */
struct halo_ctl_sampling {
    struct halo_msg_generate msg;
    struct halo_ctl_strings stops;
    const char *file, *system, *messages, *tools, *vars;
};
extern const struct halo_ctl_option halo_ctl_sampling_options[];

/* Prints what `started`, `notice`, `token` and `done` say to a person. */
void halo_ctl_print_event(struct halo_ctl *ctl, const struct halo_ev *ev);

#endif
