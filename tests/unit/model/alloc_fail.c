/* alloc_fail.c: makes the n-th allocation fail, by the linker's --wrap. One thread. */
#include "alloc_fail.h"

#include <stddef.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t n);
void *__real_reallocarray(void *memory, size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t n);
void *__wrap_reallocarray(void *memory, size_t n, size_t size);

static long n_left = -1;
static bool failed;

void alloc_fail_at(long n)
{
    n_left = n;
    failed = false;
}

bool alloc_failed(void)
{
    return failed;
}

static bool fails_now(void)
{
    if (n_left < 0)
        return false;
    failed |= n_left == 0;
    return n_left-- == 0;
}

void *__wrap_malloc(size_t n)
{
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t n)
{
    return fails_now() ? NULL : __real_realloc(memory, n);
}

void *__wrap_reallocarray(void *memory, size_t n, size_t size)
{
    return fails_now() ? NULL : __real_reallocarray(memory, n, size);
}
