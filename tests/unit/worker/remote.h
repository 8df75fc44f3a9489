/* remote.h: a hip-worker process and clients of it, over real sockets. Waits for conditions, with long time-outs. */
#ifndef HALO_TESTS_WORKER_REMOTE_H
#define HALO_TESTS_WORKER_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hip_remote/codec.h>

struct worker {
    pid_t pid;
    int log_fd; /* its stderr */
    char log[64 << 10];
    size_t n_log;
    char folder[64]; /* of the socket "s" */
    uint16_t port;   /* with --listen */
};

/* Starts it on FOLDER/s, with the emulated runtime unless `hip_lib` says another, and these arguments (NULL ends). */
void worker_start(struct worker *w, const char *hip_lib, const char *const *args);
/* Reads its messages until one holds `text`; returns what follows it. */
const char *worker_await(struct worker *w, const char *text);
/* Ends it with the signal and returns its wait status. */
int worker_stop(struct worker *w, int signal_number);

int connect_unix(const struct worker *w);
int connect_tcp(const struct worker *w);

/* Sends a request and returns the answer, decoded into `ret`; data points into a static buffer. */
int ask(int fd, enum halo_remote_op op, const void *request, union halo_remote_reply *ret);
int ask_init(int fd);
/* Whether the connection ends within 60 s without another byte. */
bool ends(int fd);

#endif
