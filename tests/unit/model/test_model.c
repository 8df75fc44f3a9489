/* test_model.c: opening a model: names, sizes, params, refusals, and every allocation failing in turn. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fail_alloc.h"
#include "toy_model.h"

static void each_allocation_fails(void **state)
{
    static const char *const families[] = {"llama", "qwen3moe"};

    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        static const float factors[8] = {1, 1, 1, 1, 2, 2, 2, 2};
        struct halo_toy *toy = halo_toy_create(families[f]);
        char path[] = "/tmp/halo-toy-XXXXXX";
        int fd = mkstemp(path), r = -1;
        uint64_t n = 0;

        assert_true(fd >= 0);
        close(fd);
        if (f == 0) {
            halo_toy_add(toy, "rope_freqs.weight", HALO_TYPE_F32, 8, 0, 0);
            halo_toy_find(toy, "rope_freqs.weight")->values = factors;
        }
        halo_toy_write(toy, path);
        for (; r != 0; n++) {
            struct halo_model *model = NULL;
            struct halo_fault fault = {0};
            halo_fail_alloc_arm(n);
            r = halo_model_create(&model, path, NULL, &fault);
            bool failed = halo_fail_alloc_disarm();
            if (r != 0) {
                assert_true(failed); /* else it would never end */
                assert_null(model);
                assert_int_equal(r, -ENOMEM);
                assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
                assert_true(fault.text[0]);
            }
            halo_model_destroy(model);
        }
        assert_true(n > 5);
        print_message("%s: %" PRIu64 " allocations\n", families[f], n - 1);
        unlink(path);
        halo_toy_destroy(toy);
    }
}

static void names_and_sizes(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model = halo_toy_accepted(toy);
    uint64_t n_bytes = 0;

    assert_string_equal(model->arch, "qwen3");
    assert_string_equal(model->name, "Toy");
    assert_string_equal(model->quant, "F16");
    assert_true(model->arena.sealed);
    for (uint64_t i = 0; i < halo_gguf_n_tensors(model->gguf); i++)
        n_bytes += halo_gguf_tensor(model->gguf, i)->n_bytes;
    assert_int_equal(model->weights_bytes, n_bytes);
    assert_int_equal(model->n_params, 16 * 32 + 32 + 2 * (2 * 32 + 2 * 16 + 2 * 32 * 64 + 2 * 32 * 32 + 3 * 32 * 64));
    halo_model_destroy(model);

    halo_toy_set_text(toy, "general.name", "line\nbreak \xff bad");
    halo_toy_set(toy, "general.file_type", HALO_GGUF_U32, 15);
    model = halo_toy_accepted(toy);
    assert_string_equal(model->name, "line break "); /* one line, cut before what is no text */
    assert_string_equal(model->quant, "Q4_K_M");
    halo_model_destroy(model);

    halo_toy_unset(toy, "general.name");
    halo_toy_set(toy, "general.file_type", HALO_GGUF_U32, 4000);
    model = halo_toy_accepted(toy);
    assert_memory_equal(model->name, "halo-toy-", 9);
    assert_string_equal(model->quant, "F16"); /* most bytes */
    halo_model_destroy(model);
    halo_toy_destroy(toy);
    halo_model_destroy(NULL);
}

