/* child.h: runs a function, or a program, in a child with a deadline, for everything that may block or crash.
 *
 * The child reports its phase ("uploading 256 MiB") and its result as it goes, so that both are known of one that never
 * ends. At the deadline it and everything that it started are killed. A child that cannot be reaped even then (it waits
 * inside the kernel) is left behind and reported. Nothing here waits without a limit.
 *
 * One thread, which should be the process's only one: the child of a function is a fork.
 */
#ifndef HALO_DOCTOR_CHILD_H
#define HALO_DOCTOR_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HALO_CHILD_PHASE_BYTES 192
#define HALO_CHILD_ERRORS_BYTES 1024
#define HALO_CHILD_PORT_FD 3 /* of a program that is run with `speaks` */

enum halo_child_end {
    HALO_CHILD_EXITED,   /* by itself; `status` is its exit status */
    HALO_CHILD_KILLED,   /* by a signal, not ours: `status` */
    HALO_CHILD_DEADLINE, /* did not end in time; killed and reaped */
    HALO_CHILD_STUCK,    /* the same, but it could not be reaped */
};

struct halo_child_outcome {
    enum halo_child_end end;
    int status;
    pid_t pid;
    uint32_t took_ms, deadline_ms;
    char phase[HALO_CHILD_PHASE_BYTES];   /* the last one told; empty: none */
    char errors[HALO_CHILD_ERRORS_BYTES]; /* the end of its standard error, printable, lines kept */
    char stuck_in[64];                    /* of a stuck one: state and place in the kernel, as far as readable */
    size_t n_result;                      /* bytes in the caller's buffer */
    bool cut;                             /* the result had more than the buffer holds */
};

/* What a child is given. The caller owns all of it; `result` may be NULL. */
struct halo_child_options {
    uint32_t deadline_ms;
    void *result;
    size_t room;
    const char *const *env; /* NULL, or a list that ends with NULL: "NAME=VALUE" sets, "NAME" unsets */
    bool speaks; /* a program that knows halo_child_port_inherited(); else its result is its standard output */
};

/* Where a child writes its phase and its result. */
struct halo_child_port {
    int fd;
};

/* Runs fn(port, ud) in a fork; its return value (0..255) is the exit status. It has no standard input and must end by
 * returning from fn; what it prints goes to `errors`. 0, or a negative errno when no child could be made. `ret` is
 * filled in either case. */
int halo_child_call(const struct halo_child_options *options, int (*fn)(struct halo_child_port *port, void *ud),
                    void *ud, struct halo_child_outcome *ret);
/* Runs a program; argv[0] is its path, looked up in PATH when it has no slash. One that cannot be run exits with 127.
 */
int halo_child_run(const struct halo_child_options *options, char *const *argv, struct halo_child_outcome *ret);

/* In the child. The text is cut to fit. */
__attribute__((format(printf, 2, 3))) void halo_child_phase(struct halo_child_port *port, const char *format, ...);
/* Appends to the result. */
void halo_child_result(struct halo_child_port *port, const void *data, size_t n_bytes);
struct halo_child_port halo_child_port_inherited(void);

/* One sentence about how it ended, without a full stop: "did not end within 5000 ms while uploading; it was killed". */
const char *halo_child_describe(const struct halo_child_outcome *outcome, char *text, size_t n_bytes);

#endif
