/* test_code_object.c: metadata of code objects: what clang makes, what tests build, and what is forged. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <hip_remote/code_object.h>

#include "code_build.h"

static uint8_t image[64 << 10];

static struct halo_remote_bytes text(const char *t)
{
    return (struct halo_remote_bytes){t, (uint32_t)strlen(t)};
}

/* Parses a copy in a block of exactly its size: AddressSanitizer sees a read past its end. */
static int parse(size_t n, struct halo_code_object *ret, void **ret_block)
{
    const char *reason = NULL;
    *ret_block = malloc(n ? n : 1);
    assert_non_null(*ret_block);
    memcpy(*ret_block, image, n);
    int r = halo_code_object_parse(*ret_block, n, ret, &reason);
    assert_true((r < 0) == (reason != NULL));
    return r;
}

static int parse_and_drop(size_t n)
{
    struct halo_code_object object;
    void *block;
    int r = parse(n, &object, &block);
    halo_code_object_finish(&object);
    free(block);
    return r;
}

/* Compiled by clang 14 for gfx1030: scale(float *, const float *, int, short, char, double, struct of 24 bytes) and
 * fill_it(int *, int) with 256 threads and 256 bytes of LDS. */
static size_t read_compiled(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/code_object/gfx1030", getenv("HALO_SOURCE_ROOT"));
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t n = fread(image, 1, sizeof(image), in);
    fclose(in);
    return n;
}

static void what_clang_compiles_is_read(void **state)
{
    static const struct halo_code_arg wanted[7] = {
        {0, 8, true, false},   {8, 8, true, false},   {16, 4, false, false},  {20, 2, false, false},
        {22, 1, false, false}, {24, 8, false, false}, {32, 24, false, false},
    };
    struct halo_code_object object;
    void *block;
    (void)state;
    assert_int_equal(parse(read_compiled(), &object, &block), 0);
    assert_int_equal(object.n_kernels, 2);
    const struct halo_code_kernel *scale = halo_code_object_find(&object, text("_Z5scalePfPKfiscd4trio"));
    const struct halo_code_kernel *fill = halo_code_object_find(&object, text("_Z7fill_itPii"));
    assert_non_null(scale);
    assert_non_null(fill);
    assert_int_equal(scale->n_args, 7);
    for (uint32_t i = 0; i < 7; i++) { /* by field: the bytes behind the last one mean nothing */
        const struct halo_code_arg *arg = &object.args[scale->first_arg + i];
        assert_int_equal(arg->offset, wanted[i].offset);
        assert_int_equal(arg->bytes, wanted[i].bytes);
        assert_int_equal(arg->is_pointer, wanted[i].is_pointer);
        assert_int_equal(arg->is_hidden, wanted[i].is_hidden);
    }
    assert_int_equal(scale->arg_bytes, 56);
    assert_int_equal(scale->threads_per_block, 1024);
    assert_int_equal(fill->threads_per_block, 256);
    assert_int_equal(fill->lds_bytes, 256);
    assert_int_equal(fill->arg_bytes, 12);
    assert_true(halo_code_object_is_for(&object, "gfx1030"));
    assert_true(halo_code_object_is_for(&object, "gfx1030:xnack-"));
    assert_false(halo_code_object_is_for(&object, "gfx103"));
    assert_false(halo_code_object_is_for(&object, "gfx1151"));
    assert_null(halo_code_object_find(&object, text("scale")));
    halo_code_object_finish(&object);
    free(block);
}

/* Whatever is cut off: no read past the end, and never a success with a table of sections that is not there. */
static void a_cut_image_is_refused(void **state)
{
    size_t n = read_compiled();
    (void)state;
    for (size_t cut = 0; cut < n; cut++)
        assert_true(parse_and_drop(cut) < 0);
}

static const struct code_build_arg args[] = {
    {0, 8, "global_buffer"}, {8, 4, "by_value"}, {16, 8, "hidden_block_count_x"}};
static const struct code_build_kernel kernel = {.name = "k",
                                                .args = args,
                                                .n_args = 3,
                                                .segment_bytes = 24,
                                                .threads_per_block = 64,
                                                .lds_bytes = 16,
                                                .block = {8, 4, 1}};

static size_t build(const struct code_build_kernel *k, const char *target)
{
    return code_build_object(image, sizeof(image), &(struct code_build){target, k, 1});
}

