/* fail_alloc.h: makes the n-th allocation of a test fail.
 *
 * The usual loop: for n = 0, 1, 2, ... arm(n), run, disarm; until a run succeeds without the failure having happened.
 * Counts the allocations of all threads together. Only calls from the program's own objects are seen, not those inside
 * shared libraries.
 */
#ifndef HALO_TESTS_FAIL_ALLOC_H
#define HALO_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

void halo_fail_alloc_arm(
    uint64_t n);                   /* the allocation number n from now fails, counted from 0; those after it succeed */
bool halo_fail_alloc_disarm(void); /* whether it happened */
/* Allocations of more than this many bytes fail from now on, whatever the count. 0: no limit. */
void halo_fail_alloc_over(uint64_t bytes);
/* The largest single allocation asked for since the last call. */
uint64_t halo_fail_alloc_largest(void);

#endif
