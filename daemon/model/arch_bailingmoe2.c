/* arch_bailingmoe2.c: bailingmoe2: half-split (NEOX) rotation of a part of each head, Q, K and V in one tensor, Q/K
 * norm, leading dense layers, then experts in groups and a shared one.
 *
 * Sigmoid scores, chosen with a bias among the experts of the best groups, renormalised and scaled. Layers for
 * multi-token prediction are part of block_count (Ling 2 and Ring 2, inclusionAI's BailingMoeV2ForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,     HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_DENSE,       HALO_HPARAM_NEXTN,
    HALO_HPARAMS_EXPERTS(1), HALO_HPARAM_GATE(SIGMOID),
    HALO_HPARAMS_GROUPS,     HALO_HPARAM_WEIGHTS_SCALE,
    HALO_HPARAMS_SHARED,
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_ROW(ATTN_QKV, MATRIX, EMBD, QKV, ONE, .optional = true),
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QK_NORM,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_CHOICE_BIAS,
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_HEADS});
}

const struct halo_arch halo_arch_bailingmoe2 = HALO_ARCH("bailingmoe2", hparams, tensors, build);
