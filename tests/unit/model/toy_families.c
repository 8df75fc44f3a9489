/* toy_families.c: the keys and tensors of a small file of each family. See toy_gguf.h. */
#include "toy_gguf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a family has; a tensor of the table below is there when the family has one of its traits. */
enum {
    ALL = 1 << 0,
    PRE_NORMS = 1 << 1,  /* in front of attention */
    FFN_NORM = 1 << 2,   /* in front of the feed-forward */
    MOVED_NORM = 1 << 3, /* that norm, named post_attention_norm */
    POST_NORMS = 1 << 4, /* behind both blocks */
    QK_NORM = 1 << 5,    /* over each head */
    QK_WHOLE = 1 << 6,   /* over all heads */
    QKV_BIAS = 1 << 7,
    BIASES = 1 << 8, /* on everything else */
    PARTS = 1 << 9,  /* q, k, v and gate, up apart */
    FUSED = 1 << 10, /* or not */
    UNGATED = 1 << 11,
    MOE = 1 << 12,
    LAYER_NORMS = 1 << 13,
    CHOICE = 1 << 14,        /* a bias of the choice of experts */
    SHARED = 1 << 15,        /* a shared expert */
    GATED = 1 << 16,         /* ... with a gate */
    LEADING = 1 << 17,       /* layer 0 is dense */
    SINKS = 1 << 18,         /* with biases of the output, of the router and of experts */
    LATENT = 1 << 20,        /* attention by a compressed row */
    SHORTCONV = 1 << 21,     /* layer 0 has a short convolution instead of attention */
    STATE = 1 << 22,         /* of a layer: it has no attention */
    GEMMA4 = 1 << 23,        /* every other layer has no window and larger heads; a factor behind each layer */
    INPUTS = 1 << 24,        /* each layer has an input of its own; the last half shares K and V */
    NO_KV = 1 << 25,         /* of a layer: it has none of its own */
    NO_V = 1 << 26,          /* of a layer: V is K */
    BESIDE = 1 << 27,        /* experts beside a dense part */
    DELTA = 1 << 28,         /* layer 0 has the gated delta rule, layer 1 attention with a gate */
    JOINT = 1 << 29,         /* ... with alpha and beta in one tensor */
    EARLY = (int)(1u << 31), /* ... with q, k, v and z in one tensor */
    MAMBA = 1 << 30,         /* layer 0 has Mamba-2 */
    ONE_BLOCK = 1 << 19,     /* ... layer 1 a feed-forward without gates, layer 2 attention, and each nothing else */
    LLAMA = ALL | PRE_NORMS | FFN_NORM | PARTS,
};

