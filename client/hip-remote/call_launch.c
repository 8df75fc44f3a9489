/* call_launch.c: launches. The arguments are gathered as the kernel's metadata lists them and sent without waiting;
 * nothing is allocated. */
#include <stdio.h>
#include <string.h>

#include "client_priv.h"
#include "fat_priv.h"

#define EXTRA_BUFFER ((void *)1)
#define EXTRA_SIZE ((void *)2)
#define EXTRA_END ((void *)3)
#define BLOCK_THREADS_MAX 1024

/* A kernel that is given memory of this machine would fault on the other one. */
static bool is_on_host(const uint8_t *arg, uint32_t bytes)
{
    uint64_t at = 0;
    if (halo_client.host_memory.n + halo_client.registered_memory.n == 0 || bytes != sizeof(at))
        return false;
    memcpy(&at, arg, sizeof(at));
    return halo_remote_ranges_find(&halo_client.host_memory, at, 1) ||
           halo_remote_ranges_find(&halo_client.registered_memory, at, 1);
}

static int gather(const struct halo_remote_slot *function, void **params, uint8_t *to)
{
    const struct halo_code_kernel *kernel = function->u.function.kernel;
    const struct halo_code_arg *args = function->u.function.module->code.args + kernel->first_arg;
    for (uint32_t i = 0, n = 0; i < kernel->n_args; i++) {
        if (args[i].is_hidden)
            continue;
        const uint8_t *from = params ? params[n++] : NULL;
        if (!from)
            return HIP_INVALID_VALUE;
        memcpy(to + args[i].offset, from, args[i].bytes);
        if (args[i].is_pointer && is_on_host(from, args[i].bytes)) {
            fprintf(stderr,
                    "hip-remote: argument %u of kernel %.*s is memory of the host, which a remote GPU cannot "
                    "reach\n",
                    n - 1, (int)kernel->name.n, (const char *)kernel->name.at);
            return HIP_INVALID_VALUE;
        }
    }
    return 0;
}

/* One block of arguments, as HIP takes it: {1, buffer, 2, address of its size, 3}. */
static int copy_extra(void **extra, uint32_t bytes, uint8_t *to)
{
    size_t n;
    if (extra[0] != EXTRA_BUFFER || extra[2] != EXTRA_SIZE || extra[4] != EXTRA_END || !extra[1] || !extra[3])
        return HIP_INVALID_VALUE;
    memcpy(&n, extra[3], sizeof(n));
    if (n < bytes)
        return HIP_INVALID_VALUE;
    if (bytes > 0)
        memcpy(to, extra[1], bytes);
    return 0;
}

static int check_shape(const struct halo_code_kernel *kernel, const struct halo_remote_launch_kernel *q)
{
    uint64_t threads = (uint64_t)q->block_x * q->block_y * q->block_z;
    uint64_t most = kernel->threads_per_block ? kernel->threads_per_block : BLOCK_THREADS_MAX;
    if (threads == 0 || threads > most || q->grid_x == 0 || q->grid_y == 0 || q->grid_z == 0 || q->grid_x > INT32_MAX ||
        q->grid_y > INT32_MAX || q->grid_z > INT32_MAX || q->lds_bytes > INT32_MAX)
        return halo_client_major < 7 ? HIP_INVALID_VALUE : HIP_INVALID_CONFIGURATION;
    return 0;
}

_Static_assert(sizeof(struct halo_remote_launch_kernel) == sizeof(struct halo_remote_launch_cooperative) &&
                   offsetof(struct halo_remote_launch_kernel, args) ==
                       offsetof(struct halo_remote_launch_cooperative, args),
               "a cooperative launch has the same fields");

static int launch(struct halo_remote_launch_kernel *q, void *stream, void **params, void **extra, bool is_cooperative)
{
    uint8_t args[HALO_REMOTE_ARGS_MAX];
    struct halo_remote_slot *slot, *function;
    function = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_FUNCTION], q->function);
    if (!function || !halo_client_stream(stream, &q->stream, &slot))
        return HIP_INVALID_HANDLE;
    if (function->u.function.error)
        return function->u.function.error;
    const struct halo_code_kernel *kernel = function->u.function.kernel;
    uint32_t bytes = kernel->has_args ? kernel->arg_bytes : kernel->segment_bytes;
    if ((params && extra) || bytes > sizeof(args) || (!kernel->has_args && bytes > 0 && !extra))
        return HIP_INVALID_VALUE;
    int error = check_shape(kernel, q);
    if (error)
        return error;
    memset(args, 0, bytes); /* what lies between arguments must not be the stack's */
    error = extra ? copy_extra(extra, bytes, args) : kernel->has_args ? gather(function, params, args) : 0;
    if (error)
        return error;
    q->args = (struct halo_remote_bytes){bytes ? args : NULL, bytes};
    return halo_client_send(is_cooperative ? HIP_OP_LAUNCH_COOPERATIVE : HIP_OP_LAUNCH_KERNEL, q);
}

