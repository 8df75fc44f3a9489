/* test_bind.c: the binder names every missing, misshapen and foreign tensor. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "toy_model.h"

#define FF 64

/* Each tensor of each family in turn: without it, and transposed or longer, the file is refused by name. */
static void each_tensor_missing_or_misshapen(void **state)
{
    unsigned n_tried = 0;

    for (uint32_t f = 0; halo_toy_family(f); f++) {
        struct halo_toy *whole = halo_toy_create(halo_toy_family(f));
        for (uint32_t i = 0; i < whole->n_tensors; i++) {
            struct halo_toy *toy = halo_toy_create(halo_toy_family(f));
            struct halo_toy_tensor *tensor = &toy->tensors[i];
            char name[64];
            memcpy(name, tensor->name, sizeof(name));
            tensor->dims[0] += 32;
            tensor->values = NULL; /* there are not so many */
            halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, name,
                             strcmp(name, "token_embd.weight") == 0 ? "[64, 16]" : "should be");
            halo_toy_remove(toy, name);
            bool early = strcmp(halo_toy_family(f), "qwen3next-early") == 0 && strcmp(name, "blk.0.ssm_in.weight") == 0;
            halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, early ? "blk.0.attn_qkv.weight" : name, "is missing");
            halo_toy_destroy(toy);
            n_tried++;
        }
        halo_toy_destroy(whole);
    }
    assert_true(n_tried > 400);
}

static void vectors_are_f32(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");

    halo_toy_find(toy, "blk.1.attn_k_norm.weight")->type = HALO_TYPE_F16;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.1.attn_k_norm.weight is F16, should be F32", NULL);
    halo_toy_destroy(toy);
}

static void several_faults_in_one_sentence(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");

    halo_toy_remove(toy, "blk.0.ffn_up.weight");
    halo_toy_find(toy, "blk.1.attn_q.weight")->dims[1] = 65;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED,
                     "2 tensors do not fit a llama model: blk.1.attn_q.weight is [32, 65], should be [32, 64]",
                     "; blk.0.ffn_up.weight is missing");
    /* All the others too: a count of those not told. */
    for (uint32_t i = 0; i < toy->n_tensors; i++)
        toy->tensors[i].dims[0] += 32;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED,
                     "20 tensors do not fit a llama model: token_embd.weight is [64, 16], should be [32, 16]", " more");
    halo_toy_destroy(toy);
}

/* Passing over a tensor that the family does not use would change the result in silence. */
static void foreign_tensors(void **state)
{
    static const char *const foreign[] = {"blk.0.attn_q.bias", "blk.2.attn_q.weight",          "blk.00.attn_q.weight",
                                          "blk.0.attn_sinks",  "blk.4294967296.attn_q.weight", "blk..attn_q.weight",
                                          "output.bias",       "blk.0.ffn_up_exps.scale",      "blk.0.attn_norm.scale",
                                          "blk.2.ffn_up.scale"};

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_add(toy, foreign[i], HALO_TYPE_F32, 64, 0, 0);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "1 tensor of the file is no part of a qwen3 model", foreign[i]);
        halo_toy_add(toy, "another", HALO_TYPE_F32, 64, 0, 0);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED,
                         "2 tensors of the file are no part of a qwen3 model (first: ", foreign[i]);
        halo_toy_destroy(toy);
    }
}

/* Layers that read the K and V of others may have matrices of their own, which nothing reads. */
static void tensors_for_nothing(void **state)
{
    struct halo_toy *toy = halo_toy_create("gemma4-e");
    struct halo_model *model = halo_toy_accepted(toy);
    uint32_t n_weights = model->plan.n_weights;

    halo_model_destroy(model);
    halo_toy_add(toy, "blk.2.attn_k.weight", HALO_TYPE_F16, 32, 32, 0);
    halo_toy_add(toy, "blk.2.attn_v.weight", HALO_TYPE_F16, 32, 32, 0);
    halo_toy_add(toy, "blk.2.attn_k_norm.weight", HALO_TYPE_F32, 16, 0, 0);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.n_weights, n_weights);
    halo_model_destroy(model);
    halo_toy_add(toy, "blk.4.attn_k.weight", HALO_TYPE_F16, 32, 32, 0);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "blk.4.attn_k.weight", NULL);
    halo_toy_destroy(toy);
}

