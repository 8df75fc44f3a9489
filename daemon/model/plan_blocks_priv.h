/* plan_blocks_priv.h: the blocks that families share, written in the builder's verbs.
 *
 * The values (activations) of such a decoder and how they are reused:
 *   x        the residual stream; every block adds to it
 *   normed   input of a block, after its norm
 *   q k v    of the row; q and k are normed and rotated in place
 *   att      heads of the attention, side by side
 *   q_gated, q_gate   q with a gate behind each head, and those gates, where attention has them
 *   out      what a block gives; the next norm adds it to x
 *   gate up  halves of the feed-forward; their product replaces gate
 *   router, choice, slot_gate, slot_up, slot_out   the same for the chosen experts, one slot each
 *   shared_gate, shared_up, shared                 the same for the expert that every row takes
 *   shared_in                                      the logit of that expert's gate
 */
#ifndef HALO_MODEL_PLAN_BLOCKS_PRIV_H
#define HALO_MODEL_PLAN_BLOCKS_PRIV_H

#include "plan_builder_priv.h"

/* Of latent attention (plan_latent.c); q, k, v and att below are what the cache's group has. */
struct halo_latent {
    uint16_t q_low, q_up;   /* q of a low rank, and of all heads */
    uint16_t q_row, q_rot;  /* of each head: the part for the compressed row, and the rotated one */
    uint16_t row, k_rot;    /* the compressed row, the rotated part of K */
    uint16_t q_down, heads; /* absorbed: q_row as it meets the row, and what attention gives, brought up again */
    uint16_t kv_up;         /* expanded: K's unrotated part and V of each head */
};

struct halo_blocks {
    uint16_t x, normed, q, k, v, att, out;
    uint16_t gate, up;                                     /* dense */
    uint16_t router, choice, slot_gate, slot_up, slot_out; /* experts */
    uint16_t shared_gate, shared_up, shared, shared_in;
    struct halo_latent latent;
};

/* Adds the values that the model needs to the plan. */
struct halo_blocks halo_blocks_make(struct halo_builder *builder);
void halo_blocks_make_experts(struct halo_builder *builder, struct halo_blocks *values); /* router .. slot_out */

/* Norms of q and k: over each head, before the rotation or behind it, or over the whole projection before it. */
enum halo_qk_norm { HALO_QK_NORM_NONE, HALO_QK_NORM_HEADS, HALO_QK_NORM_ROTATED, HALO_QK_NORM_WHOLE };
#define HALO_ROPE_NONE UINT32_MAX

struct halo_attention { /* what a family's attention does beyond the common */
    uint32_t rope;      /* HALO_ROPE_NONE: q and k are not rotated */
    enum halo_qk_norm qk_norm;
    bool gated; /* attn_q gives q and a gate for each head; what attention gives is multiplied with its sigmoid */
    struct halo_op_attend how; /* scale, window, cap, temperature */
};
/* normed -> q, k, v -> cache -> att -> out */
void halo_blocks_attention(struct halo_builder *builder, const struct halo_blocks *values,
                           const struct halo_attention *attention);
/* The same with a compressed row of n_kv_lora between normed and K and V. */
struct halo_latent halo_latent_make(struct halo_builder *builder);
float halo_latent_scale(const struct halo_hparams *hparams); /* of the scores */
void halo_blocks_latent(struct halo_builder *builder, const struct halo_blocks *values,
                        const struct halo_attention *attention);
/* normed -> out: the gated delta rule over a convolution of q, k and v. grouped: struct halo_op_delta_rule; alpha and
 * beta are two tensors, or the rows of one, in turn for each head of k, beta first. */
void halo_blocks_delta(struct halo_builder *builder, const struct halo_blocks *values, bool grouped);
/* normed -> out: Mamba-2. */
void halo_blocks_mamba(struct halo_builder *builder, const struct halo_blocks *values);
/* Attention over a window and over compressed blocks (plan_compressed.c): its rotations of layers without blocks and
 * with, what undoes them, and the groups of the cache: rows of the window, long blocks and short ones, keys of an
 * index. */
struct halo_compressed {
    uint32_t rope[2], back[2];
    uint32_t rows, blocks[2], keys;
    uint32_t state_width;
};
struct halo_compressed halo_compressed_make(struct halo_builder *builder);
void halo_blocks_compressed(struct halo_builder *builder, const struct halo_blocks *values,
                            const struct halo_compressed *compressed);
/* normed -> out: the feed-forward of this layer: dense, or the chosen experts' and the shared one's. Without the tensor
 * of a gate the activation is of up alone. */
void halo_blocks_ffn(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act);
/* Its parts: the dense one; and normed -> slot_out by the choice. */
void halo_blocks_dense(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act);
void halo_blocks_experts(struct halo_builder *builder, const struct halo_blocks *values, enum halo_glu_act act);

/* What a family's decoder does beyond the common one; zero is the common one. */
struct halo_decoder {
    enum halo_rope_pairing pairing;
    enum halo_qk_norm qk_norm;
    enum halo_glu_act act;
    bool layer_norms; /* norms take the mean off */
    bool parallel;    /* the feed-forward reads what attention reads, and both are added to x */
    uint32_t period;  /* the last of so many layers is global: it has no window; 0: all have the window if any has */
    bool gated_attention;               /* struct halo_attention */
    bool global_unrotated;              /* global layers do not rotate q and k */
    bool logits_divided;                /* by logit_scale, not multiplied */
    float embed_scale, attention_scale; /* 0: the hyper-parameters', or none and 1 / sqrt(head_dim_k) */
    bool unrotated;                     /* no layer rotates q and k */
    /* What layers have instead of attention, in those without, or beside it in all: normed -> out. */
    void (*mixer)(struct halo_builder *builder, const struct halo_blocks *values);
    void (*beside)(struct halo_builder *builder, const struct halo_blocks *values);
};

/* The whole decoder: embed, n layers of attention and feed-forward, final norm, logits. The norms are those whose
 * tensors the file has: in front of a block, behind it and before its result is added to x, or both. Scales, caps and
 * windows are those of the hyper-parameters. */
void halo_blocks_decoder(struct halo_builder *builder, const struct halo_decoder *decoder);

#endif
