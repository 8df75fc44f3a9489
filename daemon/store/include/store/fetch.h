/* fetch.h: reads ranges of model files into memory while a model runs.
 *
 * The loader's reader (reader.h) reads a list once and returns. A halo_fetch lives as long as the engine: reads are
 * submitted one by one and complete in any order. It owns one fetch thread with an io_uring or, where the kernel
 * refuses a ring (EPERM, ENOSYS, seccomp), a pool of threads that call pread(2). The choice is made at creation; the
 * reason is in the notice.
 *
 * Each read is cut into blocks of at most `block_bytes`, of which at most `depth` are in flight. Demand reads go before
 * ahead reads, in order of submission within each class; blocks in flight are never interrupted. Files are read with
 * O_DIRECT: the hull of a range, [offset, offset + n_bytes) widened to multiples of HALO_HULL_ALIGN, is read, so
 * `dest` must be congruent to `offset` modulo HALO_HULL_ALIGN and the bytes of the hull around the range are
 * overwritten.
 *
 * What is repaired without telling the owner of a read: short reads, EINTR, EAGAIN, the first EIO of a block, memory
 * that refuses direct reads (EFAULT: the block goes through a bounce buffer) and files that refuse them (EINVAL,
 * EOPNOTSUPP: read through the page cache, which is told to drop the bytes). The last two leave a notice each. What
 * fails a read: a second EIO of a block, a file that ends before the range does, any other error.
 *
 * A completion carries the slot and the generation of its read: whoever reuses a slot counts its generation up and
 * ignores completions of an older one. The memory of a read belongs to the kernel until the completion has been reaped,
 * whether the read was cancelled or not.
 *
 * Threads: one thread (the device thread) submits, cancels and reaps; none of these calls allocates or waits for the
 * disk, halo_fetch_reap waits until its deadline at most. Files are added and removed, and everything that only asks
 * is called, by any thread. A file that was replaced on disk keeps its bytes for as long as the descriptor is open;
 * whether a file was written to is for the caller to check with file_id.h.
 */
#ifndef HALO_STORE_FETCH_H
#define HALO_STORE_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/remarks.h>

#include <store/file_id.h>
#include <store/hull.h>

#define HALO_FETCH_FILES_MAX 256
#define HALO_FETCH_BLOCK_DEFAULT ((uint32_t)1 << 20)
#define HALO_FETCH_BLOCK_MAX ((uint32_t)16 << 20)
#define HALO_FETCH_DEPTH_DEFAULT 32u
#define HALO_FETCH_DEPTH_MAX 128u
#define HALO_FETCH_QUEUE_DEFAULT 4096u
#define HALO_FETCH_LATENCIES 32

struct halo_fetch;

enum halo_fetch_method { HALO_FETCH_URING, HALO_FETCH_PREAD };
enum halo_fetch_priority { HALO_FETCH_DEMAND, HALO_FETCH_AHEAD, HALO_FETCH_PRIORITIES };

struct halo_fetch_options {
    uint32_t block_bytes;     /* of one read call, a multiple of HALO_HULL_ALIGN up to BLOCK_MAX; 0: 1 MiB */
    uint32_t depth;           /* blocks in flight, up to DEPTH_MAX; 0: 32 */
    uint32_t ahead_depth;     /* of these, at most so many of ahead reads; 0: half of depth */
    uint32_t queue;           /* reads that are submitted and not yet reaped; 0: 4096 */
    bool no_uring, no_direct; /* take the lower step (tests, benches) */
};

struct halo_fetch_read {
    uint32_t file; /* index from halo_fetch_add_file */
    enum halo_fetch_priority priority;
    uint64_t offset;  /* in the file, bytes */
    uint64_t n_bytes; /* at least 1 */
    void *dest; /* of the first byte; congruent to offset modulo HALO_HULL_ALIGN; the hull around it is writable */
    uint32_t slot;
    uint64_t generation;
};

struct halo_fetch_done {
    uint32_t slot;
    uint64_t generation;
    uint64_t offset, n_bytes; /* as submitted */
    uint32_t file;
    /* 0: every byte is in place. -ECANCELED: cancelled, some bytes may have arrived. -ENODATA: the file ends before
     * the range does. Else the errno of the read that failed. halo_fetch_fault() has the sentence. */
    int error;
    uint64_t failed_at;  /* file offset of the block that failed */
    uint64_t file_bytes; /* -ENODATA: where the file ends now */
};

/* The oldest block in flight, for a heartbeat and for whoever reports a stalled drive. */
struct halo_fetch_in_flight {
    uint32_t n_blocks;          /* in flight; 0: the fields below say nothing */
    uint32_t n_demand, n_ahead; /* reads that wait for their first or next block */
    uint32_t slot;
    uint64_t generation;
    uint32_t file;
    uint64_t offset, n_bytes; /* of the block */
    uint64_t since_ns;        /* halo_clock_ns() when it was handed to the kernel */
};

