/* runtime.c: the functions of libamdhip64.so, over streams, memory and kernels.host.
 *
 * $HALO_HIP_EMU_DISCRETE=1 makes the GPU a discrete one: pinned memory is reached by copies alone, and the
 * architecture stays "host". $HALO_HIP_EMU_ARCH names another architecture, whose kernels are loaded instead
 * ("gfx1010": no dot4, no matrix units); a code object of AMD's is run by $HALO_HIP_EMU_ISA, a library that interprets
 * machine code (tests/gfx-sim). $HALO_HIP_EMU_WITHOUT: kernels whose names begin with this are missing.
 * Copies to and from device memory are checked against the allocations: a copy that exceeds one loses the device, as
 * on a GPU.
 */
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"
#include "host_abi.h"
#include "memory.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL()                                                                                                         \
    do {                                                                                                               \
        int error_ = emu_call(__func__);                                                                               \
        if (error_)                                                                                                    \
            return error_ == EMU_DROPPED ? EMU_SUCCESS : error_;                                                       \
    } while (0)

#define HALO_HIP_FN(name, arguments) EXPORT int hip##name arguments;
#include "hip_api.def"
#undef HALO_HIP_FN
EXPORT int hipGetDevicePropertiesR0600(void *ret, int device);
EXPORT int hipModuleGetGlobal(void **ret, size_t *ret_bytes, void *module, const char *name);

struct module {
    void *library;
    halo_host_kernel_find_fn *find;
    halo_host_kernel_run_fn *run;
};

/* A function is a kernel together with the code that runs it. */
struct function {
    const struct halo_host_kernel *kernel;
    halo_host_kernel_run_fn *run;
};

static bool discrete(void)
{
    const char *text = getenv("HALO_HIP_EMU_DISCRETE");
    return text && strcmp(text, "1") == 0;
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

/* HALO_HIP_EMU_GPUS: 1 to 8 of the same kind, which share one memory. */
static int count_gpus(void)
{
    const char *text = getenv("HALO_HIP_EMU_GPUS");
    return text && text[0] >= '1' && text[0] <= '8' && !text[1] ? text[0] - '0' : 1;
}

static int check_gpu(int device)
{
    return device >= 0 && device < count_gpus() ? EMU_SUCCESS : 101;
}

int hipInit(unsigned int flags)
{
    CALL();
    return flags == 0 ? EMU_SUCCESS : EMU_INVALID;
}

int hipRuntimeGetVersion(int *ret)
{
    CALL();
    *ret = 70000000;
    return EMU_SUCCESS;
}

int hipGetDeviceCount(int *ret)
{
    CALL();
    *ret = count_gpus();
    return EMU_SUCCESS;
}

int hipSetDevice(int device)
{
    CALL();
    return check_gpu(device);
}

int hipDeviceGetName(char *ret, int n, int device)
{
    CALL();
    snprintf(ret, (size_t)n, "emulated GPU %d", device);
    return EMU_SUCCESS;
}

/* An address that no machine has, so that the counters of a real card are never taken for this GPU's. */
int hipDeviceGetPCIBusId(char *ret, int n, int device)
{
    CALL();
    snprintf(ret, (size_t)n, "ffff:ff:1f.%d", device);
    return EMU_SUCCESS;
}

/* The layout of HIP 6: wave size, units, integrated, architecture. */
int hipGetDevicePropertiesR0600(void *ret, int device)
{
    CALL();
    const int wave = 32, units = 4, integrated = !discrete();
    char *bytes = memset(ret, 0, 1472);
    memcpy(bytes + 308, &wave, sizeof(wave));
    memcpy(bytes + 388, &units, sizeof(units));
    memcpy(bytes + 396, &integrated, sizeof(integrated));
    snprintf(bytes + 1160, 256, "%s:emulated", setting("HALO_HIP_EMU_ARCH", "host"));
    return check_gpu(device);
}

int hipMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    CALL();
    *ret_total = emu_memory_total();
    *ret_free = *ret_total - emu_memory_used();
    return EMU_SUCCESS;
}

/* The real functions wait for all queued work, without a limit. With HALO_HIP_EMU_IDLE=1 it is a fault to call them
 * while there is any. */
static void need_idle(const char *function)
{
    if (strcmp(setting("HALO_HIP_EMU_IDLE", "0"), "1") != 0 || emu_streams_idle() || emu_lost())
        return;
    fprintf(stderr, "hip-emu: %s is called while work is queued\n", function);
    abort();
}

int hipMalloc(void **ret, size_t n)
{
    CALL();
    need_idle(__func__);
    return emu_memory_take(ret, n, false);
}

int hipFree(void *p)
{
    CALL();
    need_idle(__func__);
    return emu_memory_release(p, false);
}

int hipHostMalloc(void **ret, size_t n, unsigned int flags)
{
    CALL();
    need_idle(__func__);
    (void)flags;
    return emu_memory_take(ret, n, true);
}

