/* arch_deepseek4.c: deepseek4: residual streams beside each other (hyper-connections), attention over a window and
 * compressed blocks of the past (plan_compressed.c), experts and a shared one.
 *
 * A block reads one mixture of the streams, and its result and another mixture go back into each. Scores of experts are
 * sqrt(softplus); the first layers choose by token instead (ffn_gate_tid2eid). Gate and up are limited by layer
 * (DeepSeek-AI, DeepSeek-V4).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_NEEDED(COUNT, "hyper_connection.count", n_streams, 2, HALO_STREAMS_MAX),
    HALO_HPARAM_NEEDED(COUNT, "hyper_connection.sinkhorn_iterations", stream_iterations, 1, 1000),
    HALO_HPARAM_NEEDED(REAL, "hyper_connection.epsilon", stream_eps, 0, 1),
    HALO_HPARAM_NEEDED(COUNT, "attention.q_lora_rank", n_q_lora, 1, HALO_MODEL_MAX_EMBD),
    HALO_HPARAM_NEEDED(COUNT, "attention.sliding_window", window, 1, HALO_MODEL_MAX_CONTEXT),
    HALO_HPARAM_NEEDED(COUNT, "attention.output_group_count", n_out_groups, 1, HALO_MODEL_MAX_HEADS),
    HALO_HPARAM_NEEDED(COUNT, "attention.output_lora_rank", n_out_lora, 1, HALO_MODEL_MAX_EMBD),
    HALO_HPARAM_EACH(COUNT, "attention.compress_ratios", compress_ratio, 0, HALO_COMPRESS_LONG),
    HALO_HPARAM_OR(REAL, "attention.compress_rope_freq_base", rope_base_compressed, 10000, 1, 1e15),
    HALO_HPARAM_OR(COUNT, "attention.indexer.head_count", indexer_heads, 0, 0, HALO_MODEL_MAX_HEADS),
    HALO_HPARAM_OR(COUNT, "attention.indexer.key_length", indexer_dim, 0, 0, HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_OR(COUNT, "attention.indexer.top_k", indexer_top_k, 0, 0, HALO_MODEL_MAX_CONTEXT / HALO_COMPRESS_SHORT),
    HALO_HPARAM_OR(COUNT, "hash_layer_count", n_hash, 0, 0, HALO_MODEL_MAX_LAYERS),
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_GATE(SQRT_SOFTPLUS),
    HALO_HPARAM_WEIGHTS_SCALE,
    HALO_HPARAMS_SHARED,
    HALO_HPARAM_EACH_OR(REAL, "swiglu_clamp_exp", expert_limit, 0, 0, 1e6),
    HALO_HPARAM_EACH_OR(REAL, "swiglu_clamp_shexp", shared_limit, 0, 0, 1e6),
};

static bool is_short(const struct halo_hparams *h, uint32_t layer)
{
    return h->by_layer.compress_ratio[layer] == HALO_COMPRESS_SHORT;
}

static bool is_long(const struct halo_hparams *h, uint32_t layer)
{
    return h->by_layer.compress_ratio[layer] == HALO_COMPRESS_LONG;
}

static bool is_compressed(const struct halo_hparams *h, uint32_t layer)
{
    return h->by_layer.compress_ratio[layer] > 0;
}

static bool chooses_by_token(const struct halo_hparams *h, uint32_t layer)
{
    return layer < h->n_hash;
}

static bool chooses_by_score(const struct halo_hparams *h, uint32_t layer)
{
    return layer >= h->n_hash;
}

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_MATRIX(OUTPUT_HC_FN, STREAMS, STREAM_COUNT),
    HALO_TENSOR_VECTOR(OUTPUT_HC_BASE, STREAM_COUNT),
    HALO_TENSOR_VECTOR(OUTPUT_HC_SCALE, ONE),
    HALO_TENSOR_MATRIX(HC_ATTN_FN, STREAMS, STREAM_MIX),
    HALO_TENSOR_VECTOR(HC_ATTN_BASE, STREAM_MIX),
    HALO_TENSOR_VECTOR(HC_ATTN_SCALE, THREE),
    HALO_TENSOR_VECTOR(ATTN_NORM, EMBD),
    HALO_TENSOR_VECTOR(ATTN_SINKS, HEADS),
    HALO_TENSOR_MATRIX(ATTN_Q_A, EMBD, Q_LORA),
    HALO_TENSOR_VECTOR(ATTN_Q_A_NORM, Q_LORA),
    HALO_TENSOR_MATRIX(ATTN_Q_B, Q_LORA, Q),
    HALO_TENSOR_MATRIX(ATTN_KV, EMBD, HEAD_K),
    HALO_TENSOR_VECTOR(ATTN_KV_A_NORM, HEAD_K),
    HALO_TENSOR_MATRIX(ATTN_OUTPUT_A, OUT_GROUP, OUT_LORA),
    HALO_TENSOR_MATRIX(ATTN_OUTPUT_B, OUT_LORA, EMBD),
    HALO_TENSOR_ROW(COMPRESSOR_KV, MATRIX, EMBD, HEAD_K, ONE, .when = is_long),
    HALO_TENSOR_ROW(COMPRESSOR_GATE, MATRIX, EMBD, HEAD_K, ONE, .when = is_long),
    HALO_TENSOR_ROW(COMPRESSOR_APE, VECTOR, HEAD_K, COMPRESS_LONG, ONE, .when = is_long),
    HALO_TENSOR_ROW(COMPRESSOR_KV_2, MATRIX, EMBD, HEAD_K_2, ONE, .when = is_short),
    HALO_TENSOR_ROW(COMPRESSOR_GATE_2, MATRIX, EMBD, HEAD_K_2, ONE, .when = is_short),
    HALO_TENSOR_ROW(COMPRESSOR_APE_2, VECTOR, HEAD_K_2, COMPRESS_SHORT, ONE, .when = is_short),
    HALO_TENSOR_ROW(COMPRESSOR_NORM, VECTOR, HEAD_K, ONE, ONE, .when = is_compressed),
    HALO_TENSOR_ROW(INDEXER_KV, MATRIX, EMBD, INDEXER_2, ONE, .when = is_short),
    HALO_TENSOR_ROW(INDEXER_GATE, MATRIX, EMBD, INDEXER_2, ONE, .when = is_short),
    HALO_TENSOR_ROW(INDEXER_APE, VECTOR, INDEXER_2, COMPRESS_SHORT, ONE, .when = is_short),
    HALO_TENSOR_ROW(INDEXER_NORM, VECTOR, INDEXER, ONE, ONE, .when = is_short),
    HALO_TENSOR_ROW(INDEXER_Q, MATRIX, Q_LORA, INDEXER_Q, ONE, .when = is_short),
    HALO_TENSOR_ROW(INDEXER_PROJ, MATRIX, EMBD, INDEXER_HEADS, ONE, .when = is_short),
    HALO_TENSOR_MATRIX(HC_FFN_FN, STREAMS, STREAM_MIX),
    HALO_TENSOR_VECTOR(HC_FFN_BASE, STREAM_MIX),
    HALO_TENSOR_VECTOR(HC_FFN_SCALE, THREE),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_ROW(EXP_PROBS_BIAS, VECTOR, EXPERT, ONE, ONE, .when = chooses_by_score),
    HALO_TENSOR_ROW(FFN_EXPERTS_BY_TOKEN, MATRIX, EXPERT_USED, VOCAB, ONE, .host = true, .table = true,
                    .when = chooses_by_token),
    HALO_TENSORS_SHARED,
};

struct streams {
    uint16_t x, normed, mix, back;
};

/* What the next block reads of the streams. */
static void enter(struct halo_builder *builder, const struct halo_blocks *values, const struct streams *streams,
                  const enum halo_tensor_id ids[3])
{
    const struct halo_builder_pair fn[] = {{ids[0], streams->mix}};
    halo_builder_rmsnorm(builder, HALO_TENSOR_NONE, streams->x, HALO_NONE, streams->normed);
    halo_builder_matmul(builder, streams->normed, fn, 1);
    halo_builder_streams_mix(
        builder,
        &(struct halo_op_streams_mix){.x = streams->x, .mix = streams->mix, .out = values->x, .back = streams->back},
        ids[1], ids[2]);
}

