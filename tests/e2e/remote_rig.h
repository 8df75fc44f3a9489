/* remote_rig.h: halod against workers on the emulated runtime: starting both, requests that must succeed, and replies
 * that something happens to.
 */
#ifndef HALO_TESTS_REMOTE_RIG_H
#define HALO_TESTS_REMOTE_RIG_H

#include "daemon_fixture.h"
#include "remote.h"

#define MODEL "fable-Q4_K_M"
#define LOAD "\"model\":\"" MODEL "\",\"params\":{\"context\":64,\"kv_tokens\":128}"
#define N_TOKENS 12
#define GENERATE                                                                                                       \
    "\"model\":\"" MODEL "\",\"prompt\":\"Once upon a time\",\"max_tokens\":12,\"temperature\":0.8,\"seed\":11"
#define ENDS_MS 180000

/* `more`: of the section [engine]. */
void start_halod(struct daemon_fixture *daemon, const char *remote, const char *more);
/* The worker's last session. */
pid_t worker_session(struct worker *w);
/* What the worker has said so far. */
const char *worker_said(struct worker *w);
/* Removes the folder of a worker that was killed. */
void worker_remove(const struct worker *w);

/* Sends one request until it succeeds; an engine that is on its way back may refuse some. */
void works(const struct daemon_fixture *daemon, const char *type, const char *rest, enum halo_ev_type wanted);
/* A reply; `meanwhile` happens after its first tokens, and ends the engine. How many ids are those of before. */
size_t reply(const struct daemon_fixture *daemon, void (*meanwhile)(void), int32_t ids[static N_TOKENS]);

#endif
