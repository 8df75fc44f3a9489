/* thread.h: starts a thread with a stack of its own size.
 *
 * The default size of a stack is the process's limit (ulimit -s) at its start: whoever lowers it would make a thread
 * that recurses, as the interpreter of chat templates does within its own limits, overflow. The thread's name is what
 * `ps -T` and a debugger show.
 */
#ifndef HALO_BASE_THREAD_H
#define HALO_BASE_THREAD_H

#include <pthread.h>

/* For everything that the daemon's programs run on a thread. Address space: a page is taken when it is touched. */
#define HALO_THREAD_STACK_BYTES ((size_t)8 << 20)

/* name: at most 15 bytes are shown. 0 or a negative errno. */
int halo_thread_start(pthread_t *ret, const char *name, void *(*run)(void *ud), void *ud);

#endif
