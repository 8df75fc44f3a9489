/* tensors_priv.h: the tensors of a decoder by role, and how a family lists those it has.
 *
 * A row gives the name in the file, what kind of weight it is, its dimensions as expressions of the hyper-parameters,
 * and when it is there. Names: the tensor-name table of gguf.md in ggml. To add a tensor: one line in
 * HALO_TENSOR_LIST, one row in the table of each family that has it.
 */
#ifndef HALO_MODEL_TENSORS_PRIV_H
#define HALO_MODEL_TENSORS_PRIV_H

#include <kernels/plan.h>

#include <model/model.h>

/* X(identifier, name; %u is the layer). Two roles may have one name: no family has both. FFN_INPUT_NORM is the norm in
 * front of the feed-forward where files give it the name of the one behind attention; TOKEN_EMBD_NORM is the final norm
 * where they call it so; FFN_GATE_UP has the rows of the
 * gate, then those of FFN_UP, whose name it has; FFN_GATE_UP_EXPS the same for each expert. */
#define HALO_TENSOR_LIST(X)                                                                                            \
    X(TOKEN_EMBD, "token_embd.weight")                                                                                 \
    X(TOKEN_EMBD_NORM, "token_embd_norm.weight")                                                                       \
    X(OUTPUT_NORM, "output_norm.weight")                                                                               \
    X(OUTPUT_NORM_BIAS, "output_norm.bias")                                                                            \
    X(OUTPUT, "output.weight")                                                                                         \
    X(OUTPUT_BIAS, "output.bias")                                                                                      \
    X(OUTPUT_HC_FN, "output_hc_fn.weight")                                                                             \
    X(OUTPUT_HC_BASE, "output_hc_base.weight")                                                                         \
    X(OUTPUT_HC_SCALE, "output_hc_scale.weight")                                                                       \
    X(ROPE_FREQS, "rope_freqs.weight")                                                                                 \
    X(PER_LAYER_TOKEN_EMBD, "per_layer_token_embd.weight")                                                             \
    X(PER_LAYER_MODEL_PROJ, "per_layer_model_proj.weight")                                                             \
    X(PER_LAYER_PROJ_NORM, "per_layer_proj_norm.weight")                                                               \
    X(ROPE_FACTORS_LONG, "rope_factors_long.weight")                                                                   \
    X(ROPE_FACTORS_SHORT, "rope_factors_short.weight")                                                                 \
    X(ATTN_NORM, "blk.%u.attn_norm.weight")                                                                            \
    X(ATTN_NORM_BIAS, "blk.%u.attn_norm.bias")                                                                         \
    X(ATTN_QKV, "blk.%u.attn_qkv.weight")                                                                              \
    X(ATTN_Q, "blk.%u.attn_q.weight")                                                                                  \
    X(ATTN_K, "blk.%u.attn_k.weight")                                                                                  \
    X(ATTN_V, "blk.%u.attn_v.weight")                                                                                  \
    X(ATTN_QKV_BIAS, "blk.%u.attn_qkv.bias")                                                                           \
    X(ATTN_Q_BIAS, "blk.%u.attn_q.bias")                                                                               \
    X(ATTN_K_BIAS, "blk.%u.attn_k.bias")                                                                               \
    X(ATTN_V_BIAS, "blk.%u.attn_v.bias")                                                                               \
    X(ATTN_Q_NORM, "blk.%u.attn_q_norm.weight")                                                                        \
    X(ATTN_K_NORM, "blk.%u.attn_k_norm.weight")                                                                        \
    X(ATTN_Q_A, "blk.%u.attn_q_a.weight")                                                                              \
    X(ATTN_Q_A_NORM, "blk.%u.attn_q_a_norm.weight")                                                                    \
    X(ATTN_Q_B, "blk.%u.attn_q_b.weight")                                                                              \
    X(ATTN_KV_A, "blk.%u.attn_kv_a_mqa.weight")                                                                        \
    X(ATTN_KV_A_ROW, "blk.%u.attn_kv_a_row.weight")                                                                    \
    X(ATTN_KV_A_ROT, "blk.%u.attn_kv_a_rot.weight")                                                                    \
    X(ATTN_KV_A_NORM, "blk.%u.attn_kv_a_norm.weight")                                                                  \
    X(ATTN_KV_B, "blk.%u.attn_kv_b.weight")                                                                            \
    X(ATTN_K_B, "blk.%u.attn_k_b.weight")                                                                              \
    X(ATTN_V_B, "blk.%u.attn_v_b.weight")                                                                              \
    X(ATTN_KV, "blk.%u.attn_kv.weight")                                                                                \
    X(ATTN_OUTPUT_A, "blk.%u.attn_output_a.weight")                                                                    \
    X(ATTN_OUTPUT_B, "blk.%u.attn_output_b.weight")                                                                    \
    X(HC_ATTN_FN, "blk.%u.hc_attn_fn.weight")                                                                          \
    X(HC_ATTN_BASE, "blk.%u.hc_attn_base.weight")                                                                      \
    X(HC_ATTN_SCALE, "blk.%u.hc_attn_scale.weight")                                                                    \
    X(HC_FFN_FN, "blk.%u.hc_ffn_fn.weight")                                                                            \
    X(HC_FFN_BASE, "blk.%u.hc_ffn_base.weight")                                                                        \
    X(HC_FFN_SCALE, "blk.%u.hc_ffn_scale.weight")                                                                      \
    X(COMPRESSOR_KV, "blk.%u.attn_compressor_kv.weight")                                                               \
    X(COMPRESSOR_GATE, "blk.%u.attn_compressor_gate.weight")                                                           \
    X(COMPRESSOR_APE, "blk.%u.attn_compressor_ape.weight")                                                             \
    X(COMPRESSOR_KV_2, "blk.%u.attn_compressor_kv.weight")                                                             \
    X(COMPRESSOR_GATE_2, "blk.%u.attn_compressor_gate.weight")                                                         \
    X(COMPRESSOR_APE_2, "blk.%u.attn_compressor_ape.weight")                                                           \
    X(COMPRESSOR_NORM, "blk.%u.attn_compressor_norm.weight")                                                           \
    X(INDEXER_KV, "blk.%u.indexer_compressor_kv.weight")                                                               \
    X(INDEXER_GATE, "blk.%u.indexer_compressor_gate.weight")                                                           \
    X(INDEXER_APE, "blk.%u.indexer_compressor_ape.weight")                                                             \
    X(INDEXER_NORM, "blk.%u.indexer_compressor_norm.weight")                                                           \
    X(INDEXER_Q, "blk.%u.indexer.attn_q_b.weight")                                                                     \
    X(INDEXER_PROJ, "blk.%u.indexer.proj.weight")                                                                      \
    X(ATTN_OUTPUT, "blk.%u.attn_output.weight")                                                                        \
    X(ATTN_OUTPUT_BIAS, "blk.%u.attn_output.bias")                                                                     \
    X(ATTN_SINKS, "blk.%u.attn_sinks.weight")                                                                          \
    X(ATTN_POST_NORM, "blk.%u.post_attention_norm.weight")                                                             \
    X(DELTA_QKV, "blk.%u.attn_qkv.weight")                                                                             \
    X(ATTN_GATE, "blk.%u.attn_gate.weight")                                                                            \
    X(DELTA_QKVZ, "blk.%u.ssm_in.weight")                                                                              \
    X(SSM_IN, "blk.%u.ssm_in.weight")                                                                                  \
    X(SSM_IN_Z, "blk.%u.ssm_in_z.weight")                                                                              \
    X(SSM_IN_XBC, "blk.%u.ssm_in_xbc.weight")                                                                          \
    X(SSM_IN_DT, "blk.%u.ssm_in_dt.weight")                                                                            \
    X(SSM_CONV1D, "blk.%u.ssm_conv1d.weight")                                                                          \
    X(SSM_CONV1D_BIAS, "blk.%u.ssm_conv1d.bias")                                                                       \
    X(SSM_A, "blk.%u.ssm_a")                                                                                           \
    X(SSM_D, "blk.%u.ssm_d")                                                                                           \
    X(SSM_DT_BIAS, "blk.%u.ssm_dt.bias")                                                                               \
    X(SSM_BETA, "blk.%u.ssm_beta.weight")                                                                              \
    X(SSM_ALPHA, "blk.%u.ssm_alpha.weight")                                                                            \
    X(SSM_BETA_ALPHA, "blk.%u.ssm_ba.weight")                                                                          \
    X(SSM_NORM, "blk.%u.ssm_norm.weight")                                                                              \
    X(SSM_OUT, "blk.%u.ssm_out.weight")                                                                                \
    X(SHORTCONV_IN, "blk.%u.shortconv.in_proj.weight")                                                                 \
    X(SHORTCONV_IN_B, "blk.%u.shortconv.in_proj_b.weight")                                                             \
    X(SHORTCONV_IN_C, "blk.%u.shortconv.in_proj_c.weight")                                                             \
    X(SHORTCONV_IN_X, "blk.%u.shortconv.in_proj_x.weight")                                                             \
    X(SHORTCONV_CONV, "blk.%u.shortconv.conv.weight")                                                                  \
    X(SHORTCONV_OUT, "blk.%u.shortconv.out_proj.weight")                                                               \
    X(FFN_NORM, "blk.%u.ffn_norm.weight")                                                                              \
    X(FFN_NORM_BARE, "blk.%u.ffn_norm")                                                                                \
    X(FFN_NORM_BIAS, "blk.%u.ffn_norm.bias")                                                                           \
    X(FFN_INPUT_NORM, "blk.%u.post_attention_norm.weight")                                                             \
    X(FFN_POST_NORM, "blk.%u.post_ffw_norm.weight")                                                                    \
    X(FFN_GATE_INP_SCALE, "blk.%u.ffn_gate_inp.scale")                                                                 \
    X(FFN_PRE_NORM_2, "blk.%u.pre_ffw_norm_2.weight")                                                                  \
    X(FFN_POST_NORM_1, "blk.%u.post_ffw_norm_1.weight")                                                                \
    X(FFN_POST_NORM_2, "blk.%u.post_ffw_norm_2.weight")                                                                \
    X(LAYER_GATE, "blk.%u.inp_gate.weight")                                                                            \
    X(LAYER_PROJ, "blk.%u.proj.weight")                                                                                \
    X(LAYER_POST_NORM, "blk.%u.post_norm.weight")                                                                      \
    X(LAYER_OUTPUT_SCALE, "blk.%u.layer_output_scale.weight")                                                          \
    X(FFN_GATE_UP, "blk.%u.ffn_up.weight")                                                                             \
    X(FFN_GATE, "blk.%u.ffn_gate.weight")                                                                              \
    X(FFN_UP, "blk.%u.ffn_up.weight")                                                                                  \
    X(FFN_DOWN, "blk.%u.ffn_down.weight")                                                                              \
    X(FFN_GATE_BIAS, "blk.%u.ffn_gate.bias")                                                                           \
    X(FFN_UP_BIAS, "blk.%u.ffn_up.bias")                                                                               \
    X(FFN_DOWN_BIAS, "blk.%u.ffn_down.bias")                                                                           \
    X(FFN_GATE_INP, "blk.%u.ffn_gate_inp.weight")                                                                      \
    X(FFN_GATE_UP_EXPS, "blk.%u.ffn_gate_up_exps.weight")                                                              \
    X(FFN_LATENT_DOWN, "blk.%u.ffn_latent_down.weight")                                                                \
    X(FFN_LATENT_UP, "blk.%u.ffn_latent_up.weight")                                                                    \
    X(FFN_GATE_EXPS, "blk.%u.ffn_gate_exps.weight")                                                                    \
    X(FFN_UP_EXPS, "blk.%u.ffn_up_exps.weight")                                                                        \
    X(FFN_DOWN_EXPS, "blk.%u.ffn_down_exps.weight")                                                                    \
    X(FFN_GATE_INP_BIAS, "blk.%u.ffn_gate_inp.bias")                                                                   \
    X(FFN_GATE_EXPS_BIAS, "blk.%u.ffn_gate_exps.bias")                                                                 \
    X(FFN_UP_EXPS_BIAS, "blk.%u.ffn_up_exps.bias")                                                                     \
    X(FFN_DOWN_EXPS_BIAS, "blk.%u.ffn_down_exps.bias")                                                                 \
    X(FFN_EXPERTS_BY_TOKEN, "blk.%u.ffn_gate_tid2eid.weight")                                                          \
    X(EXP_PROBS_BIAS, "blk.%u.exp_probs_b.bias")                                                                       \
    X(FFN_GATE_INP_SHEXP, "blk.%u.ffn_gate_inp_shexp.weight")                                                          \
    X(FFN_GATE_SHEXP, "blk.%u.ffn_gate_shexp.weight")                                                                  \
    X(FFN_UP_SHEXP, "blk.%u.ffn_up_shexp.weight")                                                                      \
    X(FFN_DOWN_SHEXP, "blk.%u.ffn_down_shexp.weight")

