/* arch_mistral3.c: mistral3: llama with YaRN, whose log multiplier can leave cos and sin at magnitude 1, and with a
 * temperature of attention that grows with the position: scores times 1 + t ln(1 + floor(p / original context))
 * (Mistral AI, Ministral 3).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(REAL, "attention.temperature_scale", attention_temperature, 0, 0, 1e3),
    HALO_HPARAM_OR(REAL, "rope.scaling.yarn_log_multiplier", rope_yarn_log_multiplier, 0, 0, 1e3),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NORM});
}

const struct halo_arch halo_arch_mistral3 = HALO_ARCH("mistral3", hparams, tensors, build);