/* The factor behind a layer is read when the plan is made. */
static void factors_of_layers(void **state)
{
    static const float numbers[] = {0.25f, 0, INFINITY};
    struct halo_toy *toy = halo_toy_create("gemma4");

    halo_toy_find(toy, "blk.0.layer_output_scale.weight")->values = &numbers[0];
    struct halo_model *model = halo_toy_accepted(toy);
    unsigned n_scaled = 0;
    for (uint32_t i = 0; i < model->plan.n_ops; i++)
        if (model->plan.ops[i].kind == HALO_OP_RMSNORM && model->plan.ops[i].u.rmsnorm.x_scale != 0) {
            assert_int_equal(model->plan.ops[i].layer, 1); /* where the next layer begins */
            assert_true(model->plan.ops[i].u.rmsnorm.x_scale == 0.25f);
            n_scaled++;
        }
    assert_int_equal(n_scaled, 1);
    halo_model_destroy(model);
    for (size_t i = 1; i < 3; i++) {
        halo_toy_find(toy, "blk.1.layer_output_scale.weight")->values = &numbers[i];
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.1.layer_output_scale.weight is ",
                         "must be a finite number other than 0");
    }
    halo_toy_destroy(toy);
}

/* Factors beside a matrix: one, or one for each expert. */
static void scales_of_matrices(void **state)
{
    static const float factors[] = {0.5f, 2, 3, -1};
    struct halo_toy *toy = halo_toy_create("qwen3moe");

    halo_toy_add(toy, "token_embd.scale", HALO_TYPE_F32, 1, 0, 0);
    halo_toy_add(toy, "blk.0.ffn_up_exps.scale", HALO_TYPE_F32, 4, 0, 0);
    halo_toy_add(toy, "blk.1.ffn_up_exps.scale", HALO_TYPE_F32, 1, 0, 0);
    halo_toy_add(toy, "blk.1.attn_q.scale", HALO_TYPE_F32, 1, 0, 0);
    halo_toy_add(toy, "blk.1.attn_q.input_scale", HALO_TYPE_F32, 1, 0, 0);
    for (const char *const *name = (const char *const[]){"token_embd.scale", "blk.0.ffn_up_exps.scale",
                                                         "blk.1.ffn_up_exps.scale", "blk.1.attn_q.scale", NULL};
         *name; name++)
        halo_toy_find(toy, *name)->values = factors;
    struct halo_model *model = halo_toy_accepted(toy);
    unsigned n_scaled = 0;
    for (uint32_t i = 0; i < model->plan.n_weights; i++) {
        const struct halo_weight *weight = &model->plan.weights[i];
        n_scaled += weight->scales != NULL;
        for (uint32_t e = 0; weight->scales && e < weight->n_experts; e++)
            assert_true(weight->scales[e] ==
                        (strcmp(weight->name, "blk.0.ffn_up_exps.weight") == 0 ? factors[e] : 0.5f));
    }
    assert_int_equal(n_scaled, 4);
    halo_model_destroy(model);
    halo_toy_find(toy, "blk.0.ffn_up_exps.scale")->dims[0] = 3;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.ffn_up_exps.scale is [3], should be [4]", NULL);
    halo_toy_find(toy, "blk.0.ffn_up_exps.scale")->dims[0] = 4;
    halo_toy_find(toy, "token_embd.scale")->type = HALO_TYPE_F16;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "token_embd.scale is F16, should be F32", NULL);
    halo_toy_destroy(toy);
}

