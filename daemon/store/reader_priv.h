/* reader_priv.h: the inside of the reader: one run, its files, and the pieces it is cut into.
 *
 * The caller's thread owns struct reader. With the pread threads the cursor, the files and the finished pieces are
 * shared under the lock of reader_threads.c; the accounting and all callbacks stay on the caller's thread whatever the
 * method.
 */
#ifndef HALO_STORE_READER_PRIV_H
#define HALO_STORE_READER_PRIV_H

#include <stdatomic.h>

#include <store/reader.h>

/* A bounce buffer: small enough that a queue of them is no burden, large enough that a badly aligned tensor is not
 * slow. */
#define READER_BOUNCE_BYTES ((size_t)256 * 1024)
/* A hole between two small ranges that is cheaper to read than a second request. */
#define READER_HOLE_BYTES ((uint64_t)16 * 1024)
#define READER_DEPTH_DEFAULT 32u

struct reader_file {
    const struct halo_reader_source *source;
    const char *name; /* without its folder, for faults */
    int fd;           /* what the next read uses */
    int fd_other;  /* the other of the direct and the buffered one, or -1; open until the end: reads may be under way on
                      it */
    uint64_t size; /* when opened */
    bool direct;   /* fd is the direct one */
};

/* One read. Serves the jobs order[first] .. order[last], of which only the bytes [use_begin, use_end) of the file. */
struct reader_piece {
    size_t first, last;
    uint32_t file;
    bool bounce;     /* `at` is a bounce buffer, the jobs' bytes are copied out of it */
    bool direct;     /* the last attempt was a direct read */
    bool fixed;      /* the last attempt named a registered buffer */
    uint64_t offset; /* in the file, of `at` */
    uint64_t use_begin, use_end;
    uint32_t n;    /* bytes to ask for: to the end of the aligned hull */
    uint32_t need; /* bytes that must come */
    uint32_t got;
    uint32_t tries;
    uint8_t *at;
};

/* Where a job's bytes go. */
struct reader_target {
    uint8_t *dest;
    bool slack, known;
};

struct reader {
    const struct halo_reader_job *jobs;
    const struct halo_reader_options *options;
    struct halo_reader_report *report;
    struct halo_fault *fault;
    struct reader_file *files;
    size_t n_files;
    uint32_t *order; /* job numbers by file and offset */
    size_t n_jobs;
    struct reader_target *targets; /* of each job */
    uint64_t *left;                /* bytes of each job that are still missing */
    uint64_t bytes_done, bytes_total;

    size_t next;               /* cursor: in order[] */
    uint64_t at;               /* cursor: bytes of that job already handed out */
    atomic_size_t next_shared; /* the cursor, for the populating threads */
    bool starved;              /* there was no piece because the next job has no destination yet */
    size_t chunk_bytes;
    unsigned queue_depth;
    struct reader_piece *retry; /* taken back from a method that gave up; at most queue_depth */
    size_t n_retry;

    uint8_t *window_base; /* of the region to register, NULL: none */
    size_t window_bytes;  /* pieces do not cross a multiple of this from window_base */

    int error; /* the first failure, negative; no new pieces once set */
};

/* reader_plan.c */
int reader_plan_init(struct reader *reader);
void reader_plan_finish(struct reader *reader);
/* The next piece, `bounce` being READER_BOUNCE_BYTES that it may use. False at the end, after a failure, after cancel,
 * and (reader->starved) while the next job has no destination. */
bool reader_piece_next(struct reader *reader, uint8_t *bounce, struct reader_piece *ret);
/* Takes a piece back for the next method. Its bounce buffer is gone: what had arrived there is read again. */
void reader_piece_return(struct reader *reader, const struct reader_piece *piece);
/* Judges the result of one attempt (bytes, or negative errno). */
enum reader_verdict {
    READER_COMPLETE, /* copied to its place; account for it */
    READER_AGAIN,    /* ask for the rest */
    READER_REFUSED,  /* this method cannot do it */
    READER_FAILED,   /* reader.error and the fault are set */
};
enum reader_verdict reader_piece_fail(struct reader *reader, const struct reader_piece *piece,
                                      int error); /* always READER_FAILED */
enum reader_verdict reader_piece_result(struct reader *reader, struct reader_piece *piece, int64_t result);
/* Caller's thread: done and progress. */
void reader_piece_account(struct reader *reader, const struct reader_piece *piece);
bool reader_cancelled(const struct reader *reader);
__attribute__((format(printf, 2, 3))) void reader_notice(struct reader *reader, const char *format, ...);

/* A millisecond: how long a starved reader with nothing under way waits. */
void reader_pause(void);

/* reader_populate.c. start: NULL when none is wanted or possible. stop: returns the bytes populated. */
struct reader_populate;
struct reader_populate *reader_populate_start(const struct reader *reader);
uint64_t reader_populate_stop(struct reader_populate *populate);

/* reader_file.c */
int reader_file_open(struct reader *reader, struct reader_file *file, const struct halo_reader_source *source);
/* 0, or LOAD_FAILED when the file is not what the source says any more. */
int reader_file_check(struct reader *reader, const struct reader_file *file);
/* Direct reads of this file were refused; from now on it is read through the page cache. */
void reader_file_buffered(struct reader *reader, struct reader_file *file, int error);
void reader_file_close(struct reader_file *file);

/* Each: 0 when all is read or reader.error is set, READER_STEP_DOWN when the rest is for the next method. */
#define READER_STEP_DOWN 1
int reader_uring_run(struct reader *reader);
int reader_threads_run(struct reader *reader);

#endif
