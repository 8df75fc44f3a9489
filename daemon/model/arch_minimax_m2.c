/* arch_minimax_m2.c: minimax-m2: half-split (NEOX) rotation of a part of each head, norms of Q and of K over all heads
 * together, a mixture of experts in every layer.
 *
 * Sigmoid scores, chosen with a bias, renormalised (MiniMax-M2, transformers' MiniMaxM2ForCausalLM). The width of an
 * expert is a key of its own; early files have only feed_forward_length.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_GATE(SIGMOID),
    HALO_HPARAM_WEIGHTS_SCALE,
    HALO_HPARAM_FROM(COUNT, "expert_feed_forward_length", n_ff_expert, halo_hparams_ff_length, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(ATTN_Q_NORM, Q),
    HALO_TENSOR_VECTOR(ATTN_K_NORM, K),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_MOE(NULL),
    HALO_TENSOR_CHOICE_BIAS,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_WHOLE});
}

const struct halo_arch halo_arch_minimax_m2 = HALO_ARCH("minimax-m2", hparams, tensors, build);
