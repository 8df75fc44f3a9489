/* host.c: the interface of kernels that were compiled for the host (host_abi.h), over the machine code of a chip: what
 * runs over tests/hip-emu/host runs here unchanged.
 *
 * $HALO_ISA_OBJECT names the code object. Memory of the C library, the stack and the program's own data are what
 * kernels may touch: the linker puts the functions below in front of malloc() and free() (--wrap). A launch in which
 * a defect is found fails. $HALO_ISA_MODE: how waves run (see modes). $HALO_ISA_REPORT: a file to which the kernels
 * that ran and all findings are appended at the end. One thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host_abi.h>

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

/* ---- memory ---- */

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t item_bytes);
void *__wrap_calloc(size_t n, size_t item_bytes);
void __real_free(void *p);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n)
{
    void *p = __real_malloc(n);
    if (p && n > 0)
        isa_add(p, n);
    return p;
}

void *__wrap_calloc(size_t n, size_t item_bytes)
{
    void *p = __real_calloc(n, item_bytes);
    if (p && n * item_bytes > 0)
        isa_add(p, n * item_bytes);
    return p;
}

void __wrap_free(void *p)
{
    isa_remove(p);
    __real_free(p);
}

/* From the linker: the program's code and data, which tests take small arrays from. */
extern char __executable_start[], end[];

static void add_program(void)
{
    pthread_attr_t attributes;
    void *stack;
    size_t n;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0 || pthread_attr_getstack(&attributes, &stack, &n) != 0)
        abort();
    pthread_attr_destroy(&attributes);
    isa_add(stack, n);
    isa_add(__executable_start, (size_t)(end - __executable_start));
}

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

static void begin(void)
{
    const char *path = getenv("HALO_ISA_OBJECT");
    struct halo_fault fault = {0};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fprintf(stderr, "skipped aloud: the interpreter needs a processor with AVX2 and FMA\n");
        _exit(SKIPPED);
    }
    if (!path || isa_open(path, &module, &fault) < 0 || choose_mode(getenv("HALO_ISA_MODE")) < 0) {
        fprintf(stderr, "HALO_ISA_OBJECT, HALO_ISA_MODE: %s\n", path ? fault.text : "there is no code object");
        _exit(1);
    }
    for (; n_kernels < isa_n_kernels(module) && n_kernels < MOST_KERNELS; n_kernels++) {
        const struct isa_kernel *k = isa_kernel_at(module, n_kernels);
        kernels[n_kernels] = (struct halo_host_kernel){.name = isa_name(k), .block = isa_block(k)};
        if (n_kernels > 0)
            kernels[n_kernels - 1].next = &kernels[n_kernels];
    }
    add_program();
    atexit(report);
}

const struct halo_host_kernel *halo_host_kernel_find(const char *name)
{
    if (!module)
        begin();
    for (uint32_t i = 0; i < n_kernels; i++)
        if (!name || strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

int halo_host_kernel_run(const struct halo_host_kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
                         void **args, char *reason)
{
    struct halo_fault fault = {0};
    size_t n_before = isa_n_findings();
    int r = isa_launch(isa_find(module, kernel->name), grid, block[0] * block[1] * block[2], args[0], SIZE_MAX,
                       &options, &fault);
    if (r < 0)
        snprintf(reason, HALO_HOST_REASON, "%s", fault.text);
    for (size_t i = n_before; i < isa_n_findings(); i++) {
        const struct isa_finding *f = isa_finding_at(i);
        if (f->kind >= ISA_N_DEFECTS)
            continue;
        snprintf(reason, HALO_HOST_REASON, "%s at +%#x: %.200s", isa_kind_name(f->kind), f->pc, f->text);
        return -EFAULT;
    }
    return r;
}
