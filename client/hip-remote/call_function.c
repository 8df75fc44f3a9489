/* call_function.c: what a kernel is like: attributes, and how many blocks of it fit. Kernels come as handles of a
 * module's functions, or as the stubs of a program's own.
 */
#include <string.h>

#include "client_priv.h"
#include "fat_priv.h"

#define BLOCK_MAX 65536
#define BLOCK_THREADS_MAX 1024
#define LDS_BYTES 65536
enum { ATTRIBUTE_LOCAL_BYTES = 3, ATTRIBUTE_REGISTERS = 4 };

static struct halo_remote_slot *slot_of(uint64_t function)
{
    return halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_FUNCTION], function);
}

static const struct halo_code_kernel *kernel_of(uint64_t function)
{
    const struct halo_remote_slot *slot = slot_of(function);
    return slot ? slot->u.function.kernel : NULL;
}

/* ---- occupancy ---- */

/* The function may be gone, or the question withdrawn. */
static void take_fit(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct halo_remote_slot *slot = ud;
    struct halo_remote_fit *fit = &slot->u.function.fit;
    if (!slot->is_live || slot->generation != (uint32_t)(tag >> 32) || fit->serial != (uint32_t)tag)
        return;
    fit->is_known = true;
    fit->error = reply->status.error;
    fit->n_blocks = reply->occupancy.n_blocks;
}

/* Who asks about one function of a module asks about the others next, in blocks of the size that each was compiled for:
 * their questions travel together. 0 or an error of the link. */
static int ask_ahead(const struct halo_remote_module *module, uint64_t lds)
{
    const struct halo_remote_handles *functions = &halo_client.handles[HALO_REMOTE_FUNCTION];
    int r = 0;
    for (uint32_t i = 0; i < functions->n_used && !r; i++) {
        struct halo_remote_slot *slot = &functions->slots[i];
        struct halo_remote_fit *fit = &slot->u.function.fit;
        const struct halo_code_kernel *kernel = slot->u.function.kernel;
        if (!slot->is_live || slot->u.function.module != module || fit->block || kernel->threads_per_block == 0 ||
            kernel->threads_per_block > BLOCK_MAX)
            continue;
        fit->block = (int)kernel->threads_per_block;
        fit->lds_bytes = lds;
        const struct halo_link_answer answer = {
            .take = take_fit, .ud = slot, .tag = (uint64_t)slot->generation << 32 | fit->serial};
        const struct halo_remote_occupancy q = {halo_remote_handles_bits(functions, slot), fit->block, lds};
        r = halo_link_ask(&halo_client.link, HIP_OP_OCCUPANCY, &q, (uint8_t)halo_client_thread_device, answer);
    }
    return r;
}

static bool was_asked(const struct halo_remote_slot *slot, int block, uint64_t lds)
{
    return slot && slot->u.function.fit.block == block && slot->u.function.fit.lds_bytes == lds;
}

/* Waits for the answer, if this was asked ahead. 0 or an error of the link. */
static int await_fit(uint64_t function, int block, uint64_t lds)
{
    const struct halo_remote_slot *slot;
    int r = 0;
    while (!r && was_asked(slot = slot_of(function), block, lds) && !slot->u.function.fit.is_known)
        r = halo_link_step(&halo_client.link);
    return r;
}

static int count_blocks(int *ret, uint64_t function, int block, size_t lds)
{
    const struct halo_remote_slot *slot = slot_of(function);
    struct halo_remote_occupancy_reply a = {{0}, 0};
    const struct halo_remote_occupancy q = {function, block, lds};
    if (!ret || block < 1 || block > BLOCK_MAX || lds > INT32_MAX)
        return HIP_INVALID_VALUE;
    if (!slot)
        return HIP_INVALID_HANDLE;
    int r = 0;
    if (!was_asked(slot, block, lds) && (uint32_t)block == slot->u.function.kernel->threads_per_block)
        r = ask_ahead(slot->u.function.module, lds);
    if (!r)
        r = await_fit(function, block, lds);
    if (!r && was_asked(slot = slot_of(function), block, lds)) {
        a.status.error = slot->u.function.fit.error;
        a.n_blocks = slot->u.function.fit.n_blocks;
    } else if (!r) {
        r = halo_remote_occupancy(&halo_client.port, &q, &a);
    }
    int error = halo_client_status(r, &a.status);
    *ret = error ? 0 : a.n_blocks;
    return error;
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, void *function, int block, size_t lds)
{
    int error = halo_client_enter();
    if (!error)
        error = count_blocks(ret, halo_client_bits(function), block, lds);
    return halo_client_leave(error);
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, void *function, int block, size_t lds,
                                                                unsigned int flags)
{
    (void)flags;
    return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(ret, function, block, lds);
}

int hipOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *stub, int block, size_t lds)
{
    uint64_t function;
    int error = halo_client_enter();
    if (!error)
        error = halo_fat_function(stub, &function);
    if (!error)
        error = count_blocks(ret, function, block, lds);
    return halo_client_leave(error);
}

int hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, const void *stub, int block, size_t lds,
                                                          unsigned int flags)
{
    (void)flags;
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(ret, stub, block, lds);
}

