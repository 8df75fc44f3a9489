/* device.c: the HIP device: opening, describing, and the table of its functions.
 *
 * Opening fails with one sentence: no runtime, no GPU, no kernels for it. Of several GPUs the first that has a kernel
 * file is taken.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_priv.h"
#include <hip/hip.h>

#define DEADLINE_MS 20000
/* Products of 2,048 rows fill a large GPU; twice as many give each expert of a mixture whole tiles. */
#define BATCH_ROWS 4096

/* From the environment, else the default; tests set shorter ones. */
static uint32_t deadline_ms(void)
{
    const char *text = getenv("HALO_HIP_DEADLINE_MS");
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    return text && *text && *end == '\0' && n > 0 && n <= 3600000 ? (uint32_t)n : DEADLINE_MS;
}

/* The first GPU with a kernel file, and its functions; or the one that is asked for (as in halo_device_options). */
static int choose_gpu(struct halo_device *device, uint32_t wanted, char *reason)
{
    int n = 0, r = device->api.Init(0);
    char name[48];
    if (!r)
        r = device->api.GetDeviceCount(&n);
    if (r || n == 0)
        return halo_reason(reason, -ENODEV, "%s finds no GPU: %s (`halo-doctor` says what is missing)",
                           device->api.path, r ? halo_hip_error_name(r, name) : "none");
    if (wanted > (uint32_t)n)
        return halo_reason(reason, -ENODEV, "%s has %d GPU%s, number %u is wanted", device->api.path, n,
                           n == 1 ? "" : "s", wanted);
    device->is_one_of_several = n > 1;
    for (int i = wanted > 0 ? (int)wanted - 1 : 0; i < n; i++) {
        r = halo_hip_api_properties(&device->api, i, &device->properties);
        if (!r)
            r = device->api.DeviceGetName(device->name, sizeof(device->name), i);
        if (!r)
            r = device->api.SetDevice(i);
        if (r)
            return halo_reason(reason, -ENODEV, "GPU %d cannot be used: %s", i, halo_hip_error_name(r, name));
        if (device->properties.wave_size != 32)
            r = halo_reason(reason, -ENOTSUP, "%s has waves of %u lanes, the kernels are made for 32",
                            device->properties.arch, device->properties.wave_size);
        else
            r = halo_hip_module_load(device, reason);
        device->index = i;
        if (device->api.DeviceGetPCIBusId(device->pci, sizeof(device->pci), i) != HIP_SUCCESS)
            device->pci[0] = '\0';
        if (r != -ENOTSUP || wanted > 0)
            return r;
    }
    return r;
}

static void hip_close(struct halo_device *device)
{
    if (!device)
        return;
    assert(!device->models);
    if (device->api.library && !atomic_load(&device->lost)) {
        halo_hip_choose(device, NULL);
        if (device->event)
            device->api.EventDestroy(device->event);
        if (device->stream)
            device->api.StreamDestroy(device->stream);
        if (device->module)
            device->api.ModuleUnload(device->module);
        halo_hip_api_close(&device->api);
    }
    pthread_mutex_destroy(&device->notice_lock);
    free(device);
}

static int hip_open(struct halo_device **ret, const struct halo_device_options *options, char *reason)
{
    struct halo_device *device = calloc(1, sizeof(*device));
    if (!device)
        return halo_reason(reason, -ENOMEM, "no memory for the device");
    pthread_mutex_init(&device->notice_lock, NULL);
    device->deadline_ms = deadline_ms();
    int r = halo_hip_api_open(&device->api, options ? options->library : NULL, reason);
    if (!r && device->api.RuntimeGetVersion(&device->runtime_version) != HIP_SUCCESS)
        device->runtime_version = 0;
    if (!r)
        r = choose_gpu(device, options ? options->gpu : 0, reason);
    if (!r)
        halo_hip_worker_name(&device->api, device->index, device->worker, sizeof(device->worker));
    if (!r)
        r = halo_hip_check(device, device->api.StreamCreateWithFlags(&device->stream, HIP_STREAM_NON_BLOCKING),
                           "a stream", reason);
    if (!r)
        r = halo_hip_check(device, device->api.EventCreateWithFlags(&device->event, HIP_EVENT_NO_TIMING), "an event",
                           reason);
    if (r) {
        hip_close(device);
        return r;
    }
    *ret = device;
    return 0;
}