static const struct family {
    const char *name, *arch;
    uint32_t traits, n_layers;
} families[] = {
    {"bailingmoe2", "bailingmoe2", LLAMA | QK_NORM | MOE | CHOICE | SHARED | LEADING, 2},
    {"cohere2", "cohere2", ALL | PRE_NORMS | PARTS | LAYER_NORMS, 2},
    {"deepseek2", "deepseek2", LLAMA | LATENT | MOE | SHARED | LEADING, 2},
    {"deepseek4", "deepseek4", MOE | SHARED, 3},
    {"dots1", "dots1", LLAMA | QK_NORM | MOE | CHOICE | SHARED | LEADING, 2},
    {"ernie4_5-moe", "ernie4_5-moe", LLAMA | MOE | CHOICE | SHARED | LEADING, 2},
    {"exaone4", "exaone4", ALL | POST_NORMS | QK_NORM | PARTS, 4},
    {"falcon-h1", "falcon-h1", ALL | PRE_NORMS | PARTS | MAMBA, 2},
    {"gemma2", "gemma2", LLAMA | POST_NORMS, 2},
    {"gemma3", "gemma3", LLAMA | POST_NORMS | QK_NORM, 2},
    {"gemma4", "gemma4", LLAMA | POST_NORMS | QK_NORM | GEMMA4, 2},
    {"gemma4-e", "gemma4", LLAMA | POST_NORMS | QK_NORM | GEMMA4 | INPUTS, 4},
    {"gemma4-moe", "gemma4", LLAMA | POST_NORMS | QK_NORM | GEMMA4 | BESIDE, 2},
    {"glm4moe", "glm4moe", ALL | PRE_NORMS | MOVED_NORM | PARTS | QKV_BIAS | MOE | CHOICE | SHARED | LEADING, 2},
    {"gpt-oss", "gpt-oss", ALL | PRE_NORMS | MOVED_NORM | PARTS | QKV_BIAS | MOE | SINKS, 2},
    {"granite", "granite", LLAMA, 2},
    {"granitehybrid", "granitehybrid", LLAMA | MOE | SHARED | MAMBA, 2},
    {"hunyuan-dense", "hunyuan-dense", LLAMA | QK_NORM, 2},
    {"lfm2moe", "lfm2moe", LLAMA | QK_NORM | MOE | CHOICE | LEADING | SHORTCONV, 2},
    {"llama", "llama", LLAMA, 2},
    {"llama-moe", "llama", LLAMA | MOE, 2},
    {"minimax-m2", "minimax-m2", LLAMA | QK_WHOLE | MOE | CHOICE, 2},
    {"mistral3", "mistral3", LLAMA, 2},
    {"nemotron_h", "nemotron_h", ALL | PRE_NORMS | PARTS | MAMBA | ONE_BLOCK, 3},
    {"nemotron_h_moe", "nemotron_h_moe", ALL | PRE_NORMS | PARTS | MOE | CHOICE | SHARED | MAMBA | ONE_BLOCK, 3},
    {"nemotron_h_moe-latent", "nemotron_h_moe",
     ALL | PRE_NORMS | PARTS | LATENT | MOE | CHOICE | SHARED | MAMBA | ONE_BLOCK, 3},
    {"olmo2", "olmo2", ALL | POST_NORMS | QK_WHOLE | PARTS, 2},
    {"phi3", "phi3", ALL | PRE_NORMS | FFN_NORM | FUSED, 2},
    {"qwen2", "qwen2", LLAMA | QKV_BIAS, 2},
    {"qwen2moe", "qwen2moe", LLAMA | QKV_BIAS | MOE | SHARED | GATED, 2},
    {"qwen3", "qwen3", LLAMA | QK_NORM, 2},
    {"qwen35", "qwen35", ALL | PRE_NORMS | MOVED_NORM | PARTS | QK_NORM | DELTA, 2},
    {"qwen35moe", "qwen35moe", ALL | PRE_NORMS | MOVED_NORM | PARTS | QK_NORM | MOE | SHARED | GATED | DELTA, 2},
    {"qwen3moe", "qwen3moe", LLAMA | QK_NORM | MOE, 2},
    {"qwen3next", "qwen3next", ALL | PRE_NORMS | MOVED_NORM | PARTS | QK_NORM | MOE | SHARED | GATED | DELTA | JOINT,
     2},
    {"qwen3next-early", "qwen3next",
     ALL | PRE_NORMS | MOVED_NORM | PARTS | QK_NORM | MOE | SHARED | GATED | DELTA | JOINT | EARLY, 2},
    {"qwen3vl", "qwen3vl", LLAMA | QK_NORM, 2},
    {"seed_oss", "seed_oss", ALL | PRE_NORMS | MOVED_NORM | PARTS | QKV_BIAS, 2},
    {"smollm3", "smollm3", LLAMA, 4},
    {"starcoder2", "starcoder2", LLAMA | LAYER_NORMS | QKV_BIAS | BIASES | UNGATED, 2},
};

