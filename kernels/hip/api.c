/* api.c: opens the HIP runtime and finds its functions. Any thread; an opened table is immutable. */
#include <hip/api.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <common/reason.h>
#include <hip/hip.h>

/* The first launch of a process takes two and keeps them; steps and loads use one stream each. */
#define HARDWARE_QUEUES "2"
/* Two layouts of hipDeviceProp_t: of HIP 6 and later, and of HIP 5 (which the plain symbol fills even in later
 * libraries). */
#define PROPERTIES_BYTES 4096
struct offsets {
    uint32_t wave_size, n_units, integrated, arch;
};
static const struct offsets offsets_new = {308, 388, 396, 1160}, offsets_old = {276, 336, 652, 396};

static const char *const library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so"};

static void *open_library(const char *path, const char **ret_name)
{
    if (path) {
        *ret_name = path;
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; i < sizeof(library_names) / sizeof(library_names[0]); i++) {
        void *library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            *ret_name = library_names[i];
            return library;
        }
    }
    *ret_name = library_names[0];
    return NULL;
}

/* The symbol, or its name appended to the list of missing ones. */
static void *find(void *library, const char *name, char *missing, size_t size)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        size_t n = strlen(missing);
        snprintf(missing + n, size - n, "%s%s", n ? " " : "", name);
    }
    return symbol;
}

void halo_hip_limit_queues(void)
{
    setenv("GPU_MAX_HW_QUEUES", HARDWARE_QUEUES, 0);
}

int halo_hip_api_open(struct halo_hip_api *ret, const char *path, char *reason)
{
    char missing[HALO_DEVICE_REASON] = "";
    const char *name;
    *ret = (struct halo_hip_api){0};
    ret->library = open_library(path, &name);
    if (!ret->library) {
        const char *why = dlerror();
        return halo_reason(reason, -ENOENT, "no HIP runtime: %s",
                           path && why ? why : "libamdhip64.so is not installed (`halo-doctor` says what it takes)");
    }
    snprintf(ret->path, sizeof(ret->path), "%s", name);
#define HALO_HIP_FN(name, arguments) *(void **)&ret->name = find(ret->library, "hip" #name, missing, sizeof(missing));
#include <hip/hip_api.def>
#undef HALO_HIP_FN
    *(void **)&ret->properties = dlsym(ret->library, "hipGetDevicePropertiesR0600");
    ret->properties_old = !ret->properties;
    if (!ret->properties)
        *(void **)&ret->properties = find(ret->library, "hipGetDeviceProperties", missing, sizeof(missing));
    if (missing[0]) {
        halo_reason(reason, -ENOTSUP, "%s lacks functions: %s", name, missing);
        halo_hip_api_close(ret);
        return -ENOTSUP;
    }
    return 0;
}

void halo_hip_api_close(struct halo_hip_api *api)
{
    if (api->library)
        dlclose(api->library);
    *api = (struct halo_hip_api){0};
}

static uint32_t number_at(const char *bytes, uint32_t offset)
{
    uint32_t n;
    memcpy(&n, bytes + offset, sizeof(n));
    return n;
}

int halo_hip_api_properties(const struct halo_hip_api *api, int device, struct halo_hip_properties *ret)
{
    char bytes[PROPERTIES_BYTES] = {0};
    const struct offsets *at = api->properties_old ? &offsets_old : &offsets_new;
    int r = api->properties(bytes, device);
    *ret = (struct halo_hip_properties){0};
    if (r)
        return r;
    bytes[at->arch + sizeof(ret->arch) - 1] = '\0';
    snprintf(ret->arch, sizeof(ret->arch), "%s", bytes + at->arch);
    snprintf(ret->target, sizeof(ret->target), "%s", ret->arch);
    ret->arch[strcspn(ret->arch, ":")] = '\0';
    ret->wave_size = number_at(bytes, at->wave_size);
    ret->n_units = number_at(bytes, at->n_units);
    ret->integrated = number_at(bytes, at->integrated) != 0;
    return 0;
}

const char *halo_hip_error_name(int error, char buffer[48])
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {1, "invalid value"},      {2, "out of memory"},
        {3, "not initialized"},    {98, "invalid device function"},
        {100, "no device"},        {101, "invalid device"},
        {200, "invalid image"},    {209, "no code for this GPU"},
        {500, "not found"},        {600, "not ready"},
        {700, "illegal address"},  {701, "out of resources"},
        {702, "launch timed out"}, {710, "assertion on device"},
        {719, "launch failed"},    {801, "not supported"},
        {999, "unknown error"},
    };
    const char *name = "error";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].error == error)
            name = names[i].name;
    snprintf(buffer, 48, "%s (%d)", name, error);
    return buffer;
}

int halo_hip_error_number(int error)
{
    switch (error) {
    case HIP_SUCCESS: return 0;
    case HIP_ERROR_OUT_OF_MEMORY: return -ENOMEM;
    case HIP_ERROR_NO_DEVICE:
    case HIP_ERROR_INVALID_DEVICE: return -ENODEV;
    default: return -EIO;
    }
}
