/* test_cpu_device.c: the device table: opening, refusals, memory, slots, invalid batches, failing allocations. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include <cpu/cpu.h>

#include "cpu_fixture.h"

/* Counts down to the allocation that fails; -1: none fails. */
static int countdown = -1;
static uint32_t n_allocations;

static bool fails_now(void)
{
    n_allocations++;
    if (countdown < 0)
        return false;
    return countdown-- == 0;
}

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}
void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    errno = ENOMEM;
    return fails_now() ? MAP_FAILED : __real_mmap64(address, length, protection, flags, fd, offset);
}

/* Weights of every kind of slot: small and large, matrix, vector and experts, growing and not. */
static void build(struct fixture *f)
{
    fixture_init(f, 1000, 8, 64);
    uint16_t x = fixture_input(f, 256, 1), out = fixture_value(f, 300), norm = fixture_value(f, 256);
    uint32_t vector = fixture_weight(f, HALO_TYPE_F16, HALO_WEIGHT_VECTOR, 256, 1, 1, 1);
    f->file_bytes += 96;
    uint32_t big = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, 256, 300, 1, 1);
    f->file_bytes += 4000;
    uint32_t head = fixture_weight(f, HALO_TYPE_Q8_0, HALO_WEIGHT_MATRIX, 256, 1000, 1, 1);
    fixture_rmsnorm(f, vector, x, HALO_NONE, norm);
    fixture_op(f, (struct halo_op){
                      .kind = HALO_OP_MATMUL,
                      .u.matmul = {.x = norm, .n = 1, .weight = {big}, .bias = {HALO_WEIGHT_NONE}, .out = {out}}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = head, .x = norm, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

static void opening_and_describing(void **state)
{
    const struct halo_device_ops *ops = halo_device_cpu();
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_device *device = NULL;
    struct halo_device_info info;
    assert_int_equal(ops->abi, HALO_DEVICE_ABI);
    assert_int_equal(ops->size, sizeof(*ops));
    assert_int_equal(ops->probe(NULL, reason), 0);
    assert_int_equal(ops->open(&device, &(struct halo_device_options){.variant = "sse9"}, reason), -EINVAL);
    assert_non_null(strstr(reason, "sse9"));
    assert_null(device);
    assert_int_equal(ops->open(&device, NULL, reason), 0);
    ops->describe(device, &info);
    print_message("%s: %s\n", info.name, info.detail);
    assert_string_equal(info.name, "cpu");
    assert_non_null(strstr(info.detail, "kernels"));
    assert_int_equal(info.features,
                     HALO_DEVICE_BATCH_INVARIANT | HALO_DEVICE_HOST_MEMORY | HALO_DEVICE_LAYERS | HALO_DEVICE_STAGES);
    assert_int_equal(info.miss_traffic, 3);
    assert_true(info.n_threads >= 1 && info.memory_bytes > info.free_bytes && info.free_bytes > 0);
    ops->close(device);
    ops->close(NULL);
    ops->model_destroy(NULL);
    assert_int_equal(
        ops->open(&device, &(struct halo_device_options){.n_threads = 1000, .variant = "reference"}, reason), 0);
    ops->describe(device, &info);
    assert_int_equal(info.n_threads, 64);
    ops->close(device);
}

/* Slots do not overlap, including what kernels may read around them, and the estimate is what is allocated. */
static void slots_lie_apart(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_device_ops *ops = halo_device_cpu();
    uint64_t weights, kv, scratch;
    build(&f);
    assert_int_equal(ops->open(&f.device, &(struct halo_device_options){.n_threads = 2}, reason), 0);
    ops->estimate(f.device, &f.plan, &weights, &kv, &scratch);
    assert_int_equal(kv, halo_kv_page_bytes(&f.plan.kv[0]) * f.plan.kv[0].n_pages);
    assert_int_equal(ops->model_create(f.device, &f.plan, &f.model, reason), 0);
    uintptr_t begin[FIXTURE_MAX], end[FIXTURE_MAX], low = UINTPTR_MAX, high = 0;
    uint32_t n_slack = 0, n = f.plan.n_weights;
    for (uint32_t i = 0; i < n; i++) {
        struct halo_device_slot slot;
        assert_int_equal(ops->weight_slot(f.model, i, &slot), 0);
        begin[i] = (uintptr_t)slot.data;
        end[i] = begin[i] + f.weights[i].n_bytes;
        assert_int_equal(slot.slack, f.weights[i].n_bytes >= 256 * 1024);
        if (slot.slack) {
            n_slack++;
            assert_int_equal(begin[i] % 4096, f.weights[i].offset % 4096);
            begin[i] = begin[i] / 4096 * 4096;
            end[i] = (end[i] + 4095) / 4096 * 4096;
        }
        low = begin[i] < low ? begin[i] : low;
        high = end[i] > high ? end[i] : high;
        memset((void *)begin[i], 0xff, end[i] - begin[i]); /* all of it is writable */
        for (uint32_t j = 0; j < i; j++)
            assert_true(end[j] <= begin[i] || end[i] <= begin[j]);
    }
    assert_int_equal(n_slack, 3);
    assert_true(high - low <= weights);
    assert_int_equal(ops->model_seal(f.model, reason), -EINVAL);
    assert_non_null(strstr(reason, "weight.0"));
    fixture_finish(&f);
}

static void too_large_is_refused_with_numbers(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t weights, kv, scratch;
    build(&f);
    f.plan.kv[0].n_layers = 1u << 31;
    f.plan.kv[0].n_pages = UINT32_MAX;
    assert_int_equal(f.device_ops->open(&f.device, NULL, reason), 0);
    f.device_ops->estimate(f.device, &f.plan, &weights, &kv, &scratch);
    assert_true(kv == UINT64_MAX);
    assert_int_equal(f.device_ops->model_create(f.device, &f.plan, &f.model, reason), -ENOMEM);
    assert_non_null(strstr(reason, "KV cache"));
    f.plan.kv[0].n_layers = 1 << 15;
    f.plan.kv[0].n_pages = 1u << 31; /* 2^31 pages of 64 MiB */
    assert_int_equal(f.device_ops->model_create(f.device, &f.plan, &f.model, reason), -ENOMEM);
    assert_non_null(strstr(reason, "MiB"));
    fixture_finish(&f);
}

static void odd_plans_are_refused(void **state)
{
    static const char *const words[] = {"rmsnorm", "matmul", "matmul", "logits", "matmul", "op 99"};
    for (uint32_t c = 0; c < 6; c++) {
        struct fixture f;
        char reason[HALO_DEVICE_REASON] = "";
        build(&f);
        struct halo_op *ops = f.ops;
        switch (c) {
        case 0: f.weights[1].n_cols = 255; break;
        case 1: ops[2].u.matmul.out[0] = ops[2].u.matmul.x; break;
        case 2: f.weights[2].type = (enum halo_type)77; break;
        case 3: f.plan.n_vocab = 999; break;
        case 4: ops[2].u.matmul.weight[0] = 50; break;
        default: ops[2].kind = (enum halo_op_kind)99; break;
        }
        assert_int_equal(f.device_ops->open(&f.device, NULL, reason), 0);
        assert_int_equal(f.device_ops->model_create(f.device, &f.plan, &f.model, reason), -ENOTSUP);
        if (!strstr(reason, words[c]))
            fail_msg("case %u: %s", c, reason);
        fixture_finish(&f);
    }
}

static void bad_batches_are_refused(void **state)
{
    struct fixture f;
    build(&f);
    fixture_open(&f, "reference", 2);
    static const char *const words[] = {"token 1000",  "token -1",        "position 64",
                                        "has no page", "sequence 1 of 1", "position 3 after 3",
                                        "page 99",     "9 rows",          "row 2 of 2"};
    for (uint32_t c = 0; c < 9; c++) {
        char reason[HALO_DEVICE_REASON] = "";
        int32_t token[9] = {1, 2}, pos[9] = {3, 4};
        uint32_t seq[9] = {0}, output[1] = {0}, pages[2] = {0, 1};
        float *logits = malloc(1000 * sizeof(float));
        struct halo_batch_seq seqs = {{pages}, 2};
        struct halo_batch batch = {2, token, pos, seq, 1, &seqs, 1, output, logits};
        switch (c) {
        case 0: token[1] = 1000; break;
        case 1: token[0] = -1; break;
        case 2: pos[1] = 64; break;
        case 3:
            pos[1] = 40;
            seqs.n_pages = 1;
            break;
        case 4: seq[1] = 1; break;
        case 5: pos[1] = 3; break;
        case 6: pages[1] = 99; break;
        case 7: batch.n_rows = 9; break;
        default: output[0] = 2; break;
        }
        assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), -EINVAL);
        if (!strstr(reason, words[c]))
            fail_msg("case %u: %s", c, reason);
        free(logits);
    }
    fixture_finish(&f);
}