static const struct {
    const char *family, *key;
    enum halo_gguf_kind kind;
    double number;
} own_keys[] = {
    {"bailingmoe2", "expert_group_count", HALO_GGUF_U32, 2},
    {"bailingmoe2", "expert_group_used_count", HALO_GGUF_U32, 1},
    {"bailingmoe2", "expert_weights_scale", HALO_GGUF_F32, 2.5},
    {"cohere2", "attention.sliding_window", HALO_GGUF_U32, 64},
    {"cohere2", "attention.sliding_window_pattern", HALO_GGUF_U32, 2},
    {"cohere2", "logit_scale", HALO_GGUF_F32, 0.5},
    {"deepseek2", "attention.head_count_kv", HALO_GGUF_U32, 1},
    {"deepseek2", "attention.key_length", HALO_GGUF_U32, 40},
    {"deepseek2", "attention.value_length", HALO_GGUF_U32, 32},
    {"deepseek2", "attention.key_length_mla", HALO_GGUF_U32, 16},
    {"deepseek2", "attention.value_length_mla", HALO_GGUF_U32, 16},
    {"deepseek2", "attention.q_lora_rank", HALO_GGUF_U32, 24},
    {"deepseek2", "attention.kv_lora_rank", HALO_GGUF_U32, 32},
    {"deepseek2", "rope.dimension_count", HALO_GGUF_U32, 8},
    {"deepseek2", "expert_gating_func", HALO_GGUF_U32, 2},
    {"exaone4", "attention.sliding_window", HALO_GGUF_U32, 64},
    {"gemma2", "attention.sliding_window", HALO_GGUF_U32, 64},
    {"gemma3", "attention.sliding_window", HALO_GGUF_U32, 64},
    {"gemma3", "attention.sliding_window_pattern", HALO_GGUF_U32, 2},
    {"gpt-oss", "attention.sliding_window", HALO_GGUF_U32, 64},
    {"granite", "attention.scale", HALO_GGUF_F32, 0.125},
    {"granite", "embedding_scale", HALO_GGUF_F32, 12},
    {"granite", "logit_scale", HALO_GGUF_F32, 4},
    {"granite", "residual_scale", HALO_GGUF_F32, 0.5},
    {"granitehybrid", "rope.scaling.finetuned", HALO_GGUF_BOOL, 0},
    {"granitehybrid", "embedding_scale", HALO_GGUF_F32, 12},
    {"granitehybrid", "residual_scale", HALO_GGUF_F32, 0.5},
    {"granitehybrid", "attention.scale", HALO_GGUF_F32, 0.125},
    {"granitehybrid", "logit_scale", HALO_GGUF_F32, 4},
    {"lfm2moe", "shortconv.l_cache", HALO_GGUF_U32, 3},
    {"mistral3", "attention.temperature_scale", HALO_GGUF_F32, 0.25},
    {"mistral3", "rope.scaling.original_context_length", HALO_GGUF_U32, 64},
    {"nemotron_h_moe", "expert_weights_scale", HALO_GGUF_F32, 2.5},
    {"nemotron_h_moe-latent", "moe_latent_size", HALO_GGUF_U32, 16},
    {"phi3", "attention.sliding_window", HALO_GGUF_U32, 128},
};

/* A tensor of a layer: it is there when the family has all of `traits` and none of `without`. */
struct row {
    const char *name;
    enum halo_type type;
    uint64_t d0, d1, d2;
    uint32_t traits, without;
};

static void rows_add(struct halo_toy *toy, uint32_t layer, uint32_t traits, const struct row *rows, size_t n)
{
    char name[64];

    for (size_t i = 0; i < n; i++) {
        if ((rows[i].traits & traits) != rows[i].traits || (rows[i].without & traits))
            continue;
        snprintf(name, sizeof(name), "blk.%u.%s", layer, rows[i].name);
        halo_toy_add(toy, name, rows[i].type, rows[i].d0, rows[i].d1, rows[i].d2);
    }
}