#define MODULE_LAUNCH                                                                                                  \
    {                                                                                                                  \
        .function = halo_client_bits(function), .grid_x = grid_x, .grid_y = grid_y, .grid_z = grid_z,                  \
        .block_x = block_x, .block_y = block_y, .block_z = block_z, .lds_bytes = lds_bytes                             \
    }

int hipModuleLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int lds_bytes,
                          void *stream, void **args, void **extra)
{
    struct halo_remote_launch_kernel q = MODULE_LAUNCH;
    int error = halo_client_enter();
    if (!error)
        error = launch(&q, stream, args, extra, false);
    return halo_client_leave(error);
}

int hipModuleLaunchCooperativeKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                     unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                     unsigned int lds_bytes, void *stream, void **args)
{
    struct halo_remote_launch_kernel q = MODULE_LAUNCH;
    int error = halo_client_enter();
    if (!error)
        error = launch(&q, stream, args, NULL, true);
    return halo_client_leave(error);
}

/* ---- kernels of the program itself, named by their stubs ---- */

static int launch_stub(const void *stub, struct hip_dim3 grid, struct hip_dim3 block, void **args, size_t lds_bytes,
                       void *stream, bool is_cooperative)
{
    struct halo_remote_launch_kernel q = {.grid_x = grid.x,
                                          .grid_y = grid.y,
                                          .grid_z = grid.z,
                                          .block_x = block.x,
                                          .block_y = block.y,
                                          .block_z = block.z,
                                          .lds_bytes = lds_bytes < UINT32_MAX ? (uint32_t)lds_bytes : UINT32_MAX};
    int error = halo_client_enter();
    if (!error)
        error = halo_fat_function(stub, &q.function);
    if (!error)
        error = launch(&q, stream, args, NULL, is_cooperative);
    return halo_client_leave(error);
}

int hipLaunchKernel(const void *stub, struct hip_dim3 grid, struct hip_dim3 block, void **args, size_t lds_bytes,
                    void *stream)
{
    return launch_stub(stub, grid, block, args, lds_bytes, stream, false);
}

int hipLaunchCooperativeKernel(const void *stub, struct hip_dim3 grid, struct hip_dim3 block, void **args,
                               unsigned int lds_bytes, void *stream)
{
    return launch_stub(stub, grid, block, args, lds_bytes, stream, true);
}

/* What the compiler puts around <<<…>>>: the arguments of a launch may contain launches. */
#define CONFIGURATIONS_MAX 16

static _Thread_local struct {
    struct hip_dim3 grid, block;
    size_t lds_bytes;
    void *stream;
} configurations[CONFIGURATIONS_MAX];
static _Thread_local int n_configurations;

int __hipPushCallConfiguration(struct hip_dim3 grid, struct hip_dim3 block, size_t lds_bytes, void *stream)
{
    if (n_configurations == CONFIGURATIONS_MAX)
        return HIP_OUT_OF_MEMORY;
    configurations[n_configurations].grid = grid;
    configurations[n_configurations].block = block;
    configurations[n_configurations].lds_bytes = lds_bytes;
    configurations[n_configurations].stream = stream;
    n_configurations++;
    return HIP_SUCCESS;
}

int __hipPopCallConfiguration(struct hip_dim3 *ret_grid, struct hip_dim3 *ret_block, size_t *ret_lds_bytes,
                              void **ret_stream)
{
    if (n_configurations == 0)
        return HIP_INVALID_VALUE;
    n_configurations--;
    *ret_grid = configurations[n_configurations].grid;
    *ret_block = configurations[n_configurations].block;
    *ret_lds_bytes = configurations[n_configurations].lds_bytes;
    *ret_stream = configurations[n_configurations].stream;
    return HIP_SUCCESS;
}
