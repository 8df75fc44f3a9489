/* test_read_sizes.c: a mixture whose experts are streamed reads in the blocks, and as many at a time, as the stored
 * profile of its drive says; by the defaults where there is none or where it is for something else.
 *
 * Models: $HALO_SHARED/models, else ../shared/models; without them the test is skipped (77).
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <store/fetch.h>

#include "child.h"

#define MODEL "tiny-qwen3moe"

static char folder[4096], state_dir[] = "/tmp/halo-test-read-sizes-XXXXXX";

static struct seen {
    _Atomic uint32_t block_bytes, depth; /* of the last fetch that was made */
    _Atomic uint32_t n;
} * seen;

int __real_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault);
int __wrap_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault);
int __wrap_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault)
{
    seen->block_bytes = options->block_bytes;
    seen->depth = options->depth;
    seen->n++;
    return __real_halo_fetch_create(options, ret, fault);
}

static void expect_load(uint32_t block_bytes, uint32_t depth)
{
    struct child c;
    seen->n = 0;
    child_start(&c, true, NULL);
    child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"" MODEL "\",\"params\":{\"context\":256,"
                   "\"kv_tokens\":1024,\"tiers\":\"stream\"}}");
    struct child_request *request = child_wait(&c, 1);
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    assert_int_equal(seen->n, 1);
    assert_int_equal(seen->block_bytes, block_bytes);
    assert_int_equal(seen->depth, depth);
    assert_int_equal(child_end(&c), 0);
}

static void measure(void)
{
    struct child c;
    child_start(&c, true, NULL);
    child_send(&c, "{\"type\":\"profile\",\"id\":1,\"model\":\"" MODEL "\",\"point_ms\":1}");
    struct child_request *request = child_wait(&c, 1);
    if (request->terminal != HALO_EV_PROFILE)
        fail_msg("%s", request->last);
    assert_int_equal(child_end(&c), 0);
}

static char path[4096], measured[16384]; /* the one record, and its text */

static void record_find(void)
{
    char pattern[256];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/profiles/*.json", state_dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
    globfree(&found);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    measured[fread(measured, 1, sizeof(measured) - 1, file)] = '\0';
    fclose(file);
}

/* The record as it was measured, but for `to` where `from` stood. */
static void record_change(const char *from, const char *to)
{
    const char *at = strstr(measured, from);
    assert_non_null(at);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(at - measured), measured, to, at + strlen(from));
    assert_int_equal(fclose(file), 0);
}

static void sizes_of_the_profile(void **state)
{
    (void)state;
    expect_load(HALO_FETCH_BLOCK_DEFAULT, HALO_FETCH_DEPTH_DEFAULT); /* none is stored: the defaults */
    measure();
    record_find();
    char *depth = strstr(measured, "\"disk_depth\"");
    assert_non_null(depth);
    memcpy(depth, "\"was_depth_\"", strlen("\"was_depth_\"")); /* no key stands twice */
    record_change("\"disk_block_bytes\":", "\"disk_block_bytes\":65536,\"disk_depth\":5,\"x\":");
    expect_load(65536, 5);
    record_change("\"disk_block_bytes\":", "\"disk_block_bytes\":65537,\"disk_depth\":5,\"x\":");
    expect_load(HALO_FETCH_BLOCK_DEFAULT, HALO_FETCH_DEPTH_DEFAULT); /* nothing is read in such blocks */
    record_change("\"disk_block_bytes\":", "\"disk_block_bytes\":65536,\"disk_depth\":5,\"x\":");
    record_find();
    record_change("\"device\":\"", "\"device\":\"not ");
    expect_load(65536, 5); /* it is the drive that is read */
    const char *const others[][2] = {{"\"file\":\"", "\"file\":\"01234567\",\"y\":\""},
                                     {"\"drive\":\"", "\"drive\":\"not "},
                                     {"\"machine\":\"", "\"machine\":\"not "}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        record_change(others[i][0], others[i][1]);
        expect_load(HALO_FETCH_BLOCK_DEFAULT, HALO_FETCH_DEPTH_DEFAULT);
    }
}

static int start(void **state)
{
    (void)state;
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    child_device = halo_device_cpu();
    child_dirs[child_n_dirs++] = folder;
    child_state_dir = mkdtemp(state_dir);
    return seen != MAP_FAILED && child_state_dir ? 0 : 1;
}

static int finish(void **state)
{
    (void)state;
    return child_remove_folder(state_dir);
}

int main(void)
{
    if (!child_find_models(folder, sizeof(folder)))
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_of_the_profile)};
    return cmocka_run_group_tests(tests, start, finish);
}
