/* device.c: the interface of kernels that were compiled for the host (host_abi.h), over the machine code of a chip:
 * what runs over tests/hip-emu/host runs here unchanged.
 *
 * A launch in which a defect is found fails. $HALO_ISA_MODE: how waves run (see modes). $HALO_ISA_REPORT: a file to
 * which the kernels that ran and all findings are appended at the end; else only what is found goes to stderr.
 */
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "isa.h"

#define MOST_KERNELS 1024
#define SKIPPED 77

static const struct {
    const char *name;
    struct isa_options options;
} modes[] = {
    {"in-order", {.order = ISA_IN_ORDER}},
    {"reverse", {.order = ISA_REVERSE, .resident = 3}},
    {"random-4", {.order = ISA_RANDOM, .seed = 1, .resident = 4}},
    {"random-16", {.order = ISA_RANDOM, .seed = 2, .resident = 16}},
    {"flush", {.order = ISA_IN_ORDER, .wmma = ISA_WMMA_FLUSH}},
};

static struct isa_module *module;
static struct halo_host_kernel kernels[MOST_KERNELS];
static uint32_t n_kernels;
static struct isa_options options;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* launches come from any thread */

/* ---- the report ---- */

static void report(void)
{
    const char *path = getenv("HALO_ISA_REPORT");
    struct isa_stats s = isa_stats();
    FILE *file = path ? fopen(path, "ae") : stderr;
    if (!file)
        return;
    fprintf(file,
            "counts: instructions %llu valu %llu salu %llu vmem %llu smem %llu lds %llu wmma %llu dot %llu flat %llu "
            "waits %llu barriers %llu; waits for loads %llu, of which for all %llu; barriers behind them %llu\n",
            (unsigned long long)s.n_ins, (unsigned long long)s.n_valu, (unsigned long long)s.n_salu,
            (unsigned long long)s.n_vmem, (unsigned long long)s.n_smem, (unsigned long long)s.n_lds,
            (unsigned long long)s.n_wmma, (unsigned long long)s.n_dot, (unsigned long long)s.n_flat,
            (unsigned long long)s.n_wait, (unsigned long long)s.n_barrier, (unsigned long long)s.n_vm_waits,
            (unsigned long long)s.n_vm_drains, (unsigned long long)s.n_barrier_drains);
    for (uint32_t i = 0; i < n_kernels; i++) {
        uint32_t run, all;
        isa_coverage(isa_kernel_at(module, i), &run, &all);
        if (run > 0)
            fprintf(file, "ran: %s %u of %u\n", kernels[i].name, run, all);
    }
    for (size_t i = 0; i < isa_n_findings(); i++) {
        const struct isa_finding *f = isa_finding_at(i);
        fprintf(file, "%s: %s: %s+%#x, %llu times: %s\n", f->kind < ISA_N_DEFECTS ? "defect" : "fact",
                isa_kind_name(f->kind), isa_name(f->kernel), f->pc, (unsigned long long)f->count, f->text);
    }
    if (path)
        fclose(file);
}

/* ---- the interface ---- */

static int choose_mode(const char *name)
{
    for (size_t i = 0; name && i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i].name, name) == 0) {
            options = modes[i].options;
            return 0;
        }
    return name ? -EINVAL : 0;
}

int isa_device_open(const char *path)
{
    struct halo_fault fault = {0};
    if (module) /* one object at a time is all that there is */
        return 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fprintf(stderr, "skipped aloud: the interpreter needs a processor with AVX2 and FMA\n");
        _exit(SKIPPED);
    }
    int r = choose_mode(getenv("HALO_ISA_MODE"));
    if (r < 0)
        halo_fault_set(&fault, HALO_FAULT_BAD_REQUEST, "HALO_ISA_MODE is none of device.c's modes");
    if (r == 0)
        r = isa_open(path, &module, &fault);
    if (r < 0) {
        fprintf(stderr, "gfx-sim: %s\n", fault.text);
        return r;
    }
    for (; n_kernels < isa_n_kernels(module) && n_kernels < MOST_KERNELS; n_kernels++) {
        const struct isa_kernel *k = isa_kernel_at(module, n_kernels);
        kernels[n_kernels] =
            (struct halo_host_kernel){.name = isa_name(k), .block = isa_block(k), .args_bytes = isa_args_bytes(k)};
        if (n_kernels > 0)
            kernels[n_kernels - 1].next = &kernels[n_kernels];
    }
    atexit(report);
    return 0;
}

void isa_device_memory(void *p, size_t n)
{
    pthread_mutex_lock(&lock);
    if (n > 0)
        isa_add(p, n);
    else
        isa_remove(p);
    pthread_mutex_unlock(&lock);
}

const struct halo_host_kernel *halo_host_kernel_find(const char *name)
{
    const char *path = getenv("HALO_ISA_OBJECT");
    if (!module && (!path || isa_device_open(path) < 0))
        return NULL;
    for (uint32_t i = 0; i < n_kernels; i++)
        if (!name || strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

/* The first defect that the launch added; NULL: none. */
static const struct isa_finding *find_defect(size_t n_before)
{
    for (size_t i = n_before; i < isa_n_findings(); i++)
        if (isa_finding_at(i)->kind < ISA_N_DEFECTS)
            return isa_finding_at(i);
    return NULL;
}

int halo_host_kernel_run(const struct halo_host_kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
                         void **args, char *reason)
{
    struct halo_fault fault = {0};
    pthread_mutex_lock(&lock);
    size_t n_before = isa_n_findings();
    int r = isa_launch(isa_find(module, kernel->name), grid, block[0] * block[1] * block[2], args[0],
                       kernel->args_bytes, &options, &fault);
    const struct isa_finding *defect = find_defect(n_before);
    if (defect)
        snprintf(reason, HALO_HOST_REASON, "%s at +%#x: %.200s", isa_kind_name(defect->kind), defect->pc, defect->text);
    else if (r < 0)
        snprintf(reason, HALO_HOST_REASON, "%s", fault.text);
    pthread_mutex_unlock(&lock);
    return defect ? -EFAULT : r;
}