enum halo_tensor_id {
#define X(id, name) HALO_TENSOR_##id,
    HALO_TENSOR_LIST(X)
#undef X
        HALO_TENSOR_COUNT,
    HALO_TENSOR_NONE = HALO_TENSOR_COUNT
};

/* X(identifier, expression over `h`): the dimensions that a table may name. */
#define HALO_EXTENT_LIST(X)                                                                                            \
    X(ONE, 1)                                                                                                          \
    X(CONV, h->n_conv)                                                                                                 \
    X(EMBD_3, 3ull * h->n_embd)                                                                                        \
    X(EMBD, h->n_embd)                                                                                                 \
    X(VOCAB, h->n_vocab)                                                                                               \
    X(HEAD_K, h->head_dim_k)                                                                                           \
    X(Q, h->n_head * h->head_dim_k)                                                                                    \
    X(K, h->n_head_kv * h->head_dim_k)                                                                                 \
    X(V, h->n_head_kv * h->head_dim_v)                                                                                 \
    X(QKV, h->n_head * h->head_dim_k + h->n_head_kv * (h->head_dim_k + h->head_dim_v))                                 \
    X(ATT, h->n_head * h->head_dim_v)                                                                                  \
    X(HEADS, h->n_head)                                                                                                \
    X(FF, h->n_ff)                                                                                                     \
    X(GATE_UP, 2ull * h->n_ff)                                                                                         \
    X(FF_EXPERT, h->n_ff_expert)                                                                                       \
    X(GATE_UP_EXPERT, 2ull * h->n_ff_expert)                                                                           \
    X(FF_SHARED, h->n_ff_shared)                                                                                       \
    X(EXPERT, h->n_expert)                                                                                             \
    X(LAYER_INPUT, h->n_embd_layer)                                                                                    \
    X(LAYER_INPUTS, (uint64_t)h->n_layers * h->n_embd_layer)                                                           \
    X(ROT, h->n_rot)                                                                                                   \
    X(Q_LORA, h->n_q_lora)                                                                                             \
    X(KV_LORA, h->n_kv_lora)                                                                                           \
    X(KV_A, h->n_kv_lora + h->n_rot)                                                                                   \
    X(MLA_Q, h->n_head *(h->mla_dim_k ? h->mla_dim_k : h->head_dim_k))                                                 \
    X(NOPE, h->mla_dim_k - h->n_rot)                                                                                   \
    X(MLA_V, h->mla_dim_v)                                                                                             \
    X(MLA_ATT, h->n_head *(h->mla_dim_k ? h->mla_dim_v : h->head_dim_v))                                               \
    X(KV_B, h->n_head *(h->head_dim_k - h->n_rot + h->head_dim_v))                                                     \
    X(THREE, 3)                                                                                                        \
    X(STREAMS, (uint64_t)h->n_streams * h->n_embd)                                                                     \
    X(STREAM_COUNT, h->n_streams)                                                                                      \
    X(STREAM_MIX, h->n_streams *(h->n_streams + 2))                                                                    \
    X(OUT_GROUP, h->n_head * h->head_dim_k / h->n_out_groups)                                                          \
    X(OUT_LORA, h->n_out_groups * h->n_out_lora)                                                                       \
    X(HEAD_K_2, 2ull * h->head_dim_k)                                                                                  \
    X(COMPRESS_SHORT, HALO_COMPRESS_SHORT)                                                                             \
    X(COMPRESS_LONG, HALO_COMPRESS_LONG)                                                                               \
    X(INDEXER, h->indexer_dim)                                                                                         \
    X(INDEXER_2, 2ull * h->indexer_dim)                                                                                \
    X(INDEXER_HEADS, h->indexer_heads)                                                                                 \
    X(INDEXER_Q, h->indexer_heads * h->indexer_dim)                                                                    \
    X(EXPERT_USED, h->n_expert_used)                                                                                   \
    X(ROT_PAIRS, h->n_rot / 2)                                                                                         \
    X(Q_GATED, 2ull * h->n_head * h->head_dim_k)                                                                       \
    X(SSM_ROW, 2ull * h->n_ssm_groups * h->n_ssm_state + h->n_ssm_inner)                                               \
    X(SSM_QKVZ, 2ull * h->n_ssm_inner + 2ull * h->n_ssm_groups * h->n_ssm_state)                                       \
    X(SSM_IN, 2ull * h->n_ssm_inner + 2ull * h->n_ssm_groups * h->n_ssm_state + h->n_ssm_heads)                        \
    X(SSM_GROUPS, h->n_ssm_groups)                                                                                     \
    X(SSM_GROUP, h->n_ssm_groups ? h->n_ssm_inner / h->n_ssm_groups : 0)                                               \
    X(EXPERT_EMBD, h->n_expert_latent ? h->n_expert_latent : h->n_embd)                                                \
    X(SSM_INNER, h->n_ssm_inner)                                                                                       \
    X(SSM_HEADS, h->n_ssm_heads)                                                                                       \
    X(SSM_HEADS_2, 2ull * h->n_ssm_heads)                                                                              \
    X(SSM_HEAD_DIM, h->n_ssm_heads ? h->n_ssm_inner / h->n_ssm_heads : 0)

