/* mkgguf_shape.c: the size presets and type mixtures that mkgguf knows. Shapes are those of the published models. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <kernels/tensor.h>

#include "mkgguf.h"

static const char *const families[] = {
    [MKGGUF_LLAMA] = "llama",           [MKGGUF_QWEN2] = "qwen2",         [MKGGUF_QWEN3] = "qwen3",
    [MKGGUF_QWEN3MOE] = "qwen3moe",     [MKGGUF_GPT_OSS] = "gpt-oss",     [MKGGUF_GLM4MOE] = "glm4moe",
    [MKGGUF_MINIMAX_M2] = "minimax-m2", [MKGGUF_DEEPSEEK2] = "deepseek2", [MKGGUF_NEMOTRON_H_MOE] = "nemotron_h_moe",
    [MKGGUF_QWEN35] = "qwen35",         [MKGGUF_QWEN35MOE] = "qwen35moe", [MKGGUF_QWEN3NEXT] = "qwen3next",
    [MKGGUF_GEMMA4] = "gemma4",         [MKGGUF_LFM2MOE] = "lfm2moe",     [MKGGUF_GRANITEHYBRID] = "granitehybrid",
    [MKGGUF_FALCON_H1] = "falcon-h1",   [MKGGUF_DEEPSEEK4] = "deepseek4",
};

static const struct mkgguf_shape presets[] = {
    {"toy", MKGGUF_QWEN3, 2, 256, 4, 2, 64, 512, 8, 2, 256, 1024, 2048, 10000, .tied = true, .rope_factors = true},
    {"qwen3-0.6b", MKGGUF_QWEN3, 28, 1024, 16, 8, 128, 3072, 0, 0, 0, 151936, 40960, 1e6f, .tied = true},
    {"qwen3-1.7b", MKGGUF_QWEN3, 28, 2048, 16, 8, 128, 6144, 0, 0, 0, 151936, 40960, 1e6f, .tied = true},
    {"qwen3-4b", MKGGUF_QWEN3, 36, 2560, 32, 8, 128, 9728, 0, 0, 0, 151936, 40960, 1e6f, .tied = true},
    {"qwen3-8b", MKGGUF_QWEN3, 36, 4096, 32, 8, 128, 12288, 0, 0, 0, 151936, 40960, 1e6f},
    {"qwen3-30b-a3b", MKGGUF_QWEN3MOE, 48, 2048, 32, 4, 128, 6144, 128, 8, 768, 151936, 40960, 1e6f},
    /* The sizes of qwen3-30b-a3b with a family whose routers have biases, which make some experts popular. */
    {"zipf-30b-a3b", MKGGUF_MINIMAX_M2, 48, 2048, 32, 4, 128, 768, 128, 8, 768, 151936, 40960, 1e6f, .n_rot = 64,
     .zipf = true},
    {"qwen3-235b-a22b", MKGGUF_QWEN3MOE, 94, 4096, 64, 4, 128, 12288, 128, 8, 1536, 151936, 40960, 1e6f},
    /* The widths of a published 26B-A4B mixture, with the graph of qwen3moe. */
    {"moe-26b-a4b", MKGGUF_QWEN3MOE, 30, 2816, 16, 8, 256, 2112, 128, 8, 704, 262144, 131072, 1e6f, .tied = true},
    {"gpt-oss-20b", MKGGUF_GPT_OSS, 24, 2880, 64, 8, 64, 2880, 32, 4, 2880, 201088, 131072, 150000},
    {"gpt-oss-120b", MKGGUF_GPT_OSS, 36, 2880, 64, 8, 64, 2880, 128, 4, 2880, 201088, 131072, 150000},
    {"glm-4.5-air", MKGGUF_GLM4MOE, 46, 4096, 96, 8, 128, 10944, 128, 8, 1408, 151552, 131072, 1e6f, .n_dense = 1,
     .n_shared = 1, .n_rot = 64, .expert_scale = 1},
    {"glm-4.7-flash",
     MKGGUF_DEEPSEEK2,
     47,
     2048,
     20,
     1,
     256,
     10240,
     64,
     4,
     1536,
     154880,
     202752,
     1e6f,
     .n_dense = 1,
     .n_shared = 1,
     .n_rot = 64,
     .q_lora = 768,
     .kv_lora = 512,
     .head_dim_v = 256,
     .expert_scale = 1.8f},
    {"minimax-m2", MKGGUF_MINIMAX_M2, 62, 3072, 48, 8, 128, 1536, 256, 8, 1536, 200064, 196608, 5e6f, .n_rot = 64},
    {"nemotron-3-nano",
     MKGGUF_NEMOTRON_H_MOE,
     52,
     2688,
     32,
     2,
     128,
     1856,
     128,
     6,
     1856,
     131072,
     262144,
     10000,
     .n_shared = 1,
     .expert_scale = 2.5f,
     .layers = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
     .n_conv = 4,
     .ssm_inner = 4096,
     .ssm_state = 128,
     .ssm_heads = 64,
     .ssm_groups = 8,
     .n_ff_shared = 3712},
    {"qwen3.6-27b",
     MKGGUF_QWEN35,
     64,
     5120,
     24,
     4,
     256,
     17408,
     0,
     0,
     0,
     248320,
     262144,
     1e7f,
     .n_rot = 64,
     .n_conv = 4,
     .ssm_inner = 6144,
     .ssm_state = 128,
     .ssm_heads = 48,
     .ssm_groups = 16,
     .interval = 4},
    {"qwen3.6-35b-a3b",
     MKGGUF_QWEN35MOE,
     40,
     2048,
     16,
     2,
     256,
     512,
     256,
     8,
     512,
     248320,
     262144,
     1e7f,
     .n_rot = 64,
     .n_conv = 4,
     .ssm_inner = 4096,
     .ssm_state = 128,
     .ssm_heads = 32,
     .ssm_groups = 16,
     .interval = 4,
     .n_ff_shared = 512},
    {"qwen3-coder-next-80b",
     MKGGUF_QWEN3NEXT,
     48,
     2048,
     16,
     2,
     256,
     5120,
     512,
     10,
     512,
     151936,
     262144,
     5e6f,
     .n_rot = 64,
     .n_conv = 4,
     .ssm_inner = 4096,
     .ssm_state = 128,
     .ssm_heads = 32,
     .ssm_groups = 16,
     .interval = 4,
     .n_ff_shared = 512},
    {"gemma4-26b-a4b",
     MKGGUF_GEMMA4,
     30,
     2816,
     16,
     8,
     256,
     2112,
     128,
     8,
     704,
     262144,
     262144,
     1e6f,
     .tied = true,
     .rope_factors = true,
     .window = 1024,
     .interval = 6,
     .n_head_kv_global = 2,
     .head_dim_global = 512},
    {"gemma4-31b",
     MKGGUF_GEMMA4,
     60,
     5376,
     32,
     16,
     256,
     21504,
     0,
     0,
     0,
     262144,
     262144,
     1e6f,
     .tied = true,
     .rope_factors = true,
     .window = 1024,
     .interval = 6,
     .n_head_kv_global = 4,
     .head_dim_global = 512},
    {"lfm2-8b-a1b", MKGGUF_LFM2MOE, 24, 2048, 32, 8, 64, 7168, 32, 4, 1792, 65536, 128000, 1e6f, .tied = true,
     .n_dense = 2, .layers = "CC*CCC*CCC*CCC*CCC*CC*CC", .n_conv = 3},
    {"granite-4.0-h-small",
     MKGGUF_GRANITEHYBRID,
     40,
     4096,
     32,
     8,
     128,
     768,
     72,
     10,
     768,
     100352,
     131072,
     10000,
     .tied = true,
     .layers = "MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM",
     .n_conv = 4,
     .ssm_inner = 8192,
     .ssm_state = 128,
     .ssm_heads = 128,
     .ssm_groups = 1,
     .n_ff_shared = 1536,
     .embed_scale = 12,
     .residual_scale = 0.22f,
     .attention_scale = 0.0078125f,
     .logit_scale = 16},
    {"falcon-h1-7b", MKGGUF_FALCON_H1, 44, 3072, 12, 2, 128, 12288, 0, 0, 0, 130048, 262144, 1e11f, .n_conv = 4,
     .ssm_inner = 3072, .ssm_state = 256, .ssm_heads = 24, .ssm_groups = 1},
    {"deepseek-v4-flash",
     MKGGUF_DEEPSEEK4,
     43,
     4096,
     64,
     1,
     512,
     2048,
     256,
     6,
     2048,
     129280,
     1048576,
     10000,
     .n_shared = 1,
     .n_rot = 64,
     .q_lora = 1024,
     .expert_scale = 1.5f,
     .window = 128,
     .n_streams = 4,
     .n_out_groups = 8,
     .out_lora = 1024,
     .indexer_heads = 64,
     .indexer_dim = 128,
     .indexer_top_k = 512,
     .n_hash = 3},
    {"llama-1b", MKGGUF_LLAMA, 16, 2048, 32, 8, 64, 8192, 0, 0, 0, 128256, 131072, 5e5f, .tied = true,
     .rope_factors = true},
    {"llama-8b", MKGGUF_LLAMA, 32, 4096, 32, 8, 128, 14336, 0, 0, 0, 128256, 131072, 5e5f, .rope_factors = true},
    {"qwen2-0.5b", MKGGUF_QWEN2, 24, 896, 14, 2, 64, 4864, 0, 0, 0, 151936, 32768, 1e6f, .tied = true},
    {"qwen2-7b", MKGGUF_QWEN2, 28, 3584, 28, 4, 128, 18944, 0, 0, 0, 152064, 32768, 1e6f},
};

