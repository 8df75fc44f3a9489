/* arch_seed_oss.c: seed_oss: half-split (NEOX) rotation, biases on Q, K and V, heads of their own width; the norm in
 * front of the feed-forward is named post_attention_norm (ByteDance, Seed-OSS).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,      HALO_TENSORS_ATTENTION, HALO_TENSORS_QKV_BIAS, HALO_TENSOR_VECTOR(FFN_INPUT_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX});
}

const struct halo_arch halo_arch_seed_oss = HALO_ARCH("seed_oss", hparams, tensors, build);
