/* rig.h: a real halod with the fake engine, and clients that talk to it line by line. For cmocka tests: every failure
 * of the rig itself fails the test that runs. */
#ifndef HALO_TEST_SERVE_RIG_H
#define HALO_TEST_SERVE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <protocol/line.h>
#include <protocol/message.h>

/* How long anything may take that is waited for; then it fails the test. No test is about that time: what is to come
 * comes, on a slow machine late. */
#define RIG_PATIENCE_MS 60000

struct rig {
    char dir[64]; /* temporary: socket, configuration, log, the fake engine's notes */
    char socket_path[96];
    pid_t pid;
};

struct client {
    int fd;
    struct halo_line_reader reader;
};

/* Starts halod with `config` (text of halod.conf, may be "") and environment settings "NAME=VALUE", NULL-terminated,
 * and waits until it listens. */
void rig_start(struct rig *rig, const char *config, const char *const *env);
/* Starts another one in the same directory, e.g. after a crash. */
void rig_restart(struct rig *rig, const char *config, const char *const *env);
/* The same for a halod that may refuse: false and its wait status if it ended instead. The directory stays in both
 * cases. */
bool rig_try_start(struct rig *rig, const char *config, const char *const *env, int *ret_status);
/* SIGTERM, exit status 0 wanted; removes the directory. */
void rig_stop(struct rig *rig);
/* Waits for the end; the wait status. */
int rig_wait(struct rig *rig);
void rig_remove(struct rig *rig);
int rig_engine_starts(const struct rig *rig);
pid_t rig_engine_pid(const struct rig *rig); /* of the latest engine */
bool rig_log_has(const struct rig *rig, const char *text);
void rig_wait_log(const struct rig *rig, const char *text);
bool rig_log_before(const struct rig *rig, const char *first, const char *second); /* both are there, in this order */
int rig_log_count(const struct rig *rig, const char *text);                        /* lines that have it */

void client_connect(struct client *client, const struct rig *rig);
/* The same as another user: in a build with -Dinject=true, with HALO_INJECT_UIDS=1. `role`: "admin-", or "". */
void client_connect_as(struct client *client, const struct rig *rig, unsigned uid, const char *role);
void client_close(struct client *client);
void client_send(struct client *client, const char *line); /* a newline is added */
void client_sendf(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next line; false at the end of the stream. */
bool client_line(struct client *client, const char **ret_line, size_t *ret_len);
/* The next event, decoded; must be finished. Lines that are no event fail the test. */
void client_event(struct client *client, struct halo_ev *ret_ev);
/* Reads until the terminal event of the integer id `id`, which is returned; other requests' events are dropped. */
void client_terminal(struct client *client, int64_t id, struct halo_ev *ret_ev);
/* One request, its terminal event's type; for errors its code too (may be NULL). */
enum halo_ev_type client_ask(struct client *client, const char *line, int64_t id, enum halo_error *ret_code);
/* A counter of `stats`; the same until it is at least `least`. What else comes meanwhile is dropped. */
long client_counter(struct client *client, const char *name);
void client_wait_counter(struct client *client, const char *name, long least);
/* What a client has of one scripted `generate` (`size` bytes of text a token) or `score` of the fake engine. */
struct stream {
    int64_t id;
    size_t size;
    long n_ids, n_rows, n_started, n_notices, n_loops, n_progress; /* n_notices: of a death */
    size_t n_text;
    double nll; /* of the rows */
    bool over;
    enum halo_ev_type terminal;
    struct halo_ev end; /* the terminal event; finish it when `over` */
};
/* Takes an event of the stream: fails the test at a gap, a repeat, an id or text that is not the next one, a notice
 * that does not fit, and at anything after the end. False: not this stream's. */
bool stream_take(struct stream *stream, struct halo_ev *ev);
/* Reads until all are over; other events are dropped. */
void streams_read(struct client *client, struct stream *streams, size_t n);

/* True if nothing arrives for `ms`. */
bool client_is_quiet(struct client *client, int ms);

uint64_t rig_now_ms(void);
void rig_sleep_ms(int ms);

/* A daemon and two clients of it; rig_end asserts exit status 0. */
void rig_begin(struct rig *rig, struct client *client, struct client *other, const char *config,
               const char *const *env);
void rig_end(struct rig *rig, struct client *client, struct client *other);

#endif
