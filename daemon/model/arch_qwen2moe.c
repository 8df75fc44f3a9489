/* arch_qwen2moe.c: qwen2moe: half-split (NEOX) rotation, biases on Q, K and V, a mixture of experts in every layer.
 *
 * Softmax over all experts, the weights of the best expert_used_count as they are. A shared expert of its own width is
 * multiplied with the sigmoid of a gate of its own (Qwen1.5-MoE and Qwen2-57B-A14B, transformers' Qwen2MoeForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS_OR(ALIKE, "feed_forward_length", n_ff, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAMS_EXPERTS(0),
    HALO_HPARAM_FROM(COUNT, "expert_feed_forward_length", n_ff_expert, halo_hparams_ff_share, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_NEEDED(COUNT, "expert_shared_feed_forward_length", n_ff_shared, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,      HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QKV_BIAS,  HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_MOE(NULL), HALO_TENSOR_MATRIX(FFN_GATE_INP_SHEXP, EMBD, ONE),
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX});
}

const struct halo_arch halo_arch_qwen2moe = HALO_ARCH("qwen2moe", hparams, tensors, build);
