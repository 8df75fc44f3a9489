/* test_arch_rope.c: rotary frequencies of the plan: base, partial rotation, factors, linear scaling, YaRN; and the
 * pairing of families. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "toy_model.h"

static void near(double is, double should)
{
    if (!(fabs(is / should - 1) < 1e-12))
        fail_msg("%.17g, should be %.17g", is, should);
}

static void plain(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model;

    halo_toy_set(toy, "rope.freq_base", HALO_GGUF_F32, 1e6);
    model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.n_ropes, 1);
    assert_int_equal(model->plan.ropes[0].n_rot, 16);
    assert_true(model->plan.ropes[0].scale == 1);
    for (int i = 0; i < 8; i++)
        near(model->plan.ropes[0].freqs[i], pow(1e6, -i / 8.0));
    halo_model_destroy(model);
    halo_toy_set(toy, "rope.dimension_count", HALO_GGUF_U32, 12); /* the exponent runs over the rotated part */
    model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.ropes[0].n_rot, 12);
    for (int i = 0; i < 6; i++)
        near(model->plan.ropes[0].freqs[i], pow(1e6, -i / 6.0));
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

static void pairings(void **state)
{
    static const struct {
        const char *family;
        enum halo_rope_pairing pairing;
    } rows[] = {{"bailingmoe2", HALO_ROPE_NEOX}, {"cohere2", HALO_ROPE_NORM},         {"deepseek2", HALO_ROPE_NORM},
                {"deepseek4", HALO_ROPE_NORM},   {"dots1", HALO_ROPE_NEOX},           {"ernie4_5-moe", HALO_ROPE_NORM},
                {"exaone4", HALO_ROPE_NEOX},     {"falcon-h1", HALO_ROPE_NEOX},       {"gemma2", HALO_ROPE_NEOX},
                {"gemma3", HALO_ROPE_NEOX},      {"gemma4", HALO_ROPE_NEOX},          {"gemma4-e", HALO_ROPE_NEOX},
                {"gemma4-moe", HALO_ROPE_NEOX},  {"glm4moe", HALO_ROPE_NEOX},         {"gpt-oss", HALO_ROPE_NEOX},
                {"granite", HALO_ROPE_NORM},     {"hunyuan-dense", HALO_ROPE_NEOX},   {"lfm2moe", HALO_ROPE_NEOX},
                {"llama", HALO_ROPE_NORM},       {"llama-moe", HALO_ROPE_NORM},       {"minimax-m2", HALO_ROPE_NEOX},
                {"mistral3", HALO_ROPE_NORM},    {"olmo2", HALO_ROPE_NEOX},           {"phi3", HALO_ROPE_NEOX},
                {"qwen2", HALO_ROPE_NEOX},       {"qwen2moe", HALO_ROPE_NEOX},        {"qwen3", HALO_ROPE_NEOX},
                {"qwen35", HALO_ROPE_NEOX},      {"qwen35moe", HALO_ROPE_NEOX},       {"qwen3moe", HALO_ROPE_NEOX},
                {"qwen3next", HALO_ROPE_NEOX},   {"qwen3next-early", HALO_ROPE_NEOX}, {"qwen3vl", HALO_ROPE_NEOX},
                {"seed_oss", HALO_ROPE_NEOX},    {"smollm3", HALO_ROPE_NORM},         {"starcoder2", HALO_ROPE_NEOX}};

    const size_t n_rows = sizeof(rows) / sizeof(rows[0]);
    uint32_t n_rotated = 0;

    for (uint32_t f = 0; halo_toy_family(f); f++) {
        struct halo_toy *toy = halo_toy_create(halo_toy_family(f));
        struct halo_model *model = halo_toy_accepted(toy);
        size_t i = 0;
        while (i < n_rows && strcmp(rows[i].family, halo_toy_family(f)) != 0)
            i++;
        if (i == n_rows && model->plan.n_ropes > 0)
            fail_msg("%s rotates and has no row", halo_toy_family(f));
        if (i < n_rows)
            assert_int_equal(model->plan.ropes[0].pairing, rows[i].pairing);
        n_rotated += i < n_rows;
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
    assert_int_equal(n_rotated, n_rows); /* each is a family */
}

static void factors(void **state)
{
    static const float good[8] = {1, 1, 1.5f, 2, 4, 8, 8, 8};
    static const float bad[][8] = {{1, 1, 0, 1, 1, 1, 1, 1},
                                   {1, 1, -2, 1, 1, 1, 1, 1},
                                   {1, 1, NAN, 1, 1, 1, 1, 1},
                                   {1, 1, INFINITY, 1, 1, 1, 1, 1}};
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model;

    halo_toy_add(toy, "rope_freqs.weight", HALO_TYPE_F32, 8, 0, 0);
    halo_toy_find(toy, "rope_freqs.weight")->values = good;
    model = halo_toy_accepted(toy);
    for (int i = 0; i < 8; i++)
        near(model->plan.ropes[0].freqs[i], pow(10000, -i / 8.0) / good[i]);
    for (uint32_t i = 0; i < model->plan.n_weights; i++) /* read by the host, no weight of the device */
        assert_string_not_equal(model->plan.weights[i].name, "rope_freqs.weight");
    halo_model_destroy(model);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        halo_toy_find(toy, "rope_freqs.weight")->values = bad[i];
        halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "rope_freqs.weight[2] is ", "must be a positive number");
    }
    halo_toy_find(toy, "rope_freqs.weight")->dims[0] = 16;
    halo_toy_find(toy, "rope_freqs.weight")->values = NULL;
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "rope_freqs.weight is [16], should be [8]", NULL);
    halo_toy_destroy(toy);
}

