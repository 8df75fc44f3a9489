/* test_memory.c: what the engine does when the n-th allocation fails, for every n until none does: a refusal, and
 * nothing lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/bench.h>

#include "fail_alloc.h"
#include "rig.h"

static struct halo_span piece(const void *ud, int32_t id)
{
    return (struct halo_span){"ab", 2};
}
static bool is_end(const void *ud, int32_t id)
{
    return false;
}

static void a_sequence_is_whole_or_not_at_all(void **state)
{
    static const struct halo_pieces pieces = {NULL, piece, is_end, 16};
    struct halo_span stops[2] = {{"stop", 4}, {"halt", 4}};
    struct halo_logit_bias biases[3] = {{1, 1}, {2, 2}, {3, 3}};
    int32_t ids[40] = {0};
    struct halo_sequence_setup setup = {.kind = HALO_SEQUENCE_GENERATE,
                                        .ids = ids,
                                        .n_prompt = 30,
                                        .n_committed = 10,
                                        .max_tokens = 50,
                                        .stops = stops,
                                        .n_stops = 2,
                                        .n_top = 20,
                                        .want_logprob = true,
                                        .bytes_sent = 3,
                                        .sampler = {.biases = biases, .n_biases = 3}};
    unsigned n_refused = 0;
    for (uint64_t n = 0;; n++) {
        struct halo_sequence *sequence;
        struct halo_fault fault = {0};
        halo_fail_alloc_arm(n);
        int r = halo_sequence_create(&sequence, &setup, &pieces, &fault);
        bool failed = halo_fail_alloc_disarm();
        if (!failed) {
            assert_int_equal(r, 0);
            assert_int_equal(sequence->n_replay, 17);
            halo_sequence_destroy(sequence);
            break;
        }
        assert_int_equal(r, -ENOMEM);
        assert_null(sequence);
        assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
        assert_true(fault.text[0] != '\0');
        n_refused++;
    }
    assert_true(n_refused >= 4);
}

static void a_scheduler_is_whole_or_not_at_all(void **state)
{
    struct halo_plan plan;
    struct halo_stats stats = {0};
    unsigned n_refused = 0;
    fake_plan(&plan, 64, 512, 16, 8, 32);
    for (uint64_t n = 0;; n++) {
        struct halo_scheduler scheduler;
        struct halo_scheduler_setup setup = {.ops = fake_device(), .plan = &plan, .stats = &stats};
        halo_fail_alloc_arm(n);
        int r = halo_scheduler_init(&scheduler, &setup);
        if (!halo_fail_alloc_disarm()) {
            assert_int_equal(r, 0);
            halo_scheduler_finish(&scheduler);
            break;
        }
        assert_int_equal(r, -ENOMEM);
        n_refused++;
    }
    assert_true(n_refused >= 12);
}

static void a_bench_is_whole_or_not_at_all(void **state)
{
    struct halo_model model = {.plan = {.max_rows = 32, .n_vocab = 64}};
    struct halo_instance instance = {.model = &model, .context = 1024, .kv_tokens = 4096};
    unsigned n_refused = 0;
    for (uint64_t n = 0;; n++) {
        struct halo_bench *bench;
        struct halo_fault fault = {0};
        halo_fail_alloc_arm(n);
        const struct halo_bench_wish wish = {.prefill = 100, .decode = 10, .batch = 4, .repeat = 3};
        int r = halo_bench_create(&bench, &instance, &wish, &fault);
        if (!halo_fail_alloc_disarm()) {
            assert_int_equal(r, 0);
            halo_bench_destroy(bench);
            break;
        }
        assert_int_equal(r, -ENOMEM);
        assert_null(bench);
        n_refused++;
    }
    assert_true(n_refused >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_is_whole_or_not_at_all),
        cmocka_unit_test(a_scheduler_is_whole_or_not_at_all),
        cmocka_unit_test(a_bench_is_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
