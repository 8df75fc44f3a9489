/* call_module.c: code objects and their kernels. The client reads the metadata to gather the arguments of launches. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef __APPLE__
#include <link.h>
#endif

#include "bundle_priv.h"
#include "client_priv.h"
#include "module_priv.h"

/* ---- what may be read ---- */

#ifndef __APPLE__
struct reading {
    uintptr_t at;
    size_t n; /* 0: not found yet */
};

static int look_into(struct dl_phdr_info *info, size_t bytes, void *ud)
{
    struct reading *reading = ud;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t from = (uintptr_t)info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && reading->at >= from && reading->at - from < segment->p_memsz)
            reading->n = segment->p_memsz - (reading->at - from);
    }
    return reading->n > 0;
}
#endif

size_t halo_module_readable(const void *at)
{
#ifndef __APPLE__
    struct reading reading = {.at = (uintptr_t)at};
    dl_iterate_phdr(look_into, &reading);
    if (reading.n > 0)
        return reading.n;
#endif
    return HALO_CODE_IMAGE_MAX;
}

/* ---- loading ---- */

/* The image as a blob, piece by piece. A HIP error; the handle is the caller's to close. */
static int send_blob(uint64_t blob, const uint8_t *image, size_t n)
{
    struct halo_remote_blob_open q = {.blob = blob, .size = n};
    struct halo_remote_blob_open_reply a;
    if (!halo_uploads_hash(&halo_client.uploads, image, n, q.sha256))
        return HIP_OUT_OF_MEMORY;
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

/* The image itself travels with the request if a frame holds it, and the worker keeps none like it. */
static int send_module(uint64_t module, const uint8_t *image, size_t n)
{
    struct halo_remote_handles *blobs = &halo_client.handles[HALO_REMOTE_BLOB];
    struct halo_remote_module_load_data q = {.module = module};
    struct halo_remote_slot *slot = NULL;
    struct loading loading = {0};
    int error = 0;
    if (n <= (halo_client.uploads.are_kept ? HALO_UPLOAD_LEAST_BYTES : HALO_REMOTE_DATA_MAX)) {
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
    halo_remote_module_free(module);
    return NULL;
}

static int error_of_bundle(int r, const char *reason)
{
    fprintf(stderr, "hip-remote: %s (%s)\n", reason, halo_client.devices[halo_client_thread_device].arch);
    return r == -ENOENT ? HIP_NO_BINARY_FOR_GPU : r == -ENOMEM ? HIP_OUT_OF_MEMORY : HIP_INVALID_IMAGE;
}

static int load_code(const uint8_t *image, size_t n, uint64_t *ret)
{
    struct halo_remote_handles *modules = &halo_client.handles[HALO_REMOTE_MODULE];
    int error;
    struct halo_remote_module *module = read_image(image, n, &error);
    struct halo_remote_slot *slot = module ? halo_remote_handles_take(modules, ret) : NULL;
    if (module && !slot)
        error = HIP_OUT_OF_MEMORY;
    if (!error) {
        slot->u.module = module;
        error = send_module(*ret, module->image, n);
    }
    if (error && slot)
        halo_remote_handles_drop(modules, slot);
    if (error && module)
        halo_remote_module_free(module);
    return error;
}

int halo_module_load(const void *at, size_t n, uint64_t *ret_module)
{
    struct halo_bundle_code code;
    const char *reason;
    int r = halo_bundle_find(at, n, halo_client.devices[halo_client_thread_device].arch, &code, &reason);
    if (r < 0)
        return error_of_bundle(r, reason);
    int error = load_code(code.image, code.n, ret_module);
    free(code.unpacked);
    return error;
}

static int load(void **ret, const void *image, size_t n)
{
    uint64_t bits;
    if (!ret || !image)
        return HIP_INVALID_VALUE;
    int error = halo_module_load(image, n, &bits);
    if (!error)
        *ret = halo_client_pointer(bits);
    return error;
}

int hipModuleLoadData(void **ret, const void *image)
{
    int error = halo_client_enter();
    if (!error)
        error = load(ret, image, image ? halo_module_readable(image) : 0);
    return halo_client_leave(error);
}

/* The options are for code that is compiled when it is loaded; AMD's is not. */
int hipModuleLoadDataEx(void **ret, const void *image, unsigned int n_options, int *options, void **values)
{
    (void)n_options;
    (void)options;
    (void)values;
    return hipModuleLoadData(ret, image);
}

/* A file of this machine. NULL with the HIP error. */
static void *read_file(const char *path, size_t *ret_bytes, int *ret_error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_fit = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && (uint64_t)st.st_size <= HALO_CODE_IMAGE_MAX;
    uint8_t *bytes = is_fit ? malloc((size_t)st.st_size) : NULL;
    size_t done = 0;
    ssize_t got = 1;
    while (bytes && got > 0 && done < (size_t)st.st_size)
        if ((got = read(fd, bytes + done, (size_t)st.st_size - done)) > 0)
            done += (size_t)got;
    *ret_error = fd < 0 ? HIP_FILE_NOT_FOUND : !is_fit ? HIP_INVALID_IMAGE : !bytes ? HIP_OUT_OF_MEMORY : 0;
    *ret_bytes = done;
    if (fd >= 0)
        close(fd);
    return bytes;
}

int hipModuleLoad(void **ret, const char *path)
{
    int error = halo_client_enter();
    size_t n = 0;
    void *bytes = NULL;
    if (!error && !path)
        error = HIP_INVALID_VALUE;
    if (!error)
        bytes = read_file(path, &n, &error);
    if (!error)
        error = load(ret, bytes, n);
    free(bytes);
    return halo_client_leave(error);
}

static void forget_global(struct halo_remote_range global)
{
    if (halo_remote_ranges_take(&halo_client.device_memory, global.at, &global))
        halo_remote_ranges_release(&halo_client.device_memory, global);
}

int halo_module_unload(uint64_t bits)
{
    struct halo_remote_handles *functions = &halo_client.handles[HALO_REMOTE_FUNCTION];
    struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_MODULE], bits);
    if (!slot)
        return HIP_INVALID_HANDLE;
    for (uint32_t i = 0; i < functions->n_used; i++)
        if (functions->slots[i].is_live && functions->slots[i].u.function.module == slot->u.module)
            halo_remote_handles_drop(functions, &functions->slots[i]);
    for (uint32_t i = 0; i < slot->u.module->n_globals; i++)
        forget_global(slot->u.module->globals[i]);
    halo_remote_module_free(slot->u.module);
    halo_remote_handles_drop(&halo_client.handles[HALO_REMOTE_MODULE], slot);
    return halo_client_send(HIP_OP_MODULE_UNLOAD, &(struct halo_remote_module_unload){bits});
}

