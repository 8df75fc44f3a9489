/* test_bundle.c: bundles: which entry is chosen, each compression, and nothing is read behind what there is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "bundle_build.h"
#include "bundle_priv.h"

#define HOST                                                                                                           \
    {                                                                                                                  \
        "host-x86_64-unknown-linux", NULL, 0                                                                           \
    }
#define CODE(target, text)                                                                                             \
    {                                                                                                                  \
        "hipv4-amdgcn-amd-amdhsa--" target, text, sizeof(text)                                                         \
    }

static const struct bundle_entry entries[] = {
    HOST,
    CODE("gfx900", "gfx900"),
    CODE("gfx90a", "any"),
    CODE("gfx90a:xnack-", "no xnack"),
    CODE("gfx90a:sramecc+:xnack+", "both"),
    CODE("gfx11-generic", "family"),
    CODE("gfx1151", "gfx1151"),
    {"hip-amdgcn-amd-amdhsa-gfx906", "old name", 9},
    {"hipv4-amdgcn-amd-amdhsa-unknown-gfx1201", "long name", 10},
    {"openmp-amdgcn-amd-amdhsa--gfx1030", "openmp", 7},
};
#define N_ENTRIES (sizeof(entries) / sizeof(*entries))

static int find(const uint8_t *bundle, size_t n, const char *arch, char *ret_text)
{
    struct halo_bundle_code code;
    const char *reason;
    int r = halo_bundle_find(bundle, n, arch, &code, &reason);
    if (r < 0)
        assert_non_null(reason);
    ret_text[0] = '\0';
    if (r == 0)
        memcpy(ret_text, code.image, code.n);
    free(code.unpacked);
    return r;
}

static void expect(const char *arch, int wanted, const char *text)
{
    static const struct {
        enum bundle_method method;
        int version;
    } forms[] = {{BUNDLE_PLAIN, 0}, {BUNDLE_ZLIB, 1}, {BUNDLE_ZLIB, 2}, {BUNDLE_ZLIB, 3},
                 {BUNDLE_ZSTD, 1},  {BUNDLE_ZSTD, 2}, {BUNDLE_ZSTD, 3}};
    char got[64];
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        size_t n;
        uint8_t *bundle = bundle_build(entries, N_ENTRIES, forms[i].method, forms[i].version, &n);
        assert_int_equal(find(bundle, n, arch, got), wanted);
        assert_string_equal(got, text);
        free(bundle);
    }
}

static void the_closest_entry_is_chosen(void **state)
{
    (void)state;
    expect("gfx900", 0, "gfx900");
    expect("gfx90a:sramecc+:xnack+", 0, "both");
    expect("gfx90a:sramecc+:xnack-", 0, "no xnack");
    expect("gfx90a:sramecc-:xnack+", 0, "any");
    expect("gfx90a", 0, "any");
    expect("gfx1151", 0, "gfx1151");
    expect("gfx1103", 0, "family");
    expect("gfx906:sramecc-:xnack-", 0, "old name");
    expect("gfx1201", 0, "long name");
    expect("gfx1030", -ENOENT, "");
    expect("gfx9", -ENOENT, "");
}

/* At the end of a page that another one does not follow. */
static uint8_t *at_the_end(const void *bytes, size_t n, size_t *ret_mapped, uint8_t **ret_base)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *ret_mapped = (n + page - 1) / page * page + page;
    *ret_base = mmap(NULL, *ret_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*ret_base != MAP_FAILED);
    assert_int_equal(mprotect(*ret_base + *ret_mapped - page, page, PROT_NONE), 0);
    uint8_t *at = *ret_base + *ret_mapped - page - n;
    if (n > 0)
        memcpy(at, bytes, n);
    return at;
}

/* Whatever length may be read. The last bytes of a plain bundle are padding. */
static void cut_everywhere(enum bundle_method method, int version, size_t n_tail)
{
    static const struct bundle_entry two[] = {HOST, CODE("gfx1151", "gfx1151")};
    char got[64];
    size_t n, n_mapped;
    uint8_t *bundle = bundle_build(two, 2, method, version, &n), *base;
    for (size_t cut = 0; cut < n; cut += cut < 200 || n < 1000 ? 1 : 97) {
        const uint8_t *at = at_the_end(bundle, cut, &n_mapped, &base);
        int r = find(at, cut, "gfx1151", got);
        if (r == 0 && cut < n - n_tail)
            fail_msg("a bundle of %zu bytes is whole with %zu", n, cut);
        munmap(base, n_mapped);
    }
    free(bundle);
}

