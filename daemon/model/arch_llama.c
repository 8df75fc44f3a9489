/* arch_llama.c: llama: adjacent-pair (NORM) rotation, optional rotary factors, optional biases of attention and
 * feed-forward, Q, K and V in one tensor or in three, and Mixtral's experts.
 *
 * The converter permutes the rows of Q and K so that pairs (2i, 2i+1) rotate together. With expert_count the
 * feed-forward is a mixture: softmax over all experts, the best expert_used_count renormalised, each as wide as
 * feed_forward_length.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "expert_count", n_expert, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_OR(COUNT, "expert_used_count", n_expert_used, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_FIXED(FLAG, expert_normalise, 1),
    HALO_HPARAM_FROM(COUNT, "expert_feed_forward_length", n_ff_expert, halo_hparams_ff_length, 0, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_ROW(ROPE_FREQS, VECTOR, ROT_PAIRS, ONE, ONE, .optional = true, .host = true),
    HALO_TENSOR_ROW(ATTN_QKV, MATRIX, EMBD, QKV, ONE, .optional = true),
    HALO_TENSOR_VECTOR_OPT(ATTN_QKV_BIAS, QKV),
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR_OPT(ATTN_Q_BIAS, Q),
    HALO_TENSOR_VECTOR_OPT(ATTN_K_BIAS, K),
    HALO_TENSOR_VECTOR_OPT(ATTN_V_BIAS, V),
    HALO_TENSOR_VECTOR_OPT(ATTN_OUTPUT_BIAS, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_GATE_BIAS, VECTOR, FF, ONE, ONE, .optional = true, .when = halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_UP_BIAS, VECTOR, FF, ONE, ONE, .optional = true, .when = halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_DOWN_BIAS, VECTOR, EMBD, ONE, ONE, .optional = true, .when = halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM});
}

const struct halo_arch halo_arch_llama = HALO_ARCH("llama", hparams, tensors, build);