/* A run publishes its phase, allocates nothing, adds to the profile, and its values can be peeked at. */
static void a_run_keeps_its_word(void **state)
{
    struct fixture f;
    struct halo_device_phase phase = {0};
    char reason[HALO_DEVICE_REASON] = "";
    float *logits = malloc(1000 * sizeof(float)), row[300];
    uint64_t ns[HALO_OP_COUNT];
    build(&f);
    fixture_open(&f, "reference", 2);
    int32_t token = 7, pos = 0;
    uint32_t zero = 0, pages[1] = {0};
    struct halo_batch_seq seq = {{pages}, 1};
    struct halo_batch batch = {1, &token, &pos, &zero, 1, &seq, 1, &zero, logits};
    uint32_t before = n_allocations;
    assert_int_equal(f.device_ops->run(f.model, &batch, &phase, reason), 0);
    assert_int_equal(n_allocations, before);
    assert_int_equal(phase.step, f.plan.n_ops);
    assert_int_equal(phase.op, f.plan.n_ops - 1);
    assert_string_equal(phase.what, "logits");
    halo_cpu_profile(f.model, ns);
    assert_true(ns[HALO_OP_MATMUL] > 0 && ns[HALO_OP_LOGITS] > 0 && ns[HALO_OP_ATTEND] == 0);
    assert_int_equal(f.device_ops->peek(f.model, 1, 0, row, reason), 0);
    assert_int_equal(f.device_ops->peek(f.model, 1, 1, row, reason), -EINVAL);
    assert_int_equal(f.device_ops->peek(f.model, 90, 0, row, reason), -EINVAL);
    batch.n_rows = batch.n_outputs = 0;
    assert_int_equal(f.device_ops->run(f.model, &batch, &phase, reason), 0);
    free(logits);
    fixture_finish(&f);
}

