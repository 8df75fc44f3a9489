/* dispatch.c: from instruction set and type to the kernel. Pure. */
#include <assert.h>
#include <cpuid.h>

#include "matmul_priv.h"

/* The compilers' own test does not know f16c everywhere. The register state is covered by the test for AVX2. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool halo_cpu_isa_supported(enum halo_cpu_isa isa)
{
    switch (isa) {
    case HALO_CPU_REFERENCE: return true;
    case HALO_CPU_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case HALO_CPU_AVX512:
        return halo_cpu_isa_supported(HALO_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
    }
    return false;
}

const char *halo_cpu_isa_name(enum halo_cpu_isa isa)
{
    static const char *const names[] = {"reference", "avx2", "avx512"};
    assert((unsigned)isa < sizeof names / sizeof *names);
    return names[isa];
}

static halo_matmul_fn *find(enum halo_cpu_isa isa, enum halo_type type)
{
    switch (isa) {
    case HALO_CPU_REFERENCE: return halo_matmul_reference;
    case HALO_CPU_AVX2: return halo_matmul_find_avx2(type);
    case HALO_CPU_AVX512: return halo_matmul_find_avx512(type);
    }
    return NULL;
}

void halo_cpu_matmul(enum halo_cpu_isa isa, const struct halo_cpu_matrix *w, uint32_t first_group, uint32_t n_groups,
                     const void *const *act, uint32_t n_x, float *const *out, const float *bias)
{
    assert(first_group <= w->n_groups && n_groups <= w->n_groups - first_group);
    struct halo_matmul_job job = {
        .w = w, .first_group = first_group, .n_groups = n_groups, .n_x = n_x, .act = act, .out = out, .bias = bias};
    halo_matmul_fn *kernel = find(isa, w->type);
    assert(kernel);
    kernel(&job);
}
