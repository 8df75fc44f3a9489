/* blob_jobs.c: the ring and its threads. */
#include "blob_jobs_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/thread.h>
#include <hip_tls/tls.h>

void halo_blob_jobs_init(struct halo_blob_jobs *jobs, struct halo_blob_store *store)
{
    *jobs = (struct halo_blob_jobs){.store = store};
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->added, NULL);
    pthread_cond_init(&jobs->done, NULL);
}

void halo_blob_jobs_finish(struct halo_blob_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->ends = true;
    pthread_cond_broadcast(&jobs->added);
    pthread_mutex_unlock(&jobs->lock);
    for (uint32_t i = 0; i < jobs->n_threads; i++)
        pthread_join(jobs->threads[i], NULL);
    for (uint32_t i = 0; i < HALO_BLOB_JOBS; i++)
        free(jobs->ring[i].bytes);
    pthread_cond_destroy(&jobs->done);
    pthread_cond_destroy(&jobs->added);
    pthread_mutex_destroy(&jobs->lock);
}

/* ---- the work ---- */

static int check(const struct halo_remote_memcpy_to_blob *q)
{
    uint8_t is[HALO_BLOB_HASH_BYTES];
    if (!halo_remote_tls.sha256(q->data.at, q->data.n, is))
        return -ENOMEM;
    return memcmp(is, q->sha256, sizeof(is)) == 0 ? 0 : -EBADMSG;
}

/* Begins the next job, if there is one, and does it. With the lock. */
static bool do_next(struct halo_blob_jobs *jobs)
{
    if (jobs->n_taken == jobs->n || jobs->ends)
        return false;
    struct halo_blob_job *job = &jobs->ring[(jobs->first + jobs->n_taken++) % HALO_BLOB_JOBS];
    const struct halo_remote_memcpy_from_blob *from = &job->q.memcpy_from_blob;
    pthread_mutex_unlock(&jobs->lock);
    job->r = job->h.op == HIP_OP_MEMCPY_TO_BLOB
                 ? check(&job->q.memcpy_to_blob)
                 : halo_blob_store_get(jobs->store, from->sha256, job->bytes, from->size);
    pthread_mutex_lock(&jobs->lock);
    job->is_done = true;
    pthread_cond_broadcast(&jobs->done);
    return true;
}

static void *work(void *ud)
{
    struct halo_blob_jobs *jobs = ud;
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->ends)
        if (!do_next(jobs))
            pthread_cond_wait(&jobs->added, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static void start_threads(struct halo_blob_jobs *jobs)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = n_cores > 0 && n_cores < (long)HALO_BLOB_THREADS ? (uint32_t)n_cores : HALO_BLOB_THREADS;
    jobs->has_started = true;
    while (jobs->n_threads < most && halo_thread_start(&jobs->threads[jobs->n_threads], "hash", work, jobs) == 0)
        jobs->n_threads++;
}

/* ---- the session's side ---- */

bool halo_blob_jobs_is_full(const struct halo_blob_jobs *jobs)
{
    return jobs->n == HALO_BLOB_JOBS;
}

bool halo_blob_jobs_will_store(const struct halo_blob_jobs *jobs, const uint8_t sha256[static HALO_BLOB_HASH_BYTES])
{
    for (uint32_t i = 0; i < jobs->n; i++) {
        const struct halo_blob_job *job = &jobs->ring[(jobs->first + i) % HALO_BLOB_JOBS];
        if (job->h.op == HIP_OP_MEMCPY_TO_BLOB &&
            memcmp(job->q.memcpy_to_blob.sha256, sha256, HALO_BLOB_HASH_BYTES) == 0)
            return true;
    }
    return false;
}

int halo_blob_jobs_add(struct halo_blob_jobs *jobs, const struct halo_remote_header *h,
                       const union halo_remote_request *q)
{
    struct halo_blob_job *job = &jobs->ring[(jobs->first + jobs->n) % HALO_BLOB_JOBS];
    if (!jobs->has_started)
        start_threads(jobs);
    if (!job->bytes)
        job->bytes = malloc(HALO_REMOTE_DATA_MAX);
    if (!job->bytes)
        return -ENOMEM;
    job->h = *h;
    job->q = *q;
    job->is_done = false;
    if (h->op == HIP_OP_MEMCPY_TO_BLOB) {
        memcpy(job->bytes, q->memcpy_to_blob.data.at, q->memcpy_to_blob.data.n);
        job->q.memcpy_to_blob.data.at = job->bytes;
    }
    pthread_mutex_lock(&jobs->lock);
    jobs->n++;
    pthread_cond_signal(&jobs->added);
    pthread_mutex_unlock(&jobs->lock);
    return 0;
}

bool halo_blob_jobs_is_first_done(struct halo_blob_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    bool is_done = jobs->n > 0 && (jobs->ring[jobs->first].is_done || jobs->n_threads == 0);
    pthread_mutex_unlock(&jobs->lock);
    return is_done;
}

struct halo_blob_job *halo_blob_jobs_await(struct halo_blob_jobs *jobs)
{
    struct halo_blob_job *job = &jobs->ring[jobs->first];
    pthread_mutex_lock(&jobs->lock);
    while (!job->is_done)
        if (!do_next(jobs))
            pthread_cond_wait(&jobs->done, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
    return job;
}

void halo_blob_jobs_drop_first(struct halo_blob_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->first = (jobs->first + 1) % HALO_BLOB_JOBS;
    jobs->n--;
    jobs->n_taken--;
    pthread_mutex_unlock(&jobs->lock);
}
