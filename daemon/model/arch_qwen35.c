/* arch_qwen35.c: qwen35: the gated delta rule in all layers but the last of each full_attention_interval, which have
 * attention with Q/K norm, a gate on what attention gives, and half-split (NEOX) rotation of a part of each head.
 *
 * Head h of v uses head h mod n_k of q and k. The norm in front of the feed-forward is named post_attention_norm. The
 * sections of the rotation are for the axes of an image; those of a text position are equal. Layers for multi-token
 * prediction are part of block_count. (Qwen3.5 and 3.6, transformers' Qwen3_5ForCausalLM; Yang et al. 2024, "Gated
 * Delta Networks")
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAMS_DELTA,
    HALO_HPARAM_NEXTN,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_DELTA,
    HALO_TENSOR_STATE_ROW(DELTA_QKV, MATRIX, EMBD, SSM_ROW),
    HALO_TENSOR_STATE_ROW(ATTN_GATE, MATRIX, EMBD, SSM_INNER),
    HALO_TENSOR_STATE_ROW(SSM_BETA, MATRIX, EMBD, SSM_HEADS),
    HALO_TENSOR_STATE_ROW(SSM_ALPHA, MATRIX, EMBD, SSM_HEADS),
    HALO_TENSORS_FFN(NULL),
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

const struct halo_arch halo_arch_qwen35 = HALO_ARCH("qwen35", hparams, tensors, build);
