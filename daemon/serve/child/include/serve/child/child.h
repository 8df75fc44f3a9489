/* child.h: one child process, its lines, and its end.
 *
 * It leads a process group of its own, so that one signal reaches whatever it started. One stream leads to it, both
 * ways or from it alone, and its stderr may be read too. It is never waited for: halo_child_cut() closes the handles,
 * and gone() comes when the process was reaped and the last handle is closed; a child that can not be reaped stays.
 * Loop thread.
 */
#ifndef HALO_SERVE_CHILD_CHILD_H
#define HALO_SERVE_CHILD_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <protocol/line.h>

#include <serve/sink.h>

struct halo_child;

struct halo_child_ops {
    /* Bytes arrived; their lines follow. */
    void (*heard)(struct halo_child *child, size_t n_bytes);
    /* A line of its stream. Not `whole`: it was longer than line_bytes, these are its first ones. */
    void (*line)(struct halo_child *child, const char *line, size_t len, bool whole);
    /* A line of its stderr, cut where it was too long. NULL: stderr is not read. */
    void (*err_line)(struct halo_child *child, const char *line, size_t len);
    /* The end of its stream (link_ended) or of the process (exited): called for each, until it is cut. */
    void (*ended)(struct halo_child *child);
    /* Reaped and closed. It is freed when this returns. */
    void (*gone)(struct halo_child *child);
};

struct halo_child_spec {
    const char *file;
    char **args, **env; /* env NULL: the daemon's own */
    int fd;             /* its end of the stream */
    bool duplex;        /* it is written to as well */
    size_t line_bytes, read_bytes;
};

struct halo_child {
    const struct halo_child_ops *ops;
    void *ud;
    size_t read_bytes;
    uv_process_t process;
    uv_pipe_t link, err;
    unsigned n_handles;                    /* not yet closed */
    bool starved;                          /* reading stopped for want of memory: halo_child_read() begins again */
    bool has_process;                      /* `process` is a handle */
    bool spawned, exited, link_ended, cut; /* cut: its handles are being closed */
    int64_t exit_status;
    int exit_signal;
    struct halo_line_reader reader, err_reader;
    struct halo_sink sink;
};

/* 0 or a negative errno. In both cases *ret_child is the caller's unless it is NULL, and ends by halo_child_cut(). */
int halo_child_create(uv_loop_t *loop, const struct halo_child_spec *spec, const struct halo_child_ops *ops, void *ud,
                      struct halo_child **ret_child);
int halo_child_read(struct halo_child *child);
void halo_child_kill(struct halo_child *child); /* SIGKILL to its group */
void halo_child_cut(struct halo_child *child);

/* Where lines for it are written; NULL when it cannot read them any more. */
struct halo_json *halo_child_out(struct halo_child *child);
void halo_child_flush(struct halo_child *child);

#endif