/* d: width; q, k: of all heads. */
static void mixer_add(struct halo_toy *toy, uint32_t layer, uint32_t traits, uint64_t d, uint64_t q, uint64_t k)
{
    const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const struct row rows[] = {
        {"attn_norm.weight", f32, d, 0, 0, PRE_NORMS, 0},
        {"attn_norm.bias", f32, d, 0, 0, BIASES, 0},
        {"attn_qkv.weight", type, d, q + 2 * k, 0, FUSED, 0},
        {"attn_q_a.weight", type, d, 24, 0, LATENT, 0},
        {"attn_q_a_norm.weight", f32, 24, 0, 0, LATENT, 0},
        {"attn_q_b.weight", type, 24, q, 0, LATENT, 0},
        {"attn_kv_a_mqa.weight", type, d, 40, 0, LATENT, 0},
        {"attn_kv_a_norm.weight", f32, 32, 0, 0, LATENT, 0},
        {"attn_k_b.weight", type, 8, 32, 4, LATENT, 0},
        {"attn_v_b.weight", type, 32, 16, 4, LATENT, 0},
        {"attn_q.weight", type, d, q, 0, PARTS, LATENT | STATE | DELTA},
        {"attn_q.weight", type, d, 2 * q, 0, PARTS | DELTA, STATE},
        {"attn_k.weight", type, d, k, 0, PARTS, LATENT | STATE | NO_KV},
        {"attn_v.weight", type, d, k, 0, PARTS, LATENT | STATE | NO_KV | NO_V},
        {"attn_q.bias", f32, q, 0, 0, QKV_BIAS, 0},
        {"attn_k.bias", f32, k, 0, 0, QKV_BIAS, 0},
        {"attn_v.bias", f32, k, 0, 0, QKV_BIAS, 0},
        {"attn_q_norm.weight", f32, q / 4, 0, 0, QK_NORM, STATE},
        {"attn_k_norm.weight", f32, q / 4, 0, 0, QK_NORM, STATE | NO_KV},
        {"attn_q_norm.weight", f32, q, 0, 0, QK_WHOLE, 0},
        {"attn_k_norm.weight", f32, k, 0, 0, QK_WHOLE, 0},
        {"attn_output.weight", type, q, d, 0, ALL, STATE},
        {"attn_output.bias", f32, d, 0, 0, BIASES, 0},
        {"attn_output.bias", f32, d, 0, 0, SINKS, 0},
        {"attn_sinks.weight", f32, 4, 0, 0, SINKS, 0},
        {"shortconv.in_proj.weight", type, d, 3 * d, 0, SHORTCONV | STATE, 0},
        {"shortconv.conv.weight", f32, 3, d, 0, SHORTCONV | STATE, 0},
        {"shortconv.out_proj.weight", type, d, d, 0, SHORTCONV | STATE, 0},
        {"attn_qkv.weight", type, d, 64, 0, DELTA | STATE, EARLY},
        {"attn_gate.weight", type, d, 32, 0, DELTA | STATE, EARLY},
        {"ssm_in.weight", type, d, 96, 0, DELTA | STATE | EARLY, 0},
        {"ssm_conv1d.weight", f32, 4, 64, 0, DELTA | STATE, 0},
        {"ssm_a", f32, 4, 0, 0, DELTA | STATE, 0},
        {"ssm_dt.bias", f32, 4, 0, 0, DELTA | STATE, 0},
        {"ssm_beta.weight", type, d, 4, 0, DELTA | STATE, JOINT},
        {"ssm_alpha.weight", type, d, 4, 0, DELTA | STATE, JOINT},
        {"ssm_ba.weight", type, d, 8, 0, DELTA | STATE | JOINT, 0},
        {"ssm_norm.weight", f32, 8, 0, 0, DELTA | STATE, 0},
        {"ssm_out.weight", type, 32, d, 0, DELTA | STATE, 0},
        {"post_attention_norm.weight", f32, d, 0, 0, POST_NORMS, 0},
        {"post_attention_norm.weight", f32, d, 0, 0, MOVED_NORM, 0},
    };

    rows_add(toy, layer, traits, rows, sizeof(rows) / sizeof(rows[0]));
}

