/* upload_priv.h: long copies to the device, for a worker that keeps what it was sent: of a piece that the worker has,
 * its hash is sent alone.
 *
 * Weights are what this is for, so a copy takes part when it is the first to its place in an allocation: what a program
 * copies again and again to one place (inputs, activations) is neither hashed nor kept.
 *
 * With the lock of client_priv.h. Errors: HIP's.
 */
#ifndef HALO_HIP_REMOTE_UPLOAD_PRIV_H
#define HALO_HIP_REMOTE_UPLOAD_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/channel.h>

#define HALO_UPLOAD_LEAST_BYTES (32u << 10) /* shorter copies are sent as they are */

struct halo_uploads {
    bool are_kept;      /* the worker grants it */
    bool sends_unasked; /* the worker had nothing of the last pieces: hash and bytes travel together */
    bool (*sha256)(const void *at, size_t n, uint8_t ret[static HALO_REMOTE_SHA256_BYTES]);
};

/* For a session with the feature BLOBS. */
void halo_uploads_begin(struct halo_uploads *u);
/* False: out of memory. */
bool halo_uploads_hash(const struct halo_uploads *u, const void *at, size_t n,
                       uint8_t ret[static HALO_REMOTE_SHA256_BYTES]);

#define HALO_UPLOAD_THREADS 4u /* that hash the pieces of one copy, the caller's included */
#define HALO_UPLOAD_WINDOW 16u /* pieces that are asked for together */

struct halo_upload_piece {
    uint64_t to;
    const uint8_t *from;
    uint32_t n;
    bool was_kept, is_hashed;
    uint8_t sha256[HALO_REMOTE_SHA256_BYTES];
};

/* Hashes the pieces of one copy: the caller takes them in their order while threads hash later ones. They live as long
 * as the copy, so that none is left at a fork, at the end of the process, or when the library is unloaded. */
struct halo_hashing {
    const struct halo_uploads *uploads;
    struct halo_upload_piece *pieces; /* [n] */
    uint32_t n, n_taken, n_threads;
    bool has_failed;
    pthread_t threads[HALO_UPLOAD_THREADS - 1];
    pthread_mutex_t lock;
    pthread_cond_t hashed;
};

void halo_hashing_begin(struct halo_hashing *h, const struct halo_uploads *u, struct halo_upload_piece *pieces,
                        uint32_t n);
/* Until piece i has its hash; hashes some itself meanwhile. False: out of memory. */
bool halo_hashing_await(struct halo_hashing *h, uint32_t i);
/* The rest stays without. */
void halo_hashing_end(struct halo_hashing *h);

/* Where the copies to an allocation of n bytes are noted; NULL: they do not take part. The caller frees it. */
uint8_t *halo_upload_map(size_t n);

/* Whether a copy takes part; it is noted. */
bool halo_upload_is_for(uint64_t to, size_t n);
/* Copies in the order of the stream. Waits for an answer when the worker may have some of the bytes. */
int halo_upload(uint64_t to, const uint8_t *from, size_t n, uint64_t stream);

#endif
