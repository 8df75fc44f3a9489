/* guard_wrap.c: the allocators that `-Wl,--wrap=NAME` puts in the place of the C library's.
 *
 * A file of its own: the linker takes it out of the archive only for a program linked with these options, and not at
 * all when the program brings wrappers of its own (a test that makes the n-th allocation fail).
 */
#ifdef HALO_ALLOC_GUARD
#include <errno.h>
#include <string.h>

#include "guard_priv.h"

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

void *__wrap_malloc(size_t size)
{
    halo_guard_note("malloc", size);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    halo_guard_note("calloc", n * size);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    halo_guard_note("realloc", size);
    return __real_realloc(old, size);
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
    halo_guard_note("aligned_alloc", size);
    return __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **ret, size_t align, size_t size)
{
    halo_guard_note("posix_memalign", size);
    return __real_posix_memalign(ret, align, size);
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
#else
struct halo_guard_is_off;
#endif