static void ffn_add(struct halo_toy *toy, uint32_t layer, uint32_t traits, uint64_t d)
{
    const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const struct row rows[] = {
        {"ffn_norm.weight", f32, d, 0, 0, FFN_NORM, 0},       {"ffn_norm.bias", f32, d, 0, 0, BIASES, 0},
        {"ffn_up.weight", type, d, 128, 0, FUSED, 0},         {"ffn_gate.weight", type, d, 64, 0, PARTS, MOE | UNGATED},
        {"ffn_up.weight", type, d, 64, 0, PARTS, MOE},        {"ffn_up.bias", f32, 64, 0, 0, BIASES, 0},
        {"ffn_down.weight", type, 64, d, 0, ALL, MOE},        {"ffn_down.bias", f32, d, 0, 0, BIASES, 0},
        {"ffn_gate_inp.weight", f32, d, 4, 0, MOE, 0},        {"ffn_gate_exps.weight", type, d, 64, 4, MOE, 0},
        {"ffn_up_exps.weight", type, d, 64, 4, MOE, 0},       {"ffn_down_exps.weight", type, 64, d, 4, MOE, 0},
        {"ffn_gate_inp.bias", f32, 4, 0, 0, SINKS, 0},        {"ffn_gate_exps.bias", f32, 64, 4, 0, SINKS, 0},
        {"ffn_up_exps.bias", f32, 64, 4, 0, SINKS, 0},        {"ffn_down_exps.bias", f32, d, 4, 0, SINKS, 0},
        {"exp_probs_b.bias", f32, 4, 0, 0, CHOICE, 0},        {"ffn_gate_inp_shexp.weight", f32, d, 0, 0, GATED, 0},
        {"ffn_gate_shexp.weight", type, d, 48, 0, SHARED, 0}, {"ffn_up_shexp.weight", type, d, 48, 0, SHARED, 0},
        {"ffn_down_shexp.weight", type, 48, d, 0, SHARED, 0}, {"post_ffw_norm.weight", f32, d, 0, 0, POST_NORMS, 0},
    };

    rows_add(toy, layer, traits, rows, sizeof(rows) / sizeof(rows[0]));
}

/* Heads of 16, two of them of K and V, in layers with the window; heads of 32 and one in the others. */
static void gemma4_layer_add(struct halo_toy *toy, uint32_t layer, uint32_t traits)
{
    const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const uint64_t d = 32, ff = layer < 2 ? 64 : 96;
    const struct row rows[] = {
        {"ffn_norm.weight", f32, d, 0, 0, ALL, 0},           {"ffn_gate.weight", type, d, ff, 0, ALL, 0},
        {"ffn_up.weight", type, d, ff, 0, ALL, 0},           {"ffn_down.weight", type, ff, d, 0, ALL, 0},
        {"post_ffw_norm.weight", f32, d, 0, 0, ALL, 0},      {"ffn_gate_inp.weight", f32, d, 4, 0, BESIDE, 0},
        {"ffn_gate_inp.scale", f32, d, 0, 0, BESIDE, 0},     {"ffn_gate_exps.weight", type, d, 64, 4, BESIDE, 0},
        {"ffn_up_exps.weight", type, d, 64, 4, BESIDE, 0},   {"ffn_down_exps.weight", type, 64, d, 4, BESIDE, 0},
        {"pre_ffw_norm_2.weight", f32, d, 0, 0, BESIDE, 0},  {"post_ffw_norm_1.weight", f32, d, 0, 0, BESIDE, 0},
        {"post_ffw_norm_2.weight", f32, d, 0, 0, BESIDE, 0}, {"inp_gate.weight", type, d, 8, 0, INPUTS, 0},
        {"proj.weight", type, 8, d, 0, INPUTS, 0},           {"post_norm.weight", f32, d, 0, 0, INPUTS, 0},
    };
    static const float one = 1;
    char name[64];

    if (traits & INPUTS && layer >= 2)
        traits |= NO_KV;
    if (!(traits & INPUTS) && layer % 2 == 1)
        traits |= NO_V;
    mixer_add(toy, layer, traits, d, layer % 2 ? 128 : 64, 32);
    rows_add(toy, layer, traits, rows, sizeof(rows) / sizeof(rows[0]));
    snprintf(name, sizeof(name), "blk.%u.layer_output_scale.weight", layer);
    halo_toy_add(toy, name, f32, 1, 0, 0);
    halo_toy_find(toy, name)->values = &one;
}

