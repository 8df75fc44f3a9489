/* gguf_source.c: the bytes of a directory, read as far as the parser asks.
 *
 * One thread. Owns the buffer and the descriptor. The buffer at most doubles with each read, so it never holds more
 * than twice what the parser has walked through (and one first step), whatever the file declares. Fails with NOT_FOUND,
 * LOAD_FAILED (not a regular file, read error, file cut meanwhile), OUT_OF_MEMORY.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_priv.h"

#define SOURCE_FIRST_BYTES ((uint64_t)256 * 1024)

static const char *file_kind(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    default: return "something else";
    }
}

int gguf_source_open(struct gguf_source *source, const char *path, struct halo_fault *fault)
{
    *source = (struct gguf_source){.fd = -1};
    /* O_NONBLOCK: opening a pipe that nobody writes to would hang the thread that opens models. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        enum halo_fault_code code = errno == ENOENT ? HALO_FAULT_NOT_FOUND : HALO_FAULT_LOAD_FAILED;
        return halo_fault_errno(fault, code, -errno, "cannot be opened");
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        int r = halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "cannot be examined");
        close(fd);
        return r;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "is %s, not a regular file", file_kind(st.st_mode));
    }
    source->fd = fd;
    source->n_file = (uint64_t)st.st_size;
    source->id = halo_file_id_of(&st);
    return 0;
}

void gguf_source_open_memory(struct gguf_source *source, const void *bytes, size_t n)
{
    *source = (struct gguf_source){.bytes = bytes, .n_have = n, .n_file = n, .fd = -1};
}

static int source_read(struct gguf_source *source, uint64_t end, struct halo_fault *fault)
{
    while (source->n_have < end) {
        ssize_t n = pread(source->fd, source->owned + source->n_have, end - source->n_have, (off_t)source->n_have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "reading byte %llu failed",
                                    (unsigned long long)source->n_have);
        if (n == 0)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                  "ends at byte %llu, it had %llu bytes when it was opened",
                                  (unsigned long long)source->n_have, (unsigned long long)source->n_file);
        source->n_have += (uint64_t)n;
    }
    return 0;
}

int gguf_source_need(struct gguf_source *source, uint64_t end, struct halo_fault *fault)
{
    assert(end <= source->n_file);
    if (end <= source->n_have)
        return 0;
    assert(source->fd >= 0);
    uint64_t target = source->n_have ? 2 * source->n_have : SOURCE_FIRST_BYTES;
    target = target > end ? target : end;
    target = target < source->n_file ? target : source->n_file;
    uint8_t *grown = realloc(source->owned, target);
    if (!grown)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %llu bytes of the directory",
                              (unsigned long long)target);
    source->owned = grown;
    source->bytes = grown;
    return source_read(source, target, fault);
}

void gguf_source_trim(struct gguf_source *source, uint64_t end)
{
    assert(end <= source->n_have);
    if (!source->owned)
        return;
    source->n_have = end;
    uint8_t *shrunk = realloc(source->owned, end);
    if (shrunk) { /* if not, the larger block stays */
        source->owned = shrunk;
        source->bytes = shrunk;
    }
}

void gguf_source_close(struct gguf_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}

void gguf_source_finish(struct gguf_source *source)
{
    gguf_source_close(source);
    free(source->owned);
    *source = (struct gguf_source){.fd = -1};
}