enum halo_extent {
#define X(id, expression) HALO_EXTENT_##id,
    HALO_EXTENT_LIST(X)
#undef X
};

struct halo_tensor_spec {
    enum halo_tensor_id id;
    enum halo_weight_role role;
    enum halo_extent dims[3]; /* [K, N, experts], of vectors [K, how many]; ONE where absent */
    bool optional;
    bool host;  /* read while the plan is built, not a weight of the plan */
    bool table; /* of indices, I32; only with host */
    bool (*when)(const struct halo_hparams *, uint32_t layer); /* NULL: always; layer 0 for a tensor outside them */
    bool (*needed)(const struct halo_hparams *,
                   uint32_t layer); /* of an optional one: where it must be; NULL: nowhere */
    bool (*unread)(const struct halo_hparams *, uint32_t layer); /* where the file may have it for nothing */
    uint32_t instead; /* id + 1 of an optional tensor, listed before it, that layers may have instead; 0: none */
};

#define HALO_TENSOR_ROW(id, role, d0, d1, d2, ...)                                                                     \
    {                                                                                                                  \
        HALO_TENSOR_##id, HALO_WEIGHT_##role, {HALO_EXTENT_##d0, HALO_EXTENT_##d1, HALO_EXTENT_##d2}, __VA_ARGS__      \
    }
