/* mkgguf_keys.c: what a generated model says about itself. */
#include <stdio.h>
#include <string.h>

#include "mkgguf.h"

static const char chatml[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                             "message['content'] + '<|im_end|>' + '\\n'}}"
                             "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static const struct {
    const char *pre;
    float norm_eps;
} families[MKGGUF_FAMILIES] = {
    [MKGGUF_LLAMA] = {"llama-bpe", 1e-5f},       [MKGGUF_QWEN2] = {"qwen2", 1e-6f},
    [MKGGUF_QWEN3] = {"qwen2", 1e-6f},           [MKGGUF_QWEN3MOE] = {"qwen2", 1e-6f},
    [MKGGUF_GPT_OSS] = {"gpt-4o", 1e-5f},        [MKGGUF_GLM4MOE] = {"glm4", 1e-5f},
    [MKGGUF_MINIMAX_M2] = {"minimax-m2", 1e-6f}, [MKGGUF_DEEPSEEK2] = {"glm4", 1e-5f},
    [MKGGUF_GEMMA4] = {"qwen2", 1e-6f},          [MKGGUF_NEMOTRON_H_MOE] = {"pixtral", 1e-5f},
    [MKGGUF_QWEN35] = {"qwen35", 1e-6f},         [MKGGUF_QWEN35MOE] = {"qwen35", 1e-6f},
    [MKGGUF_QWEN3NEXT] = {"qwen2", 1e-6f},       [MKGGUF_LFM2MOE] = {"lfm2", 1e-5f},
    [MKGGUF_GRANITEHYBRID] = {"dbrx", 1e-5f},    [MKGGUF_FALCON_H1] = {"falcon-h1", 1e-5f},
    [MKGGUF_DEEPSEEK4] = {"deepseek-v3", 1e-6f},
};

static void arch_u32(struct gguf_writer *w, const struct mkgguf_shape *shape, const char *suffix, uint32_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", mkgguf_family_name(shape->family), suffix);
    gguf_writer_key_u32(w, key, value);
}

static void arch_f32(struct gguf_writer *w, const struct mkgguf_shape *shape, const char *suffix, float value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", mkgguf_family_name(shape->family), suffix);
    gguf_writer_key_f32(w, key, value);
}

static void arch_bool(struct gguf_writer *w, const struct mkgguf_shape *shape, const char *suffix, bool value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", mkgguf_family_name(shape->family), suffix);
    gguf_writer_key_bool(w, key, value);
}

/* With latent attention the cache sees one head, whose row is the compressed one and the part that turns. */
static void head_keys(struct gguf_writer *w, const struct mkgguf_shape *shape)
{
    if (shape->family != MKGGUF_DEEPSEEK2) {
        arch_u32(w, shape, "attention.key_length", shape->head_dim);
        arch_u32(w, shape, "attention.value_length", shape->head_dim);
        return;
    }
    arch_u32(w, shape, "attention.key_length", shape->kv_lora + shape->n_rot);
    arch_u32(w, shape, "attention.value_length", shape->kv_lora);
    arch_u32(w, shape, "attention.key_length_mla", shape->head_dim);
    arch_u32(w, shape, "attention.value_length_mla", shape->head_dim_v);
    arch_u32(w, shape, "attention.q_lora_rank", shape->q_lora);
    arch_u32(w, shape, "attention.kv_lora_rank", shape->kv_lora);
}

/* A key of every layer: `value` where it is of kind `kind`, else 0; without kinds of layers a single number. */
static void arch_layers(struct gguf_writer *w, const struct mkgguf_shape *shape, const char *suffix, char kind,
                        uint32_t value)
{
    char key[96];
    if (!shape->layers) {
        arch_u32(w, shape, suffix, value);
        return;
    }
    snprintf(key, sizeof key, "%s.%s", mkgguf_family_name(shape->family), suffix);
    gguf_writer_key_array(w, key, HALO_GGUF_I32, shape->n_layers);
    for (uint32_t layer = 0; layer < shape->n_layers; layer++)
        gguf_writer_u32(w, shape->layers[layer] == kind ? value : 0);
}