static void hidden_arguments_are_not_counted(void **state)
{
    struct halo_code_object object;
    void *block;
    (void)state;
    assert_int_equal(parse(build(&kernel, "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"), &object, &block), 0);
    assert_int_equal(object.kernels[0].arg_bytes, 12);
    assert_int_equal(object.kernels[0].segment_bytes, 24);
    assert_int_equal(object.kernels[0].block[0], 8);
    assert_int_equal(object.kernels[0].block[1], 4);
    assert_true(object.args[2].is_hidden);
    assert_true(halo_code_object_is_for(&object, "gfx90a:sramecc+"));
    halo_code_object_finish(&object);
    free(block);
}

static bool is_for(const char *target, const char *arch)
{
    struct halo_code_object object;
    void *block;
    assert_int_equal(parse(build(&kernel, target), &object, &block), 0);
    bool is = halo_code_object_is_for(&object, arch);
    halo_code_object_finish(&object);
    free(block);
    return is;
}

static void generic_targets_are_for_their_family(void **state)
{
    (void)state;
    assert_true(is_for("amdgcn-amd-amdhsa--gfx11-generic", "gfx1151"));
    assert_true(is_for("amdgcn-amd-amdhsa--gfx10-3-generic", "gfx1030"));
    assert_false(is_for("amdgcn-amd-amdhsa--gfx10-3-generic", "gfx1010"));
    assert_false(is_for("amdgcn-amd-amdhsa--gfx11-generic", "gfx1"));
    assert_false(is_for(NULL, "gfx1151"));
    assert_true(is_for("host", "host"));
}

static void metadata_that_contradicts_itself_is_refused(void **state)
{
    static const struct code_build_arg wraps[] = {{UINT32_MAX, 8, "by_value"}}, late[] = {{20, 8, "by_value"}};
    struct code_build_kernel k = kernel;
    (void)state;
    k.args = wraps, k.n_args = 1;
    assert_int_equal(parse_and_drop(build(&k, "host")), -EBADMSG);
    k.args = late; /* ends behind the segment */
    assert_int_equal(parse_and_drop(build(&k, "host")), -EBADMSG);
    k = kernel;
    k.segment_bytes = HALO_REMOTE_ARGS_MAX + 1;
    assert_int_equal(parse_and_drop(build(&k, "host")), -E2BIG);
    k = kernel;
    k.name = "";
    assert_int_equal(parse_and_drop(build(&k, "host")), -EBADMSG);
}

static void too_many_arguments_are_refused(void **state)
{
    static struct code_build_arg many[HALO_CODE_ARGS_MAX + 1];
    struct code_build_kernel k = kernel;
    (void)state;
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        many[i] = (struct code_build_arg){0, 1, "by_value"};
    k.args = many;
    k.n_args = HALO_CODE_ARGS_MAX + 1;
    assert_int_equal(parse_and_drop(build(&k, "host")), -E2BIG);
}

/* A count of kernels that the bytes cannot hold, found before memory is taken for them. */
static void a_count_without_bytes_is_refused(void **state)
{
    size_t n = build(&kernel, "host");
    (void)state;
    for (size_t i = 0; i + 5 < n; i++)
        if (image[i] == 0xdd && image[i + 4] == 1 && image[i + 3] == 0) {
            image[i + 3] = 0xff;
            break;
        }
    assert_int_equal(parse_and_drop(n), -EBADMSG);
}

static void tables_that_leave_the_file_are_refused(void **state)
{
    size_t n = build(&kernel, "host");
    Elf64_Ehdr *elf = (Elf64_Ehdr *)image;
    const Elf64_Ehdr good = *elf;
    (void)state;
    assert_int_equal(parse_and_drop(n), 0);
    elf->e_shoff = UINT64_MAX - 8;
    assert_int_equal(parse_and_drop(n), -ENOEXEC);
    *elf = good;
    elf->e_shnum = UINT16_MAX;
    assert_int_equal(parse_and_drop(n), -ENOEXEC);
    *elf = good;
    elf->e_phentsize = 8;
    assert_int_equal(parse_and_drop(n), -ENOEXEC);
    *elf = good;
    ((Elf64_Phdr *)(image + good.e_phoff))->p_filesz = UINT64_MAX;
    assert_int_equal(parse_and_drop(n), -ENOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clang_compiles_is_read),
        cmocka_unit_test(a_cut_image_is_refused),
        cmocka_unit_test(hidden_arguments_are_not_counted),
        cmocka_unit_test(generic_targets_are_for_their_family),
        cmocka_unit_test(metadata_that_contradicts_itself_is_refused),
        cmocka_unit_test(too_many_arguments_are_refused),
        cmocka_unit_test(a_count_without_bytes_is_refused),
        cmocka_unit_test(tables_that_leave_the_file_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
