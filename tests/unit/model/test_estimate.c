/* test_estimate.c: bytes and operations of a step, worked by hand; the context that fits a budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "toy_model.h"

/* Toy llama: width 32, heads 4/2 of 16, feed-forward 64, 2 layers, vocabulary 16 in Q8_0 (34 bytes a row), matrices in
 * F16. */
static void dense(void **state)
{
    const uint64_t matrix_elements = 2 * (32 * 64 + 2 * 32 * 32 + 64 * 32 + 3 * 32 * 64), head_elements = 32 * 16,
                   head_bytes = 34 * 16;
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_plan_cost cost;

    halo_plan_cost(&model->plan, 100, 1, &cost);
    assert_int_equal(cost.weight_bytes, 34 + 2 * matrix_elements + head_bytes);
    assert_int_equal(cost.kv_bytes, 2 /* layers */ * 100 * 2 /* heads */ * (16 + 16) * 2 /* f16 */);
    assert_int_equal(cost.flops, 2 * (matrix_elements + head_elements) + 2ull * 2 * 100 * 4 * (16 + 16));
    halo_plan_cost(&model->plan, 0, 8, &cost); /* eight rows: the weights are read once */
    assert_int_equal(cost.weight_bytes, 8 * 34 + 2 * matrix_elements + head_bytes);
    assert_int_equal(cost.kv_bytes, 0);
    assert_int_equal(cost.flops, 8 * 2 * (matrix_elements + head_elements));
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* 2 of 4 experts: one row reads half of them, many rows all. */
static void experts(void **state)
{
    const uint64_t attention = 2 * (32 * 64 + 2 * 32 * 32 + 64 * 32) * 2, router = 2 * 32 * 4 * 4,
                   expert_bytes = 2 * 3 * 32 * 64 * 2;
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_plan_cost one, two, many;

    halo_plan_cost(&model->plan, 0, 1, &one);
    assert_int_equal(one.weight_bytes, 34 + attention + router + 2 * expert_bytes + 34 * 16);
    halo_plan_cost(&model->plan, 0, 2, &two); /* 4 * (1 - 1/4) = 3 of them on average */
    assert_int_equal(two.weight_bytes, 2 * 34 + attention + router + 3 * expert_bytes + 34 * 16);
    halo_plan_cost(&model->plan, 0, 60, &many);
    assert_in_range(many.weight_bytes, 60 * 34 + attention + router + 4 * expert_bytes + 34 * 16 - 8,
                    60 * 34 + attention + router + 4 * expert_bytes + 34 * 16);
    assert_int_equal(two.flops, 2 * one.flops);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* One of two layers has a window of 64: behind it, only the other reads more. */
static void window(void **state)
{
    const uint64_t position = 2 /* heads */ * (16 + 16) * 2 /* f16 */;
    struct halo_toy *toy = halo_toy_create("gemma2");
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_plan_cost near, far;

    halo_plan_cost(&model->plan, 64, 3, &near);
    assert_int_equal(near.kv_bytes, 3 * (64 + 64) * position);
    halo_plan_cost(&model->plan, 200, 3, &far);
    assert_int_equal(far.kv_bytes, 3 * (64 + 200) * position);
    assert_int_equal(far.flops - near.flops, 2ull * 3 * (200 - 64) * 4 * (16 + 16));
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* One of two layers has a state of 4 x 8 x 8, which a step reads and writes once for all its rows. */
static void states(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen35");
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_plan_cost none, near, rows;
    const uint64_t n = 4 * 8 * 8,
                   matrices =
                       32 * (64 + 32 + 4 + 4) + 32 * 32 /* layer 0 */ + 32 * (128 + 2 * 32) + 64 * 32 + 2 * 3 * 32 * 64,
                   taps = 4 * 64;

    halo_plan_cost(&model->plan, 0, 1, &none);
    assert_int_equal(none.kv_bytes, 2 * n * 4);
    assert_int_equal(none.flops, 2 * (matrices + taps + 32 * 16) + 7 * n);
    halo_plan_cost(&model->plan, 100, 1, &near);
    assert_int_equal(near.kv_bytes, 2 * n * 4 + 100 * 2 * (16 + 16) * 2);
    halo_plan_cost(&model->plan, 0, 5, &rows);
    assert_int_equal(rows.kv_bytes, 2 * n * 4);
    assert_int_equal(rows.flops, 5 * none.flops);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* One layer each of Mamba-2 (32 wide, 4 heads, 2 groups, states of 8, 4 taps), a feed-forward without gates, and
 * attention: the state is read and written once for all rows. */
static void mamba(void **state)
{
    const uint64_t scan = 32 * 8, conv = 4 * (32 + 2 * 2 * 8);
    const uint64_t matrices = 32 * 100 + 32 * 32 + 2 * 32 * 64 + 2 * 32 * 64 + 2 * 32 * 32 + 32 * 16;
    struct halo_toy *toy = halo_toy_create("nemotron_h");
    struct halo_model *model = halo_toy_accepted(toy);
    struct halo_plan_cost one, three, far;

    halo_plan_cost(&model->plan, 0, 1, &one);
    assert_int_equal(one.kv_bytes, 2 * scan * sizeof(float));
    assert_int_equal(one.flops, 2 * (matrices + conv) + 5 * scan);
    halo_plan_cost(&model->plan, 0, 3, &three);
    assert_int_equal(three.kv_bytes, one.kv_bytes);
    assert_int_equal(three.flops, 3 * one.flops);
    halo_plan_cost(&model->plan, 100, 1, &far);
    assert_int_equal(far.kv_bytes - one.kv_bytes, 100 * 2 /* heads */ * (16 + 16) * 2 /* f16 */);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense), cmocka_unit_test(experts), cmocka_unit_test(window),
                                       cmocka_unit_test(mamba), cmocka_unit_test(states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
