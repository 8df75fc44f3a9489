/* mixed_load.h: many clients that send a random mix of requests, cancel some, stop reading, and break off.
 *
 * Each kind of request runs once undisturbed first. Each later one must end exactly once (the fixture aborts at a
 * second end, at a gap or a repeat of ids), and one that was neither cancelled nor cut off must give what it gave
 * undisturbed: ids, text, rows. A cancelled one must have a prefix of it. The caller decides how much is sent and what
 * happens to the engine meanwhile. One thread; every check is a cmocka assertion.
 */
#ifndef HALO_TESTS_MIXED_LOAD_H
#define HALO_TESTS_MIXED_LOAD_H

#include "daemon_fixture.h"

#define LOAD_MAX_CLIENTS 64

/* Limits under which a reader that stops is noticed (`[limits]` of a configuration file). */
#define LOAD_LIMITS "[limits]\noutput_high_bytes = 4096\noutput_low_bytes = 1024\nstall_ms = 20000\n"

enum load_fate { LOAD_PLAIN, LOAD_CANCELLED, LOAD_ENDED };

struct load_client {
    struct client client;
    size_t kind[CLIENT_MAX_REQUESTS];
    enum load_fate fate[CLIENT_MAX_REQUESTS];
    int64_t cancel_at[CLIENT_MAX_REQUESTS]; /* us of load_now_us(); 0: not */
    int64_t stalled_until, cut_at;          /* likewise */
};

struct mixed_load {
    struct daemon_fixture *fixture;
    const char *model;   /* that is asked */
    struct client quiet; /* the undisturbed runs, one request per kind */
    struct load_client clients[LOAD_MAX_CLIENTS];
    int n_clients;
    uint64_t seed;                                                          /* not 0 */
    int sent, plain, cancelled, late_cancels, cut, lost, ids, stalls, cuts; /* what was done and checked */
    int n_descriptors; /* the daemon's, before there was any load */
};

int64_t load_now_us(void);
uint64_t load_draw(struct mixed_load *load, uint64_t below);

/* Runs each kind once on a daemon that has just started, then opens the clients. */
void load_start(struct mixed_load *load, struct daemon_fixture *fixture, const char *model, int n_clients,
                uint64_t seed);
/* Waits up to 2 ms for events and reads them. Returns how many requests are open. */
int load_read(struct mixed_load *load, int64_t now);
/* Checks what ended, cuts and cancels what is due, and sends while fewer than `max_sent` have been sent. */
void load_tend(struct mixed_load *load, int64_t now, int max_sent);
/* Checks the last ones, closes all, and asserts that nothing is left in daemon and engine: no descriptor, no zombie, no
 * open request, no sequence, no page of the KV cache that anybody holds. Prints what was checked. */
void load_finish(struct mixed_load *load);

/* The daemon's children, zombies too; the last one's pid and state (a letter of /proc/PID/stat). */
int load_children(const struct mixed_load *load, pid_t *ret_pid, char *ret_state);

#endif
