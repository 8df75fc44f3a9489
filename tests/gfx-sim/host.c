/* host.c: what test programs bring that run kernels of their own (tests/unit/gfx): their memory.
 *
 * Memory of the C library, the stack and the program's own data are what kernels may touch: the linker puts the
 * functions below in front of malloc() and free() (--wrap). $HALO_ISA_OBJECT names the code object (device.c).
 */
#include <pthread.h>
#include <stdlib.h>

#include "isa.h"

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t item_bytes);
void *__wrap_calloc(size_t n, size_t item_bytes);
void __real_free(void *p);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n)
{
    void *p = __real_malloc(n);
    if (p && n > 0)
        isa_add(p, n);
    return p;
}

void *__wrap_calloc(size_t n, size_t item_bytes)
{
    void *p = __real_calloc(n, item_bytes);
    if (p && n * item_bytes > 0)
        isa_add(p, n * item_bytes);
    return p;
}

void __wrap_free(void *p)
{
    isa_remove(p);
    __real_free(p);
}

/* From the linker: the program's code and data, which tests take small arrays from. */
extern char __executable_start[], end[];

__attribute__((constructor)) static void add_program(void)
{
    pthread_attr_t attributes;
    void *stack;
    size_t n;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0 || pthread_attr_getstack(&attributes, &stack, &n) != 0)
        abort();
    pthread_attr_destroy(&attributes);
    isa_add(stack, n);
    isa_add(__executable_start, (size_t)(end - __executable_start));
}
