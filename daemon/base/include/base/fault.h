/* fault.h: the reason of a failure, in a fixed buffer, for a person to read.
 *
 * A function whose failure a user will see takes a `struct halo_fault *` as its last parameter and fills it on failure.
 * The buffer is the caller's; nothing is allocated. NULL is accepted everywhere. The code tells the program what kind
 * of failure it was; its names are those of the wire protocol's error codes, so that the port can pass them on without
 * a second table. Threads: a fault belongs to one thread at a time.
 */
#ifndef HALO_BASE_FAULT_H
#define HALO_BASE_FAULT_H

#include <stdarg.h>
#include <stdint.h>

#define HALO_FAULT_LIST(X)                                                                                             \
    X(NONE, "none")                                                                                                    \
    X(BAD_REQUEST, "bad_request")                                                                                      \
    X(NOT_FOUND, "not_found")                                                                                          \
    X(LOAD_FAILED, "load_failed")                                                                                      \
    X(UNSUPPORTED, "unsupported")                                                                                      \
    X(OUT_OF_MEMORY, "out_of_memory")                                                                                  \
    X(CONTEXT_OVERFLOW, "context_overflow")                                                                            \
    X(QUEUE_FULL, "queue_full")                                                                                        \
    X(DEADLINE, "deadline")                                                                                            \
    X(CANCELLED, "cancelled")                                                                                          \
    X(DEVICE_HANG, "device_hang")                                                                                      \
    X(DEVICE_FAULT, "device_fault")                                                                                    \
    X(SHUTTING_DOWN, "shutting_down")                                                                                  \
    X(INTERNAL, "internal")

enum halo_fault_code {
#define X(id, name) HALO_FAULT_##id,
    HALO_FAULT_LIST(X)
#undef X
};

#define HALO_FAULT_NUMBERS 4

struct halo_fault {
    enum halo_fault_code code;
    char text[256]; /* one sentence, NUL-terminated, cut at a character boundary when too long */
    struct {
        const char *name; /* static; as programs read it: "prompt_tokens" */
        int64_t value;
    } numbers[HALO_FAULT_NUMBERS]; /* those of the text, for programs */
    uint32_t n_numbers;
};

/* The wire name of a code ("load_failed"). Never NULL. */
const char *halo_fault_name(enum halo_fault_code code);

/* Fills `fault` (may be NULL) and returns the errno that goes with the code, negative: -EINVAL, -ENOENT, -ENOMEM, ...
 * so that `return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "...")` is the usual form. */
__attribute__((format(printf, 3, 4))) int halo_fault_set(struct halo_fault *fault, enum halo_fault_code code,
                                                         const char *format, ...);

/* As above, but returns `error` (a negative errno) and appends ": strerror" to the text. */
__attribute__((format(printf, 4, 5))) int halo_fault_errno(struct halo_fault *fault, enum halo_fault_code code,
                                                           int error, const char *format, ...);

/* Adds a number of the text, for programs: it becomes part of the `detail` of the wire's error. Call it after the text
 * was set. */
void halo_fault_number(struct halo_fault *fault, const char *name, uint64_t value);

/* Puts "prefix: " in front of the text that is there; the numbers stay. */
__attribute__((format(printf, 2, 3))) void halo_fault_prefix(struct halo_fault *fault, const char *format, ...);

#endif
