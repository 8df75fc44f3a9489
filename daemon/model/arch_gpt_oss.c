/* arch_gpt_oss.c: gpt-oss: a window in every other layer, the first included, a sink for each head, YaRN, biases on
 * every matrix, router and experts included, and a gated unit that is limited (OpenAI, gpt-oss-20b and -120b).
 *
 * The experts are chosen by their logits and weighted by the softmax over the chosen ones, which is the renormalised
 * softmax over all. The norm in front of the feed-forward is named post_attention_norm.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS_OR(ALIKE, "feed_forward_length", n_ff, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_NEEDED(COUNT, "expert_feed_forward_length", n_ff_expert, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_NEEDED(COUNT, "attention.sliding_window", window, 1, HALO_MODEL_MAX_CONTEXT),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QKV_BIAS,
    HALO_TENSOR_VECTOR(ATTN_OUTPUT_BIAS, EMBD),
    HALO_TENSOR_VECTOR(ATTN_SINKS, HEADS),
    HALO_TENSOR_VECTOR(FFN_INPUT_NORM, EMBD),
    HALO_TENSORS_MOE(NULL),
    HALO_TENSORS_MOE_BIAS(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder,
                        &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .act = HALO_GLU_CLAMPED, .period = 2});
}

const struct halo_arch halo_arch_gpt_oss = HALO_ARCH("gpt-oss", hparams, tensors, build);
