/* arch_starcoder2.c: starcoder2: layer norms with biases, biases on every matrix, a feed-forward of two matrices with
 * GELU in its tanh form, half-split (NEOX) rotation (BigCode, StarCoder 2).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON_LAYER_NORM,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_VECTOR(OUTPUT_NORM_BIAS, EMBD),
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(ATTN_NORM_BIAS, EMBD),
    HALO_TENSORS_QKV_BIAS,
    HALO_TENSOR_VECTOR(ATTN_OUTPUT_BIAS, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM_BIAS, EMBD),
    HALO_TENSOR_MATRIX(FFN_UP, EMBD, FF),
    HALO_TENSOR_VECTOR(FFN_UP_BIAS, FF),
    HALO_TENSOR_MATRIX(FFN_DOWN, FF, EMBD),
    HALO_TENSOR_VECTOR(FFN_DOWN_BIAS, EMBD),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder,
                        &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .act = HALO_GLU_GELU, .layer_norms = true});
}

const struct halo_arch halo_arch_starcoder2 = HALO_ARCH("starcoder2", hparams, tensors, build);
