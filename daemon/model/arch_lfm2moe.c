/* arch_lfm2moe.c: lfm2moe: short convolutions with two gates in most layers, attention with Q/K norm and half-split
 * (NEOX) rotation in the others; leading dense layers, then experts.
 *
 * in_proj gives three parts B, C and x; C times the convolution of B times x goes through out_proj. Sigmoid scores of
 * experts, chosen with a bias, renormalised. The final norm has the name of one of the embedding, and the embedding
 * serves as head (Liquid AI, LFM2 8B-A1B and 24B-A2B, transformers' Lfm2MoeForCausalLM).
 */
#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_HYBRID,
    HALO_HPARAM_NEEDED(COUNT, "shortconv.l_cache", n_conv, 2, HALO_CONV1D_TAPS_MAX),
    HALO_HPARAM_LAYERS(ALIKE, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_DENSE,
    HALO_HPARAMS_EXPERTS(1),
    HALO_HPARAM_GATE(SIGMOID),
    HALO_HPARAM_NEEDED(COUNT, "expert_feed_forward_length", n_ff_expert, 1, HALO_MODEL_MAX_FF),
};

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSOR_MATRIX(TOKEN_EMBD, EMBD, VOCAB),
    HALO_TENSOR_VECTOR(TOKEN_EMBD_NORM, EMBD),
    HALO_TENSOR_ROW(OUTPUT, MATRIX, EMBD, VOCAB, ONE, .optional = true),
    HALO_TENSORS_ATTENTION,
    HALO_TENSORS_QK_NORM,
    HALO_TENSOR_ROW(SHORTCONV_IN, MATRIX, EMBD, EMBD_3, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(SHORTCONV_IN_B, MATRIX, EMBD, EMBD, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(SHORTCONV_IN_C, MATRIX, EMBD, EMBD, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(SHORTCONV_IN_X, MATRIX, EMBD, EMBD, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(SHORTCONV_CONV, VECTOR, CONV, EMBD, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_ROW(SHORTCONV_OUT, MATRIX, EMBD, EMBD, ONE, .when = halo_tensors_when_state),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(halo_tensors_when_dense),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_CHOICE_BIAS,
};

static void short_convolution(struct halo_builder *builder, const struct halo_blocks *values)
{
    const struct halo_hparams *h = builder->hparams;
    uint16_t b = halo_builder_value(builder, "b", h->n_embd), c = halo_builder_value(builder, "c", h->n_embd),
             x = halo_builder_value(builder, "conv_x", h->n_embd), y = halo_builder_value(builder, "conv_y", h->n_embd);
    const struct halo_builder_pair in[] = {
        {HALO_TENSOR_SHORTCONV_IN_B, b}, {HALO_TENSOR_SHORTCONV_IN_C, c}, {HALO_TENSOR_SHORTCONV_IN_X, x}};
    const struct halo_builder_pair out[] = {{HALO_TENSOR_SHORTCONV_OUT, values->out}};

    halo_builder_state(builder, (uint64_t)(h->n_conv - 1) * h->n_embd);
    halo_builder_matmul(builder, values->normed, in, 3);
    halo_builder_glu(builder, b, x, x, HALO_GLU_LINEAR);
    halo_builder_conv1d(builder, x, HALO_TENSOR_SHORTCONV_CONV, false, y);
    halo_builder_glu(builder, c, y, y, HALO_GLU_LINEAR);
    halo_builder_matmul(builder, y, out, 1);
}

static void build(struct halo_builder *builder)
{
    halo_blocks_decoder(
        builder,
        &(struct halo_decoder){.pairing = HALO_ROPE_NEOX, .qk_norm = HALO_QK_NORM_HEADS, .mixer = short_convolution});
}

const struct halo_arch halo_arch_lfm2moe = HALO_ARCH("lfm2moe", hparams, tensors, build);
