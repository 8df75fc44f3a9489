/* reader.h: brings byte ranges of files into memory as fast as the disk gives them.
 *
 * A job list of (part, offset, bytes, destination) is read once, in order of file offset. io_uring with O_DIRECT and
 * registered buffers where the kernel, the file system and the limits allow it; each step down (unregistered buffers,
 * buffered reads, pread threads) is taken automatically when the one above answers EPERM, ENOSYS, ENOMEM or EINVAL, and
 * is recorded in the report. Direct reads need destination and file offset to be congruent modulo
 * HALO_HULL_ALIGN, and up to HALO_HULL_ALIGN - 1 bytes of slack before and after the range that may be overwritten;
 * a job that is not congruent, or smaller than HALO_READER_DIRECT_MIN, goes through a bounce buffer. A short file (cut
 * while reading) is an error that names the tensor, never a SIGBUS.
 *
 * Threads: halo_reader_run blocks its caller (the prefetch thread), which owns the ring. `done` and `progress` are
 * called on that thread, `place` on it or on a pread thread, one call at a time. `cancel` may be set by any thread and
 * is honoured between completions.
 */
#ifndef HALO_STORE_READER_H
#define HALO_STORE_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>

#include <store/file_id.h>
#include <store/hull.h>

#define HALO_READER_DIRECT_MIN (256 * 1024)
#define HALO_READER_POPULATE_MAX 8u

/* A file that is read through a descriptor of the caller's, which stays open and whose position does not matter. It
 * must be what `id` says when reading begins and after the last byte: bytes of two states never come together. */
struct halo_reader_source {
    int fd;
    struct halo_file_id id;
    const char *name; /* for faults, a path or the end of one */
};

struct halo_reader_job {
    uint32_t part;   /* index into sources */
    uint64_t offset; /* in the file, bytes */
    uint64_t n_bytes;
    void *dest;       /* exact place of the first byte; NULL: the options' `place` says */
    bool slack;       /* the HALO_HULL_ALIGN-aligned hull of dest .. dest + n_bytes belongs to this job and may be
                         overwritten */
    const char *name; /* for faults: the tensor */
};

struct halo_reader_options {
    unsigned queue_depth;                  /* 0: 32 */
    size_t chunk_bytes;                    /* 0: 2 MiB */
    bool no_uring, no_direct, no_register; /* force a lower step (tests, benches) */
    const atomic_bool *cancel;             /* may be NULL */
    /* Region to register as fixed buffers; may be NULL. Registering pins every page once, as a plain direct read does,
     * with some bookkeeping: it pays for memory that is read into repeatedly (staging), not for weights, which are
     * read once. */
    void *pinned;
    size_t pinned_bytes;
    /* Threads that back the destinations of large jobs with pages ahead of the reads, up to POPULATE_MAX. 0: each read
     * does it itself, while the disk waits. */
    unsigned n_populate;
    /* For memory that is used again: asked where a job without `dest` goes before its first piece is read, in order of
     * part and file offset, until it answers true. False: there is no memory yet; the reader asks again after a
     * completion, or after a millisecond when no read is under way. */
    bool (*place)(void *ud, size_t job, void **ret_dest, bool *ret_slack);
    void (*done)(void *ud, size_t job); /* each job once, in any order, when its bytes are in place; may be NULL */
    void (*progress)(void *ud, uint64_t bytes_done,
                     uint64_t bytes_total); /* may be NULL; rate is the caller's business */
    void *ud;
};

enum halo_reader_method { HALO_READER_URING_FIXED, HALO_READER_URING, HALO_READER_PREAD };

struct halo_reader_report {
    enum halo_reader_method method; /* what was used in the end */
    bool direct;                    /* O_DIRECT held for the large ranges */
    uint64_t bytes;
    uint64_t elapsed_ns;
    uint64_t populated_bytes; /* by n_populate threads; what the reader overtook is not among them */
    char notice[256];         /* empty, or one sentence on every step down that was taken and why */
};

/* Creates the ring in advance, for a process that will no longer be allowed to: halo_reader_run then uses it, and it
 * can only read. Call it before the first run; it lasts until it fails. 0, or a negative errno: runs use no ring. */
int halo_reader_prepare(void);

/* 0, or negative with the fault: LOAD_FAILED (I/O error, short or changed file), CANCELLED, OUT_OF_MEMORY. */
int halo_reader_run(const struct halo_reader_source *sources, size_t n_sources, const struct halo_reader_job *jobs,
                    size_t n_jobs, const struct halo_reader_options *options, struct halo_reader_report *ret_report,
                    struct halo_fault *fault);

#endif
