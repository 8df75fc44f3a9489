/* arch_qwen2.c: qwen2: half-split (NEOX) rotation, biases on Q, K and V, and on the output of some. */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_COMMON,
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_VECTOR_OPT(OUTPUT_BIAS, VOCAB),
    HALO_TENSORS_ATTENTION,
    HALO_TENSOR_VECTOR(ATTN_Q_BIAS, Q),
    HALO_TENSOR_VECTOR(ATTN_K_BIAS, K),
    HALO_TENSOR_VECTOR(ATTN_V_BIAS, V),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
};

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(builder, &(struct halo_decoder){.pairing = HALO_ROPE_NEOX});
}

const struct halo_arch halo_arch_qwen2 = HALO_ARCH("qwen2", hparams, tensors, build);