#define SINGLE(type, file_type)                                                                                        \
    {                                                                                                                  \
#type, HALO_TYPE_##type, HALO_TYPE_##type, file_type                                                           \
    }
static const struct mkgguf_types type_sets[] = {
    SINGLE(F32, 0),
    SINGLE(F16, 1),
    SINGLE(BF16, 32),
    SINGLE(Q4_0, 2),
    SINGLE(Q4_1, 3),
    SINGLE(Q5_0, 8),
    SINGLE(Q5_1, 9),
    SINGLE(Q8_0, 7),
    SINGLE(Q2_K, 10),
    SINGLE(Q3_K, 11),
    SINGLE(Q4_K, 14),
    SINGLE(Q5_K, 16),
    SINGLE(Q6_K, 18),
    SINGLE(IQ4_NL, 25),
    SINGLE(IQ4_XS, 30),
    SINGLE(MXFP4, 38),
    SINGLE(IQ1_S, 24),
    SINGLE(IQ1_M, 31),
    SINGLE(IQ2_XXS, 19),
    SINGLE(IQ2_XS, 20),
    SINGLE(IQ2_S, 28),
    SINGLE(IQ3_XXS, 23),
    SINGLE(IQ3_S, 26),
    SINGLE(TQ1_0, 36),
    SINGLE(TQ2_0, 37),
    SINGLE(NVFP4, 39),
    SINGLE(Q1_0, 40),
    SINGLE(Q2_0, 41),
    {"Q4_K_M", HALO_TYPE_Q4_K, HALO_TYPE_Q6_K, 15},
    {"Q5_K_M", HALO_TYPE_Q5_K, HALO_TYPE_Q6_K, 17},
    /* What "dynamic" 4-bit files of mixtures hold, whose experts are no multiple of 256 wide. */
    {"UD-Q4_K_XL", HALO_TYPE_Q8_0, HALO_TYPE_Q8_0, 15, HALO_TYPE_Q4_K, HALO_TYPE_Q5_1},
    /* What gpt-oss is published in. */
    {"MXFP4_MOE", HALO_TYPE_Q8_0, HALO_TYPE_Q8_0, 38, HALO_TYPE_MXFP4, HALO_TYPE_MXFP4},
};

