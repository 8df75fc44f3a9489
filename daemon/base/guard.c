/* guard.c: a decode step allocates nothing, and this proves it.
 *
 * Thread-local state only. Enter and leave nest. The message is written without stdio, which may allocate itself.
 */
#include <base/guard.h>

#ifdef HALO_ALLOC_GUARD
#include "guard_priv.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local unsigned guard_depth;
static _Thread_local uint64_t guard_count;

void halo_guard_enter(void)
{
    guard_depth++;
}

void halo_guard_leave(void)
{
    assert(guard_depth > 0);
    guard_depth--;
}

uint64_t halo_guard_count(void)
{
    return guard_count;
}

void halo_guard_note(const char *call, size_t bytes)
{
    guard_count++;
    if (guard_depth == 0)
        return;
    char text[128];
    int n = snprintf(text, sizeof text, "guard: %s of %zu bytes inside a step that may not allocate\n", call, bytes);
    ssize_t written = write(STDERR_FILENO, text, (size_t)n);
    (void)written;
    abort();
}
#else
/* ISO C wants a declaration in every file. */
struct halo_guard_is_off;
#endif