/* Of layers with a state. */
static void state_keys(struct gguf_writer *w, const struct mkgguf_shape *shape)
{
    static const uint32_t sections[] = {11, 11, 10, 0}; /* pairs of the axes of an image */
    char key[96];
    arch_u32(w, shape, "ssm.conv_kernel", shape->n_conv);
    arch_u32(w, shape, "ssm.inner_size", shape->ssm_inner);
    arch_u32(w, shape, "ssm.state_size", shape->ssm_state);
    arch_u32(w, shape, "ssm.time_step_rank", shape->ssm_heads);
    arch_u32(w, shape, "ssm.group_count", shape->ssm_groups);
    if (shape->n_ff_shared)
        arch_u32(w, shape, "expert_shared_feed_forward_length", shape->n_ff_shared);
    if (shape->family == MKGGUF_NEMOTRON_H_MOE)
        arch_f32(w, shape, "attention.layer_norm_epsilon", families[shape->family].norm_eps);
    else if (shape->interval)
        arch_u32(w, shape, "full_attention_interval", shape->interval);
    if (shape->family != MKGGUF_QWEN35 && shape->family != MKGGUF_QWEN35MOE)
        return;
    snprintf(key, sizeof key, "%s.rope.dimension_sections", mkgguf_family_name(shape->family));
    gguf_writer_key_array(w, key, HALO_GGUF_I32, 4);
    for (int i = 0; i < 4; i++)
        gguf_writer_u32(w, sections[i]);
}

/* Heads and windows by layer; every layer is rotated as a whole. */
static void gemma4_keys(struct gguf_writer *w, const struct mkgguf_shape *shape)
{
    gguf_writer_key_array(w, "gemma4.attention.head_count_kv", HALO_GGUF_I32, shape->n_layers);
    for (uint32_t i = 0; i < shape->n_layers; i++)
        gguf_writer_u32(w, mkgguf_is_global(shape, i) ? shape->n_head_kv_global : shape->n_head_kv);
    gguf_writer_key_array(w, "gemma4.attention.sliding_window_pattern", HALO_GGUF_BOOL, shape->n_layers);
    for (uint32_t i = 0; i < shape->n_layers; i++)
        gguf_writer_raw(w, &(uint8_t){!mkgguf_is_global(shape, i)}, 1);
    arch_u32(w, shape, "attention.key_length", shape->head_dim_global);
    arch_u32(w, shape, "attention.value_length", shape->head_dim_global);
    arch_u32(w, shape, "attention.key_length_swa", shape->head_dim);
    arch_u32(w, shape, "attention.value_length_swa", shape->head_dim);
    arch_u32(w, shape, "attention.sliding_window", shape->window);
    arch_u32(w, shape, "attention.shared_kv_layers", 0);
    arch_u32(w, shape, "embedding_length_per_layer_input", 0);
    arch_f32(w, shape, "rope.freq_base_swa", 10000);
    arch_u32(w, shape, "rope.dimension_count", shape->head_dim_global);
    arch_u32(w, shape, "rope.dimension_count_swa", shape->head_dim);
    arch_f32(w, shape, "final_logit_softcapping", 30);
}

/* Attention without rotation, and four factors. */
static void granite_keys(struct gguf_writer *w, const struct mkgguf_shape *shape)
{
    arch_bool(w, shape, "rope.scaling.finetuned", false);
    arch_f32(w, shape, "embedding_scale", shape->embed_scale);
    arch_f32(w, shape, "residual_scale", shape->residual_scale);
    arch_f32(w, shape, "attention.scale", shape->attention_scale);
    arch_f32(w, shape, "logit_scale", shape->logit_scale);
}

static void deepseek4_keys(struct gguf_writer *w, const struct mkgguf_shape *shape)
{
    static const char *const limits[] = {"deepseek4.swiglu_clamp_exp", "deepseek4.swiglu_clamp_shexp"};
    const float limit = 10;
    gguf_writer_key_string(w, "deepseek4.rope.scaling.type", "yarn");
    arch_f32(w, shape, "rope.scaling.factor", 16);
    arch_u32(w, shape, "rope.scaling.original_context_length", 65536);
    arch_f32(w, shape, "rope.scaling.yarn_beta_fast", 32);
    arch_f32(w, shape, "rope.scaling.yarn_beta_slow", 1);
    arch_u32(w, shape, "attention.q_lora_rank", shape->q_lora);
    arch_u32(w, shape, "attention.sliding_window", shape->window);
    arch_u32(w, shape, "attention.output_group_count", shape->n_out_groups);
    arch_u32(w, shape, "attention.output_lora_rank", shape->out_lora);
    gguf_writer_key_array(w, "deepseek4.attention.compress_ratios", HALO_GGUF_I32, shape->n_layers);
    for (uint32_t i = 0; i < shape->n_layers; i++)
        gguf_writer_u32(w, mkgguf_ratio(i));
    arch_f32(w, shape, "attention.compress_rope_freq_base", 160000);
    arch_u32(w, shape, "attention.indexer.head_count", shape->indexer_heads);
    arch_u32(w, shape, "attention.indexer.key_length", shape->indexer_dim);
    arch_u32(w, shape, "attention.indexer.top_k", shape->indexer_top_k);
    arch_u32(w, shape, "hyper_connection.count", shape->n_streams);
    arch_u32(w, shape, "hyper_connection.sinkhorn_iterations", 20);
    arch_f32(w, shape, "hyper_connection.epsilon", 1e-6f);
    arch_u32(w, shape, "hash_layer_count", shape->n_hash);
    arch_u32(w, shape, "expert_gating_func", 4); /* sqrt(softplus) */
    for (int k = 0; k < 2; k++) {
        gguf_writer_key_array(w, limits[k], HALO_GGUF_F32, shape->n_layers);
        for (uint32_t i = 0; i < shape->n_layers; i++)
            gguf_writer_raw(w, &limit, sizeof limit);
    }
}