static void mamba_add(struct halo_toy *toy, uint32_t layer, bool normed)
{
    const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const struct row rows[] = {
        {"ssm_in.weight", type, 32, 100, 0, 0, 0},
        {"ssm_conv1d.weight", f32, 4, 64, 0, 0, 0},
        {"ssm_a", f32, 1, 4, 0, 0, 0},
        {"ssm_d", f32, 1, 4, 0, 0, 0},
        {"ssm_dt.bias", f32, 4, 0, 0, 0, 0},
        {"ssm_out.weight", type, 32, 32, 0, 0, 0},
        {"ssm_norm.weight", f32, 16, 2, 0, 0, 0},
    };
    rows_add(toy, layer, 0, rows, sizeof(rows) / sizeof(rows[0]) - !normed);
}

/* Mamba-2, a feed-forward without gates, or attention. */
static void one_block_add(struct halo_toy *toy, uint32_t layer, uint32_t traits)
{
    const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const uint64_t d = 32, latent = 16;
    const struct row rows[] = {
        {"attn_norm.weight", f32, d, 0, 0, ALL, 0},
        {"ffn_up.weight", type, d, 64, 0, ALL, MOE},
        {"ffn_down.weight", type, 64, d, 0, ALL, MOE},
        {"ffn_gate_inp.weight", f32, d, 4, 0, MOE, 0},
        {"exp_probs_b.bias", f32, 4, 0, 0, MOE, 0},
        {"ffn_up_exps.weight", type, d, 64, 4, MOE, LATENT},
        {"ffn_down_exps.weight", type, 64, d, 4, MOE, LATENT},
        {"ffn_up_shexp.weight", type, d, 48, 0, MOE, 0},
        {"ffn_down_shexp.weight", type, 48, d, 0, MOE, 0},
        {"ffn_latent_down.weight", type, d, latent, 0, LATENT, 0},
        {"ffn_latent_up.weight", type, latent, d, 0, LATENT, 0},
        {"ffn_up_exps.weight", type, latent, 64, 4, LATENT, 0},
        {"ffn_down_exps.weight", type, 64, latent, 4, LATENT, 0},
    };
    if (layer == 0) {
        rows_add(toy, layer, traits, rows, 1);
        mamba_add(toy, layer, true);
    } else if (layer == 1) {
        rows_add(toy, layer, traits, rows, sizeof(rows) / sizeof(rows[0]));
    } else {
        mixer_add(toy, layer, ALL | PRE_NORMS | PARTS, d, 64, 32);
    }
}

static void layer_add(struct halo_toy *toy, uint32_t layer, uint32_t traits)
{
    if (traits & ONE_BLOCK) {
        one_block_add(toy, layer, traits);
        return;
    }
    if (traits & GEMMA4) {
        gemma4_layer_add(toy, layer, traits);
        return;
    }
    if (traits & LEADING && layer == 0)
        traits &= ~(uint32_t)(MOE | CHOICE | SHARED | GATED);
    bool beside = traits & MAMBA && !(traits & FFN_NORM); /* attention in every layer */
    if (traits & (SHORTCONV | DELTA | MAMBA) && layer == 0 && !beside)
        traits |= STATE;
    mixer_add(toy, layer, traits, 32, 64, 32);
    if (traits & MAMBA && (beside || layer == 0))
        mamba_add(toy, layer, !beside);
    ffn_add(toy, layer, traits, 32);
    if (beside) {
        char name[64];
        snprintf(name, sizeof(name), "blk.%u.ffn_norm", layer);
        halo_toy_add(toy, name, HALO_TYPE_F32, 32, 0, 0);
    }
}

static void experts_set(struct halo_toy *toy, uint32_t traits)
{
    halo_toy_set(toy, "expert_count", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "expert_used_count", HALO_GGUF_U32, 2);
    if (strcmp(toy->arch, "llama") != 0)
        halo_toy_set(toy, "expert_feed_forward_length", HALO_GGUF_U32, 64);
    if (traits & SHARED)
        halo_toy_set(toy, "expert_shared_feed_forward_length", HALO_GGUF_U32, 48);
    if (traits & LEADING)
        halo_toy_set(toy, "leading_dense_block_count", HALO_GGUF_U32, 1);
    if (traits & LEADING && traits & SHARED)
        halo_toy_set(toy, "expert_shared_count", HALO_GGUF_U32, 1);
}

