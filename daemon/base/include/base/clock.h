/* clock.h: monotonic time. Any thread. */
#ifndef HALO_BASE_CLOCK_H
#define HALO_BASE_CLOCK_H

#include <stdint.h>

uint64_t halo_clock_ns(void); /* CLOCK_MONOTONIC */
static inline uint64_t halo_clock_us(void)
{
    return halo_clock_ns() / 1000;
}
static inline uint64_t halo_clock_ms(void)
{
    return halo_clock_ns() / 1000000;
}

#endif