#define HALO_TENSOR_VECTOR(id, d0) HALO_TENSOR_ROW(id, VECTOR, d0, ONE, ONE, .optional = false)
#define HALO_TENSOR_VECTOR_OPT(id, d0) HALO_TENSOR_ROW(id, VECTOR, d0, ONE, ONE, .optional = true)
#define HALO_TENSOR_MATRIX(id, d0, d1) HALO_TENSOR_ROW(id, MATRIX, d0, d1, ONE, .optional = false)

/* Embedding, final norm, and a head of its own or none (then the embedding serves as head). */
#define HALO_TENSORS_ENDS                                                                                              \
    HALO_TENSOR_MATRIX(TOKEN_EMBD, EMBD, VOCAB), HALO_TENSOR_VECTOR(OUTPUT_NORM, EMBD),                                \
        HALO_TENSOR_ROW(OUTPUT, MATRIX, EMBD, VOCAB, ONE, .optional = true)
#define HALO_TENSORS_PROJECTIONS                                                                                       \
    HALO_TENSOR_ROW(ATTN_Q, MATRIX, EMBD, Q, ONE, .when = halo_tensors_when_attention),                                \
        HALO_TENSOR_ROW(ATTN_K, MATRIX, EMBD, K, ONE, .when = halo_tensors_when_attention),                            \
        HALO_TENSOR_ROW(ATTN_V, MATRIX, EMBD, V, ONE, .when = halo_tensors_when_attention),                            \
        HALO_TENSOR_ROW(ATTN_OUTPUT, MATRIX, ATT, EMBD, ONE, .when = halo_tensors_when_attention)
