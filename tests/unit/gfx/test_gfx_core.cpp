/* test_gfx_core.cpp: the emulator itself: its synchronization points, and its reports on wrong kernels, which are
 * defined here. The device's kernels are not linked: ThreadSanitizer's build has no other test of this folder. */
#include <gfx.h>

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <thread>

extern "C" {
#include <cmocka.h>
}

struct core_args {
    int *out;
    uint32_t n;
};
struct core_lds {
    int value[64];
};

HALO_KERNEL(core_reverse, core_args, 64)
{
    HALO_LDS(core_lds, lds);
    lds.value[halo_tid()] = (int)(halo_tid() + 100 * halo_block_x());
    halo_barrier();
    a.out[halo_block_x() * 64 + halo_tid()] = lds.value[63 - halo_tid()] + 1000 * halo_xor<16>((int)halo_lane());
}
HALO_KERNEL(core_split_barrier, core_args, 64)
{
    (void)a;
    if (halo_tid() < 32)
        halo_barrier();
    else
        (void)halo_shuffle(1, 0);
    halo_barrier();
    if (halo_tid() == 0)
        halo_barrier();
    if (halo_tid() == 1)
        (void)halo_shuffle(1, 0);
}
HALO_KERNEL(core_missing_lane, core_args, 32)
{
    (void)a;
    if (halo_lane() != 3)
        (void)halo_shuffle(1, 0);
    else
        halo_barrier();
}
HALO_KERNEL(core_gone_lane, core_args, 32)
{
    if (halo_lane() == 3)
        return;
    a.out[halo_lane()] = halo_shuffle(7, halo_lane() == 5 ? 3 : 1);
}
HALO_KERNEL(core_tile, core_args, 32)
{
    halo_frag f;
    for (int i = 0; i < 16; i++)
        f.e[i] = (uint16_t)(halo_lane() % (a.n ? 32 : 16));
    halo_acc c = {};
    c = halo_mma(f, f, c);
    a.out[halo_lane()] = c[0] == c[0];
}
HALO_KERNEL(core_strayed_lane, core_args, 32)
{
    halo_frag f = {};
    halo_acc c = {};
    for (int i = 0; i < 2; i++) /* of which something could be left */
        c = halo_mma(f, f, c);
    if (halo_lane() == 3)
        c[0] = (float)halo_shuffle(1, 0);
    else
        c = halo_mma(f, f, c);
    a.out[halo_lane()] = (int)c[0];
}

static int run(const char *name, uint32_t blocks, uint32_t threads, void *args, char *reason)
{
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    void *list[] = {args};
    const halo_host_kernel *kernel = halo_host_kernel_find(name);
    assert_non_null(kernel);
    return halo_host_kernel_run(kernel, grid, block, list, reason);
}

static void meets(void **)
{
    int out[192];
    char reason[HALO_HOST_REASON];
    core_args args = {out, 0};
    assert_int_equal(run("core_reverse", 3, 64, &args, reason), 0);
    for (int i = 0; i < 192; i++)
        assert_int_equal(out[i], 63 - i % 64 + 100 * (i / 64) + 1000 * (i % 32 ^ 16));
}

static void finds_deadlock(void **)
{
    int out[64];
    char reason[HALO_HOST_REASON] = "";
    core_args args = {out, 0};
    for (int i = 0; i < 3; i++) { /* and goes on after it */
        assert_int_equal(run("core_split_barrier", 1, 64, &args, reason), -EDEADLK);
        assert_non_null(strstr(reason, "core_split_barrier, block (0,0,0)"));
        assert_int_equal(run("core_missing_lane", 1, 32, &args, reason), -EDEADLK);
        assert_non_null(strstr(reason, "lanes fffffff7 of ffffffff"));
        meets(nullptr);
    }
}

static void poisons_gone_lanes(void **)
{
    int out[32] = {};
    char reason[HALO_HOST_REASON];
    core_args args = {out, 0};
    assert_int_equal(run("core_gone_lane", 1, 32, &args, reason), 0);
    assert_int_equal(out[4], 7);
    assert_int_equal(out[5], 0x7fc0dead);
}

static void wants_repeated_lanes(void **)
{
    int out[32];
    char reason[HALO_HOST_REASON];
    core_args args = {out, 0};
    assert_int_equal(run("core_tile", 1, 32, &args, reason), 0);
    args.n = 1;
    assert_int_equal(run("core_tile", 1, 32, &args, reason), -EINVAL);
    assert_int_equal(run("core_strayed_lane", 1, 32, &args, reason), -EINVAL);
}

static void refuses_launches(void **)
{
    char reason[HALO_HOST_REASON];
    core_args args = {nullptr, 0};
    assert_int_equal(run("core_reverse", 1, 32, &args, reason), -EINVAL);
    assert_int_equal(run("core_reverse", 0, 64, &args, reason), -EINVAL);
    assert_null(halo_host_kernel_find("no such kernel"));
}

static void halves(void **)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = halo_half_float((uint16_t)h);
        if (f == f)
            assert_int_equal(halo_float_half(f), h);
        else
            assert_true((h & 0x7fff) > 0x7c00 && (halo_float_half(f) & 0x7fff) > 0x7c00);
    }
    assert_int_equal(halo_float_half(1 + 0x1p-11f), 0x3c00); /* ties to even */
    assert_int_equal(halo_float_half(1 + 0x3p-11f), 0x3c02);
    assert_int_equal(halo_float_half(65519.996f), 0x7bff);
    assert_int_equal(halo_float_half(65520), 0x7c00);
    assert_int_equal(halo_float_half(0x1p-25f), 0);
    assert_int_equal(halo_float_half(0x1.8p-25f), 1);
}

static void threads_run_side_by_side(void **state)
{
#ifndef __SANITIZE_ADDRESS__
    std::thread other([] {
        for (int i = 0; i < 50; i++)
            meets(nullptr);
    });
    for (int i = 0; i < 50; i++)
        meets(state);
    other.join();
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meets),
        cmocka_unit_test(finds_deadlock),
        cmocka_unit_test(poisons_gone_lanes),
        cmocka_unit_test(wants_repeated_lanes),
        cmocka_unit_test(refuses_launches),
        cmocka_unit_test(halves),
        cmocka_unit_test(threads_run_side_by_side),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
