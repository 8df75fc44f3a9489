/* arch_qwen3.c: qwen3: half-split (NEOX) rotation, an RMS norm on each head of Q and K before it, heads of their own
 * width. */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,      HALO_TENSORS_ATTENTION, HALO_TENSORS_QK_NORM, HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_HEADS});
}

const struct halo_arch halo_arch_qwen3 = HALO_ARCH("qwen3", hparams, tensors, build);