static int hip_probe(const struct halo_device_options *options, char *reason)
{
    struct halo_device *device = NULL;
    int r = hip_open(&device, options, reason);
    hip_close(device);
    return r;
}

static void describe_notices(struct halo_device *device, struct halo_device_info *ret)
{
    pthread_mutex_lock(&device->notice_lock);
    ret->n_notices = device->n_notices;
    memcpy(ret->notice, device->notice, sizeof(ret->notice));
    pthread_mutex_unlock(&device->notice_lock);
}

static void hip_describe(const struct halo_device *device, struct halo_device_info *ret)
{
    *ret = (struct halo_device_info){
        .name = "hip",
        .features = HALO_DEVICE_TOP | HALO_DEVICE_QUEUES | HALO_DEVICE_LAYERS | HALO_DEVICE_STAGES |
                    (device->properties.integrated ? HALO_DEVICE_HOST_MEMORY : 0),
        .n_threads = 1,
        .batch_rows = BATCH_ROWS,
    };
    snprintf(ret->detail, sizeof(ret->detail), "%.64s, %.16s, %u units, %s, %.48s", device->name,
             device->properties.arch, device->properties.n_units,
             device->properties.integrated ? "shared memory" : "own memory", device->api.path);
    snprintf(ret->kv_layout, sizeof(ret->kv_layout), "hip %.16s kernels %.24s", device->properties.arch,
             device->kernels_sha256);
    halo_hip_choose((struct halo_device *)(uintptr_t)device, NULL);
    halo_hip_memory(device, &ret->memory_bytes, &ret->free_bytes);
    ret->n_gpus = 1;
    ret->gpus[0] = (struct halo_device_gpu){.memory_bytes = ret->memory_bytes, .free_bytes = ret->free_bytes};
    snprintf(ret->gpus[0].name, sizeof(ret->gpus[0].name), "%.63s", device->name);
    snprintf(ret->gpus[0].worker, sizeof(ret->gpus[0].worker), "%s", device->worker);
    snprintf(ret->runtime, sizeof(ret->runtime), "%s", device->api.path);
    ret->runtime_version = device->runtime_version;
    snprintf(ret->kernel_file, sizeof(ret->kernel_file), "%s", device->kernels_path);
    snprintf(ret->kernel_arch, sizeof(ret->kernel_arch), "%s", device->properties.arch);
    snprintf(ret->kernel_sha256, sizeof(ret->kernel_sha256), "%s", device->kernels_sha256);
    describe_notices((struct halo_device *)(uintptr_t)device, ret); /* the lock is no part of its state */
}

const struct halo_device_ops *halo_device_hip(void)
{
    static const struct halo_device_ops ops = {
        .abi = HALO_DEVICE_ABI,
        .size = sizeof(struct halo_device_ops),
        .name = "hip",
        .probe = hip_probe,
        .open = hip_open,
        .close = hip_close,
        .describe = hip_describe,
        .supports = halo_hip_supports,
        .estimate = halo_hip_estimate,
        .model_create = halo_hip_model_create,
        .model_destroy = halo_hip_model_destroy,
        .weight_slot = halo_hip_weight_slot,
        .weight_commit = halo_hip_weight_commit,
        .model_seal = halo_hip_model_seal,
        .run = halo_hip_run,
        .kv_copy = halo_hip_kv_copy,
        .kv_page_bytes = halo_hip_kv_page_bytes,
        .kv_read = halo_hip_kv_read,
        .kv_write = halo_hip_kv_write,
        .peek = halo_hip_peek,
        .measure_bandwidth = halo_hip_measure_bandwidth,
        .measure_costs = halo_hip_measure_costs,
        .expert_bytes = halo_hip_expert_size,
        .set_experts = halo_hip_set_experts,
        .take_slots = halo_hip_take_slots,
        .give_slab = halo_hip_give_slab,
        .take_slab = halo_hip_take_slab,
    };
    return &ops;
}
