/* test_hparams.c: every malformed or contradictory hyper-parameter has its own refusal; defaults and variants are read
 * right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "hparams_priv.h"
#include "toy_model.h"

/* A family, one changed key, and what must be said. */
struct broken {
    const char *family, *key;
    enum halo_gguf_kind kind;
    double value;
    enum halo_fault_code code;
    const char *fragment;
};

static void broken_refused(const struct broken *row)
{
    struct halo_toy *toy = halo_toy_create(row->family);

    halo_toy_set(toy, row->key, row->kind, row->value);
    halo_toy_refused(toy, row->code, row->fragment, NULL);
    halo_toy_destroy(toy);
}

static void numbers_out_of_bounds(void **state)
{
    static const struct broken rows[] = {
        {"llama", "block_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "llama.block_count is 0, allowed are 1 to 512"},
        {"llama", "block_count", HALO_GGUF_U32, 513, HALO_FAULT_LOAD_FAILED, "llama.block_count is 513"},
        {"llama", "block_count", HALO_GGUF_U32, 2147483648.0, HALO_FAULT_LOAD_FAILED,
         "llama.block_count is 2147483648, allowed are 1 to 512"},
        {"qwen2", "context_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "qwen2.context_length is 0"},
        {"qwen2", "context_length", HALO_GGUF_U64, 4294967296.0, HALO_FAULT_LOAD_FAILED,
         "qwen2.context_length is 4294967296, allowed are 1 to 1073741824"},
        {"qwen3", "embedding_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "qwen3.embedding_length is 0"},
        {"qwen3", "embedding_length", HALO_GGUF_U32, 4294967295.0, HALO_FAULT_LOAD_FAILED,
         "qwen3.embedding_length is 4294967295"},
        {"llama", "feed_forward_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "llama.feed_forward_length is 0"},
        {"llama", "attention.head_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "llama.attention.head_count is 0"},
        {"llama", "attention.head_count", HALO_GGUF_U32, 1025, HALO_FAULT_LOAD_FAILED,
         "llama.attention.head_count is 1025"},
        {"llama", "attention.head_count_kv", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "llama.attention.head_count_kv is 0"},
        {"llama", "attention.head_count_kv", HALO_GGUF_U32, 3, HALO_FAULT_LOAD_FAILED,
         "head_count 4 is not a multiple of head_count_kv 3"},
        {"llama", "attention.head_count_kv", HALO_GGUF_U32, 8, HALO_FAULT_LOAD_FAILED,
         "head_count 4 is not a multiple of head_count_kv 8"},
        {"llama", "attention.key_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "llama.attention.key_length is 0"},
        {"llama", "attention.key_length", HALO_GGUF_U32, 1025, HALO_FAULT_LOAD_FAILED,
         "llama.attention.key_length is 1025"},
        {"llama", "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED,
         "layer_norm_rms_epsilon is 0"},
        {"llama", "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, NAN, HALO_FAULT_LOAD_FAILED,
         "layer_norm_rms_epsilon is "},
        {"llama", "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, -1e-5, HALO_FAULT_LOAD_FAILED,
         "layer_norm_rms_epsilon is -9.99999975e-06"},
        {"llama", "rope.freq_base", HALO_GGUF_F32, INFINITY, HALO_FAULT_LOAD_FAILED, "rope.freq_base is inf"},
        {"llama", "rope.freq_base", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED, "rope.freq_base is 0"},
        {"llama", "rope.dimension_count", HALO_GGUF_U32, 15, HALO_FAULT_LOAD_FAILED,
         "rope.dimension_count is 15, must be even"},
        {"llama", "rope.dimension_count", HALO_GGUF_U32, 18, HALO_FAULT_LOAD_FAILED, "at most the key length 16"},
        {"llama", "rope.dimension_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "rope.dimension_count is 0"},
        {"llama", "rope.scaling.factor", HALO_GGUF_F32, -4, HALO_FAULT_LOAD_FAILED, "rope.scaling.factor is -4"},
        {"llama", "rope.scaling.attn_factor", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED,
         "rope.scaling.attn_factor is 0"},
        {"llama-moe", "expert_count", HALO_GGUF_U32, 1025, HALO_FAULT_LOAD_FAILED, "llama.expert_count is 1025"},
        {"llama-moe", "expert_used_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "expert_used_count is 0, must be 1 to expert_count 4"},
        {"llama-moe", "expert_used_count", HALO_GGUF_U32, 5, HALO_FAULT_LOAD_FAILED,
         "expert_used_count is 5, must be 1 to expert_count 4"},
        {"qwen3moe", "expert_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "qwen3moe.expert_count is 0"},
        {"qwen3moe", "expert_used_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "qwen3moe.expert_used_count is 0"},
        {"qwen3moe", "expert_feed_forward_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "expert_feed_forward_length is 0"},
        {"llama", "vocab_size", HALO_GGUF_U32, 5, HALO_FAULT_LOAD_FAILED,
         "token_embd.weight is [32, 16], should be [32, 5]"},
        {"llama", "vocab_size", HALO_GGUF_U32, 4294967295.0, HALO_FAULT_LOAD_FAILED, "llama.vocab_size is 4294967295"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        broken_refused(&rows[i]);
}

static void factors_and_windows_out_of_bounds(void **state)
{
    static const struct broken rows[] = {
        {"cohere2", "logit_scale", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED, "cohere2.logit_scale is 0"},
        {"cohere2", "attention.layer_norm_epsilon", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED,
         "layer_norm_epsilon is 0"},
        {"gemma2", "attn_logit_softcapping", HALO_GGUF_F32, -1, HALO_FAULT_LOAD_FAILED, "softcapping is -1"},
        {"gemma2", "final_logit_softcapping", HALO_GGUF_F32, NAN, HALO_FAULT_LOAD_FAILED, "softcapping is "},
        {"gemma3", "attention.sliding_window_pattern", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "sliding_window_pattern is 0"},
        {"gemma3", "rope.freq_base_swa", HALO_GGUF_F32, 0, HALO_FAULT_LOAD_FAILED, "freq_base_swa is 0"},
        {"gpt-oss", "attention.sliding_window", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "sliding_window is 0"},
        {"granite", "residual_scale", HALO_GGUF_F32, -1, HALO_FAULT_LOAD_FAILED, "residual_scale is -1"},
        {"mistral3", "attention.temperature_scale", HALO_GGUF_F32, -1, HALO_FAULT_LOAD_FAILED,
         "temperature_scale is -1"},
        {"hunyuan-dense", "rope.scaling.alpha", HALO_GGUF_F32, 1000, HALO_FAULT_UNSUPPORTED, "alpha is 1000"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        broken_refused(&rows[i]);
}

static void mixtures_out_of_bounds(void **state)
{
    static const struct broken rows[] = {
        {"glm4moe", "expert_gating_func", HALO_GGUF_U32, 9, HALO_FAULT_UNSUPPORTED, "expert_gating_func is 9"},
        {"glm4moe", "leading_dense_block_count", HALO_GGUF_U32, 3, HALO_FAULT_LOAD_FAILED,
         "glm4moe.leading_dense_block_count is 3 of 2 layers"},
        {"glm4moe", "nextn_predict_layers", HALO_GGUF_U32, 2, HALO_FAULT_LOAD_FAILED,
         "glm4moe.nextn_predict_layers is 2 of 2 layers"},
        {"glm4moe", "feed_forward_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "feed_forward_length is 0"},
        {"glm4moe", "expert_shared_count", HALO_GGUF_U32, 1025, HALO_FAULT_LOAD_FAILED, "expert_shared_count is 1025"},
        {"glm4moe", "expert_weights_scale", HALO_GGUF_F32, -1, HALO_FAULT_LOAD_FAILED, "expert_weights_scale is -1"},
        {"bailingmoe2", "expert_group_count", HALO_GGUF_U32, 3, HALO_FAULT_LOAD_FAILED,
         "bailingmoe2: 1 of 3 expert groups do not give 2 of 4 experts"},
        {"bailingmoe2", "expert_group_count", HALO_GGUF_U32, 33, HALO_FAULT_LOAD_FAILED, "expert_group_count is 33"},
        {"bailingmoe2", "expert_group_used_count", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "0 of 2 expert groups"},
        {"bailingmoe2", "expert_used_count", HALO_GGUF_U32, 3, HALO_FAULT_LOAD_FAILED,
         "1 of 2 expert groups do not give 3 of 4 experts"},
        {"deepseek2", "attention.kv_lora_rank", HALO_GGUF_U32, 31, HALO_FAULT_LOAD_FAILED,
         "are not one compressed row of 31 and 8 rotated elements"},
        {"deepseek2", "attention.kv_lora_rank", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED, "kv_lora_rank is 0"},
        {"deepseek2", "attention.key_length_mla", HALO_GGUF_U32, 8, HALO_FAULT_LOAD_FAILED, "are not one compressed"},
        {"deepseek2", "attention.head_count_kv", HALO_GGUF_U32, 2, HALO_FAULT_LOAD_FAILED, "are not one compressed"},
        {"deepseek2", "attention.key_length_mla", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "1 heads of K of 40 for 4 heads"},
        {"qwen2moe", "expert_shared_feed_forward_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
         "expert_shared_feed_forward_length is 0"},
        {"ernie4_5-moe", "interleave_moe_layer_step", HALO_GGUF_U32, 2, HALO_FAULT_UNSUPPORTED,
         "interleave_moe_layer_step is 2, which is not supported"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        broken_refused(&rows[i]);
}

static void experts_too_wide(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3moe");

    halo_toy_set(toy, "expert_count", HALO_GGUF_U32, 1024);
    halo_toy_set(toy, "expert_used_count", HALO_GGUF_U32, 1024);
    halo_toy_set(toy, "expert_feed_forward_length", HALO_GGUF_U32, 1 << 20);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "1024 experts of 1048576 are wider than", NULL);
    halo_toy_destroy(toy);
}

/* The number of a gating function in the file, and what the plan routes by. */
static void gates(void **state)
{
    static const struct {
        double number;
        enum halo_moe_gate gate;
        bool normalise;
    } rows[] = {{0, HALO_MOE_SIGMOID, false},
                {1, HALO_MOE_SOFTMAX, false},
                {2, HALO_MOE_SIGMOID, false},
                {3, HALO_MOE_SOFTMAX, true}, /* softmax over the chosen experts */
                {4, HALO_MOE_SQRT_SOFTPLUS, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("dots1");
        halo_toy_set(toy, "expert_gating_func", HALO_GGUF_U32, rows[i].number);
        halo_toy_set(toy, "expert_weights_norm", HALO_GGUF_BOOL, 0);
        struct halo_model *model = halo_toy_accepted(toy);
        const struct halo_op *op = model->plan.ops;
        while (op->kind != HALO_OP_MOE_ROUTE)
            op++;
        assert_int_equal(op->u.moe_route.gate, rows[i].gate);
        assert_int_equal(op->u.moe_route.normalise, rows[i].normalise);
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

static void missing_keys(void **state)
{
    static const char *const keys[] = {"block_count",          "context_length",
                                       "embedding_length",     "feed_forward_length",
                                       "attention.head_count", "attention.layer_norm_rms_epsilon",
                                       "general.architecture"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_unset(toy, keys[i]);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, keys[i], "is missing");
        halo_toy_destroy(toy);
    }
}

/* A key of the wrong type is named, never converted. */
static void wrong_types(void **state)
{
    static const char *const counts[] = {"block_count", "attention.head_count", "rope.dimension_count",
                                         "context_length"};
    static const double list[] = {1e-5, 1e-5};
    struct halo_toy *toy;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        toy = halo_toy_create("llama");
        halo_toy_set_text(toy, counts[i], "2");
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, counts[i], NULL);
        halo_toy_set(toy, counts[i], HALO_GGUF_F32, 2);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, counts[i], NULL);
        halo_toy_set(toy, counts[i], HALO_GGUF_I32, -2);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, counts[i], NULL);
        halo_toy_destroy(toy);
    }
    toy = halo_toy_create("llama");
    halo_toy_set_array(toy, "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, 2, list);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "attention.layer_norm_rms_epsilon", NULL);
    halo_toy_set(toy, "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, 1e-5);
    halo_toy_set(toy, "rope.scaling.type", HALO_GGUF_U32, 1);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "rope.scaling.type", NULL);
    halo_toy_destroy(toy);
}

static void other_integer_types_are_read(void **state)
{
    static const enum halo_gguf_kind kinds[] = {HALO_GGUF_U8,  HALO_GGUF_I8,  HALO_GGUF_U16, HALO_GGUF_I16,
                                                HALO_GGUF_I32, HALO_GGUF_U64, HALO_GGUF_I64};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct halo_toy *toy = halo_toy_create("llama");
        struct halo_model *model;
        halo_toy_set(toy, "block_count", kinds[i], 2);
        halo_toy_set(toy, "attention.layer_norm_rms_epsilon", HALO_GGUF_F64, 1e-6);
        model = halo_toy_accepted(toy);
        assert_int_equal(model->hparams.n_layers, 2);
        assert_true(model->hparams.norm_eps == 1e-6f);
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

static void per_layer_arrays(void **state)
{
    static const double same[] = {2, 2, 2}, varied[] = {2, 4};
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model;

    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 2, same);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.n_head_kv, 2);
    halo_model_destroy(model);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_U32, 2, varied);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED,
                     "llama.attention.head_count_kv varies by layer (layer 0: 2, layer 1: 4)", NULL);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_U32, 3, same);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "llama.attention.head_count_kv has 3 entries for 2 layers", NULL);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_U32, 0, same);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "llama.attention.head_count_kv has 0 entries for 2 layers", NULL);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_F32, 2, same);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "llama.attention.head_count_kv must hold integers", NULL);
    halo_toy_set_array(toy, "block_count", HALO_GGUF_U32, 2, same);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "llama.block_count", NULL);
    halo_toy_destroy(toy);
}

static void defaults(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen2");
    struct halo_model *model;

    halo_toy_unset(toy, "attention.key_length");
    halo_toy_unset(toy, "attention.value_length");
    halo_toy_unset(toy, "rope.freq_base");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.attn_q.weight is [32, 64], should be [32, 32]",
                     NULL); /* 32 / 4 = 8 wide */
    halo_toy_set(toy, "attention.head_count", HALO_GGUF_U32, 2);
    halo_toy_set(toy, "embedding_length", HALO_GGUF_U32, 33);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "qwen2.attention.key_length is 0 by default", NULL);
    halo_toy_destroy(toy);

    toy = halo_toy_create("llama");
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.n_rot, 16); /* the whole head */
    assert_true(model->hparams.rope_base == 10000.0f);
    assert_int_equal(model->hparams.n_vocab, HALO_TOY_VOCAB);
    assert_int_equal(model->hparams.rope_original_context, 256);
    assert_int_equal(model->hparams.n_expert, 0);
    halo_model_destroy(model);
    halo_toy_unset(toy, "attention.head_count_kv"); /* then as many as query heads */
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.attn_k.weight is [32, 32], should be [32, 64]", NULL);
    halo_toy_destroy(toy);

    toy = halo_toy_create("qwen3moe");
    halo_toy_unset(toy, "expert_feed_forward_length");
    halo_toy_set(toy, "feed_forward_length", HALO_GGUF_U32, 128);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.n_ff_expert, 64); /* 128 shared by two experts */
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* A key that changes the computation and that the family does not implement is refused unless it changes nothing. */
static void foreign_mechanisms(void **state)
{
    static const struct {
        const char *key;
        double harmful, harmless;
    } rows[] = {
        {"attn_logit_softcapping", 50, 0},
        {"final_logit_softcapping", 30, 0},
        {"logit_scale", 0.5, 1},
        {"embedding_scale", 12, 1},
        {"residual_scale", 0.4, 1},
        {"attention.scale", 0.11, 0},
        {"attention.clamp_kqv", 8, 0},
        {"expert_shared_count", 1, 0},
        {"expert_gating_func", 2, 1},
        {"expert_weights_scale", 2.5, 1},
        {"leading_dense_block_count", 1, 0},
        {"nextn_predict_layers", 1, 0},
        {"rope.scaling.yarn_log_multiplier", 0.1, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3moe");
        halo_toy_set(toy, rows[i].key, HALO_GGUF_F32, rows[i].harmful);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, rows[i].key, "which is not supported for qwen3moe");
        halo_toy_set(toy, rows[i].key, HALO_GGUF_F32, rows[i].harmless);
        halo_model_destroy(halo_toy_accepted(toy));
        halo_toy_destroy(toy);
    }
}

/* A family that reads such a key in its table is not refused for it, and is for every other one. */
static void own_mechanism(void **state)
{
    static const struct halo_hparam with[] = {HALO_HPARAMS_COMMON,
                                              HALO_HPARAM_OR(REAL, "embedding_scale", rope_base, 1, 0, 100)};
    struct halo_toy *toy = halo_toy_create("qwen3");
    char path[] = "/tmp/halo-toy-XXXXXX";
    struct halo_hparams hparams;
    struct halo_gguf *gguf = NULL;
    struct halo_fault fault = {0};
    int fd = mkstemp(path);
    const size_t n_with = sizeof(with) / sizeof(with[0]);

    assert_true(fd >= 0);
    close(fd);
    halo_toy_set(toy, "embedding_scale", HALO_GGUF_F32, 12);
    halo_toy_write(toy, path);
    assert_int_equal(halo_gguf_open(&gguf, path, &fault), 0);
    assert_int_equal(halo_hparams_read(&hparams, gguf, "qwen3", with, n_with, 0, &fault), 0);
    assert_true(hparams.rope_base == 12);
    assert_true(halo_hparams_read(&hparams, gguf, "qwen3", with, n_with - 1, 0, &fault) < 0);
    assert_non_null(strstr(fault.text, "qwen3.embedding_scale is 12, which is not supported"));
    halo_gguf_close(gguf);
    halo_toy_set(toy, "residual_scale", HALO_GGUF_F32, 0.5);
    halo_toy_write(toy, path);
    assert_int_equal(halo_gguf_open(&gguf, path, &fault), 0);
    assert_true(halo_hparams_read(&hparams, gguf, "qwen3", with, n_with, 0, &fault) < 0);
    assert_non_null(strstr(fault.text, "qwen3.residual_scale is 0.5, which is not supported"));
    halo_gguf_close(gguf);
    unlink(path);
    halo_toy_destroy(toy);
}

static void not_causal(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");

    halo_toy_set(toy, "attention.causal", HALO_GGUF_BOOL, 0);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "llama.attention.causal is false", NULL);
    halo_toy_set(toy, "attention.causal", HALO_GGUF_BOOL, 1);
    halo_model_destroy(halo_toy_accepted(toy));
    halo_toy_destroy(toy);
}

/* A window at least as long as the context does nothing; a shorter one is refused with the context that works. */
static void window(void **state)
{
    struct halo_model_params params = {.context = 64};
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model = NULL;
    struct halo_fault fault;

    halo_toy_set(toy, "attention.sliding_window", HALO_GGUF_U32, 64);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "llama.attention.sliding_window is 64", "a context of at most 64");
    assert_int_equal(halo_toy_open(toy, &params, &model, &fault), 0);
    halo_model_destroy(model);
    halo_toy_set(toy, "attention.sliding_window", HALO_GGUF_U32, 256);
    halo_model_destroy(halo_toy_accepted(toy));
    halo_toy_destroy(toy);
}

static void scaling_types(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model;

    halo_toy_set_text(toy, "rope.scaling.type", "spiral");
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "llama.rope.scaling.type is not one of none, linear, yarn, longrope",
                     NULL);
    halo_toy_set_text(toy, "rope.scaling.type", "longrope");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "longrope, and its rope_factors tensors are missing", NULL);
    halo_toy_set_text(toy, "rope.scaling.type", "none");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 8);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.rope_scaling, HALO_ROPE_SCALING_NONE);
    halo_model_destroy(model);
    halo_toy_unset(toy, "rope.scaling.type"); /* a factor without a type is linear */
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.rope_scaling, HALO_ROPE_SCALING_LINEAR);
    halo_model_destroy(model);
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 0); /* not scaled */
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.rope_scaling, HALO_ROPE_SCALING_NONE);
    halo_model_destroy(model);
    halo_toy_unset(toy, "rope.scaling.factor"); /* the old spelling */
    halo_toy_set(toy, "rope.scale_linear", HALO_GGUF_F32, 4);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->hparams.rope_scaling, HALO_ROPE_SCALING_LINEAR);
    assert_true(model->hparams.rope_factor == 4);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* Layers without heads of K and V have a state; those with heads have them all alike. */
