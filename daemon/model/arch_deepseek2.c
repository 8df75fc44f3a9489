/* arch_deepseek2.c: deepseek2: latent attention (MLA), leading dense layers, then experts and shared ones.
 *
 * Q comes straight from the stream or through a low rank (q_lora_rank). K and V of all heads come from one compressed
 * row of kv_lora_rank; beside it a part of K is rotated (adjacent pairs, NORM) and shared by the heads. Files that keep
 * the way up apart (attn_k_b, attn_v_b; key_length_mla) are computed in absorbed form: q goes down through attn_k_b,
 * the cache holds the compressed row and the rotated part alone, what attention gives goes up through attn_v_b. Files
 * with both in one (attn_kv_b) keep K and V of every head. YaRN multiplies the scores and not cos and sin. Scores of
 * experts by softmax or sigmoid, with a bias of the choice and groups where the file has them (DeepSeek V2, V3, R1, and
 * GLM-4.7-Flash; DeepSeek-AI 2024, "DeepSeek-V2").
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_NEEDED(COUNT, "attention.kv_lora_rank", n_kv_lora, 1, HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_OR(COUNT, "attention.q_lora_rank", n_q_lora, 0, 0, HALO_MODEL_MAX_EMBD),
    HALO_HPARAM_OR(COUNT, "attention.key_length_mla", mla_dim_k, 0, 0, HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_OR(COUNT, "attention.value_length_mla", mla_dim_v, 0, 0, HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_OR(REAL, "rope.scaling.yarn_log_multiplier", rope_yarn_log_multiplier, 0, 0, 10),
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_DENSE,
    HALO_HPARAM_NEXTN,
    HALO_HPARAMS_EXPERTS(0),
    HALO_HPARAM_GATE(SOFTMAX),
    HALO_HPARAMS_GROUPS,
    HALO_HPARAM_WEIGHTS_SCALE,
    HALO_HPARAMS_SHARED,
};

static bool has_q_lora(const struct halo_hparams *h, uint32_t layer)
{
    return h->n_q_lora > 0;
}

static bool has_direct_q(const struct halo_hparams *h, uint32_t layer)
{
    return h->n_q_lora == 0;
}

static bool is_absorbed(const struct halo_hparams *h, uint32_t layer)
{
    return h->mla_dim_k > 0;
}

static bool is_expanded(const struct halo_hparams *h, uint32_t layer)
{
    return h->mla_dim_k == 0;
}

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_VECTOR(ATTN_NORM, EMBD),
    HALO_TENSOR_ROW(ATTN_Q_A, MATRIX, EMBD, Q_LORA, ONE, .when = has_q_lora),
    HALO_TENSOR_ROW(ATTN_Q_A_NORM, VECTOR, Q_LORA, ONE, ONE, .when = has_q_lora),
    HALO_TENSOR_ROW(ATTN_Q_B, MATRIX, Q_LORA, MLA_Q, ONE, .when = has_q_lora),
    HALO_TENSOR_ROW(ATTN_Q, MATRIX, EMBD, MLA_Q, ONE, .when = has_direct_q),
    HALO_TENSOR_MATRIX(ATTN_KV_A, EMBD, KV_A),
    HALO_TENSOR_ROW(ATTN_KV_A_ROW, MATRIX, EMBD, KV_LORA, ONE, .optional = true),
    HALO_TENSOR_ROW(ATTN_KV_A_ROT, MATRIX, EMBD, ROT, ONE, .optional = true),
    HALO_TENSOR_VECTOR(ATTN_KV_A_NORM, KV_LORA),
    HALO_TENSOR_ROW(ATTN_KV_B, MATRIX, KV_LORA, KV_B, ONE, .when = is_expanded),
    HALO_TENSOR_ROW(ATTN_K_B, EXPERTS, NOPE, KV_LORA, HEADS, .when = is_absorbed),
    HALO_TENSOR_ROW(ATTN_V_B, EXPERTS, KV_LORA, MLA_V, HEADS, .when = is_absorbed),
    HALO_TENSOR_MATRIX(ATTN_OUTPUT, MLA_ATT, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_ROW(EXP_PROBS_BIAS, VECTOR, EXPERT, ONE, ONE, .optional = true, .when = halo_tensors_when_moe),
    HALO_TENSORS_SHARED,
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM});
}

const struct halo_arch halo_arch_deepseek2 = HALO_ARCH("deepseek2", hparams, tensors, build);
