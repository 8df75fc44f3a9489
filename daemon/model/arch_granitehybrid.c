/* arch_granitehybrid.c: granitehybrid: granite with Mamba-2 instead of attention in most layers; attention without
 * rotation, unless rope.scaling.finetuned says otherwise; experts and a shared one, or a dense feed-forward.
 *
 * Softmax scores over all experts, the best expert_used_count renormalised, each as wide as feed_forward_length (IBM,
 * Granite 4 H, transformers' GraniteMoeHybridForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_HYBRID,
    HALO_HPARAMS_MAMBA,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "expert_count", n_expert, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_OR(COUNT, "expert_used_count", n_expert_used, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_FIXED(FLAG, expert_normalise, 1),
    HALO_HPARAM_FROM(COUNT, "expert_feed_forward_length", n_ff_expert, halo_hparams_ff_length, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "expert_shared_feed_forward_length", n_ff_shared, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(FLAG, "rope.scaling.finetuned", rotated, 1, 0, 1),
    HALO_HPARAM_OR(REAL, "embedding_scale", embed_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "residual_scale", residual_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "attention.scale", attention_scale, 0, 0, 1e6),
    HALO_HPARAM_OR(REAL, "logit_scale", logit_scale, 0, 0, 1e6),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_MAMBA(halo_tensors_when_state),
    HALO_TENSOR_ROW(SSM_NORM, VECTOR, SSM_GROUP, SSM_GROUPS, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM,
                                                        .unrotated = !builder->hparams->rotated,
                                                        .logits_divided = true,
                                                        .mixer = halo_blocks_mamba});
}

const struct halo_arch halo_arch_granitehybrid = HALO_ARCH("granitehybrid", hparams, tensors, build);