/* All streams begin with the embedding. */
static void begin(struct halo_builder *builder, const struct halo_blocks *values, uint16_t x)
{
    const struct halo_hparams *h = builder->hparams;
    uint16_t from = values->x;
    halo_builder_embed(builder, HALO_TENSOR_TOKEN_EMBD, values->x, 1);
    for (uint32_t n = 2; n <= h->n_streams; n *= 2) {
        uint16_t out =
            n == h->n_streams ? x : halo_builder_value(builder, n == 2 ? "two" : "four", (uint64_t)n * h->n_embd);
        uint32_t width = n / 2 * h->n_embd;
        halo_builder_concat(builder, &(struct halo_op_concat){
                                         .a = from, .n_a = width, .b = from, .n_b = width, .out = out, .n_head = 1});
        from = out;
    }
}

static void build(struct halo_builder *builder)
{
    static const enum halo_tensor_id attn[] = {HALO_TENSOR_HC_ATTN_FN, HALO_TENSOR_HC_ATTN_SCALE,
                                               HALO_TENSOR_HC_ATTN_BASE};
    static const enum halo_tensor_id ffn[] = {HALO_TENSOR_HC_FFN_FN, HALO_TENSOR_HC_FFN_SCALE, HALO_TENSOR_HC_FFN_BASE};
    static const enum halo_tensor_id head[] = {HALO_TENSOR_OUTPUT_HC_FN, HALO_TENSOR_OUTPUT_HC_SCALE,
                                               HALO_TENSOR_OUTPUT_HC_BASE};
    const struct halo_hparams *h = builder->hparams;
    const struct halo_blocks values = halo_blocks_make(builder);
    const struct halo_compressed compressed = halo_compressed_make(builder);
    uint64_t width = (uint64_t)h->n_streams * h->n_embd;
    const struct streams streams = {halo_builder_value(builder, "streams", width),
                                    halo_builder_value(builder, "streams_normed", width),
                                    halo_builder_value(builder, "mix", (uint64_t)h->n_streams * (h->n_streams + 2)),
                                    halo_builder_value(builder, "back", (uint64_t)h->n_streams * (h->n_streams + 1))};
    const struct streams last = {streams.x, streams.normed, halo_builder_value(builder, "last_mix", h->n_streams),
                                 HALO_NONE};

    begin(builder, &values, streams.x);
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        halo_builder_layer(builder, layer);
        enter(builder, &values, &streams, attn);
        halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_NORM, values.x, HALO_NONE, values.normed);
        halo_blocks_compressed(builder, &values, &compressed);
        halo_builder_streams_add(builder, streams.x, streams.back, values.out);
        enter(builder, &values, &streams, ffn);
        halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_NORM, values.x, HALO_NONE, values.normed);
        halo_blocks_ffn(builder, &values, HALO_GLU_SILU);
        halo_builder_streams_add(builder, streams.x, streams.back, values.out);
    }
    halo_builder_outside(builder);
    enter(builder, &values, &last, head);
    halo_builder_rmsnorm(builder, HALO_TENSOR_OUTPUT_NORM, values.x, HALO_NONE, values.normed);
    halo_builder_logits(builder, values.normed, 1);
}

const struct halo_arch halo_arch_deepseek4 = HALO_ARCH("deepseek4", hparams, tensors, build);