#define HALO_TENSORS_ATTENTION HALO_TENSOR_VECTOR(ATTN_NORM, EMBD), HALO_TENSORS_PROJECTIONS
#define HALO_TENSORS_QKV_BIAS                                                                                          \
    HALO_TENSOR_VECTOR(ATTN_Q_BIAS, Q), HALO_TENSOR_VECTOR(ATTN_K_BIAS, K), HALO_TENSOR_VECTOR(ATTN_V_BIAS, V)
#define HALO_TENSORS_QK_NORM                                                                                           \
    HALO_TENSOR_ROW(ATTN_Q_NORM, VECTOR, HEAD_K, ONE, ONE, .when = halo_tensors_when_attention),                       \
        HALO_TENSOR_ROW(ATTN_K_NORM, VECTOR, HEAD_K, ONE, ONE, .when = halo_tensors_when_attention)
#define HALO_TENSORS_FFN(condition)                                                                                    \
    HALO_TENSOR_ROW(FFN_GATE, MATRIX, EMBD, FF, ONE, .when = condition),                                               \
        HALO_TENSOR_ROW(FFN_UP, MATRIX, EMBD, FF, ONE, .when = condition),                                             \
        HALO_TENSOR_ROW(FFN_DOWN, MATRIX, FF, EMBD, ONE, .when = condition)
