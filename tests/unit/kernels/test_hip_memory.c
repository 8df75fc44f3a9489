/* test_hip_memory.c: the memory of the chosen GPU, from a folder that looks like /sys of a machine with two cards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "device_priv.h"

#define GIB (1ull << 30)

static char root[] = "/tmp/halo-test-sysfs-XXXXXX";
static const char discrete[] = "0000:03:00.0", integrated[] = "0000:c1:00.0";

/* Makes the folders of `path`, which ends with a slash. */
static void make_folders(const char *path)
{
    char text[256];
    snprintf(text, sizeof(text), "%s", path);
    for (char *at = text + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(text, 0700);
        *at = '/';
    }
}

static void put(const char *pci, const char *name, uint64_t value)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", root, pci, name);
    make_folders(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%llu\n", (unsigned long long)value) > 0);
    assert_int_equal(fclose(file), 0);
}

static void put_card(uint32_t card, const char *pci, uint64_t gtt, uint64_t gtt_used, uint64_t vram, uint64_t vram_used)
{
    char path[256], target[256];
    put(pci, "mem_info_gtt_total", gtt);
    put(pci, "mem_info_gtt_used", gtt_used);
    put(pci, "mem_info_vram_total", vram);
    put(pci, "mem_info_vram_used", vram_used);
    snprintf(path, sizeof(path), "%s/class/drm/card%u/", root, card);
    make_folders(path);
    strcat(path, "device");
    snprintf(target, sizeof(target), "%s/bus/pci/devices/%s", root, pci);
    assert_int_equal(symlink(target, path), 0);
}

static int setup(void **state)
{
    put_card(0, discrete, 16 * GIB, GIB, 8 * GIB, 2 * GIB);
    put_card(1, integrated, 96 * GIB, 6 * GIB, GIB / 2, 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s/bus %s/class", root, root);
    return system(command);
}

static void expect(const char *pci, uint64_t total, uint64_t free_bytes)
{
    uint64_t have_total = 0, have_free = 0;
    assert_true(halo_hip_driver_memory(root, pci, &have_total, &have_free));
    assert_int_equal(have_total, total);
    assert_int_equal(have_free, free_bytes);
}

static void the_counters_are_those_of_the_chosen_gpu(void **state)
{
    expect(discrete, 16 * GIB, 15 * GIB);
    expect(integrated, 96 * GIB, 90 * GIB);
    expect("0000:C1:00.0", 96 * GIB, 90 * GIB); /* as some runtimes write it */
}

static void the_larger_pool_counts(void **state)
{
    put(integrated, "mem_info_vram_total", 112 * GIB);
    put(integrated, "mem_info_vram_used", 12 * GIB);
    expect(integrated, 112 * GIB, 100 * GIB);
    put(integrated, "mem_info_vram_used", UINT64_MAX - 5); /* an underflow of the driver */
    expect(integrated, 112 * GIB, 112 * GIB);
}

static void a_gpu_without_counters_has_none(void **state)
{
    static const char *const absent[] = {"", "0000:c2:00.0", "0000:c1:00.00", "0000:c1:00"};
    uint64_t total, free_bytes;
    char path[256];
    for (uint32_t i = 0; i < 4; i++)
        assert_false(halo_hip_driver_memory(root, absent[i], &total, &free_bytes));
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/mem_info_gtt_used", root, integrated);
    assert_int_equal(unlink(path), 0);
    assert_false(halo_hip_driver_memory(root, integrated, &total, &free_bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_counters_are_those_of_the_chosen_gpu, setup, teardown),
        cmocka_unit_test_setup_teardown(the_larger_pool_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gpu_without_counters_has_none, setup, teardown),
    };
    if (!mkdtemp(root))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || rmdir(root) != 0;
}
