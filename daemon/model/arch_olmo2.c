/* arch_olmo2.c: olmo2: no norms in front of the blocks, one behind each, before its result is added; an RMS norm over
 * the whole projection of Q and of K, in front of the half-split (NEOX) rotation (Ai2, OLMo 2).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_PROJECTIONS,
    HALO_TENSOR_VECTOR(ATTN_Q_NORM, Q),
    HALO_TENSOR_VECTOR(ATTN_K_NORM, K),
    HALO_TENSOR_VECTOR(ATTN_POST_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
    HALO_TENSOR_VECTOR(FFN_POST_NORM, EMBD),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_WHOLE});
}

const struct halo_arch halo_arch_olmo2 = HALO_ARCH("olmo2", hparams, tensors, build);
