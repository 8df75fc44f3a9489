/* arch_gemma2.c: gemma2: norms in front of and behind each block, GELU, an embedding times sqrt(width), caps on the
 * scores of attention and on the logits, and a window in every other layer, the first included (Google, Gemma 2).
 */
#include <math.h>

#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window", window, 4096, 0, HALO_MODEL_MAX_CONTEXT),
    HALO_HPARAM_OR(REAL, "attn_logit_softcapping", attention_cap, 50, 0, 1e6),
    HALO_HPARAM_OR(REAL, "final_logit_softcapping", logit_cap, 30, 0, 1e6),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(ATTN_POST_NORM, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
    HALO_TENSOR_VECTOR(FFN_POST_NORM, EMBD),
};

/* The model of 46 layers (27B) scales by the width of a head as if the heads shared the embedding. */
static float attention_scale(const struct halo_hparams *h)
{
    uint32_t width = h->n_layers == 46 ? h->n_embd / h->n_head : h->head_dim_k;
    return (float)(1 / sqrt((double)width));
}

static void build(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX,
                                                        .act = HALO_GLU_GELU,
                                                        .period = 2,
                                                        .embed_scale = sqrtf((float)h->n_embd),
                                                        .attention_scale = attention_scale(h)});
}

const struct halo_arch halo_arch_gemma2 = HALO_ARCH("gemma2", hparams, tensors, build);
