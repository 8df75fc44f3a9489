/* arch_glm4moe.c: glm4moe: half-split (NEOX) rotation of a part of each head, biases on Q, K and V, Q/K norm in some
 * (not in Air), leading dense layers, then experts and a shared one.
 *
 * Sigmoid scores, chosen with a bias, renormalised and scaled. The norm in front of the feed-forward is named
 * post_attention_norm. Layers for multi-token prediction are part of block_count (GLM-4.5 to 4.7, transformers'
 * Glm4MoeForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,       HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_DENSE,         HALO_HPARAM_NEXTN,
    HALO_HPARAMS_EXPERTS(1),   HALO_HPARAM_GATE(SIGMOID),
    HALO_HPARAM_WEIGHTS_SCALE, HALO_HPARAMS_SHARED,
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QKV_BIAS,
    HALO_TENSOR_VECTOR_OPT(ATTN_Q_NORM, HEAD_K),
    HALO_TENSOR_VECTOR_OPT(ATTN_K_NORM, HEAD_K),
    HALO_TENSOR_VECTOR(FFN_INPUT_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_CHOICE_BIAS,
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_HEADS});
}

const struct halo_arch halo_arch_glm4moe = HALO_ARCH("glm4moe", hparams, tensors, build);
