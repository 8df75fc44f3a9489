/* populate_priv.h: backs a range of addresses with pages before anybody writes to it. Any thread. */
#ifndef HALO_STORE_POPULATE_PRIV_H
#define HALO_STORE_POPULATE_PRIV_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; the headers of Debian 12 lack it */
#define MADV_POPULATE_WRITE 23
#endif

/* `at` begins on a page. What the pages hold stays. 0 or a negative errno: -EINVAL before Linux 5.14 and where a driver
 * backs the range. */
static inline int store_populate(void *at, size_t n_bytes)
{
    return madvise(at, n_bytes, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
}

#endif
