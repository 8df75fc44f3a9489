/* test_hparams_blocks.c: what is refused of a model with residual streams and compressed blocks, and what it keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "toy_model.h"

static void numbers_by_layer(void **state)
{
    static const double ratios[] = {0, 4, 8}, two[] = {0, 4}, large[] = {0, 4, 129}, limits[] = {0, 7, -1};
    struct halo_toy *toy = halo_toy_create("deepseek4");
    struct halo_model *model = halo_toy_accepted(toy);

    assert_int_equal(model->hparams.by_layer.compress_ratio[1], 4);
    assert_int_equal(model->hparams.by_layer.compress_ratio[2], 128);
    assert_true(model->hparams.by_layer.expert_limit[0] == 0 && model->hparams.by_layer.expert_limit[1] == 7);
    for (uint32_t layer = 0; layer < 3; layer++) /* one number for all */
        assert_true(model->hparams.by_layer.shared_limit[layer] == 10);
    halo_model_destroy(model);
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_U32, 3, ratios);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED,
                     "deepseek4.attention.compress_ratios of layer 2 is 8, which is not supported (0, 4 and 128 are)",
                     NULL);
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_U32, 2, two);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "attention.compress_ratios has 2 entries for 3 layers", NULL);
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_U32, 3, large);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "compress_ratios is 129 in layer 2, allowed are 0 to 128", NULL);
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_F32, 3, ratios);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "attention.compress_ratios must hold integers", NULL);
    halo_toy_unset(toy, "attention.compress_ratios");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "deepseek4.attention.compress_ratios is missing", NULL);
    halo_toy_destroy(toy);
    toy = halo_toy_create("deepseek4");
    halo_toy_set_array(toy, "swiglu_clamp_exp", HALO_GGUF_F32, 3, limits);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "swiglu_clamp_exp is -1 in layer 2, allowed are 0 to 1000000", NULL);
    halo_toy_destroy(toy);
}

static void contradictions(void **state)
{
    static const struct {
        const char *key;
        double number;
        enum halo_fault_code code;
        const char *text;
    } rows[] = {
        {"hyper_connection.count", 3, HALO_FAULT_UNSUPPORTED, "hyper_connection.count is 3, which is not supported"},
        {"hyper_connection.count", 16, HALO_FAULT_LOAD_FAILED, "hyper_connection.count is 16, allowed are 2 to 8"},
        {"hyper_connection.sinkhorn_iterations", 0, HALO_FAULT_LOAD_FAILED, "iterations is 0, allowed are 1 to 1000"},
        {"attention.head_count_kv", 2, HALO_FAULT_LOAD_FAILED,
         "2 KV heads with keys of 16 and values of 16, 8 elements rotated"},
        {"attention.value_length", 8, HALO_FAULT_LOAD_FAILED,
         "1 KV heads with keys of 16 and values of 8, 8 elements rotated"},
        {"rope.dimension_count", 16, HALO_FAULT_LOAD_FAILED, "values of 16, 16 elements rotated; wanted one head"},
        {"attention.output_group_count", 3, HALO_FAULT_LOAD_FAILED, "is 3, which does not divide 4 heads"},
        {"attention.indexer.head_count", 0, HALO_FAULT_LOAD_FAILED,
         "indexer: head_count is 0, key_length 24 and top_k 3; none may be 0"},
        {"attention.indexer.key_length", 8, HALO_FAULT_LOAD_FAILED,
         "key_length 8 and top_k 3; none may be 0, and the key must be longer than the 8"},
        {"attention.indexer.top_k", 0, HALO_FAULT_LOAD_FAILED, "indexer: head_count is 2, key_length 24 and top_k 0"},
        {"attention.sliding_window", 0, HALO_FAULT_LOAD_FAILED, "sliding_window is 0, allowed are 1 to"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("deepseek4");
        halo_toy_set(toy, rows[i].key, HALO_GGUF_U32, rows[i].number);
        halo_toy_refused(toy, rows[i].code, rows[i].text, NULL);
        halo_toy_destroy(toy);
    }
}

/* A table of indices is one, and nothing else is. */
static void tables_hold_indices(void **state)
{
    struct halo_toy *toy = halo_toy_create("deepseek4");
    struct halo_model *model = halo_toy_accepted(toy);
    uint32_t n_tables = 0;

    for (uint32_t i = 0; i < model->plan.n_ops; i++)
        n_tables += model->plan.ops[i].kind == HALO_OP_MOE_ROUTE && model->plan.ops[i].u.moe_route.table != NULL;
    assert_int_equal(n_tables, 1);
    halo_model_destroy(model);
    halo_toy_find(toy, "blk.0.ffn_gate_tid2eid.weight")->type = HALO_TYPE_F32;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.ffn_gate_tid2eid.weight is F32, should be I32", NULL);
    halo_toy_destroy(toy);
    toy = halo_toy_create("deepseek4");
    halo_toy_find(toy, "blk.1.attn_q_a.weight")->type = HALO_TYPE_I32;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.1.attn_q_a.weight is I32, should hold numbers", NULL);
    halo_toy_destroy(toy);
}

/* Layers without blocks alone keep every position, or their window. */
static void groups_of_the_cache(void **state)
{
    static const double none[] = {0, 0, 0};
    struct halo_toy *toy = halo_toy_create("deepseek4");
    struct halo_model *model = halo_toy_accepted(toy);

    assert_int_equal(model->plan.n_kv_groups, 5);
    assert_int_equal(model->plan.kv[0].stride, 4);
    assert_int_equal(halo_kv_page_bytes(&model->plan.kv[0]), 8 * 16 * 2);
    assert_int_equal(halo_kv_page_bytes(&model->plan.kv[2]), 16 * 2);
    halo_model_destroy(model);
    for (uint32_t i = 0; i < toy->n_tensors;) {
        const char *name = toy->tensors[i].name;
        if (strstr(name, "compressor") || strstr(name, "indexer"))
            halo_toy_remove(toy, name);
        else
            i++;
    }
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_U32, 3, none);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.n_kv_groups, 1);
    assert_int_equal(model->plan.kv[0].n_layers, 3);
    assert_int_equal(model->plan.kv[0].window, 0);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_layer),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(tables_hold_indices),
        cmocka_unit_test(groups_of_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