/* Experts in a dense layer, and a dense feed-forward in a layer with experts. */
static void tensors_of_other_layers(void **state)
{
    static const char *const foreign[] = {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up_shexp.weight",
                                          "blk.1.ffn_gate.weight"};

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        struct halo_toy *toy = halo_toy_create("glm4moe");
        halo_toy_add(toy, foreign[i], HALO_TYPE_F32, 32, 4, 0);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "1 tensor of the file is no part of a glm4moe model", foreign[i]);
        halo_toy_destroy(toy);
    }
}

/* Layers for multi-token prediction stand behind the others, are left out of the plan and named. */
static void layers_left_out_of(const char *family)
{
    struct halo_toy *toy = halo_toy_create(family);
    struct halo_model *model = halo_toy_accepted(toy);
    uint32_t n_weights = model->plan.n_weights, n_layers = model->plan.kv[0].n_layers;
    uint64_t n_params = model->n_params;

    assert_int_equal(model->remarks.n, 0);
    halo_model_destroy(model);
    halo_toy_set(toy, "block_count", HALO_GGUF_U32, 3);
    halo_toy_set(toy, "nextn_predict_layers", HALO_GGUF_U32, 1);
    halo_toy_add(toy, "blk.2.attn_q.weight", HALO_TYPE_F32, 32, 64, 0);
    halo_toy_add(toy, "blk.2.nextn.eh_proj.weight", HALO_TYPE_F32, 64, 32, 0);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.n_weights, n_weights);
    assert_int_equal(model->n_params, n_params + 2 * 32 * 64); /* those of the file, as `models` counts them */
    assert_int_equal(model->plan.kv[0].n_layers, n_layers);
    assert_int_equal(model->remarks.n, 1);
    assert_string_equal(model->remarks.text[0], "layer 2 predicts a further token (nextn) and is left out");
    halo_model_destroy(model);
    halo_toy_set(toy, "block_count", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "nextn_predict_layers", HALO_GGUF_U32, 2);
    model = halo_toy_accepted(toy);
    assert_string_equal(model->remarks.text[0], "layers 2 to 3 predict further tokens (nextn) and are left out");
    halo_model_destroy(model);
    halo_toy_add(toy, "blk.4.attn_q.weight", HALO_TYPE_F32, 32, 64, 0);
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "1 tensor of the file is no part of a", "blk.4.attn_q.weight");
    halo_toy_destroy(toy);
}

static void layers_left_out(void **state)
{
    static const char *const families[] = {"glm4moe", "qwen35", "qwen35moe", "qwen3next"};

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        layers_left_out_of(families[i]);
}

/* Early qwen3next files: one tensor instead of two, neither beside them nor without any. */
static void one_tensor_instead_of_two(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3next-early");

    halo_model_destroy(halo_toy_accepted(toy));
    halo_toy_add(toy, "blk.0.attn_gate.weight", HALO_TYPE_F16, 32, 32, 0);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED,
                     "blk.0.attn_gate.weight appears twice: blk.0.ssm_in.weight contains it too", NULL);
    halo_toy_remove(toy, "blk.0.attn_gate.weight");
    halo_toy_remove(toy, "blk.0.ssm_in.weight");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.attn_qkv.weight is missing",
                     "blk.0.attn_gate.weight is missing");
    halo_toy_add(toy, "blk.0.ssm_in.weight", HALO_TYPE_F16, 32, 95, 0);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.ssm_in.weight is [32, 95], should be [32, 96]", NULL);
    halo_toy_destroy(toy);
}

static void tensors_that_carry_nothing(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");

    halo_toy_add(toy, "blk.0.attn_rot_embd.weight", HALO_TYPE_F32, 8, 0, 0);
    halo_model_destroy(halo_toy_accepted(toy));
    halo_toy_destroy(toy);
}

