/* call_module.c: code objects and their kernels. The client reads the metadata to gather the arguments of launches. */
#include <stdlib.h>
#include <string.h>

#include <sha2.h>

#include "client_priv.h"

#define ELF_HEADER_BYTES 64

static uint64_t number_at(const uint8_t *at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* HIP gets an image without its size: its table of sections ends it. 0: not an ELF file of a sensible size. */
static size_t image_bytes(const uint8_t *image)
{
    static const uint8_t magic[6] = {0x7f, 'E', 'L', 'F', 2, 1};
    if (memcmp(image, magic, sizeof(magic)) != 0)
        return 0;
    uint64_t at = number_at(image + 40, 8), bytes = number_at(image + 58, 2) * number_at(image + 60, 2);
    return at >= ELF_HEADER_BYTES && at <= HALO_CODE_IMAGE_MAX && bytes <= HALO_CODE_IMAGE_MAX - at ? at + bytes : 0;
}

/* The image as a blob, piece by piece. A HIP error; the handle is the caller's to close. */
static int send_blob(uint64_t blob, const uint8_t *image, size_t n)
{
    struct halo_remote_blob_open q = {.blob = blob, .size = n};
    struct halo_remote_blob_open_reply a;
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, image, n);
    SHA256Final(q.sha256, &sha);
    int r = halo_remote_blob_open(&halo_client.port, &q, &a);
    int error = halo_client_status(r, &a.status);
    for (size_t done = 0, step; done < n && !error && !a.is_complete; done += step) {
        step = n - done < HALO_REMOTE_DATA_MAX ? n - done : HALO_REMOTE_DATA_MAX;
        const struct halo_remote_blob_write piece = {blob, done, {image + done, (uint32_t)step}};
        error = halo_client_send_data(HIP_OP_BLOB_WRITE, &piece, piece.data);
    }
    return error;
}

struct loading {
    int error;
    bool is_done;
};

static void take_loaded(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct loading *loading = ud;
    loading->error = reply->status.error;
    loading->is_done = true;
}

/* The image itself travels with the request if a frame holds it. */
static int send_module(uint64_t module, const uint8_t *image, size_t n)
{
    struct halo_remote_handles *blobs = &halo_client.handles[HALO_REMOTE_BLOB];
    struct halo_remote_module_load_data q = {.module = module};
    struct halo_remote_slot *slot = NULL;
    struct loading loading = {0};
    int error = 0;
    if (n <= HALO_REMOTE_DATA_MAX) {
        q.image = (struct halo_remote_bytes){image, (uint32_t)n};
    } else {
        slot = halo_remote_handles_take(blobs, &q.blob);
        error = slot ? send_blob(q.blob, image, n) : HIP_OUT_OF_MEMORY;
    }
    if (!error) {
        int r = halo_link_ask_data(&halo_client.link, HIP_OP_MODULE_LOAD_DATA, &q, (uint8_t)halo_client_thread_device,
                                   q.image, (struct halo_link_answer){.take = take_loaded, .ud = &loading});
        while (!r && !loading.is_done)
            r = halo_link_step(&halo_client.link);
        const struct halo_remote_status status = {.error = loading.error};
        error = halo_client_status(r, &status);
    }
    if (slot) {
        (void)halo_client_send(HIP_OP_BLOB_CLOSE, &(struct halo_remote_blob_close){q.blob});
        halo_remote_handles_drop(blobs, slot);
    }
    return error;
}

static void drop(struct halo_remote_module *module)
{
    halo_code_object_finish(&module->code);
    free(module->image);
    free(module);
}

/* A copy of the image with what it says of its kernels; NULL with the HIP error. */
static struct halo_remote_module *read_image(const void *image, size_t n, int *ret_error)
{
    struct halo_remote_module *module = calloc(1, sizeof(*module));
    const char *reason = "no memory";
    *ret_error = HIP_OUT_OF_MEMORY;
    if (!module)
        return NULL;
    module->image = malloc(n);
    if (module->image) {
        memcpy(module->image, image, n);
        *ret_error = halo_code_object_parse(module->image, n, &module->code, &reason) < 0 ? HIP_INVALID_IMAGE : 0;
    }
    if (!*ret_error)
        return module;
    drop(module);
    return NULL;
}

