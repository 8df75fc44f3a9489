/* host_memory.h: how much memory the host has, and how much of it models may take. Any thread. */
#ifndef HALO_COMMON_HOST_MEMORY_H
#define HALO_COMMON_HOST_MEMORY_H

#include <stdint.h>

/* Bytes in all and free now: what the kernel calls available, without memory freed with MADV_FREE, within the limits
 * (memory.max, memory.high) of this process's control group and the groups above it. The folders are /proc and
 * /sys/fs/cgroup, or a test's; groups NULL: no limit of a group counts. Both are 0 when nothing can be read. */
void halo_host_memory(const char *proc, const char *groups, uint64_t *ret_total, uint64_t *ret_free);

#endif
