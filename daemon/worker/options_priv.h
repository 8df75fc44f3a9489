/* options_priv.h: the command line of hip-worker. */
#ifndef HALO_WORKER_OPTIONS_PRIV_H
#define HALO_WORKER_OPTIONS_PRIV_H

#include <stdbool.h>

#include <worker/session.h>

struct halo_worker_options {
    char socket[108];     /* "": none */
    const char *listen;   /* HOST:PORT; NULL: none */
    const char *key_file; /* NULL: TCP for this user alone, on a loopback address */
    const char *hip_lib;
    const char *blobs; /* folder for what clients upload; NULL: it is not kept */
    uint64_t blob_bytes;
    struct halo_session_limits limits;
    uint32_t n_sessions;
    bool no_sandbox;
    int session_fd; /* of a child; -1: the supervisor */
};

/* -1: go on; else the exit status: 0 after --help and --version, 2 after a mistake, which was told on stderr. */
int halo_worker_options_parse(struct halo_worker_options *ret, int argc, char **argv);

#endif
