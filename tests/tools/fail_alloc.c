/* fail_alloc.c: wrappers around the allocators (linked with -Wl,--wrap) that fail on demand. Any thread. */
#include "fail_alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static atomic_uint_fast64_t countdown; /* 0: not armed; n + 1: n more succeed */
static atomic_bool happened;
static atomic_uint_fast64_t ceiling, largest;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **ret, size_t align, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **ret, size_t align, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

void halo_fail_alloc_arm(uint64_t n)
{
    atomic_store(&happened, false);
    atomic_store(&countdown, n + 1);
}

bool halo_fail_alloc_disarm(void)
{
    atomic_store(&countdown, 0);
    return atomic_load(&happened);
}

void halo_fail_alloc_over(uint64_t bytes)
{
    atomic_store(&ceiling, bytes);
}

uint64_t halo_fail_alloc_largest(void)
{
    return atomic_exchange(&largest, 0);
}

static bool refuse(size_t bytes)
{
    uint_fast64_t seen = atomic_load(&largest);
    while (bytes > seen && !atomic_compare_exchange_weak(&largest, &seen, bytes))
        ;
    uint_fast64_t limit = atomic_load(&ceiling);
    bool fail = limit && bytes > limit;
    uint_fast64_t n = atomic_load(&countdown);
    while (n > 0 && !atomic_compare_exchange_weak(&countdown, &n, n - 1))
        ;
    if (n == 1) {
        atomic_store(&happened, true);
        fail = true;
    }
    if (fail)
        errno = ENOMEM;
    return fail;
}

void *__wrap_malloc(size_t size)
{
    return refuse(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || refuse(bytes))
        return NULL;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse(size) ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __wrap_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return refuse(size) ? NULL : __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **ret, size_t align, size_t size)
{
    return refuse(size) ? ENOMEM : __real_posix_memalign(ret, align, size);
}

char *__wrap_strndup(const char *text, size_t n)
{
    size_t length = strnlen(text, n);
    char *copy = __wrap_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}
