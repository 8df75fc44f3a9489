/* op_module.c: code objects, kernels, launches, all checked against the metadata that the worker reads itself.
 *
 * The runtime gets the worker's own copy of an image, and takes the sizes of arguments from the image, not from the
 * call: a launch with fewer bytes than the metadata says would read past them. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include <hip_remote/code_object.h>

#include "session_priv.h"

#define EXTRA_BUFFER ((void *)1)
#define EXTRA_SIZE ((void *)2)
#define EXTRA_END ((void *)3)
#define GRID_THREADS_MAX UINT32_MAX /* of one dimension, grid times block */
#define BLOCK_THREADS_MAX 1024

struct halo_session_module {
    void *hip;
    void *image;
    uint64_t image_bytes;
    struct halo_code_object code;
};

struct halo_session_function {
    void *hip;
    const struct halo_session_module *module;
    const struct halo_code_kernel *kernel;
};

/* ---- modules ---- */

void halo_session_function_drop(struct halo_session_function *function)
{
    free(function);
}

int halo_session_module_drop(struct halo_session *s, struct halo_session_module *module)
{
    struct halo_handles *functions = &s->handles[HALO_REMOTE_FUNCTION];
    int error = module->hip ? s->rt.api.ModuleUnload(module->hip) : 0;
    for (uint32_t i = 0; i < functions->n_used; i++) {
        const struct halo_session_function *function = functions->slots[i].object;
        if (!function || function->module != module)
            continue;
        halo_session_function_drop(functions->slots[i].object);
        functions->slots[i].object = NULL;
        functions->n_live--;
    }
    halo_ranges_drop_module(&s->memory, module);
    halo_code_object_finish(&module->code);
    s->code_bytes -= module->image_bytes;
    free(module->image);
    free(module);
    return error;
}

/* The worker's own copy, parsed, for the device that the request is for. */
static int read_image(struct halo_session *s, const struct halo_session_call *c, const void *bytes, uint64_t n,
                      struct halo_session_module *module)
{
    const char *reason;
    if (n > s->limits.code_bytes - s->code_bytes)
        return HALO_WORKER_NO_MEMORY;
    module->image = malloc(n);
    if (!module->image)
        return HALO_WORKER_NO_MEMORY;
    memcpy(module->image, bytes, n);
    module->image_bytes = n;
    s->code_bytes += n;
    if (halo_code_object_parse(module->image, n, &module->code, &reason) < 0)
        return HALO_WORKER_INVALID_IMAGE;
    if (!halo_code_object_is_for(&module->code, s->rt.devices[c->device].arch))
        return HALO_WORKER_NO_BINARY;
    return s->rt.api.ModuleLoadData(&module->hip, module->image);
}

int halo_session_module_load_data(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_module_load_data *q = &c->q->module_load_data;
    const struct halo_session_blob *blob = halo_handles_get(&s->handles[HALO_REMOTE_BLOB], q->blob);
    uint64_t n = q->image.n;
    const void *bytes = q->blob == 0 ? q->image.at : blob ? halo_session_blob_bytes(blob, &n) : NULL;
    int error = halo_handles_check_new(&s->handles[HALO_REMOTE_MODULE], q->module);
    if (error || !bytes)
        return error ? error : HALO_WORKER_INVALID_HANDLE;
    struct halo_session_module *module = calloc(1, sizeof(*module));
    if (!module)
        return HALO_WORKER_NO_MEMORY;
    error = read_image(s, c, bytes, n, module);
    if (error) {
        (void)halo_session_module_drop(s, module);
        return error;
    }
    halo_handles_put(&s->handles[HALO_REMOTE_MODULE], q->module, module);
    return 0;
}

int halo_session_module_unload(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_session_module *module = halo_handles_take(&s->handles[HALO_REMOTE_MODULE], c->q->module_unload.module);
    return module ? halo_session_module_drop(s, module) : HALO_WORKER_INVALID_HANDLE;
}

