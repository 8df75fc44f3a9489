/* region.c: large regions of memory from the kernel. Any thread. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "device_priv.h"

int halo_cpu_region_map(struct halo_cpu_region *region, uint64_t n_bytes, const char *what, char *reason)
{
    *region = (struct halo_cpu_region){0};
    if (n_bytes > PTRDIFF_MAX - HALO_CPU_PAGE_BYTES)
        return halo_reason(reason, -ENOMEM, "the %s would need more memory than a process can address", what);
    if (n_bytes == 0)
        return 0;
    void *base = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return halo_reason(reason, -ENOMEM, "the %s need %.1f MiB of memory: %s", what, (double)n_bytes / (1024 * 1024),
                           strerror(errno));
    /* Advice only: without huge pages everything works, slower. */
    madvise(base, n_bytes, MADV_HUGEPAGE);
    *region = (struct halo_cpu_region){base, n_bytes};
    return 0;
}

void halo_cpu_region_unmap(struct halo_cpu_region *region)
{
    if (region->base)
        munmap(region->base, region->n_bytes);
    *region = (struct halo_cpu_region){0};
}