static void gemma4_keys_set(struct halo_toy *toy, uint32_t traits, uint32_t n_layers)
{
    static const double local[] = {1, 0, 1, 0}, heads[] = {2, 1, 2, 1}, ff[] = {64, 64, 96, 96};

    halo_toy_set(toy, "attention.key_length", HALO_GGUF_U32, 32);
    halo_toy_set(toy, "attention.value_length", HALO_GGUF_U32, 32);
    halo_toy_set(toy, "attention.key_length_swa", HALO_GGUF_U32, 16);
    halo_toy_set(toy, "attention.value_length_swa", HALO_GGUF_U32, 16);
    halo_toy_set(toy, "rope.freq_base_swa", HALO_GGUF_F32, 100);
    halo_toy_set(toy, "attention.sliding_window", HALO_GGUF_U32, 64);
    halo_toy_set_array(toy, "attention.sliding_window_pattern", HALO_GGUF_BOOL, n_layers, local);
    halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, n_layers, heads);
    halo_toy_set(toy, "final_logit_softcapping", HALO_GGUF_F32, 30);
    if (traits & BESIDE) {
        halo_toy_set(toy, "expert_count", HALO_GGUF_U32, 4);
        halo_toy_set(toy, "expert_used_count", HALO_GGUF_U32, 2);
        halo_toy_set(toy, "expert_feed_forward_length", HALO_GGUF_U32, 64);
    }
    if (traits & INPUTS) {
        halo_toy_set(toy, "attention.shared_kv_layers", HALO_GGUF_U32, 2);
        halo_toy_set(toy, "embedding_length_per_layer_input", HALO_GGUF_U32, 8);
        halo_toy_set_array(toy, "feed_forward_length", HALO_GGUF_I32, n_layers, ff);
    }
}

/* Outside the layers. */
static void gemma4_ends_add(struct halo_toy *toy, uint32_t traits)
{
    static const float factors[16] = {1,     1,     1,     1,     1e30f, 1e30f, 1e30f, 1e30f,
                                      1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f};

    halo_toy_add(toy, "rope_freqs.weight", HALO_TYPE_F32, 16, 0, 0);
    halo_toy_find(toy, "rope_freqs.weight")->values = factors;
    if (!(traits & INPUTS))
        return;
    halo_toy_add(toy, "per_layer_token_embd.weight", HALO_TYPE_F16, 32, HALO_TOY_VOCAB, 0);
    halo_toy_add(toy, "per_layer_model_proj.weight", HALO_TYPE_F16, 32, 32, 0);
    halo_toy_add(toy, "per_layer_proj_norm.weight", HALO_TYPE_F32, 8, 0, 0);
}

/* Of the delta rule and of Mamba-2. */
static void ssm_set(struct halo_toy *toy)
{
    halo_toy_set(toy, "ssm.conv_kernel", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "ssm.inner_size", HALO_GGUF_U32, 32);
    halo_toy_set(toy, "ssm.state_size", HALO_GGUF_U32, 8);
    halo_toy_set(toy, "ssm.time_step_rank", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "ssm.group_count", HALO_GGUF_U32, 2);
}

/* Which layers have attention, and which a feed-forward. */
static void layers_set(struct halo_toy *toy, uint32_t traits)
{
    static const double heads[] = {0, 2}, one_heads[] = {0, 0, 2}, one_ff[] = {0, 64, 0};
    if (traits & DELTA)
        halo_toy_set(toy, "full_attention_interval", HALO_GGUF_U32, 2);
    if (traits & ONE_BLOCK) {
        halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 3, one_heads);
        halo_toy_set_array(toy, "feed_forward_length", HALO_GGUF_I32, 3, one_ff);
    } else if (traits & SHORTCONV || (traits & MAMBA && traits & FFN_NORM)) {
        halo_toy_set_array(toy, "attention.head_count_kv", HALO_GGUF_I32, 2, heads);
    }
}

