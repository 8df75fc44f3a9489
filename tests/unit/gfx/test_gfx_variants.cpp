/* test_gfx_variants.cpp: every kernel of variants.def exists with its block size, and no other kernel does. */
#include <gfx.h>

#include <csetjmp>
#include <cstdarg>

extern "C" {
#include <cmocka.h>
}

static void variants_exist(void **)
{
    uint32_t n = 0;
#define HALO_VARIANT(op, type, min_rows, max_rows, kernel, threads, lds, shows)                                        \
    {                                                                                                                  \
        const halo_host_kernel *k = halo_host_kernel_find(#kernel);                                                    \
        if (!k)                                                                                                        \
            fail_msg("no kernel %s", #kernel);                                                                         \
        assert_int_equal(k->block, threads);                                                                           \
        n++;                                                                                                           \
    }
#include <variants.def>
#undef HALO_VARIANT
    uint32_t n_kernels = 0;
    for (const halo_host_kernel *k = halo_host_kernel_find(nullptr); k; k = k->next)
        n_kernels++;
    assert_int_equal(n, n_kernels); /* no kernel is unknown to the table */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(variants_exist)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