static void a_cut_bundle_is_refused_and_nothing_read_behind_it(void **state)
{
    (void)state;
    cut_everywhere(BUNDLE_PLAIN, 0, 4096 - sizeof("gfx1151"));
    for (int version = 1; version <= 3; version++) {
        cut_everywhere(BUNDLE_ZLIB, version, 0);
        cut_everywhere(BUNDLE_ZSTD, version, 0);
    }
}

static void expect_field(enum bundle_method method, int version, size_t at, unsigned width, uint64_t value, int wanted)
{
    char got[64];
    size_t n;
    uint8_t *bundle = bundle_build(entries, N_ENTRIES, method, version, &n);
    for (unsigned i = 0; i < width; i++)
        bundle[at + i] = (uint8_t)(value >> 8 * i);
    assert_int_equal(find(bundle, n, "gfx1151", got), wanted);
    free(bundle);
}

/* Before the memory for it is taken. */
static void a_bundle_that_claims_to_unpack_to_too_much_is_refused(void **state)
{
    struct halo_bundle_code code;
    const char *reason;
    size_t n;
    uint8_t *bundle = bundle_build(entries, N_ENTRIES, BUNDLE_ZSTD, 3, &n);
    (void)state;
    bundle[19] = 0x1f; /* 496 MiB and what it was */
    assert_int_equal(halo_bundle_find(bundle, n, "gfx1151", &code, &reason), -EBADMSG);
    assert_string_equal(reason, "a compressed bundle with a size that its bytes cannot have");
    free(bundle);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    expect_field(BUNDLE_PLAIN, 0, 24, 8, 0, -EBADMSG); /* entries */
    expect_field(BUNDLE_PLAIN, 0, 24, 8, 1025, -E2BIG);
    expect_field(BUNDLE_PLAIN, 0, 24, 8, UINT64_MAX, -E2BIG);
    expect_field(BUNDLE_PLAIN, 0, 24, 8, 1024, -EBADMSG);
    expect_field(BUNDLE_PLAIN, 0, 32, 8, UINT64_MAX, -EBADMSG);       /* offset */
    expect_field(BUNDLE_PLAIN, 0, 40, 8, UINT64_MAX - 100, -EBADMSG); /* size */
    expect_field(BUNDLE_PLAIN, 0, 48, 8, 1025, -E2BIG);               /* length of the name */
    expect_field(BUNDLE_ZSTD, 3, 4, 2, 4, -EBADMSG);                  /* version */
    expect_field(BUNDLE_ZSTD, 3, 6, 2, 2, -ENOTSUP);                  /* method */
    expect_field(BUNDLE_ZSTD, 3, 6, 2, 0, -EBADMSG);
    expect_field(BUNDLE_ZSTD, 3, 8, 8, 32, -EBADMSG); /* of the file */
    expect_field(BUNDLE_ZSTD, 3, 8, 8, UINT64_MAX, -EBADMSG);
    expect_field(BUNDLE_ZSTD, 3, 16, 8, (uint64_t)1 << 40, -E2BIG); /* unpacked */
    expect_field(BUNDLE_ZSTD, 3, 16, 8, (uint64_t)512 << 20, -EBADMSG);
    expect_field(BUNDLE_ZLIB, 2, 12, 4, 31, -EBADMSG);
    expect_field(BUNDLE_ZLIB, 2, 12, 4, 4096, -EBADMSG);    /* less than it is */
    expect_field(BUNDLE_ZSTD, 2, 12, 4, 1 << 17, -EBADMSG); /* more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_closest_entry_is_chosen),
        cmocka_unit_test(a_cut_bundle_is_refused_and_nothing_read_behind_it),
        cmocka_unit_test(a_bundle_that_claims_to_unpack_to_too_much_is_refused),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
