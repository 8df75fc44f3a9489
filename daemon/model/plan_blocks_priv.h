/* plan_blocks_priv.h: the blocks that families share, written in the builder's verbs.
 *
 * The values (activations) of such a decoder and how they are reused:
 *   x        the residual stream; every block adds to it
 *   normed   input of a block, after its norm
 *   q k v    of the row; q and k are normed and rotated in place
 *   att      heads of the attention, side by side
 *   out      what a block gives; the next norm adds it to x
 *   gate up  halves of the feed-forward; their product replaces gate
 *   router, choice, slot_gate, slot_up, slot_out   the same for the chosen experts, one slot each
 *   shared_gate, shared_up, shared                 the same for the expert that every row takes
 *   shared_in                                      the logit of that expert's gate
 */
#ifndef HALO_MODEL_PLAN_BLOCKS_PRIV_H
#define HALO_MODEL_PLAN_BLOCKS_PRIV_H

#include "plan_builder_priv.h"

struct halo_blocks {
    uint16_t x, normed, q, k, v, att, out;
    uint16_t gate, up;                                     /* dense */
    uint16_t router, choice, slot_gate, slot_up, slot_out; /* experts */
    uint16_t shared_gate, shared_up, shared, shared_in;
};

/* Adds the values that the model needs to the plan. */
struct halo_blocks halo_blocks_make(struct halo_builder *builder);

struct halo_attention { /* what a family's attention does beyond the common */
    uint32_t rope;
    bool qk_norm;
    float scale; /* of the scores */
};
/* normed -> q, k, v -> cache -> att -> out */
void halo_blocks_attention(struct halo_builder *builder, const struct halo_blocks *values,
                           const struct halo_attention *attention);
/* normed -> out: the feed-forward of this layer: dense, or the chosen experts' and the shared one's. */
void halo_blocks_ffn(struct halo_builder *builder, const struct halo_blocks *values);

/* The whole pre-norm decoder: embed, n layers of norm-attention-norm-feed-forward, final norm, logits. */
void halo_blocks_decoder(struct halo_builder *builder, enum halo_rope_pairing pairing, bool qk_norm);

#endif