#define HALO_TENSORS_MOE(condition)                                                                                    \
    HALO_TENSOR_ROW(FFN_GATE_INP, MATRIX, EMBD, EXPERT, ONE, .when = condition),                                       \
        HALO_TENSOR_ROW(FFN_GATE_UP_EXPS, EXPERTS, EMBD, GATE_UP_EXPERT, EXPERT, .optional = true, .when = condition), \
        HALO_TENSOR_ROW(FFN_GATE_EXPS, EXPERTS, EMBD, FF_EXPERT, EXPERT, .when = condition),                           \
        HALO_TENSOR_ROW(FFN_UP_EXPS, EXPERTS, EMBD, FF_EXPERT, EXPERT, .when = condition),                             \
        HALO_TENSOR_ROW(FFN_DOWN_EXPS, EXPERTS, FF_EXPERT, EMBD, EXPERT, .when = condition)
#define HALO_TENSORS_MOE_BIAS(condition)                                                                               \
    HALO_TENSOR_ROW(FFN_GATE_INP_BIAS, VECTOR, EXPERT, ONE, ONE, .when = condition),                                   \
        HALO_TENSOR_ROW(FFN_GATE_EXPS_BIAS, VECTOR, FF_EXPERT, EXPERT, ONE, .when = condition),                        \
        HALO_TENSOR_ROW(FFN_UP_EXPS_BIAS, VECTOR, FF_EXPERT, EXPERT, ONE, .when = condition),                          \
        HALO_TENSOR_ROW(FFN_DOWN_EXPS_BIAS, VECTOR, EMBD, EXPERT, ONE, .when = condition)

