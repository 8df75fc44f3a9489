/* guard.h: proves that a decode step allocates nothing.
 *
 * Programs linked with the guard (option alloc_guard; `-Wl,--wrap=malloc` and friends, see daemon/base/meson.build)
 * count allocations of each thread; between enter and leave an allocation of that thread aborts with a message. Without
 * the option both calls are empty. Thread-local.
 */
#ifndef HALO_BASE_GUARD_H
#define HALO_BASE_GUARD_H

#include <stdint.h>

#ifdef HALO_ALLOC_GUARD
void halo_guard_enter(void);
void halo_guard_leave(void);
uint64_t halo_guard_count(void); /* allocations of this thread since it started */
#else
static inline void halo_guard_enter(void)
{
}
static inline void halo_guard_leave(void)
{
}
static inline uint64_t halo_guard_count(void)
{
    return 0;
}
#endif

#endif
