/* guard_priv.h: what the wrapped allocators report to. Thread-local. */
#ifndef HALO_BASE_GUARD_PRIV_H
#define HALO_BASE_GUARD_PRIV_H

#include <stddef.h>

/* Counts one allocation; aborts, naming the call and the size, inside a guarded stretch. */
void halo_guard_note(const char *call, size_t bytes);

#endif
