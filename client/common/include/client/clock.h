/* clock.h: monotonic time for the client programs. Any thread.
 *
 * The clients' own copy of <base/clock.h>: no client may use a room of the daemon, and the protocol has no clock.
 */
#ifndef HALO_CLIENT_CLOCK_H
#define HALO_CLIENT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t halo_client_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline int64_t halo_client_now_ms(void)
{
    return (int64_t)(halo_client_now_ns() / 1000000);
}
static inline double halo_client_now_s(void)
{
    return (double)halo_client_now_ns() * 1e-9;
}

#endif
