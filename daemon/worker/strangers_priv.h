/* strangers_priv.h: how many connections may be on their way to prove the key, and from where.
 *
 * A connection over the network is a stranger until its child has seen the key. At most HALO_STRANGERS_MAX are there at
 * once, so that they cannot take all sessions; a source whose connection ends as a stranger waits before the next, one
 * second first and twice as long each time, up to about a minute. An IPv6 source is its /64. Pure: the caller has the
 * time.
 */
#ifndef HALO_WORKER_STRANGERS_PRIV_H
#define HALO_WORKER_STRANGERS_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define HALO_STRANGERS_MAX 8
#define HALO_STRANGERS_SOURCES 64 /* remembered; the one that failed the longest ago is forgotten first */

struct halo_stranger_source {
    uint8_t address[8]; /* the first half of an IPv6 address, or 0 and an IPv4 address */
    uint32_t n_failures;
    uint64_t failed_ms;
};

struct halo_stranger {
    pid_t child;
    uint8_t source[8];
};

struct halo_strangers {
    struct halo_stranger waiting[HALO_STRANGERS_MAX];
    uint32_t n_waiting, n_sources;
    struct halo_stranger_source sources[HALO_STRANGERS_SOURCES];
};

enum { HALO_STRANGERS_E_FULL = 1, HALO_STRANGERS_E_WAIT };

/* 0: a connection from there may have a child. */
int halo_strangers_ask(const struct halo_strangers *s, const struct sockaddr_storage *from, uint64_t now_ms);
void halo_strangers_enter(struct halo_strangers *s, const struct sockaddr_storage *from, pid_t child);
/* Its client has the key: nothing is held against its source any more. */
void halo_strangers_prove(struct halo_strangers *s, pid_t child);
/* The child has ended. */
void halo_strangers_leave(struct halo_strangers *s, pid_t child, uint64_t now_ms);

#endif
