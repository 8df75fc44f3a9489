/* arch_cohere2.c: cohere2: one layer norm without bias in front of attention and feed-forward, which both read it and
 * are both added; layers with a window rotate adjacent pairs (NORM), the global ones between them rotate nothing;
 * logits are multiplied by logit_scale (Cohere, Command R7B and Command A).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON_LAYER_NORM,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window", window, 0, 0, HALO_MODEL_MAX_CONTEXT),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window_pattern", period, 4, 1, HALO_MODEL_MAX_LAYERS),
    HALO_HPARAM_NEEDED(REAL, "logit_scale", logit_scale, 1e-6, 1e6),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM,
                                                        .layer_norms = true,
                                                        .parallel = true,
                                                        .period = builder->hparams->period,
                                                        .global_unrotated = true});
}

const struct halo_arch halo_arch_cohere2 = HALO_ARCH("cohere2", hparams, tensors, build);
