/* arch_nemotron_h.c: nemotron_h and nemotron_h_moe: each layer is one block: Mamba-2, attention without rotation, or a
 * feed-forward of two matrices with the squared ReLU.
 *
 * Which it is, the arrays of head_count_kv and feed_forward_length say: 0 for those that it is not. With experts:
 * sigmoid scores, chosen with a bias, renormalised and scaled, and a shared expert; in the larger form the experts work
 * in a latent width, between two matrices of the layer (NVIDIA, Nemotron-H and Nemotron 3; transformers'
 * NemotronHForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam dense_hparams[] = {
    HALO_HPARAMS_HYBRID,
    HALO_HPARAMS_MAMBA,
    HALO_HPARAMS_ONE_BLOCK,
};

static const struct halo_hparam moe_hparams[] = {
    HALO_HPARAMS_HYBRID,
    HALO_HPARAMS_MAMBA,
    HALO_HPARAMS_ONE_BLOCK,
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_GATE(SIGMOID),
    HALO_HPARAMS_GROUPS,
    HALO_HPARAM_WEIGHTS_SCALE,
    HALO_HPARAMS_SHARED,
    HALO_HPARAM_OR(COUNT, "moe_latent_size", n_expert_latent, 0, 0, HALO_MODEL_MAX_EMBD),
};

#define TENSORS_MIXERS                                                                                                 \
    HALO_TENSORS_ENDS, HALO_TENSORS_ATTENTION, HALO_TENSORS_ATTENTION_BIASES,                                          \
        HALO_TENSORS_MAMBA(halo_tensors_when_state),                                                                   \
        HALO_TENSOR_ROW(SSM_NORM, VECTOR, SSM_GROUP, SSM_GROUPS, ONE, .when = halo_tensors_when_state)

static const struct halo_tensor_spec dense_tensors[] = {
    TENSORS_MIXERS,
    HALO_TENSOR_ROW(FFN_UP, MATRIX, EMBD, FF, ONE, .when = halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_UP_BIAS, VECTOR, FF, ONE, ONE, .optional = true, .when = halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_DOWN, MATRIX, FF, EMBD, ONE, .when = halo_tensors_when_dense),
    HALO_TENSOR_ROW(FFN_DOWN_BIAS, VECTOR, EMBD, ONE, ONE, .optional = true, .when = halo_tensors_when_dense),
};

static const struct halo_tensor_spec moe_tensors[] = {
    TENSORS_MIXERS,
    HALO_TENSOR_ROW(FFN_GATE_INP, MATRIX, EMBD, EXPERT, ONE, .when = halo_tensors_when_moe),
    HALO_TENSOR_CHOICE_BIAS,
    HALO_TENSOR_ROW(FFN_LATENT_DOWN, MATRIX, EMBD, EXPERT_EMBD, ONE, .when = halo_tensors_when_latent),
    HALO_TENSOR_ROW(FFN_LATENT_UP, MATRIX, EXPERT_EMBD, EMBD, ONE, .when = halo_tensors_when_latent),
    HALO_TENSOR_ROW(FFN_UP_EXPS, EXPERTS, EXPERT_EMBD, FF_EXPERT, EXPERT, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_DOWN_EXPS, EXPERTS, FF_EXPERT, EXPERT_EMBD, EXPERT, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_UP_SHEXP, MATRIX, EMBD, FF_SHARED, ONE, .when = halo_tensors_when_shared),
    HALO_TENSOR_ROW(FFN_DOWN_SHEXP, MATRIX, FF_SHARED, EMBD, ONE, .when = halo_tensors_when_shared),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder,
                        &(struct halo_decoder){.act = HALO_GLU_RELU2, .unrotated = true, .mixer = halo_blocks_mamba});
}

const struct halo_arch halo_arch_nemotron_h = HALO_ARCH("nemotron_h", dense_hparams, dense_tensors, build);
const struct halo_arch halo_arch_nemotron_h_moe = HALO_ARCH("nemotron_h_moe", moe_hparams, moe_tensors, build);
