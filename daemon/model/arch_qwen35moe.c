/* arch_qwen35moe.c: qwen35moe: qwen35 with a mixture of experts in every layer.
 *
 * Softmax over all experts, the weights of the best expert_used_count renormalised, and a shared expert multiplied with
 * the sigmoid of a gate of its own (Qwen3.5 and 3.6 A3B, A10B; transformers' Qwen3_5MoeForCausalLM).
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
    HALO_TENSOR_STATE_ROW(DELTA_QKV, MATRIX, EMBD, SSM_ROW),
    HALO_TENSOR_STATE_ROW(ATTN_GATE, MATRIX, EMBD, SSM_INNER),
    HALO_TENSOR_STATE_ROW(SSM_BETA, MATRIX, EMBD, SSM_HEADS),
    HALO_TENSOR_STATE_ROW(SSM_ALPHA, MATRIX, EMBD, SSM_HEADS),
    HALO_TENSORS_MOE(NULL),
    HALO_TENSOR_MATRIX(FFN_GATE_INP_SHEXP, EMBD, ONE),
    HALO_TENSORS_SHARED,
};

static void mixer(struct halo_builder *builder, const struct halo_blocks *values)
{
    halo_blocks_delta(builder, values, false);
}

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX,
                                                        .qk_norm = HALO_QK_NORM_HEADS,
                                                        .gated_attention = true,
                                                        .mixer = mixer});
}

const struct halo_arch halo_arch_qwen35moe = HALO_ARCH("qwen35moe", hparams, tensors, build);
