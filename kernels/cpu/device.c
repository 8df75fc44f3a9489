/* device.c: the CPU device: opening, describing, and the table of its functions.
 *
 * Device thread, apart from probe, describe, supports and estimate (any thread). A device owns its worker threads and
 * knows its models; opening fails when a forced variant does not run on this machine or a thread cannot be had.
 */
#include <assert.h>
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <common/host_memory.h>
#include <cpu/cpu.h>

#include "device_priv.h"

static const struct halo_cpu_lanes *const lanes_of[] = {
    [HALO_CPU_REFERENCE] = &halo_cpu_lanes_reference,
    [HALO_CPU_AVX2] = &halo_cpu_lanes_avx2,
    [HALO_CPU_AVX512] = &halo_cpu_lanes_avx512,
};

static int choose_isa(const char *variant, enum halo_cpu_isa *ret, char *reason)
{
    for (int isa = HALO_CPU_AVX512; isa >= HALO_CPU_REFERENCE; isa--) {
        const char *name = halo_cpu_isa_name((enum halo_cpu_isa)isa);
        if (variant && strcmp(variant, name) != 0)
            continue;
        if (!halo_cpu_isa_supported((enum halo_cpu_isa)isa)) {
            if (!variant)
                continue;
            return halo_reason(reason, -ENOTSUP, "this processor cannot run the %s kernels", name);
        }
        *ret = (enum halo_cpu_isa)isa;
        return 0;
    }
    return halo_reason(reason, -EINVAL, "no kernel variant is called \"%.64s\": reference, avx2 or avx512",
                       variant ? variant : "");
}

/* The number that was asked for, or the processors that this process may use. */
static uint32_t count_threads(uint32_t wanted)
{
    uint32_t n = wanted > 0 ? wanted : halo_workers_processors();
    return n < HALO_WORKERS_MAX ? n : HALO_WORKERS_MAX;
}

static int cpu_probe(const struct halo_device_options *options, char *reason)
{
    enum halo_cpu_isa isa = HALO_CPU_REFERENCE;
    return choose_isa(options ? options->variant : NULL, &isa, reason);
}

static int cpu_open(struct halo_device **ret, const struct halo_device_options *options, char *reason)
{
    enum halo_cpu_isa isa = HALO_CPU_REFERENCE;
    int r = choose_isa(options ? options->variant : NULL, &isa, reason);
    if (r)
        return r;
    struct halo_device *device = calloc(1, sizeof(*device));
    if (!device)
        return halo_reason(reason, -ENOMEM, "no memory for the device");
    device->isa = isa;
    device->lanes = lanes_of[isa];
    device->n_threads = count_threads(options ? options->n_threads : 0);
    halo_cpu_build_id(device->build_id);
    r = halo_workers_create(&device->workers, "halo-cpu", device->n_threads, device->n_threads);
    if (r) {
        halo_reason(reason, r, "cannot start %u threads: %s", device->n_threads, strerror(-r));
        free(device);
        return r;
    }
    *ret = device;
    return 0;
}

static void cpu_close(struct halo_device *device)
{
    if (!device)
        return;
    assert(!device->models);
    halo_workers_destroy(device->workers);
    free(device);
}

/* What the processor calls itself, without the spaces around it. */
static void brand(char ret[49])
{
    unsigned int words[12] = {0}, most = __get_cpuid_max(0x80000000, NULL);
    for (unsigned int i = 0; most >= 0x80000004 && i < 3; i++)
        __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    char text[49] = {0};
    memcpy(text, words, sizeof(words));
    const char *begin = text + strspn(text, " ");
    size_t n = strlen(begin);
    while (n > 0 && begin[n - 1] == ' ')
        n--;
    memcpy(ret, begin, n);
    ret[n] = '\0';
}

static void cpu_describe(const struct halo_device *device, struct halo_device_info *ret)
{
    char processor[49];
    brand(processor);
    *ret = (struct halo_device_info){
        .name = "cpu",
        .features = HALO_DEVICE_BATCH_INVARIANT | HALO_DEVICE_HOST_MEMORY | HALO_DEVICE_LAYERS | HALO_DEVICE_STAGES,
        .n_threads = device->n_threads,
        .miss_traffic = 3, /* halo_cpu_experts_take repacks */
    };
    snprintf(ret->detail, sizeof(ret->detail), "%s, %s kernels, %u thread%s", processor[0] ? processor : "x86-64",
             device->lanes->name, device->n_threads, device->n_threads == 1 ? "" : "s");
    snprintf(ret->kv_layout, sizeof(ret->kv_layout), "cpu %s %s", device->lanes->name, device->build_id);
    halo_host_memory("/proc", "/sys/fs/cgroup", &ret->memory_bytes, &ret->free_bytes);
}

const struct halo_device_ops *halo_device_cpu(void)
{
    static const struct halo_device_ops ops = {
        .abi = HALO_DEVICE_ABI,
        .size = sizeof(struct halo_device_ops),
        .name = "cpu",
        .probe = cpu_probe,
        .open = cpu_open,
        .close = cpu_close,
        .describe = cpu_describe,
        .supports = halo_cpu_supports,
        .estimate = halo_cpu_estimate,
        .model_create = halo_cpu_model_create,
        .model_destroy = halo_cpu_model_destroy,
        .weight_slot = halo_cpu_weight_slot,
        .weight_commit = halo_cpu_weight_commit,
        .model_seal = halo_cpu_model_seal,
        .run = halo_cpu_run,
        .kv_copy = halo_cpu_kv_copy,
        .kv_page_bytes = halo_cpu_kv_page_bytes,
        .kv_read = halo_cpu_kv_read,
        .kv_write = halo_cpu_kv_write,
        .peek = halo_cpu_peek,
        .measure_bandwidth = halo_cpu_measure_bandwidth,
        .expert_bytes = halo_cpu_expert_bytes,
        .set_experts = halo_cpu_set_experts,
    };
    return &ops;
}
