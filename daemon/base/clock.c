/* clock.c: monotonic time. Any thread. Cannot fail: CLOCK_MONOTONIC exists on every Linux. */
#include <base/clock.h>

#include <assert.h>
#include <time.h>

uint64_t halo_clock_ns(void)
{
    struct timespec now;
    int r = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(r == 0);
    (void)r;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
