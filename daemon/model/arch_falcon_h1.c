/* arch_falcon_h1.c: falcon-h1: attention and Mamba-2 side by side on one norm in every layer, then a dense
 * feed-forward.
 *
 * Half-split (NEOX) rotation. The norm in front of the feed-forward has a name without ".weight", and the norm of
 * Mamba-2's groups is there in some sizes only. The multipliers of the model are part of its weights (TII, Falcon-H1,
 * transformers' FalconH1ForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAMS_MAMBA,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_MAMBA(NULL),
    HALO_TENSOR_ROW(SSM_NORM, VECTOR, SSM_GROUP, SSM_GROUPS, ONE, .optional = true),
    HALO_TENSOR_VECTOR(FFN_NORM_BARE, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .beside = halo_blocks_mamba});
}

const struct halo_arch halo_arch_falcon_h1 = HALO_ARCH("falcon-h1", hparams, tensors, build);
