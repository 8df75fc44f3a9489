/* memory.h: device and pinned memory of the emulated GPU. Any thread. */
#ifndef HALO_TESTS_EMU_MEMORY_H
#define HALO_TESTS_EMU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

size_t emu_memory_total(void);
size_t emu_memory_used(void);
int emu_memory_take(void **ret, size_t n, bool host);
int emu_memory_release(void *p, bool host);
/* Calls fn for each allocation that there is and will be, with its size, and with 0 when it goes. One at a time. */
void emu_memory_watch(void (*fn)(void *p, size_t n));
/* Counts n bytes at p, which are not ours to free, among the allocations from now on. */
int emu_memory_add(void *p, size_t n);
/* Between the two, allocations neither come nor go. */
void emu_memory_lock(void);
void emu_memory_unlock(void);
/* Whether n bytes at p lie in one allocation. */
bool emu_memory_holds(const void *p, size_t n);

#endif
