/* arch_exaone4.c: exaone4: no norms in front of the blocks, one behind each, before its result is added; an RMS norm
 * on each head of Q and K in front of the half-split (NEOX) rotation. With a window (32B) every fourth layer is
 * without it and does not rotate (LG AI Research, EXAONE 4.0).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window", window, 0, 0, HALO_MODEL_MAX_CONTEXT),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_ROW(ROPE_FREQS, VECTOR, ROT_PAIRS, ONE, ONE, .optional = true, .host = true),
    HALO_TENSORS_PROJECTIONS,
    HALO_TENSORS_QK_NORM,
    HALO_TENSOR_VECTOR(ATTN_POST_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
    HALO_TENSOR_VECTOR(FFN_POST_NORM, EMBD),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX,
                                                        .qk_norm = HALO_QK_NORM_HEADS,
                                                        .period = builder->hparams->window > 0 ? 4 : 0,
                                                        .global_unrotated = true});
}

const struct halo_arch halo_arch_exaone4 = HALO_ARCH("exaone4", hparams, tensors, build);
