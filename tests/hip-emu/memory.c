/* memory.c: device and pinned memory of the emulated GPU: host memory, a separate allocation each.
 *
 * $HALO_HIP_EMU_MEMORY_MIB (default 16384) is what the GPU has; more is an error as on a real one. Fresh device memory
 * is filled with 0xff: floats of it are NaNs, indices out of bounds.
 */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

/* Beyond this size only the start of an allocation is filled: a model must not take its whole size of host memory at
 * once. */
#define POISON_MAX ((size_t)64 << 20)

struct allocation {
    struct allocation *next;
    size_t n;
    bool host;
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

int emu_memory_take(void **ret, size_t n, bool host)
{
    struct allocation *allocation = malloc(sizeof(*allocation));
    void *bytes = NULL;
    pthread_mutex_lock(&lock);
    bool fits = n > 0 && n <= emu_memory_total() - n_used;
    if (allocation && fits && posix_memalign(&bytes, 4096, n) == 0) {
        memset(bytes, 0xff, n < POISON_MAX ? n : POISON_MAX);
        *allocation = (struct allocation){allocations, n, host, bytes};
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
    free(found->bytes);
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
