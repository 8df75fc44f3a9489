/* arch_phi3.c: phi3: Q, K and V in one matrix, gate and up in another, half-split (NEOX) rotation of a part of the
 * head, and longrope: a factor for each pair, one list for contexts up to the original one and another for longer
 * ones, with cos and sin times attn_factor (Microsoft, Phi-3 and Phi-4). The window holds for every layer.
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "attention.sliding_window", window, 0, 0, HALO_MODEL_MAX_CONTEXT),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_ROW(ROPE_FACTORS_LONG, VECTOR, ROT_PAIRS, ONE, ONE, .optional = true, .host = true),
    HALO_TENSOR_ROW(ROPE_FACTORS_SHORT, VECTOR, ROT_PAIRS, ONE, ONE, .optional = true, .host = true),
    HALO_TENSOR_MATRIX(ATTN_QKV, EMBD, QKV),
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSOR_MATRIX(FFN_GATE_UP, EMBD, GATE_UP),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX});
}

const struct halo_arch halo_arch_phi3 = HALO_ARCH("phi3", hparams, tensors, build);
