/* arch_gemma3.c: gemma3: gemma2 with an RMS norm on each head of Q and K instead of the cap on scores, five layers
 * with a window to one without, and another base of the rotation in those with the window, which the scaling leaves
 * alone (Google, Gemma 3; the text model).
 */
#include <math.h>

#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window", window, 0, 0, HALO_MODEL_MAX_CONTEXT),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window_pattern", period, 6, 1, HALO_MODEL_MAX_LAYERS),
    HALO_HPARAM_OR(REAL, "rope.freq_base_swa", rope_base_local, 10000, 1, 1e15),
    HALO_HPARAM_OR(REAL, "final_logit_softcapping", logit_cap, 0, 0, 1e6),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QK_NORM,
    HALO_TENSOR_VECTOR(ATTN_POST_NORM, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
    HALO_TENSOR_VECTOR(FFN_POST_NORM, EMBD),
};

/* The model of 62 layers (27B) scales by the width of a head as if the heads shared the embedding. */
static float attention_scale(const struct halo_hparams *h)
{
    uint32_t width = h->n_layers == 62 ? h->n_embd / h->n_head : h->head_dim_k;
    return (float)(1 / sqrt((double)width));
}

static void build(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX,
                                                        .qk_norm = HALO_QK_NORM_HEADS,
                                                        .act = HALO_GLU_GELU,
                                                        .period = h->period,
                                                        .embed_scale = sqrtf((float)h->n_embd),
                                                        .attention_scale = attention_scale(h)});
}

const struct halo_arch halo_arch_gemma3 = HALO_ARCH("gemma3", hparams, tensors, build);
