/* arch_qwen3moe.c: qwen3moe: qwen3 with a mixture of experts in every layer.
 *
 * Softmax over all experts, the best expert_used_count renormalised. The experts' width is a key of its own; early
 * files have only feed_forward_length, which the experts in use then share.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS_OR(ALIKE, "feed_forward_length", n_ff, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_FROM(COUNT, "expert_feed_forward_length", n_ff_expert, halo_hparams_ff_share, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,      HALO_TENSORS_ATTENTION, HALO_TENSORS_QK_NORM, HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_MOE(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_HEADS});
}

const struct halo_arch halo_arch_qwen3moe = HALO_ARCH("qwen3moe", hparams, tensors, build);