static void linear(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model;

    halo_toy_set_text(toy, "rope.scaling.type", "linear");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 4);
    halo_toy_set(toy, "rope.scaling.attn_factor", HALO_GGUF_F32, 1.25);
    model = halo_toy_accepted(toy);
    for (int i = 0; i < 8; i++)
        near(model->plan.ropes[0].freqs[i], pow(10000, -i / 8.0) / 4);
    assert_true(model->plan.ropes[0].scale == 1.25f);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* Worked by hand: 16 rotated, base 10000, original context 256. Turns within it: pair i turns 256 * 10000^(-i/8) / 2 pi
 * times, that is 40.74, 12.88, 4.07, 1.29, 0.41 ... So 32 turns lie at pair 0.2098 (down: 0) and 1 turn at 3.2198 (up:
 * 4): a ramp over pairs 0 to 4. */
static void yarn(void **state)
{
    static const double keep[8] = {1, 0.75, 0.5, 0.25, 0, 0, 0, 0};
    struct halo_toy *toy = halo_toy_create("qwen2");
    struct halo_model *model;

    halo_toy_set_text(toy, "rope.scaling.type", "yarn");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 8);
    halo_toy_set(toy, "rope.scaling.original_context_length", HALO_GGUF_U32, 256);
    model = halo_toy_accepted(toy);
    for (int i = 0; i < 8; i++) {
        double plain_freq = pow(10000, -i / 8.0);
        near(model->plan.ropes[0].freqs[i], plain_freq * keep[i] + plain_freq / 8 * (1 - keep[i]));
    }
    assert_true(fabsf(model->plan.ropes[0].scale - 1.2079442f) < 1e-6f); /* 1 + 0.1 ln 8 */
    halo_model_destroy(model);
    halo_toy_set(toy, "rope.scaling.yarn_beta_fast", HALO_GGUF_F32, 10); /* pair 1.2199, down: 1 */
    model = halo_toy_accepted(toy);
    near(model->plan.ropes[0].freqs[1], pow(10000, -1 / 8.0));
    near(model->plan.ropes[0].freqs[2], pow(10000, -2 / 8.0) * (2.0 / 3 + 1.0 / 3 / 8));
    halo_model_destroy(model);
    halo_toy_set(toy, "rope.scaling.yarn_ext_factor", HALO_GGUF_F32, 0); /* no blending: all divided, no scale */
    model = halo_toy_accepted(toy);
    near(model->plan.ropes[0].freqs[0], 1.0 / 8);
    assert_true(model->plan.ropes[0].scale == 1);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

static float scale_of(struct halo_toy *toy)
{
    struct halo_model *model = halo_toy_accepted(toy);
    float scale = model->plan.ropes[0].scale;
    halo_model_destroy(model);
    return scale;
}

/* A factor below 1 stretches nothing, so cos and sin are not scaled for it. */
static void yarn_below_one(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen2");
    halo_toy_set_text(toy, "rope.scaling.type", "yarn");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 0.5);
    assert_true(scale_of(toy) == 1);
    halo_toy_set(toy, "rope.scaling.yarn_attn_factor", HALO_GGUF_F32, 1.25);
    assert_true(scale_of(toy) == 1.25f);
    halo_toy_destroy(toy);
}

/* The file's yarn_attn_factor multiplies 1 + 0.1 ln s. DeepSeek-R1-0528-Qwen3-8B has s = 4 and 0.8782, one over the
 * other: its authors cancel the term. Such numbers are told, because engines differ in what they make of them. */