/* Since creation. */
struct halo_fetch_stats {
    uint64_t reads[HALO_FETCH_PRIORITIES], bytes[HALO_FETCH_PRIORITIES]; /* completed without an error; asked for */
    uint64_t n_failed, n_cancelled;
    uint64_t disk_bytes; /* what the kernel returned: hulls, and what was read twice */
    uint64_t n_blocks;   /* that were read to their end */
    uint64_t n_retries;  /* calls repeated after EIO, EAGAIN, EINTR or a short read, and on a step down */
    uint64_t busy_ns;    /* time with at least one block in flight */
    /* Blocks by the time from the call to the last byte: entry i counts those of [2^i, 2^(i+1)) us; 0 also those
     * below, the last also those above. */
    uint64_t latency_us[HALO_FETCH_LATENCIES];
};

/* Creates n rings in advance, for a process that will be forbidden to (a sandbox): they can do nothing but read, and
 * each serves one halo_fetch after the other. Called once, by the main thread. 0, or a negative errno: there are fewer.
 * A halo_fetch that gets none uses threads. */
#define HALO_FETCH_PREPARED_MAX 8u
int halo_fetch_prepare(uint32_t n);

/* options: NULL for the defaults. 0, or negative with the fault: OUT_OF_MEMORY, INTERNAL (no thread could be started),
 * BAD_REQUEST (block_bytes or depth out of range). */
int halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret, struct halo_fault *fault);

/* Cancels every read and waits for the blocks in flight, for ever if the drive never answers: use halo_fetch_drain
 * first where that matters. What was not reaped is lost. NULL is accepted. */
void halo_fetch_destroy(struct halo_fetch *fetch);

enum halo_fetch_method halo_fetch_method(struct halo_fetch *fetch);

/* Copies the notices so far: why there is no ring, which file is read through the page cache, that a bounce buffer was
 * needed. At most one of each kind. */
void halo_fetch_notices(struct halo_fetch *fetch, struct halo_remarks *ret);

/* Files. fd stays the caller's, open until the file is removed; name (copied) is for faults. Opens a second descriptor
 * for direct reads. 0, or negative with the fault: LOAD_FAILED (the file is not what `id` says), UNSUPPORTED
 * (HALO_FETCH_FILES_MAX files). */
int halo_fetch_add_file(struct halo_fetch *fetch, int fd, const struct halo_file_id *id, const char *name,
                        uint32_t *ret_file, struct halo_fault *fault);
/* 0, or -EBUSY while reads of it are not reaped. */
int halo_fetch_remove_file(struct halo_fetch *fetch, uint32_t file);

/* Whether the file is read with O_DIRECT: false from the first read on that was refused. */
bool halo_fetch_is_direct(struct halo_fetch *fetch, uint32_t file);

/* Takes all n reads or none. 0, -EAGAIN when the queue has less room than n, -EINVAL for a read that breaks the rules
 * of struct halo_fetch_read. */
int halo_fetch_submit(struct halo_fetch *fetch, const struct halo_fetch_read *reads, uint32_t n);

/* Takes up to `max` completions; waits for the first one up to timeout_us. Returns how many; 0 after the deadline, and
 * at once when nothing is submitted. */
uint32_t halo_fetch_reap(struct halo_fetch *fetch, struct halo_fetch_done *ret, uint32_t max, uint64_t timeout_us);

/* The sentence for a completion with an error: names file, offset and sizes. Returns done->error. */
int halo_fetch_fault(struct halo_fetch *fetch, const struct halo_fetch_done *done, struct halo_fault *fault);

/* Cancels the reads of this slot and generation that have not completed: each completes with -ECANCELED once none of
 * its blocks is in flight. Returns how many it cancelled. */
uint32_t halo_fetch_cancel(struct halo_fetch *fetch, uint32_t slot, uint64_t generation);
/* The same for its ahead reads of which no block, or not every one, has begun: what the drive was asked for as a whole
 * costs nothing more and completes. */
uint32_t halo_fetch_cancel_ahead(struct halo_fetch *fetch, uint32_t slot, uint64_t generation);
/* Ahead reads of this slot and generation become demand reads: somebody waits for them now. */
uint32_t halo_fetch_promote(struct halo_fetch *fetch, uint32_t slot, uint64_t generation);

/* No block of an ahead read is started while paused (memory pressure). Demand reads go on. */
void halo_fetch_pause_ahead(struct halo_fetch *fetch, bool paused);

/* Cancels every read and waits up to timeout_us until no block is in flight. 0, or -ETIMEDOUT. Completions are still to
 * be reaped. */
int halo_fetch_drain(struct halo_fetch *fetch, uint64_t timeout_us);

void halo_fetch_in_flight(struct halo_fetch *fetch, struct halo_fetch_in_flight *ret);
/* The same as a phrase for a phase or an event: "1048576 bytes at 7340032 of model.gguf, in flight for 3.2 s;
 * blocks in flight: 4, reads queued: 10". Empty when nothing is in flight. */
void halo_fetch_describe(struct halo_fetch *fetch, char *text, size_t size);

void halo_fetch_stats(struct halo_fetch *fetch, struct halo_fetch_stats *ret);

#endif
