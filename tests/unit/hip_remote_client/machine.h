/* machine.h: random programs of HIP calls, for any library that has them.
 *
 * A program is a list of actions with raw numbers; what they name is chosen among what is alive when they run, and an
 * action without an object does nothing: every part of a program is a program, so that a failing one can be made
 * shorter. Buffers pass from stream to stream by events, so the result does not depend on time. A model in the memory
 * of the host says what each buffer must hold.
 */
#ifndef HALO_TESTS_MACHINE_H
#define HALO_TESTS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACTIONS_MAX 64

enum action_kind {
    ACTION_MALLOC,
    ACTION_FREE,
    ACTION_UP,
    ACTION_DOWN,
    ACTION_COPY,
    ACTION_FILL,
    ACTION_FILL_WORDS,
    ACTION_ROWS,
    ACTION_SCALE,
    ACTION_SYNCHRONIZE,
    ACTION_GRAPH, /* captures some copies, fills and launches */
    ACTION_REPLAY,
    N_ACTIONS
};

struct action {
    enum action_kind kind;
    uint32_t a, b, c, d;
};

struct program {
    struct action actions[ACTIONS_MAX];
    uint32_t n;
};

struct outcome {
    uint64_t digest;                 /* of all return codes and of all bytes that were read back */
    uint32_t n_calls;                /* of HIP */
    uint32_t n_replays, n_crossings; /* graphs launched; buffers that changed their stream */
    int32_t bad_action;              /* the first whose bytes are not the model's or whose call failed; -1: none */
    int32_t bad_code;                /* of the call; 0: the bytes */
};

void program_random(struct program *p, uint64_t seed);
/* As C, one action a line. */
void program_print(const struct program *p);

/* A library and a device of it; one for all programs of a process. False: it lacks a function, or has no device. */
struct machine;
struct machine *machine_open(const char *library, const void *code_object);
void machine_run(struct machine *m, const struct program *p, struct outcome *ret);
void machine_close(struct machine *m);

#endif