/* Tensors that a llama file may have: each is used when it is there. */
static void optional_tensors(void **state)
{
    static const struct {
        const char *name;
        uint64_t d0, d1;
    } rows[] = {
        {"output.weight", 32, 16},    {"blk.0.attn_q.bias", 64, 0},      {"blk.1.attn_k.bias", 32, 0},
        {"blk.0.attn_v.bias", 32, 0}, {"blk.1.attn_output.bias", 32, 0}, {"blk.0.ffn_gate.bias", FF, 0},
        {"blk.1.ffn_up.bias", FF, 0}, {"blk.0.ffn_down.bias", 32, 0},
    };
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model = halo_toy_accepted(toy);
    uint32_t n_weights = model->plan.n_weights;

    halo_model_destroy(model);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool found = false;
        halo_toy_add(toy, rows[i].name, HALO_TYPE_F32, rows[i].d0, rows[i].d1, 0);
        model = halo_toy_accepted(toy);
        assert_int_equal(model->plan.n_weights, n_weights + i + 1);
        for (uint32_t k = 0; k < model->plan.n_weights; k++)
            found = found || strcmp(model->plan.weights[k].name, rows[i].name) == 0;
        assert_true(found);
        halo_model_destroy(model);
    }
    halo_toy_find(toy, "output.weight")->dims[1] = 17;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "output.weight is [32, 17], should be [32, 16]", NULL);
    halo_toy_destroy(toy);
}

/* The head of some qwen2 files has a bias. */
static void head_bias(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen2");
    struct halo_model *model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.ops[model->plan.n_ops - 1].u.logits.bias, HALO_WEIGHT_NONE);
    halo_model_destroy(model);
    halo_toy_add(toy, "output.bias", HALO_TYPE_F32, 16, 0, 0);
    model = halo_toy_accepted(toy);
    uint32_t bias = model->plan.ops[model->plan.n_ops - 1].u.logits.bias;
    assert_string_equal(model->plan.weights[bias].name, "output.bias");
    halo_model_destroy(model);
    halo_toy_find(toy, "output.bias")->dims[0] = 17;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "output.bias is [17], should be [16]", NULL);
    halo_toy_destroy(toy);
}

/* The bytes of a weight as the file has them. */
static void weight_read(const char *path, const struct halo_weight *weight, float *ret)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)weight->offset, SEEK_SET), 0);
    assert_int_equal(fread(ret, 1, weight->n_bytes, file), weight->n_bytes);
    fclose(file);
}

static const struct halo_weight *weight_named(const struct halo_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->plan.n_weights; i++)
        if (strcmp(model->plan.weights[i].name, name) == 0)
            return &model->plan.weights[i];
    fail_msg("no weight %s", name);
    return NULL;
}

