/* arch_qwen3next.c: qwen3next: qwen35moe in an older order. Heads of v that share a head of q and k lie side by side,
 * and the rows of alpha and beta are in one tensor, those of a head of k together. Early files have q, k, v and z in
 * one tensor in the same way (ssm_in) (Qwen3-Next and Qwen3-Coder-Next, transformers' Qwen3NextForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAMS_DELTA,
    HALO_HPARAM_NEXTN,
    HALO_HPARAM_LAYERS_OR(ALIKE, "feed_forward_length", n_ff, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_NEEDED(COUNT, "expert_feed_forward_length", n_ff_expert, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_NEEDED(COUNT, "expert_shared_feed_forward_length", n_ff_shared, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_DELTA,
    HALO_TENSOR_ROW(DELTA_QKVZ, MATRIX, EMBD, SSM_QKVZ, ONE, .optional = true, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(DELTA_QKV, MATRIX, EMBD, SSM_ROW, ONE, .when = halo_tensors_when_state,
                    .instead = HALO_TENSOR_DELTA_QKVZ + 1),
    HALO_TENSOR_ROW(ATTN_GATE, MATRIX, EMBD, SSM_INNER, ONE, .when = halo_tensors_when_state,
                    .instead = HALO_TENSOR_DELTA_QKVZ + 1),
    HALO_TENSOR_STATE_ROW(SSM_BETA_ALPHA, MATRIX, EMBD, SSM_HEADS_2),
    HALO_TENSORS_MOE(NULL),
    HALO_TENSOR_MATRIX(FFN_GATE_INP_SHEXP, EMBD, ONE),
    HALO_TENSORS_SHARED,
};

static void mixer(struct halo_builder *builder, const struct halo_blocks *values)
{
    halo_blocks_delta(builder, values, true);
}

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX,
                                                        .qk_norm = HALO_QK_NORM_HEADS,
                                                        .gated_attention = true,
                                                        .mixer = mixer});
}

const struct halo_arch halo_arch_qwen3next = HALO_ARCH("qwen3next", hparams, tensors, build);