static void layers_without_attention(void **state)
{
    static const double none[] = {0, 0}, other[] = {4, 2};
    struct halo_toy *toy = halo_toy_create("lfm2moe");
    struct halo_model *model = halo_toy_accepted(toy);

    assert_int_equal(model->hparams.by_layer.n_head_kv[0], 0);
    assert_int_equal(model->hparams.by_layer.n_head_kv[1], 2);
    assert_int_equal(model->hparams.n_head_kv, 2);
    assert_int_equal(model->plan.n_kv_groups, 2);
    assert_int_equal(model->plan.kv[0].n_layers, 1);
    assert_int_equal(model->plan.kv[1].n_layers, 1);
    assert_int_equal(model->plan.kv[1].state_width, 2 * 32);
    halo_model_destroy(model);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 2, none);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "lfm2moe.attention.head_count_kv is 0, allowed are 1 to 1024", NULL);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 2, other);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "varies by layer (layer 0: 4, layer 1: 2)", NULL);
    halo_toy_destroy(toy);
    toy = halo_toy_create("lfm2moe");
    halo_toy_set(toy, "shortconv.l_cache", HALO_GGUF_U32, 9);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "lfm2moe.shortconv.l_cache is 9, allowed are 2 to 8", NULL);
    halo_toy_unset(toy, "shortconv.l_cache");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "lfm2moe.shortconv.l_cache is missing", NULL);
    halo_toy_destroy(toy);
}

