/* arch_smollm3.c: smollm3: llama whose every fourth layer does not rotate Q and K (Hugging Face, SmolLM3). No key
 * says which.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder,
                        &(struct halo_decoder){.pairing = HALO_ROPE_NORM, .period = 4, .global_unrotated = true});
}

const struct halo_arch halo_arch_smollm3 = HALO_ARCH("smollm3", hparams, tensors, build);
