/* blob_jobs_priv.h: copies of blobs whose bytes are hashed by other threads before the session makes them.
 *
 * Up to HALO_BLOB_JOBS of them, in the order of their requests: one from the store is read and checked, one to it is
 * hashed. The session takes them in that order. Threads start with the first job; without them the session's own thread
 * does the work when it waits. One thread calls all functions.
 */
#ifndef HALO_WORKER_BLOB_JOBS_PRIV_H
#define HALO_WORKER_BLOB_JOBS_PRIV_H

#include <pthread.h>

#include <hip_remote/codec.h>

#include "store_priv.h"

#define HALO_BLOB_JOBS 8u
#define HALO_BLOB_THREADS 4u

struct halo_blob_job {
    struct halo_remote_header h;
    union halo_remote_request q; /* of HIP_OP_MEMCPY_FROM_BLOB or HIP_OP_MEMCPY_TO_BLOB; its data are `bytes` */
    uint8_t *bytes;              /* [HALO_REMOTE_DATA_MAX] */
    bool is_done;
    int r; /* when it is done: of halo_blob_store_get(), or -EBADMSG: the bytes have another hash */
};

struct halo_blob_jobs {
    struct halo_blob_store *store;
    struct halo_blob_job ring[HALO_BLOB_JOBS];
    uint32_t first, n;
    uint32_t n_taken; /* of the n: those that a thread has begun */
    uint32_t n_threads;
    bool has_started, ends;
    pthread_t threads[HALO_BLOB_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t added, done;
};

void halo_blob_jobs_init(struct halo_blob_jobs *jobs, struct halo_blob_store *store);
/* What is not taken is dropped. */
void halo_blob_jobs_finish(struct halo_blob_jobs *jobs);

bool halo_blob_jobs_is_full(const struct halo_blob_jobs *jobs);
/* Whether a job is to store bytes of this hash. */
bool halo_blob_jobs_will_store(const struct halo_blob_jobs *jobs, const uint8_t sha256[static HALO_BLOB_HASH_BYTES]);
/* Copies the request and its data; there is room. 0 or -ENOMEM. */
int halo_blob_jobs_add(struct halo_blob_jobs *jobs, const struct halo_remote_header *h,
                       const union halo_remote_request *q);
/* Whether the first job is done, or is left to halo_blob_jobs_await() because there are no threads. */
bool halo_blob_jobs_is_first_done(struct halo_blob_jobs *jobs);
/* The first job, when it is done; there is one. */
struct halo_blob_job *halo_blob_jobs_await(struct halo_blob_jobs *jobs);
void halo_blob_jobs_drop_first(struct halo_blob_jobs *jobs);

#endif