#define HALO_TENSOR_CHOICE_BIAS HALO_TENSOR_ROW(EXP_PROBS_BIAS, VECTOR, EXPERT, ONE, ONE, .when = halo_tensors_when_moe)
/* The experts that every row takes, as one. */
#define HALO_TENSORS_SHARED                                                                                            \
    HALO_TENSOR_ROW(FFN_GATE_SHEXP, MATRIX, EMBD, FF_SHARED, ONE, .when = halo_tensors_when_shared),                   \
        HALO_TENSOR_ROW(FFN_UP_SHEXP, MATRIX, EMBD, FF_SHARED, ONE, .when = halo_tensors_when_shared),                 \
        HALO_TENSOR_ROW(FFN_DOWN_SHEXP, MATRIX, FF_SHARED, EMBD, ONE, .when = halo_tensors_when_shared)

/* Of Mamba-2, without the norm of its groups. */
#define HALO_TENSORS_MAMBA(condition)                                                                                  \
    HALO_TENSOR_ROW(SSM_IN, MATRIX, EMBD, SSM_IN, ONE, .when = condition),                                             \
        HALO_TENSOR_ROW(SSM_IN_Z, MATRIX, EMBD, SSM_INNER, ONE, .when = condition),                                    \
        HALO_TENSOR_ROW(SSM_IN_XBC, MATRIX, EMBD, SSM_ROW, ONE, .when = condition),                                    \
        HALO_TENSOR_ROW(SSM_IN_DT, MATRIX, EMBD, SSM_HEADS, ONE, .when = condition),                                   \
        HALO_TENSOR_ROW(SSM_CONV1D, VECTOR, CONV, SSM_ROW, ONE, .when = condition),                                    \
        HALO_TENSOR_ROW(SSM_CONV1D_BIAS, VECTOR, SSM_ROW, ONE, ONE, .optional = true, .when = condition),              \
        HALO_TENSOR_ROW(SSM_A, VECTOR, ONE, SSM_HEADS, ONE, .when = condition),                                        \
        HALO_TENSOR_ROW(SSM_D, VECTOR, ONE, SSM_HEADS, ONE, .when = condition),                                        \
        HALO_TENSOR_ROW(SSM_DT_BIAS, VECTOR, SSM_HEADS, ONE, ONE, .when = condition),                                  \
        HALO_TENSOR_ROW(SSM_OUT, MATRIX, SSM_INNER, EMBD, ONE, .when = condition)
#define HALO_TENSORS_ATTENTION_BIASES                                                                                  \
    HALO_TENSOR_ROW(ATTN_Q_BIAS, VECTOR, Q, ONE, ONE, .optional = true, .when = halo_tensors_when_attention),          \
        HALO_TENSOR_ROW(ATTN_K_BIAS, VECTOR, K, ONE, ONE, .optional = true, .when = halo_tensors_when_attention),      \
        HALO_TENSOR_ROW(ATTN_V_BIAS, VECTOR, V, ONE, ONE, .optional = true, .when = halo_tensors_when_attention),      \
        HALO_TENSOR_ROW(ATTN_OUTPUT_BIAS, VECTOR, EMBD, ONE, ONE, .optional = true,                                    \
                        .when = halo_tensors_when_attention)

