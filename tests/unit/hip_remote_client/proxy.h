/* proxy.h: a process between client and worker that cuts, drops, stalls, delays or trickles what passes.
 *
 * It takes one connection at FOLDER/p, makes one to the worker's socket FOLDER/s, and ends with either of them.
 */
#ifndef HALO_TESTS_HIP_CLIENT_PROXY_H
#define HALO_TESTS_HIP_CLIENT_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROXY_UP, PROXY_DOWN, PROXY_WAYS }; /* to the worker, to the client */

enum proxy_fault {
    PROXY_PASS,
    PROXY_CUT,   /* both connections end */
    PROXY_DROP,  /* what follows is read and lost, as in a half-open connection */
    PROXY_STALL, /* what follows is not read */
};

struct proxy_rule {
    enum proxy_fault fault;
    int way;
    size_t at; /* after so many bytes of that way */
    unsigned delay_us;
    bool trickles; /* a byte at a time */
};

struct proxy {
    pid_t pid;
    char path[96];    /* of its socket */
    size_t *n_passed; /* [PROXY_WAYS], shared with its process */
};

/* `folder`: that of the worker. */
void proxy_start(struct proxy *p, const char *folder, const struct proxy_rule *rule);
/* Waits for its end. */
void proxy_wait(struct proxy *p);

#endif
