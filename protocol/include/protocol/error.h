/* error.h: the error codes of the wire protocol.
 *
 * One list gives the enum, the names and the retry advice. `retryable` is fixed for each code and means: the
 * same request, sent again later and unchanged, may succeed.
 */
#ifndef HALO_PROTOCOL_ERROR_H
#define HALO_PROTOCOL_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(ID, name, retryable, numbers, meaning)
 * numbers: names, with spaces between, of which an event with this code has at least one in its `detail`; "": it has
 * none by rule. */
#define HALO_ERROR_LIST(X)                                                                                             \
    X(BAD_JSON, bad_json, false, "offset", "the line is not one JSON object")                                          \
    X(BAD_REQUEST, bad_request, false, "", "a field is unknown, missing, repeated, of the wrong type or out of range") \
    X(UNKNOWN_TYPE, unknown_type, false, "", "no such request")                                                        \
    X(LINE_TOO_LONG, line_too_long, false, "limit_bytes",                                                              \
      "the line is longer than the limit; it was dropped up to its newline")                                           \
    X(DUPLICATE_ID, duplicate_id, false, "", "a request with this id is open on this connection")                      \
    X(NOT_FOUND, not_found, false, "", "no such model, file or request")                                               \
    X(FORBIDDEN, forbidden, false, "", "this user may not do that: it concerns others")                                \
    X(LOAD_FAILED, load_failed, false, "", "the model file was refused or could not be read")                          \
    X(UNSUPPORTED, unsupported, false, "", "understood, but this build or model cannot do it")                         \
    X(OUT_OF_MEMORY, out_of_memory, true, "", "not enough memory")                                                     \
    X(CONTEXT_OVERFLOW, context_overflow, false, "prompt_tokens least_prompt_tokens bytes context tokens kv_tokens",   \
      "the prompt does not fit into the context")                                                                      \
    X(QUEUE_FULL, queue_full, true, "limit", "the daemon's queue is full")                                             \
    X(TOO_MANY_REQUESTS, too_many_requests, true, "limit limit_bytes",                                                 \
      "this connection or user has too many requests open")                                                            \
    X(DEADLINE, deadline, true, "deadline_ms", "the deadline passed before the first token")                           \
    X(CLIENT_STALLED, client_stalled, true, "stall_ms limit_bytes", "the client did not read its events in time")      \
    X(ENGINE_LOST, engine_lost, true, "", "the engine died and the request could not continue")                        \
    X(DEVICE_HANG, device_hang, true, "", "the device did not finish within its deadline")                             \
    X(DEVICE_FAULT, device_fault, true, "", "the device failed or produced numbers that are not finite")               \
    X(SHUTTING_DOWN, shutting_down, true, "", "the daemon is shutting down")                                           \
    X(INTERNAL, internal, false, "", "a bug in the daemon")

enum halo_error {
    HALO_ERROR_UNKNOWN = -1, /* a name that this build does not know, read from a newer peer */
    HALO_ERROR_NONE = 0,
#define X(ID, name, retryable, numbers, meaning) HALO_ERROR_##ID,
    HALO_ERROR_LIST(X)
#undef X
        HALO_N_ERRORS
};

/* "bad_json" and so on; "none" for NONE, "unknown" for everything else. Never NULL. */
const char *halo_error_name(enum halo_error code);

/* The code of a name that need not be NUL-terminated; HALO_ERROR_UNKNOWN when there is none. */
enum halo_error halo_error_from_name(const char *name, size_t len);

bool halo_error_retryable(enum halo_error code);

/* The names of numbers, of which an event with this code has at least one in its `detail`; "": none by rule. */
const char *halo_error_numbers(enum halo_error code);

/* What the code means, half a sentence. Never NULL. */
const char *halo_error_meaning(enum halo_error code);

/* A number of an error, as programs read it in the `detail` of the event. Names are static, up to 32 bytes. */
struct halo_number {
    const char *name;
    int64_t value;
};

struct halo_numbers {
    const struct halo_number *at;
    size_t n;
};

/* HALO_NUMBERS({"queued", 3}, {"limit", 3}): lives as long as the block around it. */
#define HALO_NUMBERS(...)                                                                                              \
    ((struct halo_numbers){(const struct halo_number[]){__VA_ARGS__},                                                  \
                           sizeof((const struct halo_number[]){__VA_ARGS__}) / sizeof(struct halo_number)})

#endif
