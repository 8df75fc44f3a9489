/* clients.h: the listening socket and all connections.
 *
 * The ops report what clients send and how fast they read. An answer is written into peer->client.out, its writer
 * touches the client, and halo_clients_flush() hands the bytes to the kernel. Loop thread; nothing blocks.
 */
#ifndef HALO_SERVE_CLIENT_CLIENTS_H
#define HALO_SERVE_CLIENT_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include <base/fault.h>
#include <base/list.h>
#include <base/log.h>
#include <listen/listen.h>

#include <serve/client/peer.h>
#include <serve/config.h>
#include <serve/counters.h>
#include <serve/quota.h>

struct halo_clients {
    uv_loop_t *loop;
    const struct halo_config *config;
    struct halo_quota *quota;
    struct halo_counters *counters;
    struct halo_list *touched; /* clients with output */
    const struct halo_peer_ops *ops;
    void *ud;
    gid_t admin_gid; /* whose members may do what root may; (gid_t)-1: none */

    struct halo_listen listen;
    uv_poll_t poll;
    uv_timer_t timer; /* after a failed accept */
    bool accepting;
    struct halo_list peers;          /* not yet closing */
    struct halo_list ready;          /* those with input that was not looked at */
    uint64_t turn;                   /* of the loop */
    uv_idle_t idle;                  /* while some are ready: the loop does not sleep */
    struct halo_log_limit log_limit; /* for lines that clients cause */
    struct halo_list refused;        /* connections that only read why: linger.c */
};

/* Listens at config->socket_path, or takes over `passed_fd` if that is not -1. The caller sets loop, config, quota,
 * counters, touched, ops and ud before. On failure nothing is left on the loop once it has run. */
int halo_clients_start(struct halo_clients *clients, int passed_fd, struct halo_fault *fault);
/* Accepts no more connections; open ones stay. The path is free again. */
void halo_clients_stop(struct halo_clients *clients);
/* After the loop has returned. */
void halo_clients_finish(struct halo_clients *clients);

/* Once in each turn of the loop: handles lines, those of each user for a bounded time. */
void halo_clients_take(struct halo_clients *clients);
/* Hands the output of all touched clients to the kernel. */
void halo_clients_flush(struct halo_clients *clients);
/* Closes all of them once their output is written; at once. */
void halo_clients_doom(struct halo_clients *clients);
void halo_clients_close(struct halo_clients *clients);
/* Handles; after halo_clients_close(). */
void halo_clients_close_handles(struct halo_clients *clients);

#endif
