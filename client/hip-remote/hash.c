/* hash.c: SHA-256 of what is uploaded: by the module that also encrypts, which is fast, or by the system's library; in
 * several threads, because one is slower than a network. */
#include <signal.h>
#include <unistd.h>
#ifndef __APPLE__
#include <sha2.h>
#endif

#include "secure_priv.h"
#include "upload_priv.h"

static bool hash_of_system(const void *at, size_t n, uint8_t ret[static HALO_REMOTE_SHA256_BYTES])
{
#ifdef __APPLE__
    /* Of the system's own library, whose header not every toolchain has. */
    extern unsigned char *CC_SHA256(const void *bytes, uint32_t n, unsigned char *ret);
    CC_SHA256(at, (uint32_t)n, ret);
#else
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, at, n);
    SHA256Final(ret, &sha);
#endif
    return true;
}

void halo_uploads_begin(struct halo_uploads *u)
{
    char reason[HALO_REMOTE_REASON_BYTES];
    const struct halo_remote_cipher *cipher = halo_remote_cipher_find(reason);
    *u = (struct halo_uploads){.are_kept = true, .sha256 = cipher ? cipher->sha256 : NULL};
}

bool halo_uploads_hash(const struct halo_uploads *u, const void *at, size_t n,
                       uint8_t ret[static HALO_REMOTE_SHA256_BYTES])
{
    return u->sha256 ? u->sha256(at, n, ret) : hash_of_system(at, n, ret);
}

/* ---- threads ---- */

/* Takes the next piece, if there is one, and hashes it. With the lock. */
static bool hash_next(struct halo_hashing *h)
{
    if (h->n_taken == h->n)
        return false;
    struct halo_upload_piece *p = &h->pieces[h->n_taken++];
    pthread_mutex_unlock(&h->lock);
    bool ok = halo_uploads_hash(h->uploads, p->from, p->n, p->sha256);
    pthread_mutex_lock(&h->lock);
    p->is_hashed = true;
    h->has_failed = h->has_failed || !ok;
    pthread_cond_broadcast(&h->hashed);
    return true;
}

static void *hash_some(void *ud)
{
    struct halo_hashing *h = ud;
    pthread_mutex_lock(&h->lock);
    while (hash_next(h))
        ;
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

void halo_hashing_begin(struct halo_hashing *h, const struct halo_uploads *u, struct halo_upload_piece *pieces,
                        uint32_t n)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = n_cores > 0 && n_cores < (long)HALO_UPLOAD_THREADS ? (uint32_t)n_cores : HALO_UPLOAD_THREADS;
    sigset_t all, before;
    *h = (struct halo_hashing){.uploads = u, .pieces = pieces, .n = n};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->hashed, NULL);
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (h->n_threads + 1 < most && h->n_threads + 1 < n &&
           pthread_create(&h->threads[h->n_threads], NULL, hash_some, h) == 0)
        h->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool halo_hashing_await(struct halo_hashing *h, uint32_t i)
{
    pthread_mutex_lock(&h->lock);
    while (!h->pieces[i].is_hashed)
        if (!hash_next(h))
            pthread_cond_wait(&h->hashed, &h->lock);
    bool ok = !h->has_failed;
    pthread_mutex_unlock(&h->lock);
    return ok;
}

void halo_hashing_end(struct halo_hashing *h)
{
    pthread_mutex_lock(&h->lock);
    h->n_taken = h->n;
    pthread_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < h->n_threads; i++)
        pthread_join(h->threads[i], NULL);
    pthread_cond_destroy(&h->hashed);
    pthread_mutex_destroy(&h->lock);
}
