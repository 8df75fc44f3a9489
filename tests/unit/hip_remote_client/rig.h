/* rig.h: programs that call the client, each in a process of its own: a process has one session.
 *
 * A program checks with CHECK, which ends it with a message; the test fails with it.
 */
#ifndef HALO_TESTS_HIP_CLIENT_RIG_H
#define HALO_TESTS_HIP_CLIENT_RIG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "abi_priv.h"
#include "remote.h"
#include "vector_host.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define CHECK_HIP(call, wanted)                                                                                        \
    do {                                                                                                               \
        int got_ = (call), wanted_ = (wanted);                                                                         \
        if (got_ != wanted_) {                                                                                         \
            fprintf(stderr, "%s:%d: %s is %d, not %d\n", __FILE__, __LINE__, #call, got_, wanted_);                    \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK_HIP(call, 0)

/* Runs it in a child with HIP_REMOTE_WORKER at this worker. */
pid_t program_start(const struct worker *w, void (*program)(void));
/* Waits for its end; the wait status. */
int program_wait(pid_t pid);
/* Both. */
int program_status(const struct worker *w, void (*program)(void));
/* Fails the test unless the program returned. */
void check_program(int status);
/* A worker for one program. `script`: of the emulated runtime (NULL: none). */
void run_on_worker(const char *script, void (*program)(void));

/* For programs: the module of vector_host.c, its kernel, and a stream. */
void *vector_module(void);
void *vector_kernel(void *module, const char *name);
void *new_stream(void);
void *new_event(void);
void *device_floats(uint32_t n);
/* Launches it over n floats, or naps for n milliseconds. */
int launch_vector(void *kernel, void *out, void *in, uint32_t n, float factor, void *stream);

#endif
