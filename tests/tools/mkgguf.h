/* mkgguf.h: the parts of the model generator: shape -> keys, vocabulary and tensors -> bytes -> files. One thread, but
 * for the output. */
#ifndef HALO_TESTS_MKGGUF_H
#define HALO_TESTS_MKGGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "gguf_writer.h"

enum mkgguf_family {
    MKGGUF_LLAMA,
    MKGGUF_QWEN2,
    MKGGUF_QWEN3,
    MKGGUF_QWEN3MOE,
    MKGGUF_GPT_OSS,
    MKGGUF_GLM4MOE,
    MKGGUF_MINIMAX_M2,
    MKGGUF_DEEPSEEK2,
    MKGGUF_NEMOTRON_H_MOE,
    MKGGUF_QWEN35,
    MKGGUF_QWEN35MOE,
    MKGGUF_QWEN3NEXT,
    MKGGUF_GEMMA4,
    MKGGUF_LFM2MOE,
    MKGGUF_GRANITEHYBRID,
    MKGGUF_FALCON_H1,
    MKGGUF_DEEPSEEK4,
    MKGGUF_FAMILIES
};

struct mkgguf_shape {
    const char *preset;
    enum mkgguf_family family;
    uint32_t n_layers, n_embd, n_head, n_head_kv, head_dim, n_ff;
    uint32_t n_expert, n_expert_used, n_ff_expert; /* 0: dense */
    uint32_t n_vocab, n_context;
    float rope_base;
    bool tied;                            /* the embedding is also the output matrix */
    bool rope_factors;                    /* llama: 1 for each pair that turns */
    uint32_t n_dense;                     /* leading layers without experts */
    uint32_t n_shared;                    /* experts that every row takes */
    uint32_t n_rot;                       /* of a head; 0: all of it */
    uint32_t q_lora, kv_lora, head_dim_v; /* latent attention: the ranks, and the width of V in a head */
    float expert_scale;
    bool zipf; /* routers choose as those of published models; else nearly every expert alike */
    /* What each layer has: M Mamba-2, C a short convolution, * attention, E experts; NULL: attention. But for
     * nemotron_h_moe a feed-forward follows. */
    const char *layers;
    uint32_t n_conv, ssm_inner, ssm_state, ssm_heads, ssm_groups; /* of Mamba-2, of the gated delta rule */
    uint32_t interval;    /* the last of so many layers has attention, the others the gated delta rule */
    uint32_t n_ff_shared; /* 0: n_shared times n_ff_expert */
    /* gemma4: layers with a window have the heads above; the last of `interval` and the last of all these and none. */
    uint32_t window, n_head_kv_global, head_dim_global;
    float embed_scale, residual_scale, attention_scale, logit_scale; /* of granitehybrid */
    /* deepseek4: residual streams, compressed blocks, and experts by token in the first layers. */
    uint32_t n_streams, n_out_groups, out_lora, indexer_heads, indexer_dim, indexer_top_k, n_hash;
};

/* NULL for an unknown name. */
const struct mkgguf_shape *mkgguf_preset(const char *name);
void mkgguf_presets_print(void);
const char *mkgguf_family_name(enum mkgguf_family family);
void mkgguf_families_print(void);
bool mkgguf_is_mixture(enum mkgguf_family family); /* never without experts */
bool mkgguf_may_mix(enum mkgguf_family family);    /* with experts or without */
bool mkgguf_has_router_bias(enum mkgguf_family family);
bool mkgguf_is_global(const struct mkgguf_shape *shape, uint32_t layer); /* of gemma4: no window */
bool mkgguf_has_delta_rule(enum mkgguf_family family);
bool mkgguf_has_layers(enum mkgguf_family family); /* by shape->layers */
uint32_t mkgguf_ratio(uint32_t layer);             /* of deepseek4: positions of a compressed block; 0: none */
int mkgguf_family_parse(const char *name, enum mkgguf_family *ret);

/* A single type or a mixture of the kind quantizers make. */
struct mkgguf_types {
    const char *name;
    uint32_t base;      /* most matrices */
    uint32_t more;      /* half of attn_v and ffn_down, and the output; the same as base when not a mixture */
    uint32_t file_type; /* general.file_type */
    uint32_t experts, experts_down; /* gate and up of experts, and their down; both F32: as the others */
};
const struct mkgguf_types *mkgguf_types_find(const char *name);
void mkgguf_types_print(void);

struct mkgguf_tensor {
    char name[HALO_GGUF_MAX_NAME + 1];
    uint32_t n_dims;
    uint64_t dims[3];
    uint32_t type;
    enum { MKGGUF_RANDOM, MKGGUF_ONES, MKGGUF_MINUS_ONES, MKGGUF_IDS, MKGGUF_ZIPF } fill;
    uint32_t n_ids;  /* ids of a row are below it, and each another */
    uint32_t n_used; /* of MKGGUF_ZIPF: experts that a token chooses */
    float deviation; /* of random weights */
    uint64_t n_bytes;
    uint64_t number; /* in the whole set: with the seed it determines the bytes */
};

/* Calls `emit` for each tensor in file order; stops and returns its result when that is not 0. */
typedef int mkgguf_emit(void *ud, const struct mkgguf_tensor *tensor);
int mkgguf_tensors(const struct mkgguf_shape *shape, const struct mkgguf_types *types, mkgguf_emit *emit, void *ud);

void mkgguf_keys(struct gguf_writer *w, const struct mkgguf_shape *shape, const struct mkgguf_types *types,
                 uint64_t seed);
void mkgguf_vocab(struct gguf_writer *w, uint32_t n_vocab, const char *pre);

/* Fills n_bytes (whole blocks) of weights of one type: reproducible from `stream`, with the given standard deviation.
 */
void mkgguf_fill(uint32_t type, float deviation, uint64_t stream, uint8_t *bytes, uint64_t n_bytes);
void mkgguf_fill_number(float number, uint8_t *bytes, uint64_t n_bytes); /* of F32 */
/* Rows of n_used different ids below n_ids, from the element `first` of all on; I32. */
void mkgguf_fill_ids(uint64_t first, uint64_t n_used, uint32_t n_ids, uint8_t *bytes, uint64_t n_bytes);
/* The biases of a layer's experts with which a router of random weights and sigmoid scores chooses n_used of them by
 * Zipf's law, as published models do (HALO_ROUTING_ZIPF_PUBLISHED); the popular ones depend on `stream`. F32. */
void mkgguf_fill_zipf(uint32_t n_used, uint64_t stream, uint8_t *bytes, uint64_t n_bytes);

/* A file that is written in large direct blocks by a second thread, while the first makes the next block. */
struct mkgguf_out;
int mkgguf_out_open(struct mkgguf_out **ret, const char *path, uint64_t expected_bytes);
/* A block to fill; *ret_room is its size, less at the end. After a failed write there is none: NULL. */
uint8_t *mkgguf_out_room(struct mkgguf_out *out, size_t *ret_room);
void mkgguf_out_advance(struct mkgguf_out *out, size_t n);
int mkgguf_out_write(struct mkgguf_out *out, const void *bytes, size_t n);
int mkgguf_out_close(struct mkgguf_out *out); /* the first error of all, negative errno, or 0 */

#endif
