/* dispatch.c: from instruction set and type to the kernel. Pure. */
#include "matmul_priv.h"

#include <assert.h>

bool halo_cpu_isa_supported(enum halo_cpu_isa isa)
{
    switch (isa) {
    case HALO_CPU_REFERENCE:
        return true;
    case HALO_CPU_AVX2:
    case HALO_CPU_AVX512:
        return false; /* until their kernels are in */
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
    case HALO_CPU_REFERENCE:
        return halo_matmul_reference;
    case HALO_CPU_AVX2:
    case HALO_CPU_AVX512:
        return NULL;
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