/* A NUL-terminated copy; the wire lets no NUL into a text. */
static const char *name_of(struct halo_remote_bytes text, char buffer[HALO_REMOTE_NAME_MAX + 1])
{
    memcpy(buffer, text.at, text.n);
    buffer[text.n] = '\0';
    return buffer;
}

int halo_session_module_get_function(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_module_get_function *q = &c->q->module_get_function;
    struct halo_remote_module_get_function_reply *a = &c->a->module_get_function;
    const struct halo_session_module *module = halo_handles_get(&s->handles[HALO_REMOTE_MODULE], q->module);
    char name[HALO_REMOTE_NAME_MAX + 1];
    int error = halo_handles_check_new(&s->handles[HALO_REMOTE_FUNCTION], q->function);
    if (!module || error)
        return module ? error : HALO_WORKER_INVALID_HANDLE;
    const struct halo_code_kernel *kernel = halo_code_object_find(&module->code, q->name);
    if (!kernel)
        return HALO_WORKER_NOT_FOUND;
    struct halo_session_function *function = calloc(1, sizeof(*function));
    if (!function)
        return HALO_WORKER_NO_MEMORY;
    *function = (struct halo_session_function){.module = module, .kernel = kernel};
    error = s->rt.api.ModuleGetFunction(&function->hip, module->hip, name_of(q->name, name));
    if (error) {
        halo_session_function_drop(function);
        return error;
    }
    halo_handles_put(&s->handles[HALO_REMOTE_FUNCTION], q->function, function);
    a->arg_bytes = kernel->has_args ? kernel->arg_bytes : kernel->segment_bytes;
    a->threads_per_block = kernel->threads_per_block;
    a->lds_bytes = kernel->lds_bytes;
    return 0;
}

/* Its memory may be copied from and to, like an allocation, until the module ends. */
int halo_session_module_get_global(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_module_get_global *q = &c->q->module_get_global;
    const struct halo_session_module *module = halo_handles_get(&s->handles[HALO_REMOTE_MODULE], q->module);
    char name[HALO_REMOTE_NAME_MAX + 1];
    void *at = NULL;
    size_t bytes = 0;
    if (!module)
        return HALO_WORKER_INVALID_HANDLE;
    if (!s->rt.ModuleGetGlobal)
        return HALO_WORKER_NOT_SUPPORTED;
    int error = s->rt.ModuleGetGlobal(&at, &bytes, module->hip, name_of(q->name, name));
    if (error)
        return error;
    const struct halo_range_entry entry = {.at = (uint64_t)(uintptr_t)at, .bytes = bytes, .module = module};
    if (!halo_ranges_hold(&s->memory, entry.at, bytes) && !halo_ranges_add(&s->memory, entry))
        return HALO_WORKER_NO_MEMORY;
    c->a->module_get_global.address = entry.at;
    c->a->module_get_global.size = bytes;
    return 0;
}

/* ---- functions ---- */

static struct halo_session_function *function_of(const struct halo_session *s, uint64_t bits)
{
    return halo_handles_get(&s->handles[HALO_REMOTE_FUNCTION], bits);
}