const struct mkgguf_shape *mkgguf_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcmp(name, presets[i].preset) == 0)
            return &presets[i];
    return NULL;
}

void mkgguf_presets_print(void)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        printf("%s%s", i ? " " : "", presets[i].preset);
    putchar('\n');
}

const char *mkgguf_family_name(enum mkgguf_family family)
{
    return families[family];
}

void mkgguf_families_print(void)
{
    for (int i = 0; i < MKGGUF_FAMILIES; i++)
        printf("%s%s", i ? " " : "", families[i]);
    putchar('\n');
}

bool mkgguf_is_mixture(enum mkgguf_family family)
{
    return family == MKGGUF_QWEN3MOE || family == MKGGUF_GPT_OSS || family == MKGGUF_QWEN35MOE ||
           family == MKGGUF_QWEN3NEXT || family == MKGGUF_GRANITEHYBRID || family == MKGGUF_DEEPSEEK4 ||
           mkgguf_has_router_bias(family);
}

bool mkgguf_may_mix(enum mkgguf_family family)
{
    return family == MKGGUF_LLAMA || family == MKGGUF_GEMMA4 || mkgguf_is_mixture(family);
}

bool mkgguf_is_global(const struct mkgguf_shape *shape, uint32_t layer)
{
    return layer % shape->interval == shape->interval - 1 || layer == shape->n_layers - 1;
}

bool mkgguf_has_router_bias(enum mkgguf_family family)
{
    return family == MKGGUF_GLM4MOE || family == MKGGUF_MINIMAX_M2 || family == MKGGUF_DEEPSEEK2 ||
           family == MKGGUF_NEMOTRON_H_MOE || family == MKGGUF_LFM2MOE;
}

bool mkgguf_has_delta_rule(enum mkgguf_family family)
{
    return family == MKGGUF_QWEN35 || family == MKGGUF_QWEN35MOE || family == MKGGUF_QWEN3NEXT;
}

bool mkgguf_has_layers(enum mkgguf_family family)
{
    return family == MKGGUF_NEMOTRON_H_MOE || family == MKGGUF_LFM2MOE || family == MKGGUF_GRANITEHYBRID;
}

uint32_t mkgguf_ratio(uint32_t layer)
{
    return layer < 2 ? 0 : layer % 2 == 0 ? 4 : 128;
}

int mkgguf_family_parse(const char *name, enum mkgguf_family *ret)
{
    for (int i = 0; i < MKGGUF_FAMILIES; i++)
        if (strcmp(name, families[i]) == 0) {
            *ret = (enum mkgguf_family)i;
            return 0;
        }
    return -EINVAL;
}

const struct mkgguf_types *mkgguf_types_find(const char *name)
{
    for (size_t i = 0; i < sizeof type_sets / sizeof type_sets[0]; i++)
        if (strcmp(name, type_sets[i].name) == 0)
            return &type_sets[i];
    return NULL;
}

void mkgguf_types_print(void)
{
    for (size_t i = 0; i < sizeof type_sets / sizeof type_sets[0]; i++)
        printf("%s%s", i ? " " : "", type_sets[i].name);
    putchar('\n');
}
