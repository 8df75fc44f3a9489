/* mkgguf_out.c: a file written in large blocks by a thread of its own, while the caller fills the next block.
 *
 * O_DIRECT where the file system allows it, so that making a large model does not push everything out of the page
 * cache. Two blocks change hands under a lock. The last, odd block is written through the cache. Errors are kept and
 * returned by close.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mkgguf.h"

#define OUT_BLOCK_BYTES ((size_t)8 << 20)
#define OUT_ALIGN 4096

struct mkgguf_out {
    int fd;
    bool direct;
    uint8_t *blocks[2];
    int filling; /* which block the caller has */
    size_t n;    /* bytes in it */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t posted; /* bytes of the other block that wait to be written; 0: none */
    bool ending;
    int error;
};

static int write_all(struct mkgguf_out *out, const uint8_t *bytes, size_t n)
{
    if (out->direct && n % OUT_ALIGN) {
        int flags = fcntl(out->fd, F_GETFL);
        if (flags < 0 || fcntl(out->fd, F_SETFL, flags & ~O_DIRECT) < 0)
            return -errno;
        out->direct = false;
    }
    while (n > 0) {
        ssize_t written = write(out->fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static void *writer_main(void *ud)
{
    struct mkgguf_out *out = ud;
    pthread_mutex_lock(&out->lock);
    for (;;) {
        while (out->posted == 0 && !out->ending)
            pthread_cond_wait(&out->changed, &out->lock);
        if (out->posted == 0)
            break;
        const uint8_t *block = out->blocks[1 - out->filling];
        size_t n = out->posted;
        int r = out->error;
        pthread_mutex_unlock(&out->lock);
        if (!r)
            r = write_all(out, block, n);
        pthread_mutex_lock(&out->lock);
        out->error = r;
        out->posted = 0;
        pthread_cond_signal(&out->changed);
    }
    pthread_mutex_unlock(&out->lock);
    return NULL;
}

/* Hands the filled block over and takes the other one as soon as it is written. */
static int out_swap(struct mkgguf_out *out)
{
    pthread_mutex_lock(&out->lock);
    while (out->posted)
        pthread_cond_wait(&out->changed, &out->lock);
    out->posted = out->n;
    out->filling = 1 - out->filling;
    out->n = 0;
    int r = out->error;
    pthread_cond_signal(&out->changed);
    pthread_mutex_unlock(&out->lock);
    return r;
}

int mkgguf_out_open(struct mkgguf_out **ret, const char *path, uint64_t expected_bytes)
{
    struct mkgguf_out *out = calloc(1, sizeof *out);
    assert(out);
    out->direct = true;
    out->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0666);
    if (out->fd < 0 && errno == EINVAL) {
        out->direct = false;
        out->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (out->fd < 0) {
        int r = -errno;
        free(out);
        return r;
    }
    /* Best effort: keeps the file in one piece, and finds a full disk before half an hour of writing. */
    int r = fallocate(out->fd, 0, 0, (off_t)expected_bytes) < 0 && errno == ENOSPC ? -ENOSPC : 0;
    for (int i = 0; i < 2; i++) {
        out->blocks[i] = aligned_alloc(OUT_ALIGN, OUT_BLOCK_BYTES);
        assert(out->blocks[i]);
    }
    pthread_mutex_init(&out->lock, NULL);
    pthread_cond_init(&out->changed, NULL);
    out->error = r;
    int rc = pthread_create(&out->thread, NULL, writer_main, out);
    assert(rc == 0);
    (void)rc;
    *ret = out;
    return 0;
}

uint8_t *mkgguf_out_room(struct mkgguf_out *out, size_t *ret_room)
{
    if (out->n == OUT_BLOCK_BYTES && out_swap(out))
        return NULL;
    *ret_room = OUT_BLOCK_BYTES - out->n;
    return out->blocks[out->filling] + out->n;
}

void mkgguf_out_advance(struct mkgguf_out *out, size_t n)
{
    assert(n <= OUT_BLOCK_BYTES - out->n);
    out->n += n;
}

int mkgguf_out_write(struct mkgguf_out *out, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    while (n > 0) {
        size_t room;
        uint8_t *to = mkgguf_out_room(out, &room);
        if (!to)
            return -EIO; /* close has the reason */
        room = room < n ? room : n;
        memcpy(to, from, room);
        mkgguf_out_advance(out, room);
        from += room;
        n -= room;
    }
    return 0;
}

int mkgguf_out_close(struct mkgguf_out *out)
{
    if (out->n > 0)
        out_swap(out);
    pthread_mutex_lock(&out->lock);
    out->ending = true;
    pthread_cond_signal(&out->changed);
    pthread_mutex_unlock(&out->lock);
    pthread_join(out->thread, NULL);
    int r = out->error;
    off_t end = lseek(out->fd, 0, SEEK_CUR);
    if (!r && (end < 0 || ftruncate(out->fd, end) < 0 || fdatasync(out->fd) < 0))
        r = -errno;
    if (close(out->fd) < 0 && !r)
        r = -errno;
    free(out->blocks[0]);
    free(out->blocks[1]);
    pthread_mutex_destroy(&out->lock);
    pthread_cond_destroy(&out->changed);
    free(out);
    return r;
}
