/* daemon_fixture.h: a real halod with a real engine for end-to-end tests, and a client that checks every event.
 *
 * Each fixture has a folder of its own with socket, state and log; stop() ends the daemon and asserts a clean exit. A
 * client counts the events of each request and aborts the test at a second terminal event, an event of an unknown id or
 * a decode error.
 */
#ifndef HALO_TESTS_DAEMON_FIXTURE_H
#define HALO_TESTS_DAEMON_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <protocol/line.h>
#include <protocol/message.h>

struct daemon_fixture {
    char dir[256], socket_path[300], log_path[300]; /* the log has what daemon and engine write to standard error */
    pid_t pid;
};

extern const char *daemon_models; /* folder of models of the daemons that follow; NULL: that of the tree */

/* With $HALO_HIP_LIB the engine runs on the HIP device over that runtime, else on the CPU; the engine is the program
 * $HALO_TEST_ENGINE, or the one of the build. Starts halod, or $HALO_TEST_HALOD, with
 * `config` (text of a configuration file, or NULL) and waits until the socket answers a ping. */
void daemon_start(struct daemon_fixture *daemon, const char *config);
/* SIGTERM, waits up to `deadline_ms`, asserts exit status 0 and that the socket file is gone. The folder stays. */
void daemon_end(struct daemon_fixture *daemon, int deadline_ms);
/* Removes the folder of a daemon that has ended. */
void daemon_remove(struct daemon_fixture *daemon);
/* Both. */
void daemon_stop(struct daemon_fixture *daemon, int deadline_ms);
/* Process id of the engine by the daemon's own `status`; 0 while there is none. */
pid_t daemon_engine_pid(const struct daemon_fixture *daemon);

#define CLIENT_MAX_REQUESTS 64

struct client_request {
    int64_t id;
    int n_terminal, n_started, n_progress;
    enum halo_ev_type terminal;
    enum halo_error error; /* of a terminal error */
    enum halo_wire_finish finish;
    int32_t *ids;
    size_t n_ids;
    char *text;
    size_t n_text;
    char message[512], detail[256]; /* of a terminal error */
    int64_t seed;
    int n_restarts;            /* `engine_restarted` notices */
    int64_t first_row, n_rows; /* of a score */
    double nll;                /* of a score, when it is done */
};

struct client {
    int fd;
    struct halo_line_reader lines;
    struct client_request requests[CLIENT_MAX_REQUESTS];
    size_t n_requests;
    int n_open;
    size_t n_bytes;               /* that came */
    int64_t n_tokens, n_restarts; /* `committed` and `token` events; `engine_restarted` notices */
    char *last_line;              /* the last terminal event as it came */
};

void client_open(struct client *client, const struct daemon_fixture *daemon);
/* As a user that the daemon believes, when it is built with -Dinject=true and has HALO_INJECT_UIDS=1. role: "", or
 * "admin-" for a member of the administrators' group. */
void client_open_as(struct client *client, const struct daemon_fixture *daemon, unsigned uid, const char *role);
void client_close(struct client *client);
/* Forgets all requests; none may be open. Ids begin anew. */
void client_forget(struct client *client);
/* Sends {"type":..., "id":N, <rest>}; `rest` is printf-formatted JSON members or "". Returns the request's index. */
__attribute__((format(printf, 3, 4))) size_t client_send(struct client *client, const char *type, const char *rest,
                                                         ...);
/* Reads until `n_open` requests are still open, or fails the test after timeout_ms. Returns false at end of file. */
bool client_wait(struct client *client, int n_open, int timeout_ms);
/* Reads what is there for up to timeout_ms without expecting anything. */
void client_poll(struct client *client, int timeout_ms);

/* Reads what is there, without waiting. Returns false at end of file. */
bool client_take(struct client *client);

/* The raw JSON member of the last terminal event as an integer, or -1. */
int64_t client_last_i64(const struct client *client, const char *key);

/* Asserts that the daemon itself answers a ping within a second, whatever the engine does. */
void daemon_answers(const struct daemon_fixture *daemon);

#endif