/* The greatest block that fits, halved until one does, and the grid that fills the device with it. */
static int suggest(int *ret_grid, int *ret_block, uint64_t function, size_t lds, int limit)
{
    const struct halo_code_kernel *kernel = kernel_of(function);
    int n_blocks = 0, error = 0;
    if (!ret_grid || !ret_block || limit < 0)
        return HIP_INVALID_VALUE;
    if (!kernel)
        return HIP_INVALID_HANDLE;
    int block = kernel->threads_per_block ? (int)kernel->threads_per_block : BLOCK_THREADS_MAX;
    block = limit > 0 && limit < block ? limit : block;
    for (; block > 0 && n_blocks == 0 && !error; block = n_blocks ? block : block / 2)
        error = count_blocks(&n_blocks, function, block, lds);
    *ret_block = block;
    *ret_grid = n_blocks * halo_client.devices[halo_client_thread_device].properties.n_units;
    return error;
}

int hipOccupancyMaxPotentialBlockSize(int *ret_grid, int *ret_block, const void *stub, size_t lds, int limit)
{
    uint64_t function;
    int error = halo_client_enter();
    if (!error)
        error = halo_fat_function(stub, &function);
    if (!error)
        error = suggest(ret_grid, ret_block, function, lds, limit);
    return halo_client_leave(error);
}

int hipModuleOccupancyMaxPotentialBlockSize(int *ret_grid, int *ret_block, void *function, size_t lds, int limit)
{
    int error = halo_client_enter();
    if (!error)
        error = suggest(ret_grid, ret_block, halo_client_bits(function), lds, limit);
    return halo_client_leave(error);
}

/* ---- attributes ---- */

static int ask_attribute(int *ret, uint64_t function, int attribute)
{
    struct halo_remote_func_get_attribute_reply a;
    if (!ret || attribute < 0 || attribute > 9)
        return HIP_INVALID_VALUE;
    if (!kernel_of(function))
        return HIP_INVALID_HANDLE;
    int r = halo_remote_func_get_attribute(&halo_client.port,
                                           &(struct halo_remote_func_get_attribute){function, attribute}, &a);
    int error = halo_client_status(r, &a.status);
    *ret = error ? 0 : a.value;
    return error;
}

int hipFuncGetAttribute(int *ret, int attribute, void *function)
{
    int error = halo_client_enter();
    if (!error)
        error = ask_attribute(ret, halo_client_bits(function), attribute);
    return halo_client_leave(error);
}

/* What the metadata says, and registers and local memory where the worker's runtime tells them. */
static int fill_attributes(struct hip_func_attributes *ret, uint64_t function)
{
    const struct halo_code_kernel *kernel = kernel_of(function);
    int local = 0, error = ask_attribute(&local, function, ATTRIBUTE_LOCAL_BYTES);
    *ret = (struct hip_func_attributes){
        .max_threads_per_block = kernel->threads_per_block ? (int)kernel->threads_per_block : BLOCK_THREADS_MAX,
        .shared_bytes = kernel->lds_bytes,
        .max_dynamic_shared_bytes = kernel->lds_bytes < LDS_BYTES ? LDS_BYTES - (int)kernel->lds_bytes : 0,
        .local_bytes = (size_t)local};
    if (!error)
        error = ask_attribute(&ret->n_registers, function, ATTRIBUTE_REGISTERS);
    return error == HIP_NOT_SUPPORTED ? 0 : error;
}

int hipFuncGetAttributes(struct hip_func_attributes *ret, const void *stub)
{
    uint64_t function;
    int error = halo_client_enter();
    if (!error)
        error = ret ? halo_fat_function(stub, &function) : HIP_INVALID_VALUE;
    if (!error)
        error = fill_attributes(ret, function);
    return halo_client_leave(error);
}

/* An attribute may change how many blocks fit. */
static void forget_fit(struct halo_remote_slot *slot)
{
    slot->u.function.fit = (struct halo_remote_fit){.serial = slot->u.function.fit.serial + 1};
}

/* 8: how much dynamic LDS a launch may ask for; 9: a hint. */
int hipFuncSetAttribute(const void *stub, int attribute, int value)
{
    uint64_t function;
    int error = halo_client_enter();
    if (!error && (attribute < 8 || attribute > 9 || value < 0))
        error = HIP_INVALID_VALUE;
    if (!error)
        error = halo_fat_function(stub, &function);
    if (!error)
        forget_fit(slot_of(function));
    if (!error)
        error = halo_client_send(HIP_OP_FUNC_SET_ATTRIBUTE,
                                 &(struct halo_remote_func_set_attribute){function, attribute, value});
    return halo_client_leave(error);
}

/* Hints that AMD's GPUs do not take. */
int hipFuncSetCacheConfig(const void *stub, int config)
{
    (void)stub;
    (void)config;
    int error = halo_client_enter();
    return halo_client_leave(error);
}

int hipDeviceSetCacheConfig(int config)
{
    (void)config;
    int error = halo_client_enter();
    return halo_client_leave(error);
}

int hipGetFuncBySymbol(void **ret, const void *stub)
{
    uint64_t function;
    int error = halo_client_enter();
    if (!error)
        error = ret ? halo_fat_function(stub, &function) : HIP_INVALID_VALUE;
    if (!error)
        *ret = halo_client_pointer(function);
    return halo_client_leave(error);
}

const char *hipKernelNameRefByPtr(const void *stub, void *stream)
{
    (void)stream;
    pthread_mutex_lock(&halo_client.lock);
    const char *name = halo_fat_name(stub);
    pthread_mutex_unlock(&halo_client.lock);
    return name ? name : "unknown";
}