/* A name of the longest size, cut between characters. */
static void long_name(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model;
    char name[256];

    for (int i = 0; i + 3 < 250; i += 2)
        memcpy(name + i, "\xc3\xa9", 3);
    halo_toy_set_text(toy, "general.name", name);
    model = halo_toy_accepted(toy);
    assert_int_equal(strlen(model->name), 126); /* 127 would end inside a character */
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

static void stem_of_a_split_file(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    char folder[] = "/tmp/halo-toy-XXXXXX", path[64];
    struct halo_model *model = NULL;
    struct halo_fault fault;

    assert_non_null(mkdtemp(folder));
    halo_toy_unset(toy, "general.name");
    halo_toy_set(toy, "general.file_type", HALO_GGUF_U32, 4000);
    snprintf(path, sizeof(path), "%s/big-model.gguf", folder);
    halo_toy_write(toy, path);
    assert_int_equal(halo_model_create(&model, path, NULL, &fault), 0);
    assert_string_equal(model->name, "big-model");
    halo_model_destroy(model);
    unlink(path);
    rmdir(folder);
    halo_toy_destroy(toy);
}

static void params(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model_params params = {
        .context = 100, .kv_tokens = 321, .kv = HALO_KV_Q8, .max_rows = 8, .max_outputs = 9};
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_fault fault;

    assert_int_equal(model->plan.n_context, 256); /* the model's */
    assert_int_equal(model->plan.kv[0].n_pages, 4 * 256 / 32);
    assert_int_equal(model->plan.kv[0].type, HALO_KV_F16);
    assert_int_equal(model->plan.max_rows, 256);
    assert_int_equal(model->plan.max_outputs, 64);
    assert_int_equal(model->plan.n_vocab, 16);
    halo_model_destroy(model);

    assert_int_equal(halo_toy_open(toy, &params, &model, &fault), 0);
    assert_int_equal(model->plan.n_context, 100);
    assert_int_equal(model->plan.kv[0].n_pages, 11);
    assert_int_equal(model->plan.kv[0].type, HALO_KV_Q8);
    assert_int_equal(model->plan.max_rows, 8);
    assert_int_equal(model->plan.max_outputs, 8); /* never more than rows */
    halo_model_destroy(model);

    params.kv_tokens = 0;
    assert_int_equal(halo_toy_open(toy, &params, &model, &fault), 0);
    assert_int_equal(model->plan.kv[0].n_pages, 4 * 4); /* no page is shared by two sequences of 100 tokens */
    halo_model_destroy(model);

    params.kv_tokens = 99;
    assert_true(halo_toy_open(toy, &params, &model, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    assert_string_equal(fault.text, "kv_tokens 99 is less than the context of 100");
    params.context = 257;
    assert_true(halo_toy_open(toy, &params, &model, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    assert_non_null(strstr(fault.text, "context 257 is more than the 256 positions"));
    params.context = 0;
    params.max_rows = HALO_MODEL_MAX_ROWS + 1;
    assert_true(halo_toy_open(toy, &params, &model, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    params.max_rows = 0;
    params.kv_tokens = UINT64_MAX;
    assert_true(halo_toy_open(toy, &params, &model, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    assert_non_null(strstr(fault.text, "18446744073709551615 positions is beyond any memory"));
    halo_toy_destroy(toy);
}

static void refusals(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model = NULL;
    struct halo_fault fault;

    halo_toy_set_text(toy, "general.architecture", "mam\nba");
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "architecture \"mam?ba\" is not supported; docs/MODELS.md lists",
                     NULL);
    halo_toy_set_text(toy, "general.architecture", "qwen");
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "architecture \"qwen\" is not supported", NULL);
    halo_toy_set(toy, "general.architecture", HALO_GGUF_U32, 3);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "general.architecture", NULL);
    halo_toy_destroy(toy);

    assert_int_equal(halo_model_create(&model, "/nonexistent/model.gguf", NULL, &fault), -ENOENT);
    assert_int_equal(fault.code, HALO_FAULT_NOT_FOUND);
    assert_null(model);
    assert_true(halo_model_create(&model, "/dev/null", NULL, NULL) < 0); /* a fault is not obligatory */
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Damaged directories: a few bytes at random. Each file is refused with a sentence or opens; nothing else may happen.
 */
static void damaged_directories(void **state)
{
    static char whole[1 << 16], damaged[1 << 16];
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    char path[] = "/tmp/halo-toy-XXXXXX";
    int fd = mkstemp(path);
    unsigned n_refused = 0, n_opened = 0;
    uint64_t random = 42;
    ssize_t n;

    assert_true(fd >= 0);
    halo_toy_write(toy, path);
    n = pread(fd, whole, sizeof(whole), 0);
    assert_true(n > 4096);
    for (int round = 0; round < 3000; round++) {
        struct halo_model *model = NULL;
        struct halo_fault fault = {0};
        memcpy(damaged, whole, (size_t)n);
        for (uint32_t i = 0; i <= next_random(&random) % 3; i++)
            damaged[24 + next_random(&random) % 3000] =
                (char)(next_random(&random) % 4 ? next_random(&random) % 8 : next_random(&random));
        assert_int_equal(pwrite(fd, damaged, (size_t)n, 0), n);
        if (halo_model_create(&model, path, NULL, &fault) == 0) {
            n_opened++;
        } else {
            n_refused++;
            assert_true(fault.code != HALO_FAULT_NONE && fault.text[0]);
            assert_null(model);
        }
        halo_model_destroy(model);
    }
    print_message("%u refused, %u opened\n", n_refused, n_opened);
    assert_true(n_refused > 1000 && n_opened > 10);
    close(fd);
    unlink(path);
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails), cmocka_unit_test(names_and_sizes), cmocka_unit_test(long_name),
        cmocka_unit_test(stem_of_a_split_file),  cmocka_unit_test(params),          cmocka_unit_test(refusals),
        cmocka_unit_test(damaged_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
