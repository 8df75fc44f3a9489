/* arch_ernie4_5_moe.c: ernie4_5-moe: adjacent-pair (NORM) rotation, leading dense layers, then experts and a shared
 * one.
 *
 * Softmax over all experts, chosen with a bias, renormalised (ERNIE 4.5, Baidu's Ernie4_5_MoeForCausalLM). Experts are
 * in every layer behind the dense ones.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_DENSE,
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_NEEDED(COUNT, "expert_feed_forward_length", n_ff_expert, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "expert_shared_count", n_expert_shared, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_OR(COUNT, "expert_shared_feed_forward_length", n_ff_shared, 0, 0, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_CHOICE_BIAS,
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM});
}

const struct halo_arch halo_arch_ernie4_5_moe = HALO_ARCH("ernie4_5-moe", hparams, tensors, build);
