/* arch_granite.c: granite: llama with four factors: of the embedding, of what a block adds to the residual stream, of
 * the attention scores, and one that the logits are divided by (IBM, Granite 3).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(REAL, "embedding_scale", embed_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "residual_scale", residual_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "attention.scale", attention_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "logit_scale", logit_scale, 0, 0, 1e6),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM, .logits_divided = true});
}

const struct halo_arch halo_arch_granite = HALO_ARCH("granite", hparams, tensors, build);