void mkgguf_keys(struct gguf_writer *w, const struct mkgguf_shape *shape, const struct mkgguf_types *types,
                 uint64_t seed)
{
    char name[96];
    snprintf(name, sizeof name, "Random %s %s seed %llu", shape->preset, types->name, (unsigned long long)seed);
    gguf_writer_key_string(w, "general.architecture", mkgguf_family_name(shape->family));
    gguf_writer_key_string(w, "general.name", name);
    gguf_writer_key_u32(w, "general.file_type", types->file_type);
    gguf_writer_key_u32(w, "general.quantization_version", 2);
    arch_u32(w, shape, "block_count", shape->n_layers);
    arch_u32(w, shape, "context_length", shape->n_context);
    arch_u32(w, shape, "embedding_length", shape->n_embd);
    if (shape->family == MKGGUF_NEMOTRON_H_MOE)
        arch_layers(w, shape, "feed_forward_length", 'E', shape->n_ff);
    else if (shape->family != MKGGUF_DEEPSEEK4)
        arch_u32(w, shape, "feed_forward_length", shape->n_ff);
    arch_u32(w, shape, "attention.head_count", shape->n_head);
    if (shape->family == MKGGUF_GEMMA4) {
        gemma4_keys(w, shape);
    } else {
        arch_layers(w, shape, "attention.head_count_kv", '*', shape->n_head_kv);
        head_keys(w, shape);
        arch_u32(w, shape, "rope.dimension_count", shape->n_rot ? shape->n_rot : shape->head_dim);
    }
    arch_f32(w, shape, "attention.layer_norm_rms_epsilon", families[shape->family].norm_eps);
    arch_f32(w, shape, "rope.freq_base", shape->rope_base);
    arch_u32(w, shape, "vocab_size", shape->n_vocab);
    if (shape->n_expert) {
        arch_u32(w, shape, "expert_count", shape->n_expert);
        arch_u32(w, shape, "expert_used_count", shape->n_expert_used);
        arch_u32(w, shape, "expert_feed_forward_length", shape->n_ff_expert);
    }
    if (mkgguf_has_router_bias(shape->family))
        arch_u32(w, shape, "expert_gating_func", 2); /* sigmoid */
    if (shape->family == MKGGUF_LFM2MOE)
        arch_u32(w, shape, "shortconv.l_cache", shape->n_conv);
    else if (shape->n_conv)
        state_keys(w, shape);
    if (shape->family == MKGGUF_GRANITEHYBRID)
        granite_keys(w, shape);
    if (shape->family == MKGGUF_DEEPSEEK4)
        deepseek4_keys(w, shape);
    if (shape->family == MKGGUF_GLM4MOE || shape->family == MKGGUF_DEEPSEEK2 || shape->family == MKGGUF_LFM2MOE)
        arch_u32(w, shape, "leading_dense_block_count", shape->n_dense);
    if (shape->expert_scale > 0) {
        arch_u32(w, shape, "expert_shared_count", shape->n_shared);
        arch_f32(w, shape, "expert_weights_scale", shape->expert_scale);
        arch_bool(w, shape, "expert_weights_norm", true);
    }
    if (shape->family == MKGGUF_DEEPSEEK2 || shape->family == MKGGUF_NEMOTRON_H_MOE) {
        arch_u32(w, shape, "expert_group_count", 1);
        arch_u32(w, shape, "expert_group_used_count", 1);
    }
    if (shape->family == MKGGUF_GPT_OSS) {
        arch_u32(w, shape, "attention.sliding_window", 128);
        gguf_writer_key_string(w, "gpt-oss.rope.scaling.type", "yarn");
        arch_f32(w, shape, "rope.scaling.factor", 32);
        arch_u32(w, shape, "rope.scaling.original_context_length", 4096);
    }
    mkgguf_vocab(w, shape->n_vocab, families[shape->family].pre);
    gguf_writer_key_string(w, "tokenizer.chat_template", chatml);
}