int hipHostFree(void *p)
{
    CALL();
    need_idle(__func__);
    return emu_memory_release(p, true);
}

int hipHostGetDevicePointer(void **ret, void *p, unsigned int flags)
{
    CALL();
    *ret = p;
    return flags == 0 && emu_memory_holds(p, 1) ? EMU_SUCCESS : EMU_INVALID;
}

struct copy {
    void *to;
    const void *from;
    size_t n;
    int kind, byte;
    bool flip;
};

static int do_copy(void *ud)
{
    struct copy *c = ud;
    emu_memory_lock(); /* as a GPU: the memory is not freed under it */
    bool ok = (c->kind == 2 || emu_memory_holds(c->to, c->n)) && (c->kind <= 1 || emu_memory_holds(c->from, c->n));
    if (ok && c->kind == 0)
        memset(c->to, c->byte, c->n);
    else if (ok)
        memmove(c->to, c->from, c->n);
    if (ok && c->flip && c->n > 8)
        ((unsigned char *)c->to)[c->n / 8 * 4 + 2] ^= 0x10;
    emu_memory_unlock();
    if (!ok)
        fprintf(stderr, "hip-emu: a copy of %zu bytes leaves its memory\n", c->n);
    return ok ? 0 : -1;
}

static int push_copy(void *stream, struct copy c)
{
    struct copy *copy = malloc(sizeof(*copy));
    if (!copy)
        return EMU_NO_MEMORY;
    *copy = c;
    return emu_stream_push(stream, (struct emu_task){do_copy, free, copy}) ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int hipMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream)
{
    int r = emu_call_of(__func__, n);
    if (r && r != EMU_FLIPPED)
        return r == EMU_DROPPED ? EMU_SUCCESS : r;
    return kind >= 1 && kind <= 3 ? push_copy(stream, (struct copy){to, from, n, kind, 0, r == EMU_FLIPPED})
                                  : EMU_INVALID;
}

int hipMemsetAsync(void *p, int byte, size_t n, void *stream)
{
    CALL();
    return push_copy(stream, (struct copy){p, NULL, n, 0, byte, false});
}