/* Nothing of the tables above but the common keys (toy_deepseek4.c). */
static bool has_tables_of_its_own(const struct family *family)
{
    return strcmp(family->arch, "deepseek4") == 0;
}

static void keys_set(struct halo_toy *toy, const struct family *family)
{
    halo_toy_set_text(toy, "general.architecture", toy->arch);
    halo_toy_set_text(toy, "general.name", "Toy");
    halo_toy_set(toy, "general.file_type", HALO_GGUF_U32, 1);
    halo_toy_set(toy, "block_count", HALO_GGUF_U32, family->n_layers);
    halo_toy_set(toy, "context_length", HALO_GGUF_U32, 256);
    halo_toy_set(toy, "embedding_length", HALO_GGUF_U32, 32);
    halo_toy_set(toy, "feed_forward_length", HALO_GGUF_U32, 64);
    halo_toy_set(toy, "attention.head_count", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "attention.head_count_kv", HALO_GGUF_U32, 2);
    halo_toy_set(toy, "attention.key_length", HALO_GGUF_U32, 16);
    halo_toy_set(toy, "attention.value_length", HALO_GGUF_U32, 16);
    bool layer_norms = family->traits & LAYER_NORMS;
    halo_toy_set(toy, layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", HALO_GGUF_F32,
                 1e-5);
    halo_toy_set(toy, "rope.freq_base", HALO_GGUF_F32, 10000);
    if (family->traits & MOE)
        experts_set(toy, family->traits);
    if (family->traits & (DELTA | MAMBA))
        ssm_set(toy);
    layers_set(toy, family->traits);
    for (size_t i = 0; i < sizeof(own_keys) / sizeof(own_keys[0]); i++)
        if (strcmp(own_keys[i].family, family->name) == 0)
            halo_toy_set(toy, own_keys[i].key, own_keys[i].kind, own_keys[i].number);
    if (family->traits & GEMMA4)
        gemma4_keys_set(toy, family->traits, family->n_layers);
    if (has_tables_of_its_own(family))
        halo_toy_deepseek4_keys(toy);
    halo_toy_set_text(toy, "tokenizer.ggml.model", "gpt2");
    halo_toy_set_text(toy, "tokenizer.ggml.pre", "qwen2");
    halo_toy_set_array(toy, "tokenizer.ggml.merges", HALO_GGUF_STRING, 0, NULL);
    halo_toy_set_array(toy, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 0, NULL); /* written as HALO_TOY_VOCAB texts */
}

const char *halo_toy_family(uint32_t index)
{
    return index < sizeof(families) / sizeof(families[0]) ? families[index].name : NULL;
}

struct halo_toy *halo_toy_create(const char *name)
{
    struct halo_toy *toy = calloc(1, sizeof(*toy));
    const struct family *family = families;

    assert(toy);
    for (uint32_t i = 0; strcmp(family->name, name) != 0; i++, family++)
        assert(halo_toy_family(i + 1));
    snprintf(toy->arch, sizeof(toy->arch), "%s", family->arch);
    halo_toy_add(toy, "token_embd.weight", HALO_TYPE_Q8_0, 32, HALO_TOY_VOCAB, 0);
    halo_toy_add(toy, family->traits & SHORTCONV ? "token_embd_norm.weight" : "output_norm.weight", HALO_TYPE_F32, 32,
                 0, 0);
    if (family->traits & BIASES)
        halo_toy_add(toy, "output_norm.bias", HALO_TYPE_F32, 32, 0, 0);
    if (family->traits & GEMMA4)
        gemma4_ends_add(toy, family->traits);
    for (uint32_t layer = 0; layer < family->n_layers; layer++)
        if (!has_tables_of_its_own(family))
            layer_add(toy, layer, family->traits);
    if (has_tables_of_its_own(family))
        halo_toy_deepseek4_tensors(toy);
    keys_set(toy, family);
    return toy;
}
