/* comgr_probe.c: a library in the place of a GPU's runtime that compiles a kernel with AMD's compiler library.
 *
 * AMD's runtime does the same for its copy kernels when a device is opened, which needs a GPU; the compiler needs none.
 * It runs where the engine opens its device, so in the engine's sandbox, and says on stderr "comgr: BYTES bytes" or
 * what failed. The numbers are those of amd_comgr.h, equal in versions 2 and 3.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    uint64_t handle;
} comgr;

enum { KIND_SOURCE = 1, KIND_EXECUTABLE = 8, LANGUAGE_OPENCL_1_2 = 1 };
enum { COMPILE_TO_BITCODE = 2, GENERATE_CODE = 6, LINK_TO_EXECUTABLE = 9 };

static struct {
    int (*create_data)(int kind, comgr *data);
    int (*set_data)(comgr data, size_t n, const char *bytes);
    int (*set_data_name)(comgr data, const char *name);
    int (*get_data)(comgr data, size_t *n, char *bytes);
    int (*create_data_set)(comgr *set);
    int (*data_set_add)(comgr set, comgr data);
    int (*action_data_get_data)(comgr set, int kind, size_t index, comgr *data);
    int (*create_action_info)(comgr *action);
    int (*action_info_set_isa_name)(comgr action, const char *name);
    int (*action_info_set_language)(comgr action, int language);
    int (*do_action)(int kind, comgr action, comgr in, comgr out);
} api;

static const char kernel[] = "__kernel void twice(__global float *x) { *x = *x * 2; }";

static int find_all(void)
{
    void *library = dlopen("libamd_comgr.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libamd_comgr.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
#define FIND(name)                                                                                                     \
    if (!(*(void **)&api.name = dlsym(library, "amd_comgr_" #name)))                                                   \
        return -1;
    FIND(create_data)
    FIND(set_data)
    FIND(set_data_name)
    FIND(get_data)
    FIND(create_data_set)
    FIND(data_set_add)
    FIND(action_data_get_data)
    FIND(create_action_info)
    FIND(action_info_set_isa_name)
    FIND(action_info_set_language)
    FIND(do_action)
#undef FIND
    return 0;
}

/* Each step's status is 0; `what` names the one that is not. */
static int compile(size_t *ret_bytes, const char **what)
{
    comgr data, action, sets[4], result;
    int r = 0;
#define STEP(name, ...)                                                                                                \
    if (r == 0) {                                                                                                      \
        *what = #name;                                                                                                 \
        r = api.name(__VA_ARGS__);                                                                                     \
    }
    for (int i = 0; i < 4; i++)
        STEP(create_data_set, &sets[i])
    STEP(create_data, KIND_SOURCE, &data)
    STEP(set_data, data, strlen(kernel), kernel)
    STEP(set_data_name, data, "twice.cl")
    STEP(data_set_add, sets[0], data)
    STEP(create_action_info, &action)
    STEP(action_info_set_isa_name, action, "amdgcn-amd-amdhsa--gfx1030")
    STEP(action_info_set_language, action, LANGUAGE_OPENCL_1_2)
    STEP(do_action, COMPILE_TO_BITCODE, action, sets[0], sets[1])
    STEP(do_action, GENERATE_CODE, action, sets[1], sets[2])
    STEP(do_action, LINK_TO_EXECUTABLE, action, sets[2], sets[3])
    STEP(action_data_get_data, sets[3], KIND_EXECUTABLE, 0, &result)
    STEP(get_data, result, ret_bytes, NULL)
#undef STEP
    return r;
}

__attribute__((constructor)) static void probe(void)
{
    size_t n = 0;
    const char *what = "";
    if (find_all() < 0) {
        fprintf(stderr, "comgr: not installed\n");
        return;
    }
    int r = compile(&n, &what);
    if (r)
        fprintf(stderr, "comgr: %s failed: %d\n", what, r);
    else
        fprintf(stderr, "comgr: %zu bytes\n", n);
}