int hipStreamCreateWithFlags(void **ret, unsigned int flags)
{
    CALL();
    *ret = emu_stream_create();
    return *ret && flags <= 1 ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int hipStreamDestroy(void *stream)
{
    CALL();
    emu_stream_destroy(stream);
    return EMU_SUCCESS;
}

int hipStreamBeginCapture(void *stream, int mode)
{
    CALL();
    return mode >= 0 && mode <= 2 && emu_stream_capture(stream) ? EMU_SUCCESS : EMU_INVALID;
}

int hipStreamEndCapture(void *stream, void **ret_graph)
{
    CALL();
    *ret_graph = emu_stream_captured(stream);
    return *ret_graph ? EMU_SUCCESS : EMU_INVALID;
}

/* The executable is the graph itself, with one more reference. */
int hipGraphInstantiate(void **ret, void *graph, void **ret_error_node, char *log, size_t log_bytes)
{
    CALL();
    (void)ret_error_node;
    (void)log;
    (void)log_bytes;
    emu_graph_hold(graph);
    *ret = graph;
    return EMU_SUCCESS;
}

int hipGraphLaunch(void *exec, void *stream)
{
    CALL();
    emu_graph_hold(exec);
    return emu_stream_push(stream, (struct emu_task){emu_graph_run, emu_graph_release, exec}) ? EMU_SUCCESS
                                                                                              : EMU_NO_MEMORY;
}

int hipGraphExecDestroy(void *exec)
{
    CALL();
    emu_graph_release(exec);
    return EMU_SUCCESS;
}

int hipGraphDestroy(void *graph)
{
    CALL();
    emu_graph_release(graph);
    return EMU_SUCCESS;
}

int hipEventCreateWithFlags(void **ret, unsigned int flags)
{
    CALL();
    (void)flags;
    *ret = emu_event_create();
    return *ret ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int hipEventDestroy(void *event)
{
    CALL();
    emu_event_destroy(event);
    return EMU_SUCCESS;
}

int hipEventRecord(void *event, void *stream)
{
    CALL();
    return emu_event_record(event, stream) ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int hipEventQuery(void *event)
{
    CALL();
    bool done = emu_event_done(event);
    int lost = emu_lost(); /* of work that completed before the event */
    return lost ? lost : done ? EMU_SUCCESS : EMU_NOT_READY;
}

/* The end of an ELF file, from its headers, as HIP finds it: an image is passed without its size. */
static size_t image_bytes(const void *image)
{
    const Elf64_Ehdr *h = image;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_shoff == 0)
        return 0;
    return h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
}

/* A library with the kernels of the file: itself, or the interpreter of its machine code. NULL: it cannot be used. */
static void *open_kernels(const char *path, const void *image)
{
    const Elf64_Ehdr *header = image;
    const char *isa = setting("HALO_HIP_EMU_ISA", NULL);
    int (*open_object)(const char *path);
    void (*note_memory)(void *p, size_t n);
    if (header->e_machine != EM_AMDGPU)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *library = isa ? dlopen(isa, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return NULL;
    *(void **)&open_object = dlsym(library, "isa_device_open");
    *(void **)&note_memory = dlsym(library, "isa_device_memory");
    if (!open_object || !note_memory || open_object(path) < 0)
        return NULL;
    emu_memory_watch(note_memory);
    return library;
}

int hipModuleLoadData(void **ret, const void *image)
{
    CALL();
    char path[64];
    size_t n = image_bytes(image);
    int fd = n ? memfd_create("kernels.host", MFD_CLOEXEC) : -1;
    struct module *module = calloc(1, sizeof(*module));
    if (fd >= 0 && module && write(fd, image, n) == (ssize_t)n) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        module->library = open_kernels(path, image);
    }
    if (fd >= 0)
        close(fd);
    if (module && module->library) {
        *(void **)&module->find = dlsym(module->library, "halo_host_kernel_find");
        *(void **)&module->run = dlsym(module->library, "halo_host_kernel_run");
        if (module->find && module->run) {
            *ret = module;
            return EMU_SUCCESS;
        }
        dlclose(module->library);
    }
    free(module);
    return EMU_NO_BINARY;
}

/* The library stays open: threads of its kernels keep state of it. The functions stay too; HIP frees them with the
 * module. */
int hipModuleUnload(void *module)
{
    CALL();
    free(module);
    return EMU_SUCCESS;
}

int hipModuleGetFunction(void **ret, void *module, const char *name)
{
    CALL();
    const struct module *m = module;
    const char *without = setting("HALO_HIP_EMU_WITHOUT", NULL);
    const struct halo_host_kernel *kernel =
        without && strncmp(name, without, strlen(without)) == 0 ? NULL : m->find(name);
    static struct function functions[1024];
    static size_t n_functions;
    if (!kernel)
        return EMU_NOT_FOUND;
    for (size_t i = 0; i < n_functions; i++)
        if (functions[i].kernel == kernel) {
            *ret = &functions[i];
            return EMU_SUCCESS;
        }
    if (n_functions == sizeof(functions) / sizeof(functions[0]))
        return EMU_NO_MEMORY;
    functions[n_functions] = (struct function){kernel, m->run};
    *ret = &functions[n_functions++];
    return EMU_SUCCESS;
}

/* A variable of the library, of the size that its symbol has. */
int hipModuleGetGlobal(void **ret, size_t *ret_bytes, void *module, const char *name)
{
    CALL();
    const struct module *m = module;
    void *at = dlsym(m->library, name);
    Dl_info info;
    void *symbol = NULL;
    if (!at || !dladdr1(at, &info, &symbol, RTLD_DL_SYMENT) || !symbol)
        return EMU_NOT_FOUND;
    *ret = at;
    *ret_bytes = ((const Elf64_Sym *)symbol)->st_size;
    return emu_memory_add(at, *ret_bytes);
}

/* Few, so that kernels whose grid is what the GPU holds at once have more work than one pass of it. */
int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, void *function, int block, size_t lds_bytes)
{
    CALL();
    (void)function;
    *ret = block > 0 && lds_bytes == 0 ? 1 : 0;
    return EMU_SUCCESS;
}

struct launch {
    struct function function;
    uint32_t grid[3], block[3];
    void *args; /* a copy: the caller's arguments are gone when the stream runs the launch */
};

static int do_launch(void *ud)
{
    struct launch *l = ud;
    char reason[HALO_HOST_REASON] = "";
    void *args[] = {l->args};
    int r = l->function.run(l->function.kernel, l->grid, l->block, args, reason);
    if (r)
        fprintf(stderr, "hip-emu: %s\n", reason);
    return r;
}

static void drop_launch(void *ud)
{
    struct launch *l = ud;
    free(l->args);
    free(l);
}

int hipModuleLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int lds_bytes,
                          void *stream, void **args, void **extra)
{
    if (!emu_stream_capturing(stream)) /* scripts count what runs */
        CALL();
    const struct function *f = function;
    struct launch *l = malloc(sizeof(*l));
    void *copy = malloc(f->kernel->args_bytes);
    if (!l || !copy || lds_bytes != 0 || extra) {
        free(l);
        free(copy);
        return EMU_INVALID;
    }
    memcpy(copy, args[0], f->kernel->args_bytes);
    *l = (struct launch){*f, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, copy};
    return emu_stream_push(stream, (struct emu_task){do_launch, drop_launch, l}) ? EMU_SUCCESS : EMU_NO_MEMORY;
}
