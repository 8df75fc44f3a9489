/* test_host_memory.c: how much host memory models may use, from folders that look like /proc and /sys/fs/cgroup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include <common/host_memory.h>

#define MIB (1ull << 20)

static char root[] = "/tmp/halo-test-memory-XXXXXX";
static char proc[64], groups[64];

/* Writes a file and the folders that it is in. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(uint64_t total_mib, uint64_t free_mib)
{
    uint64_t total, free_bytes;
    halo_host_memory(proc, groups, &total, &free_bytes);
    assert_int_equal(total, total_mib * MIB);
    assert_int_equal(free_bytes, free_mib * MIB);
}

static int clean(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s/proc %s/groups", root, root);
    assert_int_equal(system(command), 0);
    put("proc/meminfo", "MemTotal:        1024000 kB\nMemFree:  1 kB\nMemAvailable:     512000 kB\n");
    return 0;
}

static void the_host_alone(void **state)
{
    expect(1000, 500);
    put("proc/self/cgroup", "0::/some/where\n"); /* nothing is limited, or not visible from here */
    expect(1000, 500);
    put("groups/some/where/memory.max", "max\n");
    put("groups/some/where/memory.current", "1\n");
    expect(1000, 500);
}

static void the_tightest_group_counts(void **state)
{
    put("proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/outer/inner\n");
    put("groups/outer/inner/memory.max", "314572800\n");     /* 300 MiB */
    put("groups/outer/inner/memory.current", "104857600\n"); /* 100 MiB */
    expect(300, 200);
    put("groups/outer/inner/memory.stat", "anon 1\nfile 41943040\ninactive_file 20971520\nactive_file 20971520\n");
    expect(300, 240);                                     /* 40 MiB are only the cache of files */
    put("groups/outer/inner/memory.high", "262144000\n"); /* 250 MiB: it is slowed down from there on */
    expect(250, 190);
    put("groups/outer/inner/memory.high", "max\n");
    expect(300, 240);
    put("groups/outer/memory.max", "209715200\n"); /* 200 MiB */
    put("groups/outer/memory.current", "199229440\n");
    expect(200, 10);
    put("groups/outer/memory.current", "309715200\n");
    expect(200, 0);
    put("groups/memory.max", "10485760\n"); /* in a container its own group is the root */
    put("groups/memory.current", "0\n");
    expect(10, 0);
}

static void groups_of_the_first_version(void **state)
{
    put("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/jobs/7\n0::/\n");
    put("groups/memory/jobs/7/memory.limit_in_bytes", "104857600\n");
    put("groups/memory/jobs/7/memory.usage_in_bytes", "52428800\n");
    put("groups/memory/jobs/7/memory.stat", "cache 1\ntotal_inactive_file 10485760\ntotal_active_file 10485760\n");
    expect(100, 70);
    put("groups/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("groups/memory/memory.usage_in_bytes", "52428800\n");
    expect(100, 70);
}

/* Memory that somebody gave up with MADV_FREE lies on the lists of files, but is none. */
static void purgeable_memory_is_not_free(void **state)
{
    put("proc/meminfo", "MemTotal:        1024000 kB\nMemFree:  1 kB\nMemAvailable:     512000 kB\nBuffers: 20480 kB\n"
                        "Cached: 61440 kB\nSwapCached: 999 kB\nActive(file): 51200 kB\nInactive(file): 112640 kB\n"
                        "Shmem: 20480 kB\n");
    expect(1000, 400); /* 160 MiB on the lists, 60 MiB of files */
    put("proc/self/cgroup", "0::/a\n");
    put("groups/a/memory.max", "314572800\n");
    put("groups/a/memory.current", "209715200\n");
    put("groups/a/memory.stat", "anon 1\nfile 41943040\nfile_mapped 7\nshmem 10485760\ninactive_file 62914560\n"
                                "active_file 10485760\n");
    expect(300, 130);
    put("proc/self/cgroup", "4:memory:/b\n");
    put("groups/memory/b/memory.limit_in_bytes", "104857600\n");
    put("groups/memory/b/memory.usage_in_bytes", "52428800\n");
    put("groups/memory/b/memory.stat",
        "cache 1\ntotal_cache 20971520\ntotal_shmem 10485760\ntotal_inactive_file 31457280\ntotal_active_file 0\n");
    expect(100, 60);
}

static void what_cannot_be_read_limits_nothing(void **state)
{
    put("proc/self/cgroup", "\n0\n0:\n0::\n0::relative\n4:memory\n:::\n0::/a/b/c/\n");
    put("groups/a/memory.max", "104857600\n"); /* without a figure of what is used */
    expect(1000, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_host_alone, clean),
        cmocka_unit_test_setup(the_tightest_group_counts, clean),
        cmocka_unit_test_setup(groups_of_the_first_version, clean),
        cmocka_unit_test_setup(purgeable_memory_is_not_free, clean),
        cmocka_unit_test_setup(what_cannot_be_read_limits_nothing, clean),
    };
    if (!mkdtemp(root))
        return 1;
    snprintf(proc, sizeof(proc), "%s/proc", root);
    snprintf(groups, sizeof(groups), "%s/groups", root);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return failed || system(command) != 0;
}
