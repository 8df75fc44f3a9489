/* wire.h: a client and a worker of hip_tls in one process, and what lies between them: it sees every byte, and can cut
 * the connection or change one. No threads, so nothing depends on time. */
#ifndef HALO_TESTS_HIP_TLS_WIRE_H
#define HALO_TESTS_HIP_TLS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/channel.h>

enum { WIRE_UP, WIRE_DOWN, WIRE_WAYS }; /* to the worker, to the client */
enum { WIRE_CLIENT, WIRE_WORKER };

#define WIRE_NEVER SIZE_MAX

struct wire_way {
    int from, to;
    size_t n;       /* bytes that came by */
    size_t cut_at;  /* the connection ends after so many */
    size_t flip_at; /* this byte is changed by flip_by */
    uint8_t flip_by;
    uint8_t seen[16384]; /* the first of them */
    bool has_ended;
};

struct wire {
    struct halo_remote_channel ends[2];
    struct wire_way ways[WIRE_WAYS];
    int results[2]; /* of the handshake: 1 while it goes on, else as halo_remote_channel_secure() */
};

/* Begins both sides. */
void wire_open(struct wire *w, const struct halo_remote_key *client, const struct halo_remote_key *worker);
/* Only one side encrypts; the other is the test's. */
void wire_open_one(struct wire *w, int side, const struct halo_remote_key *key);
void wire_close(struct wire *w);

/* Moves what has come. Whether there was anything. */
bool wire_pump(struct wire *w);
/* Steps both sides until neither gets on. A side that fails closes its end. */
void wire_shake_hands(struct wire *w);

/* Sends and receives n bytes through the wire; false: an end failed first, and `ret_error` is what it said. */
bool wire_carry(struct wire *w, int from, const uint8_t *at, size_t n, uint8_t *to, int *ret_error);

#endif