static void yarn_attn_factor(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model;
    halo_toy_set_text(toy, "rope.scaling.type", "yarn");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 4);
    model = halo_toy_accepted(toy);
    assert_true(fabsf(model->plan.ropes[0].scale - 1.1386294f) < 1e-6f);
    assert_int_equal(model->remarks.n, 0);
    halo_model_destroy(model);
    halo_toy_set(toy, "rope.scaling.yarn_attn_factor", HALO_GGUF_F32, 0.8782488562869419);
    halo_toy_set(toy, "rope.scaling.yarn_beta_slow", HALO_GGUF_F32, 2);
    model = halo_toy_accepted(toy);
    assert_true(fabsf(model->plan.ropes[0].scale - 1) < 1e-6f);
    assert_int_equal(model->remarks.n, 2);
    assert_string_equal(model->remarks.text[0],
                        "qwen3.rope.scaling.yarn_attn_factor: 0.878249 is applied; engines that "
                        "ignore the key compute other logits");
    assert_string_equal(model->remarks.text[1], "qwen3.rope.scaling.yarn_beta_slow: 2 is applied; engines that ignore "
                                                "the key compute other logits");
    halo_model_destroy(model);
    halo_toy_set_text(toy, "rope.scaling.type", "linear"); /* then the keys mean nothing */
    model = halo_toy_accepted(toy);
    assert_int_equal(model->remarks.n, 0);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* Factors of short and long contexts, by the context that is asked for. */
static void longrope(void **state)
{
    static const float near_by[8] = {1, 1, 1, 2, 2, 2, 2, 2}, far_off[8] = {4, 4, 4, 4, 8, 8, 8, 8};
    struct halo_toy *toy = halo_toy_create("phi3");

    halo_toy_add(toy, "rope_factors_short.weight", HALO_TYPE_F32, 8, 0, 0);
    halo_toy_add(toy, "rope_factors_long.weight", HALO_TYPE_F32, 8, 0, 0);
    halo_toy_find(toy, "rope_factors_short.weight")->values = near_by;
    halo_toy_find(toy, "rope_factors_long.weight")->values = far_off;
    halo_toy_set_text(toy, "rope.scaling.type", "longrope");
    halo_toy_set(toy, "rope.scaling.attn_factor", HALO_GGUF_F32, 1.25);
    for (uint32_t original = 255; original <= 256; original++) { /* the context is 256 */
        const float *factors = original < 256 ? far_off : near_by;
        halo_toy_set(toy, "rope.scaling.original_context_length", HALO_GGUF_U32, original);
        struct halo_model *model = halo_toy_accepted(toy);
        assert_true(model->plan.ropes[0].scale == 1.25f);
        for (int i = 0; i < 8; i++)
            near(model->plan.ropes[0].freqs[i], pow(10000, -i / 8.0) / (double)factors[i]);
        halo_model_destroy(model);
    }
    halo_toy_destroy(toy);
}

/* Layers with a window turn by a base of their own, which the scaling leaves alone. */
static void local_base(void **state)
{
    struct halo_toy *toy = halo_toy_create("gemma3");

    halo_toy_set(toy, "rope.freq_base", HALO_GGUF_F32, 1e6);
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 8);
    struct halo_model *model = halo_toy_accepted(toy);
    assert_int_equal(model->plan.n_ropes, 2);
    for (int i = 0; i < 8; i++) {
        near(model->plan.ropes[0].freqs[i], pow(1e6, -i / 8.0) / 8);
        near(model->plan.ropes[1].freqs[i], pow(1e4, -i / 8.0));
    }
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* A log multiplier of 1 leaves cos and sin as they are; one of 0.5 half as much as without. */
static void yarn_log_multiplier(void **state)
{
    struct halo_toy *toy = halo_toy_create("mistral3");

    halo_toy_set_text(toy, "rope.scaling.type", "yarn");
    halo_toy_set(toy, "rope.scaling.factor", HALO_GGUF_F32, 16);
    for (int m = 0; m <= 2; m++) {
        halo_toy_set(toy, "rope.scaling.yarn_log_multiplier", HALO_GGUF_F32, m / 2.0);
        struct halo_model *model = halo_toy_accepted(toy);
        double scale = (1 + 0.1 * log(16)) / (1 + 0.1 * m / 2.0 * log(16));
        assert_true(fabs((double)model->plan.ropes[0].scale - scale) < 1e-6);
        halo_model_destroy(model);
    }
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(pairings),
        cmocka_unit_test(longrope),
        cmocka_unit_test(local_base),
        cmocka_unit_test(yarn_log_multiplier),
        cmocka_unit_test(factors),
        cmocka_unit_test(linear),
        cmocka_unit_test(yarn),
        cmocka_unit_test(yarn_below_one),
        cmocka_unit_test(yarn_attn_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