static int load(void **ret, const void *image)
{
    struct halo_remote_handles *modules = &halo_client.handles[HALO_REMOTE_MODULE];
    size_t n = ret && image ? image_bytes(image) : 0;
    uint64_t bits;
    int error;
    if (n == 0)
        return ret && image ? HIP_INVALID_IMAGE : HIP_INVALID_VALUE;
    struct halo_remote_module *module = read_image(image, n, &error);
    struct halo_remote_slot *slot = module ? halo_remote_handles_take(modules, &bits) : NULL;
    if (module && !slot)
        error = HIP_OUT_OF_MEMORY;
    if (!error) {
        slot->u.module = module;
        error = send_module(bits, module->image, n);
    }
    if (!error)
        *ret = halo_client_pointer(bits);
    else if (slot)
        halo_remote_handles_drop(modules, slot);
    if (error && module)
        drop(module);
    return error;
}

int hipModuleLoadData(void **ret, const void *image)
{
    int error = halo_client_enter();
    if (!error)
        error = load(ret, image);
    return halo_client_leave(error);
}

/* Its functions end with it. */
static int unload(uint64_t bits)
{
    struct halo_remote_handles *functions = &halo_client.handles[HALO_REMOTE_FUNCTION];
    struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_MODULE], bits);
    if (!slot)
        return HIP_INVALID_HANDLE;
    for (uint32_t i = 0; i < functions->n_used; i++)
        if (functions->slots[i].is_live && functions->slots[i].u.function.module == slot->u.module)
            halo_remote_handles_drop(functions, &functions->slots[i]);
    drop(slot->u.module);
    halo_remote_handles_drop(&halo_client.handles[HALO_REMOTE_MODULE], slot);
    return halo_client_send(HIP_OP_MODULE_UNLOAD, &(struct halo_remote_module_unload){bits});
}

int hipModuleUnload(void *module)
{
    int error = halo_client_enter();
    if (!error)
        error = unload(halo_client_bits(module));
    return halo_client_leave(error);
}

static int get_function(void **ret, uint64_t module, const char *name)
{
    struct halo_remote_handles *functions = &halo_client.handles[HALO_REMOTE_FUNCTION];
    const struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_MODULE], module);
    size_t n = ret && name ? strlen(name) : 0;
    if (n == 0 || n > HALO_REMOTE_NAME_MAX)
        return ret && name ? HIP_NOT_FOUND : HIP_INVALID_VALUE;
    if (!slot)
        return HIP_INVALID_HANDLE;
    const struct halo_remote_bytes text = {name, (uint32_t)n};
    const struct halo_code_kernel *kernel = halo_code_object_find(&slot->u.module->code, text);
    if (!kernel)
        return HIP_NOT_FOUND;
    uint64_t bits;
    struct halo_remote_slot *function = halo_remote_handles_take(functions, &bits);
    if (!function)
        return HIP_OUT_OF_MEMORY;
    struct halo_remote_module_get_function_reply a;
    const struct halo_remote_module_get_function q = {module, bits, text};
    int r = halo_remote_module_get_function(&halo_client.port, &q, &a);
    int error = halo_client_status(r, &a.status);
    if (error) {
        halo_remote_handles_drop(functions, function);
        return error;
    }
    function->u.function.module = slot->u.module;
    function->u.function.kernel = kernel;
    *ret = halo_client_pointer(bits);
    return 0;
}

int hipModuleGetFunction(void **ret, void *module, const char *name)
{
    int error = halo_client_enter();
    if (!error)
        error = get_function(ret, halo_client_bits(module), name);
    return halo_client_leave(error);
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, void *function, int block, size_t lds)
{
    struct halo_remote_occupancy_reply a;
    const struct halo_remote_occupancy q = {halo_client_bits(function), block, lds};
    int error = halo_client_enter();
    if (!error && (!ret || block < 1 || block > 65536 || lds > INT32_MAX))
        error = HIP_INVALID_VALUE;
    if (!error && !halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_FUNCTION], q.function))
        error = HIP_INVALID_HANDLE;
    if (!error) {
        int r = halo_remote_occupancy(&halo_client.port, &q, &a);
        error = halo_client_status(r, &a.status);
        *ret = error ? 0 : a.n_blocks;
    }
    return halo_client_leave(error);
}
