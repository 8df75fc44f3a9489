/* memory.c: device and pinned memory of the emulated GPU: host memory, a separate allocation each.
 *
 * $HALO_HIP_EMU_MEMORY_MIB (default 16384) is what the GPU has; more is an error as on a real one. Fresh device memory
 * is filled with 0xff: floats of it are NaNs, indices out of bounds.
 *
 * $HALO_HIP_EMU_MEMORY_AT (none): device memory is mapped from this address on, as a GPU has addresses of its own. For
 * another process that reserves the same addresses: allocators of sanitizers have one place in all processes.
 *
 * $HALO_HIP_EMU_UNALIGNED=1: pinned memory begins 512 bytes behind a page, as small pieces of other runtimes may.
 */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu.h"

/* Beyond this size only the start of an allocation is filled: a model must not take its whole size of host memory at
 * once. */
#define POISON_MAX ((size_t)64 << 20)
#define PAGE_BYTES ((size_t)4096)
#define UNALIGNED ((size_t)512)

struct allocation {
    struct allocation *next;
    size_t n;
    bool host;
    size_t n_mapped; /* 0: of the allocator */
    size_t n_before; /* bytes of it in front of `bytes` */
    char *bytes;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* a copy holds it around its checks */
static struct allocation *allocations;
static size_t n_used;
static void (*watcher)(void *p, size_t n); /* NULL: none */

size_t emu_memory_total(void)
{
    const char *text = getenv("HALO_HIP_EMU_MEMORY_MIB");
    return (text ? strtoul(text, NULL, 10) : 16384) << 20;
}

size_t emu_memory_used(void)
{
    pthread_mutex_lock(&lock);
    size_t n = n_used;
    pthread_mutex_unlock(&lock);
    return n;
}

/* At the next address that was never used, with an unmapped page behind it. */
static void *map_next(const char *first, size_t n)
{
    static uintptr_t next;
    if (!next)
        next = strtoul(first, NULL, 16);
    void *bytes =
        mmap((void *)next, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    next += n + PAGE_BYTES;
    return bytes == MAP_FAILED ? NULL : bytes;
}

static size_t bytes_before(bool host)
{
    const char *text = host ? getenv("HALO_HIP_EMU_UNALIGNED") : NULL;
    return text && strcmp(text, "1") == 0 ? UNALIGNED : 0;
}

/* NULL: no memory. With the lock. */
static void *get_bytes(size_t n, bool host, size_t *ret_mapped)
{
    const char *first = host ? NULL : getenv("HALO_HIP_EMU_MEMORY_AT");
    void *bytes = NULL;
    *ret_mapped = first ? (n + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES : 0;
    if (first)
        return map_next(first, *ret_mapped);
    if (posix_memalign(&bytes, PAGE_BYTES, n + bytes_before(host)) != 0)
        return NULL;
    return (char *)bytes + bytes_before(host);
}

int emu_memory_take(void **ret, size_t n, bool host)
{
    struct allocation *allocation = malloc(sizeof(*allocation));
    void *bytes = NULL;
    size_t n_mapped = 0;
    pthread_mutex_lock(&lock);
    bool fits = n > 0 && n <= emu_memory_total() - n_used;
    if (allocation && fits && (bytes = get_bytes(n, host, &n_mapped))) {
        memset(bytes, 0xff, n < POISON_MAX ? n : POISON_MAX);
        *allocation = (struct allocation){allocations, n, host, n_mapped, bytes_before(host), bytes};
        allocations = allocation;
        n_used += n;
        if (watcher)
            watcher(bytes, n);
        *ret = bytes;
        allocation = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(allocation);
    return bytes ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int emu_memory_add(void *p, size_t n)
{
    struct allocation *allocation = malloc(sizeof(*allocation));
    pthread_mutex_lock(&lock);
    bool is_new = allocation && !emu_memory_holds(p, n);
    if (is_new) {
        *allocation = (struct allocation){.next = allocations, .n = n, .host = true, .bytes = p};
        allocations = allocation;
    }
    pthread_mutex_unlock(&lock);
    if (!is_new)
        free(allocation);
    return is_new || allocation ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int emu_memory_release(void *p, bool host)
{
    struct allocation *found = NULL;
    if (!p)
        return EMU_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct allocation **link = &allocations; *link; link = &(*link)->next) {
        if ((*link)->bytes != p || (*link)->host != host)
            continue;
        found = *link;
        *link = found->next;
        n_used -= found->n;
        if (watcher)
            watcher(found->bytes, 0);
        break;
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return EMU_INVALID;
    if (found->n_mapped)
        munmap(found->bytes, found->n_mapped);
    else
        free(found->bytes - found->n_before);
    free(found);
    return EMU_SUCCESS;
}

void emu_memory_watch(void (*fn)(void *p, size_t n))
{
    pthread_mutex_lock(&lock);
    if (!watcher)
        for (const struct allocation *allocation = allocations; allocation; allocation = allocation->next)
            fn(allocation->bytes, allocation->n);
    watcher = fn;
    pthread_mutex_unlock(&lock);
}

void emu_memory_lock(void)
{
    pthread_mutex_lock(&lock);
}

void emu_memory_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool emu_memory_holds(const void *p, size_t n)
{
    bool holds = false;
    pthread_mutex_lock(&lock);
    for (const struct allocation *allocation = allocations; allocation && !holds; allocation = allocation->next) {
        size_t at = (size_t)((const char *)p - allocation->bytes);
        holds = (const char *)p >= allocation->bytes && at <= allocation->n && n <= allocation->n - at;
    }
    pthread_mutex_unlock(&lock);
    return holds;
}