static void a_page_is_copied_in_all_layers(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    float first[48], copied[48];
    fixture_init(&f, 10, 8, 32);
    fixture_kv(&f, HALO_KV_Q8, 3, 2, 16, 24);
    uint16_t q = fixture_input(&f, 32, 1), k = fixture_input(&f, 32, 1), v = fixture_input(&f, 48, 1), out[3];
    for (uint32_t layer = 0; layer < 3; layer++) {
        out[layer] = fixture_value(&f, 48);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, layer}});
        fixture_op(
            &f,
            (struct halo_op){
                .kind = HALO_OP_ATTEND,
                .u.attend = {
                    .q = q, .out = out[layer], .kv_layer = layer, .n_head = 2, .scale = 1, .sinks = HALO_WEIGHT_NONE}});
    }
    fixture_open(&f, "reference", 1);
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    fixture_run(&f, 0, tokens, 8, 0, NULL);
    for (uint32_t layer = 0; layer < 3; layer++) {
        fixture_run(&f, 0, tokens + 7, 1, 7, NULL);
        fixture_peek(&f, out[layer], 0, first);
        uint32_t n, from = fixture_pages(&f, 0, &n)[0], to = fixture_pages(&f, 1, &n)[0];
        assert_int_equal(f.device_ops->kv_copy(f.model, 0, from, to, reason), 0);
        fixture_run(&f, 1, tokens + 7, 1, 7, NULL);
        fixture_peek(&f, out[layer], 0, copied);
        assert_memory_equal(first, copied, sizeof(first));
    }
    assert_int_equal(f.device_ops->kv_copy(f.model, 0, 0, f.plan.kv[0].n_pages, reason), -EINVAL);
    assert_int_equal(f.device_ops->kv_copy(f.model, 0, 2, 2, reason), 0);
    fixture_finish(&f);
}

/* To the host and into another page; the rows that follow have the same bits. */
static void a_page_goes_and_comes(void **state)
{
    for (int kv = HALO_KV_F32; kv <= HALO_KV_Q4; kv++) {
        struct fixture f;
        char reason[HALO_DEVICE_REASON] = "";
        float first[48], again[48];
        fixture_init(&f, 10, 8, 32);
        fixture_kv(&f, (enum halo_kv_type)kv, 2, 2, 16, 24);
        uint16_t q = fixture_input(&f, 32, 1), k = fixture_input(&f, 32, 1), v = fixture_input(&f, 48, 1);
        uint16_t out = fixture_value(&f, 48);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 1}});
        fixture_op(&f, (struct halo_op){
                           .kind = HALO_OP_ATTEND,
                           .u.attend = {
                               .q = q, .out = out, .kv_layer = 1, .n_head = 2, .scale = 1, .sinks = HALO_WEIGHT_NONE}});
        fixture_open(&f, "reference", 1);
        static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
        fixture_run(&f, 0, tokens, 8, 0, NULL);
        fixture_run(&f, 0, tokens + 7, 1, 7, NULL);
        fixture_peek(&f, out, 0, first);
        uint32_t n, from = fixture_pages(&f, 0, &n)[0], to = fixture_pages(&f, 1, &n)[0];
        uint64_t n_bytes = f.device_ops->kv_page_bytes(f.model, 0);
        assert_int_equal(n_bytes, halo_kv_page_bytes(&f.plan.kv[0]));
        uint8_t *page = malloc(n_bytes), *read_again = malloc(n_bytes);
        assert_true(page && read_again);
        assert_int_equal(f.device_ops->kv_read(f.model, 0, from, page, reason), 0);
        assert_int_equal(f.device_ops->kv_write(f.model, 0, to, page, reason), 0);
        assert_int_equal(f.device_ops->kv_read(f.model, 0, to, read_again, reason), 0);
        assert_memory_equal(page, read_again, n_bytes);
        fixture_run(&f, 1, tokens + 7, 1, 7, NULL);
        fixture_peek(&f, out, 0, again);
        assert_memory_equal(first, again, sizeof(first));
        assert_int_equal(f.device_ops->kv_read(f.model, 0, f.plan.kv[0].n_pages, page, reason), -EINVAL);
        assert_int_equal(f.device_ops->kv_write(f.model, 0, f.plan.kv[0].n_pages, page, reason), -EINVAL);
        free(page);
        free(read_again);
        fixture_finish(&f);
    }
}

