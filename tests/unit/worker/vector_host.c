/* vector_host.c: a code object of the emulated GPU with two kernels, for tests of the worker. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "host_abi.h"
#include "vector_host.h"

static void scale(void **args)
{
    const struct vector_scale *a = args[0];
    for (uint32_t i = 0; i < a->n; i++)
        a->out[i] = a->in[i] * a->factor;
}

/* A variable of the device. */
__attribute__((visibility("default"))) float vector_shift[4];

static void shift(void **args)
{
    const struct vector_scale *a = args[0];
    for (uint32_t i = 0; i < a->n; i++)
        a->out[i] = a->in[i] + vector_shift[i % 4];
}

/* Keeps its stream busy for n milliseconds. */
static void nap(void **args)
{
    const struct vector_scale *a = args[0];
    nanosleep(&(struct timespec){.tv_nsec = (long)a->n * 1000000}, NULL);
}

static const struct halo_host_kernel kernels[] = {
    {.name = "scale", .entry = scale, .block = 64, .args_bytes = sizeof(struct vector_scale), .next = &kernels[1]},
    {.name = "nap", .entry = nap, .block = 64, .args_bytes = sizeof(struct vector_scale), .next = &kernels[2]},
    {.name = "shift", .entry = shift, .block = 64, .args_bytes = sizeof(struct vector_scale)},
};

__attribute__((visibility("default"))) const struct halo_host_kernel *halo_host_kernel_find(const char *name)
{
    const struct halo_host_kernel *kernel = kernels;
    while (name && kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    return kernel;
}

__attribute__((visibility("default"))) int halo_host_kernel_run(const struct halo_host_kernel *k,
                                                                const uint32_t grid[3], const uint32_t block[3],
                                                                void **args, char *reason)
{
    (void)reason;
    if (block[0] != k->block || grid[0] == 0)
        return -EINVAL;
    k->entry(args);
    return 0;
}
