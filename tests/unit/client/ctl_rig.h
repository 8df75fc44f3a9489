/* ctl_rig.h: haloctl on pipes or on a pseudo-terminal, and the test in the place of the daemon: it sees every byte that
 * the client sends and says what the daemon answers.
 *
 * Nothing waits for a time: what a test waits for comes, or the test fails after a patience of a minute.
 */
#ifndef HALO_TESTS_CTL_RIG_H
#define HALO_TESTS_CTL_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <protocol/line.h>
#include <protocol/message.h>

struct ctl_text {
    char *at; /* NUL-terminated */
    size_t n;
    size_t seen; /* what a test has waited for lies before it */
};

struct ctl_rig {
    char dir[64], socket_path[80];
    int listen_fd, peer_fd;    /* -1: none */
    int in_fd, out_fd, err_fd; /* of haloctl; on a terminal in_fd and out_fd are its master, err_fd is -1 */
    pid_t pid;
    struct halo_line_reader lines;
    struct halo_msg msg; /* the last request */
    struct ctl_text out, err;
};

struct ctl_setup {
    const char *const *args; /* after `--socket PATH`, ends with NULL */
    bool terminal;
    const char *term;     /* its kind; NULL: xterm */
    bool no_daemon;       /* nothing listens until ctl_listen() */
    int closed;           /* bits of descriptors 0 to 2 that haloctl starts without; pipes only */
    bool ignores_sigpipe; /* as inherited from the caller */
    const char *folder;   /* its working folder; NULL: the test's */
    const char *input;    /* written to standard input, which then ends; NULL: it stays open */
    size_t n_input;
};

void ctl_start(struct ctl_rig *rig, const struct ctl_setup *setup);
void ctl_listen(struct ctl_rig *rig);
/* Accepts the client when it has not been yet, and gives its next request. */
const struct halo_msg *ctl_request(struct ctl_rig *rig);
/* Whether the client has neither connected nor sent anything. Only after it has ended. */
bool ctl_sent_nothing(struct ctl_rig *rig);
/* Sends one event: {"type":..., "id":ID OF THE LAST REQUEST, REST}. */
__attribute__((format(printf, 3, 4))) void ctl_answer(struct ctl_rig *rig, const char *type, const char *rest, ...);
void ctl_started(struct ctl_rig *rig);
void ctl_token(struct ctl_rig *rig, const char *text);
void ctl_done(struct ctl_rig *rig, const char *finish_reason, int n_tokens);
void ctl_type(struct ctl_rig *rig, const char *bytes);
/* The daemon closes the connection; the next request comes on another one. */
void ctl_hang_up(struct ctl_rig *rig);
/* Reads what haloctl prints until the text comes, on either output, after what was waited for before. */
void ctl_wait_shown(struct ctl_rig *rig, const char *text);
void ctl_close_input(struct ctl_rig *rig);
/* Ends its input, reads the rest of its output and reaps it. Exit status; 128 + the signal that killed it. */
int ctl_wait_end(struct ctl_rig *rig);
void ctl_finish(struct ctl_rig *rig);

#endif