/* Every allocation from opening to the last commit fails once: -ENOMEM with a reason each time, until there is none
 * left to fail. */
static void each_allocation_may_fail(void **state)
{
    const struct halo_device_ops *ops = halo_device_cpu();
    struct fixture f;
    build(&f);
    uint32_t n_failures = 0;
    for (int n = 0;; n++) {
        char reason[HALO_DEVICE_REASON] = "";
        countdown = n;
        int r = ops->open(&f.device, &(struct halo_device_options){.n_threads = 1, .variant = "reference"}, reason);
        if (!r)
            r = ops->model_create(f.device, &f.plan, &f.model, reason);
        for (uint32_t i = 0; !r && i < f.plan.n_weights; i++) {
            struct halo_device_slot slot;
            assert_int_equal(ops->weight_slot(f.model, i, &slot), 0);
            memcpy(slot.data, f.bytes[i], f.weights[i].n_bytes);
            r = ops->weight_commit(f.model, i, reason);
        }
        if (!r)
            r = ops->model_seal(f.model, reason);
        bool failed = countdown < 0;
        countdown = -1;
        fixture_close(&f);
        if (!failed) {
            assert_int_equal(r, 0);
            break;
        }
        n_failures++;
        assert_int_equal(r, -ENOMEM);
        assert_true(strlen(reason) > 10);
    }
    print_message("%u allocations failed one after the other\n", n_failures);
    assert_true(n_failures >= 9);
    fixture_finish(&f);
}

static void bandwidth_is_measured(void **state)
{
    struct halo_device *device;
    char reason[HALO_DEVICE_REASON] = "";
    assert_int_equal(halo_device_cpu()->open(&device, NULL, reason), 0);
    double bytes_per_second = halo_device_cpu()->measure_bandwidth(device);
    print_message("%.1f GB/s\n", bytes_per_second / 1e9);
    assert_true(bytes_per_second > 1e5 && bytes_per_second < 1e13);
    countdown = 0;
    assert_true(halo_device_cpu()->measure_bandwidth(device) == 0);
    countdown = -1;
    halo_device_cpu()->close(device);
}

/* Pages that other arithmetic made are refused: the layout contains the build id that the linker wrote into this
 * program. */
static void the_layout_names_the_build(void **state)
{
    static char program[64 << 20];
    unsigned char note[16 + 20] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
    const struct halo_device_ops *ops = halo_device_cpu();
    struct halo_device_options options = {.variant = "reference", .n_threads = 1};
    struct halo_device *device;
    struct halo_device_info info;
    char reason[HALO_DEVICE_REASON];
    assert_int_equal(ops->open(&device, &options, reason), 0);
    ops->describe(device, &info);
    ops->close(device);
    assert_int_equal(strncmp(info.kv_layout, "cpu reference ", 14), 0);
    assert_int_equal(strlen(info.kv_layout), 14 + 40);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(sscanf(info.kv_layout + 14 + 2 * i, "%2hhx", &note[16 + i]), 1);
    FILE *file = fopen("/proc/self/exe", "r");
    assert_non_null(file);
    size_t n = fread(program, 1, sizeof(program), file);
    fclose(file);
    assert_non_null(memmem(program, n, note, sizeof(note)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_and_describing), cmocka_unit_test(the_layout_names_the_build),
        cmocka_unit_test(slots_lie_apart),        cmocka_unit_test(too_large_is_refused_with_numbers),
        cmocka_unit_test(odd_plans_are_refused),  cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(a_run_keeps_its_word),   cmocka_unit_test(a_page_is_copied_in_all_layers),
        cmocka_unit_test(a_page_goes_and_comes),  cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(bandwidth_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