#define HALO_TENSOR_STATE_ROW(id, role, d0, d1) HALO_TENSOR_ROW(id, role, d0, d1, ONE, .when = halo_tensors_when_state)
/* Of the gated delta rule, and attention whose q has a gate behind each head; q, k, v and z of the rule, alpha and beta
 * are the family's. */
#define HALO_TENSORS_DELTA                                                                                             \
    HALO_TENSOR_VECTOR(ATTN_NORM, EMBD), HALO_TENSOR_STATE_ROW(SSM_CONV1D, VECTOR, CONV, SSM_ROW),                     \
        HALO_TENSOR_STATE_ROW(SSM_A, VECTOR, SSM_HEADS, ONE),                                                          \
        HALO_TENSOR_STATE_ROW(SSM_DT_BIAS, VECTOR, SSM_HEADS, ONE),                                                    \
        HALO_TENSOR_STATE_ROW(SSM_NORM, VECTOR, SSM_HEAD_DIM, ONE),                                                    \
        HALO_TENSOR_STATE_ROW(SSM_OUT, MATRIX, SSM_INNER, EMBD),                                                       \
        HALO_TENSOR_ROW(ATTN_Q, MATRIX, EMBD, Q_GATED, ONE, .when = halo_tensors_when_attention),                      \
        HALO_TENSOR_ROW(ATTN_K, MATRIX, EMBD, K, ONE, .when = halo_tensors_when_attention),                            \
        HALO_TENSOR_ROW(ATTN_V, MATRIX, EMBD, V, ONE, .when = halo_tensors_when_attention), HALO_TENSORS_QK_NORM,      \
        HALO_TENSOR_ROW(ATTN_OUTPUT, MATRIX, ATT, EMBD, ONE, .when = halo_tensors_when_attention),                     \
        HALO_TENSOR_VECTOR(FFN_INPUT_NORM, EMBD)

bool halo_tensors_when_attention(const struct halo_hparams *hparams, uint32_t layer);
bool halo_tensors_when_state(const struct halo_hparams *hparams, uint32_t layer); /* instead of attention */
bool halo_tensors_when_ffn(const struct halo_hparams *hparams, uint32_t layer);
bool halo_tensors_when_dense(const struct halo_hparams *hparams, uint32_t layer); /* no experts */
bool halo_tensors_when_moe(const struct halo_hparams *hparams, uint32_t layer);
bool halo_tensors_when_shared(const struct halo_hparams *hparams, uint32_t layer); /* experts and a shared one */
bool halo_tensors_when_latent(const struct halo_hparams *hparams, uint32_t layer); /* experts in a latent width */

const char *halo_tensors_pattern(enum halo_tensor_id id); /* "blk.%u.attn_q.weight" */
bool halo_tensors_layered(enum halo_tensor_id id);        /* one for each layer */
/* In a layer: by the hyper-parameters that hold there. */
uint64_t halo_tensors_extent(enum halo_extent extent, const struct halo_hparams *hparams);
/* The bias that belongs to a matrix, or HALO_TENSOR_NONE. */
enum halo_tensor_id halo_tensors_bias(enum halo_tensor_id id);

/* Some files keep several tensors as the rows of one: Q, K and V in attn_qkv, gate and up in ffn_up, in this order. */
struct halo_tensor_part {
    enum halo_tensor_id whole;
    uint64_t first;     /* row of the whole, or element of a vector */
    const char *suffix; /* tells the parts of one tensor apart */
};
/* Where a tensor lies in another one; false: in none. */
bool halo_tensors_part(enum halo_tensor_id id, const struct halo_hparams *hparams, struct halo_tensor_part *ret);
bool halo_tensors_is_whole(enum halo_tensor_id id); /* holds others and is no weight itself */

/* Writes the name of a tensor in a layer. */
void halo_tensors_name(enum halo_tensor_id id, uint32_t layer, char ret[HALO_GGUF_MAX_NAME + 1]);

#endif