int halo_session_func_get_attribute(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_func_get_attribute *q = &c->q->func_get_attribute;
    const struct halo_session_function *function = function_of(s, q->function);
    if (!function)
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.FuncGetAttribute ? s->rt.FuncGetAttribute(&c->a->func_get_attribute.value, q->attribute, function->hip)
                                  : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_func_set_attribute(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_func_set_attribute *q = &c->q->func_set_attribute;
    const struct halo_session_function *function = function_of(s, q->function);
    if (!function)
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.FuncSetAttribute ? s->rt.FuncSetAttribute(function->hip, q->attribute, q->value)
                                  : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_occupancy(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_occupancy *q = &c->q->occupancy;
    const struct halo_session_function *function = function_of(s, q->function);
    if (!function)
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.api.ModuleOccupancyMaxActiveBlocksPerMultiprocessor(&c->a->occupancy.n_blocks, function->hip, q->block,
                                                                     q->lds_bytes);
}

/* ---- launches ---- */

struct launch {
    const struct halo_session_function *function;
    void *stream;
    const struct halo_remote_launch_kernel *q;
    _Alignas(16) uint8_t args[HALO_REMOTE_ARGS_MAX];
};

static bool shape_fits(const struct halo_code_kernel *kernel, const struct halo_remote_launch_kernel *q)
{
    const uint32_t block[3] = {q->block_x, q->block_y, q->block_z}, grid[3] = {q->grid_x, q->grid_y, q->grid_z};
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    uint64_t most = kernel->threads_per_block ? kernel->threads_per_block : BLOCK_THREADS_MAX;
    for (int i = 0; i < 3; i++)
        if ((uint64_t)grid[i] * block[i] > GRID_THREADS_MAX || (kernel->block[i] && kernel->block[i] != block[i]))
            return false;
    return threads <= most && (uint64_t)kernel->lds_bytes + q->lds_bytes <= HALO_SESSION_LDS_BYTES;
}

/* Finds the objects and checks the launch. A HIP error. */
static int prepare(struct halo_session *s, const struct halo_remote_launch_kernel *q, struct launch *ret)
{
    ret->function = function_of(s, q->function);
    ret->q = q;
    if (!ret->function || !halo_session_stream(s, q->stream, &ret->stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    const struct halo_code_kernel *kernel = ret->function->kernel;
    if (q->args.n != (kernel->has_args ? kernel->arg_bytes : kernel->segment_bytes))
        return HALO_WORKER_INVALID_VALUE;
    if (!shape_fits(kernel, q))
        return HALO_WORKER_INVALID_CONFIGURATION;
    if (q->args.n > 0)
        memcpy(ret->args, q->args.at, q->args.n);
    return 0;
}

/* The address of each explicit argument; the runtime reads as many bytes as the metadata says. */
static void point_to_args(struct launch *l, void *params[static HALO_CODE_ARGS_MAX])
{
    const struct halo_code_kernel *kernel = l->function->kernel;
    const struct halo_code_arg *args = l->function->module->code.args + kernel->first_arg;
    for (uint32_t i = 0, n = 0; i < kernel->n_args; i++)
        if (!args[i].is_hidden)
            params[n++] = l->args + args[i].offset;
}

int halo_session_launch_kernel(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_launch_kernel *q = &c->q->launch_kernel;
    struct launch l;
    void *params[HALO_CODE_ARGS_MAX];
    int error = prepare(s, q, &l);
    if (error)
        return error;
    size_t bytes = q->args.n;
    void *extra[] = {EXTRA_BUFFER, l.args, EXTRA_SIZE, &bytes, EXTRA_END};
    bool has_args = l.function->kernel->has_args;
    if (has_args)
        point_to_args(&l, params);
    return s->rt.api.ModuleLaunchKernel(l.function->hip, q->grid_x, q->grid_y, q->grid_z, q->block_x, q->block_y,
                                        q->block_z, q->lds_bytes, l.stream, has_args ? params : NULL,
                                        has_args ? NULL : extra);
}

int halo_session_launch_cooperative(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_launch_cooperative *from = &c->q->launch_cooperative;
    const struct halo_remote_launch_kernel q = {from->function,  from->stream,  from->grid_x,  from->grid_y,
                                                from->grid_z,    from->block_x, from->block_y, from->block_z,
                                                from->lds_bytes, from->args};
    struct launch l;
    void *params[HALO_CODE_ARGS_MAX];
    int error = prepare(s, &q, &l);
    if (error)
        return error;
    if (!s->rt.ModuleLaunchCooperativeKernel || !l.function->kernel->has_args)
        return HALO_WORKER_NOT_SUPPORTED;
    point_to_args(&l, params);
    return s->rt.ModuleLaunchCooperativeKernel(l.function->hip, q.grid_x, q.grid_y, q.grid_z, q.block_x, q.block_y,
                                               q.block_z, q.lds_bytes, l.stream, params);
}
