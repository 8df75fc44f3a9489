/* vector_host.c: a code object of the emulated GPU with one kernel, for tests of the worker. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "host_abi.h"
#include "vector_host.h"

static void scale(void **args)
{
    const struct vector_scale *a = args[0];
    for (uint32_t i = 0; i < a->n; i++)
        a->out[i] = a->in[i] * a->factor;
}

static const struct halo_host_kernel kernel = {
    .name = "scale", .entry = scale, .block = 64, .args_bytes = sizeof(struct vector_scale)};

__attribute__((visibility("default"))) const struct halo_host_kernel *halo_host_kernel_find(const char *name)
{
    return !name || strcmp(name, kernel.name) == 0 ? &kernel : NULL;
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