/* Q, K and V as rows of one tensor: the plan has three weights all the same, each at its rows. */
static void fused_attention(void **state)
{
    enum { WIDTH = 32, Q = 64, K = 32, ALL = Q + K + K };
    static const struct {
        const char *name;
        uint32_t first, n;
    } parts[] = {{":q", 0, Q}, {":k", Q, K}, {":v", Q + K, K}};
    static float matrix[ALL * WIDTH], bias[ALL], got[ALL * WIDTH];
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model;
    struct halo_fault fault = {0};
    char path[] = "/tmp/halo-toy-XXXXXX", name[64];
    int fd = mkstemp(path);

    for (uint32_t i = 0; i < ALL * WIDTH; i++)
        matrix[i] = (float)i;
    for (uint32_t i = 0; i < ALL; i++)
        bias[i] = (float)i / 2;
    halo_toy_remove(toy, "blk.0.attn_q.weight");
    halo_toy_remove(toy, "blk.0.attn_k.weight");
    halo_toy_remove(toy, "blk.0.attn_v.weight");
    halo_toy_add(toy, "blk.0.attn_qkv.weight", HALO_TYPE_F32, WIDTH, ALL, 0);
    halo_toy_find(toy, "blk.0.attn_qkv.weight")->values = matrix;
    halo_toy_add(toy, "blk.0.attn_qkv.bias", HALO_TYPE_F32, ALL, 0, 0);
    halo_toy_find(toy, "blk.0.attn_qkv.bias")->values = bias;
    assert_true(fd >= 0);
    close(fd);
    halo_toy_write(toy, path);
    if (halo_model_create(&model, path, NULL, &fault) < 0)
        fail_msg("%s", fault.text);
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "blk.0.attn_qkv.weight%s", parts[i].name);
        const struct halo_weight *weight = weight_named(model, name);
        assert_int_equal(weight->n_cols, WIDTH);
        assert_int_equal(weight->n_rows, parts[i].n);
        weight_read(path, weight, got);
        assert_memory_equal(got, matrix + parts[i].first * WIDTH, parts[i].n * WIDTH * sizeof(float));
        snprintf(name, sizeof(name), "blk.0.attn_qkv.bias%s", parts[i].name);
        weight = weight_named(model, name);
        assert_int_equal(weight->n_bytes, parts[i].n * sizeof(float));
        weight_read(path, weight, got);
        assert_memory_equal(got, bias + parts[i].first, parts[i].n * sizeof(float));
    }
    assert_string_equal(weight_named(model, "blk.1.attn_q.weight")->name, "blk.1.attn_q.weight"); /* layer by layer */
    halo_model_destroy(model);
    unlink(path);
    halo_toy_add(toy, "blk.0.attn_k.weight", HALO_TYPE_F32, WIDTH, K, 0);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED,
                     "blk.0.attn_k.weight appears twice: blk.0.attn_qkv.weight contains it too", NULL);
    halo_toy_remove(toy, "blk.0.attn_k.weight");
    halo_toy_find(toy, "blk.0.attn_qkv.weight")->dims[1] = ALL + 1;
    halo_toy_find(toy, "blk.0.attn_qkv.weight")->values = NULL; /* there are none for the new row */
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.0.attn_qkv.weight is [32, 129], should be [32, 128]", NULL);
    halo_toy_destroy(toy);
}

static void no_embedding(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");

    halo_toy_set(toy, "vocab_size", HALO_GGUF_U32, 16);
    halo_toy_remove(toy, "token_embd.weight");
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "token_embd.weight is missing", NULL);
    halo_toy_destroy(toy);
}

/* A thousand foreign tensors in a file of the most layers: the check must not be quadratic in a way that a person
 * notices. */
static void many_tensors(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");
    char name[64];

    for (unsigned i = 0; toy->n_tensors < HALO_TOY_TENSORS; i++) {
        snprintf(name, sizeof(name), "blk.%u.attn_q.weight", i + 2);
        halo_toy_add(toy, name, HALO_TYPE_F16, 32, 64, 0);
    }
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "tensors of the file are no part", "first: blk.2.attn_q.weight");
    halo_toy_set(toy, "block_count", HALO_GGUF_U32, 512);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.2.attn_norm.weight is missing", "more");
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tensor_missing_or_misshapen),
        cmocka_unit_test(vectors_are_f32),
        cmocka_unit_test(several_faults_in_one_sentence),
        cmocka_unit_test(foreign_tensors),
        cmocka_unit_test(tensors_for_nothing),
        cmocka_unit_test(factors_of_layers),
        cmocka_unit_test(scales_of_matrices),
        cmocka_unit_test(tensors_of_other_layers),
        cmocka_unit_test(layers_left_out),
        cmocka_unit_test(one_tensor_instead_of_two),
        cmocka_unit_test(tensors_that_carry_nothing),
        cmocka_unit_test(optional_tensors),
        cmocka_unit_test(head_bias),
        cmocka_unit_test(fused_attention),
        cmocka_unit_test(no_embedding),
        cmocka_unit_test(many_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