/* Heads, windows and feed-forward that differ between layers. */
static const struct broken layered[] = {
    {"gemma4", "attention.key_length_swa", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.key_length_swa is 0, allowed are 1 to 1024"},
    {"gemma4", "attention.value_length_swa", HALO_GGUF_U32, 8, HALO_FAULT_UNSUPPORTED,
     "gemma4: heads of K of 16 and of V of 8 in layer 0 are not supported"},
    {"gemma4", "rope.dimension_count_swa", HALO_GGUF_U32, 18, HALO_FAULT_LOAD_FAILED,
     "gemma4: 18 rotated elements of 16 in layer 0"},
    {"gemma4", "attention.sliding_window", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.sliding_window is 0"},
    {"gemma4-moe", "expert_feed_forward_length", HALO_GGUF_U32, 0, HALO_FAULT_LOAD_FAILED,
     "gemma4.expert_feed_forward_length is 0 or missing with 4 experts"},
    {"gemma4-moe", "expert_used_count", HALO_GGUF_U32, 5, HALO_FAULT_LOAD_FAILED,
     "gemma4.expert_used_count is 5, must be 1 to expert_count 4"},
    {"gemma4-e", "attention.shared_kv_layers", HALO_GGUF_U32, 1, HALO_FAULT_LOAD_FAILED,
     "the last two before them must be one with a window and one without"},
    {"gemma4-e", "attention.shared_kv_layers", HALO_GGUF_U32, 4, HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.shared_kv_layers is 4 of 4 layers"},
    {"gemma4-e", "embedding_length_per_layer_input", HALO_GGUF_U32, 131073, HALO_FAULT_LOAD_FAILED,
     "gemma4.embedding_length_per_layer_input is 131073"},
    {"gemma4", "attention.sliding_window_pattern", HALO_GGUF_U32, 6, HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.sliding_window_pattern"},
};

static const struct {
    const char *key;
    enum halo_gguf_kind kind;
    uint64_t n;
    double numbers[4];
    enum halo_fault_code code;
    const char *fragment;
} layered_arrays[] = {
    {"attention.sliding_window_pattern",
     HALO_GGUF_BOOL,
     3,
     {1, 0, 1},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.sliding_window_pattern has 3 entries for 4 layers"},
    {"attention.sliding_window_pattern",
     HALO_GGUF_I32,
     4,
     {1, 0, 2, 0},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.sliding_window_pattern must hold booleans"},
    {"attention.sliding_window_pattern",
     HALO_GGUF_BOOL,
     4,
     {1, 1, 1, 1},
     HALO_FAULT_UNSUPPORTED,
     "every layer has a window"},
    {"attention.sliding_window_pattern",
     HALO_GGUF_BOOL,
     4,
     {0, 0, 0, 0},
     HALO_FAULT_UNSUPPORTED,
     "no layer has a window"},
    {"attention.head_count_kv",
     HALO_GGUF_I32,
     4,
     {2, 1, 1, 1},
     HALO_FAULT_UNSUPPORTED,
     "gemma4.attention.head_count_kv is 1 in layer 2 and 2 in another layer of its kind"},
    {"attention.head_count_kv",
     HALO_GGUF_I32,
     4,
     {2, 3, 2, 3},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.head_count 4 is not a multiple of head_count_kv 3 of layer 1"},
    {"attention.head_count_kv",
     HALO_GGUF_I32,
     4,
     {2, 0, 2, 0},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.head_count_kv is 0 in layer 1, allowed are 1 to 1024"},
    {"attention.head_count_kv",
     HALO_GGUF_I32,
     4,
     {2, -1, 2, -1},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.attention.head_count_kv is -1 in layer 1"},
    {"feed_forward_length",
     HALO_GGUF_I32,
     4,
     {64, 96, 128, 64},
     HALO_FAULT_UNSUPPORTED,
     "gemma4.feed_forward_length takes more than two values over the layers (64, 96, 128)"},
    {"feed_forward_length",
     HALO_GGUF_I32,
     2,
     {64, 96},
     HALO_FAULT_LOAD_FAILED,
     "gemma4.feed_forward_length has 2 entries for 4 layers"},
};

static void layers_that_differ(void **state)
{
    for (size_t i = 0; i < sizeof(layered) / sizeof(layered[0]); i++)
        broken_refused(&layered[i]);
    for (size_t i = 0; i < sizeof(layered_arrays) / sizeof(layered_arrays[0]); i++) {
        struct halo_toy *toy = halo_toy_create("gemma4-e");
        halo_toy_set_array(toy, layered_arrays[i].key, layered_arrays[i].kind, layered_arrays[i].n,
                           layered_arrays[i].numbers);
        halo_toy_refused(toy, layered_arrays[i].code, layered_arrays[i].fragment, NULL);
        halo_toy_destroy(toy);
    }
}

/* The last layer of each interval has attention; the heads of the delta rule fit each other. */
static void delta_rule(void **state)
{
    static const struct {
        const char *key;
        double value;
        const char *reason;
    } rows[] = {
        {"full_attention_interval", 3,
         "qwen35.full_attention_interval is 3: none of the 2 layers would have attention"},
        {"full_attention_interval", 0, "qwen35.full_attention_interval is 0, allowed are 1 to 512"},
        {"ssm.conv_kernel", 1, "qwen35.ssm.conv_kernel is 1, allowed are 2 to 8"},
        {"ssm.group_count", 3, "qwen35: an inner size of 32 in 4 heads over 3 groups"},
        {"ssm.inner_size", 30, "qwen35: an inner size of 30 in 4 heads over 2 groups"},
        {"ssm.inner_size", 8192, "qwen35: an inner size of 8192 in 4 heads over 2 groups"},
        {"ssm.state_size", 1025, "qwen35.ssm.state_size is 1025, allowed are 1 to 1024"},
        {"ssm.time_step_rank", 0, "qwen35.ssm.time_step_rank is 0, allowed are 1 to 1024"},
        {"attention.value_length", 8, "qwen35: a gate of heads of 16 does not fit values of 8"},
        {"nextn_predict_layers", 1, ": none of the 1 layers would have attention"},
    };
    struct halo_toy *toy = halo_toy_create("qwen35");
    struct halo_model *model = halo_toy_accepted(toy);

    assert_int_equal(model->hparams.by_layer.n_head_kv[0], 0);
    assert_int_equal(model->hparams.by_layer.n_head_kv[1], 2);
    assert_int_equal(model->plan.n_kv_groups, 2);
    assert_int_equal(model->plan.kv[0].n_layers, 1);
    assert_int_equal(model->plan.kv[1].state_width, 3 * 64 + 4 * 8 * 8);
    halo_model_destroy(model);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        halo_toy_destroy(toy);
        toy = halo_toy_create("qwen35");
        halo_toy_set(toy, rows[i].key, HALO_GGUF_U32, rows[i].value);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, rows[i].reason, NULL);
    }
    halo_toy_destroy(toy);
    toy = halo_toy_create("qwen3next");
    halo_toy_set(toy, "ssm.time_step_rank", HALO_GGUF_U32, 1024);
    halo_toy_set(toy, "ssm.inner_size", HALO_GGUF_U32, 1 << 20);
    halo_toy_set(toy, "ssm.state_size", HALO_GGUF_U32, 1024);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED,
                     "qwen3next: a state of 1048576 x 1024 is wider than the 16777216 that a layer may hold", NULL);
    halo_toy_destroy(toy);
}

/* Heads and groups of Mamba-2 divide, and a layer's state fits into a value. */
static void heads_of_mamba(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *text;
    } rows[] = {
        {"ssm.time_step_rank", 3, "granitehybrid: an inner size of 32 in 3 heads over 2 groups"},
        {"ssm.group_count", 3, "granitehybrid: an inner size of 32 in 4 heads over 3 groups"},
        {"ssm.inner_size", 33, "granitehybrid: an inner size of 33 in 4 heads over 2 groups"},
        {"ssm.conv_kernel", 1, "granitehybrid.ssm.conv_kernel is 1, allowed are 2 to 8"},
        {"ssm.state_size", 0, "granitehybrid.ssm.state_size is 0, allowed are 1 to 1024"},
    };
    static const double both[] = {2, 0, 2}, ff[] = {64, 64, 0}, wide[] = {0, 64, 0};
    struct halo_toy *toy;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        toy = halo_toy_create("granitehybrid");
        halo_toy_set(toy, rows[i].key, HALO_GGUF_U32, rows[i].value);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, rows[i].text, NULL);
        halo_toy_unset(toy, rows[i].key);
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, rows[i].key, "is missing");
        halo_toy_destroy(toy);
    }
    toy = halo_toy_create("granitehybrid");
    halo_toy_set(toy, "ssm.inner_size", HALO_GGUF_U32, 1 << 20);
    halo_toy_set(toy, "ssm.time_step_rank", HALO_GGUF_U32, 1024);
    halo_toy_set(toy, "ssm.state_size", HALO_GGUF_U32, 16);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "a state of 1048576 x 16 is wider than the 16777216", NULL);
    halo_toy_destroy(toy);
    toy = halo_toy_create("nemotron_h");
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 3, both);
    halo_toy_set_array(toy, "feed_forward_length", HALO_GGUF_I32, 3, ff);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "layer 0 has attention and a feed-forward", NULL);
    halo_toy_set_array(toy, "feed_forward_length", HALO_GGUF_I32, 2, wide);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "feed_forward_length has 2 entries for 3 layers", NULL);
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_mamba),
        cmocka_unit_test(layers_without_attention),
        cmocka_unit_test(layers_that_differ),
        cmocka_unit_test(delta_rule),
        cmocka_unit_test(numbers_out_of_bounds),
        cmocka_unit_test(mixtures_out_of_bounds),
        cmocka_unit_test(factors_and_windows_out_of_bounds),
        cmocka_unit_test(experts_too_wide),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(other_integer_types_are_read),
        cmocka_unit_test(per_layer_arrays),
        cmocka_unit_test(defaults),
        cmocka_unit_test(gates),
        cmocka_unit_test(foreign_mechanisms),
        cmocka_unit_test(own_mechanism),
        cmocka_unit_test(window),
        cmocka_unit_test(scaling_types),
        cmocka_unit_test(not_causal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
