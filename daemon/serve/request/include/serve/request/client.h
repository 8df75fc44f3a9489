/* client.h: a client as requests see it: where its events go, which of its requests are open, who is charged.
 *
 * A connection embeds one (client/peer.h); requests know nothing else of connections. Events are appended to `out`,
 * and the client is put on the list of those that have output; whoever owns the connection flushes it. One thread.
 */
#ifndef HALO_SERVE_REQUEST_CLIENT_H
#define HALO_SERVE_REQUEST_CLIENT_H

#include <stdbool.h>

#include <base/list.h>
#include <protocol/json_write.h>

#include <serve/quota.h>

struct halo_client {
    struct halo_quota *quota;
    struct halo_quota_user *user; /* charged for what the daemon holds for it */
    bool admin;  /* may send requests that affect other users: privileged, or in the group of administrators */
    bool slow;   /* does not read its events: its replies are paused */
    bool closed; /* gets no more events */
    bool broken; /* an event was lost because memory ran out: the connection must close */
    struct halo_json *out;       /* the owner's buffer */
    size_t seen_bytes;           /* of `out`, when it was charged last */
    size_t output_bytes;         /* charged: all that the client has not read */
    struct halo_list requests;   /* open: their terminal event is due */
    struct halo_list *touched;   /* the list of clients that have output, or whose last request ended ... */
    struct halo_list_node touch; /* ... and its node there */
};

/* `touched` and the quota outlive the client. */
void halo_client_init(struct halo_client *client, struct halo_quota *quota, struct halo_quota_user *user,
                      struct halo_json *out, struct halo_list *touched);

/* The client has output: charges what `out` grew by. */
void halo_client_touch(struct halo_client *client);

/* Sets how many bytes are unread, `out` included. */
void halo_client_settle(struct halo_client *client, size_t bytes);

/* An event could not be written because memory ran out. Frees nothing: callers iterate over requests. */
void halo_client_break(struct halo_client *client);

#endif
