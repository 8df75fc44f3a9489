/* toy_deepseek4.c: the keys and tensors of a small deepseek4: layer 0 has a window alone and chooses experts by token,
 * layer 1 has blocks that overlap and an index, layer 2 long blocks. See toy_gguf.h. */
#include "toy_gguf.h"

#include <stdio.h>

enum {
    D = 32,
    STREAMS = 4,
    MIX = STREAMS * (STREAMS + 2),
    HEADS = 4,
    HEAD = 16,
    LOW = 24,
    GROUPS = 2,
    RANK = 8,
    KEY = 24
};
enum { EVERY = 7, BY_TOKEN = 1, SHORT = 2, LONG = 4, BY_SCORE = SHORT | LONG };

static void layer_add(struct halo_toy *toy, uint32_t layer)
{
    static const enum halo_type type = HALO_TYPE_F16, f32 = HALO_TYPE_F32;
    const struct {
        const char *name;
        enum halo_type type;
        uint64_t d0, d1, d2;
        uint32_t layers;
    } rows[] = {
        {"hc_attn_fn.weight", f32, STREAMS * D, MIX, 0, EVERY},
        {"hc_attn_base.weight", f32, MIX, 0, 0, EVERY},
        {"hc_attn_scale.weight", f32, 3, 0, 0, EVERY},
        {"attn_norm.weight", f32, D, 0, 0, EVERY},
        {"attn_sinks.weight", f32, HEADS, 0, 0, EVERY},
        {"attn_q_a.weight", type, D, LOW, 0, EVERY},
        {"attn_q_a_norm.weight", f32, LOW, 0, 0, EVERY},
        {"attn_q_b.weight", type, LOW, HEADS * HEAD, 0, EVERY},
        {"attn_kv.weight", type, D, HEAD, 0, EVERY},
        {"attn_kv_a_norm.weight", f32, HEAD, 0, 0, EVERY},
        {"attn_output_a.weight", type, HEADS * HEAD / GROUPS, GROUPS * RANK, 0, EVERY},
        {"attn_output_b.weight", type, GROUPS * RANK, D, 0, EVERY},
        {"attn_compressor_kv.weight", type, D, 2 * HEAD, 0, SHORT},
        {"attn_compressor_gate.weight", type, D, 2 * HEAD, 0, SHORT},
        {"attn_compressor_ape.weight", f32, 2 * HEAD, 4, 0, SHORT},
        {"attn_compressor_kv.weight", type, D, HEAD, 0, LONG},
        {"attn_compressor_gate.weight", type, D, HEAD, 0, LONG},
        {"attn_compressor_ape.weight", f32, HEAD, 128, 0, LONG},
        {"attn_compressor_norm.weight", f32, HEAD, 0, 0, SHORT | LONG},
        {"indexer_compressor_kv.weight", type, D, 2 * KEY, 0, SHORT},
        {"indexer_compressor_gate.weight", type, D, 2 * KEY, 0, SHORT},
        {"indexer_compressor_ape.weight", f32, 2 * KEY, 4, 0, SHORT},
        {"indexer_compressor_norm.weight", f32, KEY, 0, 0, SHORT},
        {"indexer.attn_q_b.weight", type, LOW, 2 * KEY, 0, SHORT},
        {"indexer.proj.weight", type, D, 2, 0, SHORT},
        {"hc_ffn_fn.weight", f32, STREAMS * D, MIX, 0, EVERY},
        {"hc_ffn_base.weight", f32, MIX, 0, 0, EVERY},
        {"hc_ffn_scale.weight", f32, 3, 0, 0, EVERY},
        {"ffn_norm.weight", f32, D, 0, 0, EVERY},
        {"ffn_gate_inp.weight", f32, D, 4, 0, EVERY},
        {"ffn_gate_tid2eid.weight", HALO_TYPE_I32, 2, HALO_TOY_VOCAB, 0, BY_TOKEN},
        {"exp_probs_b.bias", f32, 4, 0, 0, BY_SCORE},
        {"ffn_gate_exps.weight", type, D, 64, 4, EVERY},
        {"ffn_up_exps.weight", type, D, 64, 4, EVERY},
        {"ffn_down_exps.weight", type, 64, D, 4, EVERY},
        {"ffn_gate_shexp.weight", type, D, 48, 0, EVERY},
        {"ffn_up_shexp.weight", type, D, 48, 0, EVERY},
        {"ffn_down_shexp.weight", type, 48, D, 0, EVERY},
    };
    char name[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!(rows[i].layers >> layer & 1))
            continue;
        snprintf(name, sizeof(name), "blk.%u.%s", layer, rows[i].name);
        halo_toy_add(toy, name, rows[i].type, rows[i].d0, rows[i].d1, rows[i].d2);
    }
}

void halo_toy_deepseek4_tensors(struct halo_toy *toy)
{
    halo_toy_add(toy, "output_hc_fn.weight", HALO_TYPE_F32, STREAMS * D, STREAMS, 0);
    halo_toy_add(toy, "output_hc_base.weight", HALO_TYPE_F32, STREAMS, 0, 0);
    halo_toy_add(toy, "output_hc_scale.weight", HALO_TYPE_F32, 1, 0, 0);
    for (uint32_t layer = 0; layer < 3; layer++)
        layer_add(toy, layer);
}

void halo_toy_deepseek4_keys(struct halo_toy *toy)
{
    static const double ratios[] = {0, 4, 128}, limits[] = {0, 7, 10};

    halo_toy_set(toy, "attention.head_count_kv", HALO_GGUF_U32, 1);
    halo_toy_set(toy, "attention.q_lora_rank", HALO_GGUF_U32, LOW);
    halo_toy_set(toy, "attention.sliding_window", HALO_GGUF_U32, 64);
    halo_toy_set(toy, "attention.output_group_count", HALO_GGUF_U32, GROUPS);
    halo_toy_set(toy, "attention.output_lora_rank", HALO_GGUF_U32, RANK);
    halo_toy_set(toy, "attention.compress_rope_freq_base", HALO_GGUF_F32, 160000);
    halo_toy_set(toy, "attention.indexer.head_count", HALO_GGUF_U32, 2);
    halo_toy_set(toy, "attention.indexer.key_length", HALO_GGUF_U32, KEY);
    halo_toy_set(toy, "attention.indexer.top_k", HALO_GGUF_U32, 3);
    halo_toy_set_array(toy, "attention.compress_ratios", HALO_GGUF_U32, 3, ratios);
    halo_toy_set(toy, "rope.dimension_count", HALO_GGUF_U32, 8);
    halo_toy_set(toy, "hyper_connection.count", HALO_GGUF_U32, STREAMS);
    halo_toy_set(toy, "hyper_connection.sinkhorn_iterations", HALO_GGUF_U32, 20);
    halo_toy_set(toy, "hyper_connection.epsilon", HALO_GGUF_F32, 1e-6);
    halo_toy_set(toy, "hash_layer_count", HALO_GGUF_U32, 1);
    halo_toy_set_array(toy, "swiglu_clamp_exp", HALO_GGUF_F32, 3, limits);
    halo_toy_set(toy, "swiglu_clamp_shexp", HALO_GGUF_F32, 10);
}