int hipModuleUnload(void *module)
{
    int error = halo_client_enter();
    if (!error)
        error = halo_module_unload(halo_client_bits(module));
    return halo_client_leave(error);
}

/* The function may be gone. */
static void take_function(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct halo_remote_slot *function = ud;
    if (function->is_live && function->generation == tag)
        function->u.function.error = reply->status.error;
    halo_client_defer(HIP_OP_MODULE_GET_FUNCTION, reply->status.error);
}

/* The metadata says which functions there are; the worker's answer is not waited for. */
int halo_module_function(uint64_t module, const char *name, uint64_t *ret_function)
{
    struct halo_remote_handles *functions = &halo_client.handles[HALO_REMOTE_FUNCTION];
    const struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_MODULE], module);
    size_t n = strlen(name);
    if (n == 0 || n > HALO_REMOTE_NAME_MAX)
        return HIP_NOT_FOUND;
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
    function->u.function.module = slot->u.module;
    function->u.function.kernel = kernel;
    const struct halo_remote_module_get_function q = {module, bits, text};
    const struct halo_link_answer answer = {.take = take_function, .ud = function, .tag = function->generation};
    int r =
        halo_link_ask(&halo_client.link, HIP_OP_MODULE_GET_FUNCTION, &q, (uint8_t)halo_client_thread_device, answer);
    if (r)
        halo_remote_handles_drop(functions, function);
    else
        *ret_function = bits;
    return halo_client_error(r);
}

int hipModuleGetFunction(void **ret, void *module, const char *name)
{
    uint64_t bits;
    int error = halo_client_enter();
    if (!error)
        error = ret && name ? halo_module_function(halo_client_bits(module), name, &bits) : HIP_INVALID_VALUE;
    if (!error)
        *ret = halo_client_pointer(bits);
    return halo_client_leave(error);
}

/* ---- globals ---- */

/* A place that the client has reserved, or not (an address that this process uses): then it is known by its name
 * alone. */
static int keep_global(struct halo_remote_module *module, struct halo_remote_range range)
{
    if (halo_remote_ranges_find(&halo_client.device_memory, range.at, range.bytes))
        return 0;
    struct halo_remote_range *globals = realloc(module->globals, (module->n_globals + 1) * sizeof(*globals));
    if (!globals)
        return HIP_OUT_OF_MEMORY;
    module->globals = globals;
    if (halo_remote_ranges_reserve(&halo_client.device_memory, range) == 0 &&
        halo_remote_ranges_add(&halo_client.device_memory, range) == 0)
        globals[module->n_globals++] = range;
    return 0;
}

int halo_module_global(uint64_t module, const char *name, uint64_t *ret_at, uint64_t *ret_bytes)
{
    struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_MODULE], module);
    struct halo_remote_module_get_global_reply a;
    size_t n = strlen(name);
    if (!slot)
        return HIP_INVALID_HANDLE;
    if (n == 0 || n > HALO_REMOTE_NAME_MAX)
        return HIP_NOT_FOUND;
    const struct halo_remote_module_get_global q = {module, {name, (uint32_t)n}};
    int r = halo_remote_module_get_global(&halo_client.port, &q, &a);
    int error = halo_client_status(r, &a.status);
    if (error)
        return error;
    *ret_at = a.address;
    *ret_bytes = a.size;
    return keep_global(slot->u.module, (struct halo_remote_range){.at = a.address, .bytes = a.size});
}

int hipModuleGetGlobal(void **ret, size_t *ret_bytes, void *module, const char *name)
{
    uint64_t at, bytes;
    int error = halo_client_enter();
    if (!error)
        error = name && (ret || ret_bytes) ? halo_module_global(halo_client_bits(module), name, &at, &bytes)
                                           : HIP_INVALID_VALUE;
    if (!error && ret)
        *ret = halo_client_pointer(at);
    if (!error && ret_bytes)
        *ret_bytes = bytes;
    return halo_client_leave(error);
}
