/* plan_delta.c: layers of the gated delta rule (gated DeltaNet). Runs where the model is created; failures stay in the
 * builder.
 *
 * The stream's row becomes q, k and v, which pass a short convolution and SiLU together, and a gate z of all heads. The
 * rule's result is normed head by head and multiplied with SiLU(z).
 */
#include <math.h>

#include "plan_blocks_priv.h"

/* Elements first .. first + n - 1 of each of n_head parts of x, beside each other. */
static uint16_t pick(struct halo_builder *builder, const char *name, uint16_t x, uint32_t n_head, uint32_t first,
                     uint32_t n)
{
    uint16_t out = halo_builder_value(builder, name, (uint64_t)n_head * n);
    halo_builder_concat(builder, &(struct halo_op_concat){
                                     .a = x, .b = HALO_NONE, .out = out, .n_head = n_head, .a_first = first, .n_a = n});
    return out;
}

static void join(struct halo_builder *builder, uint16_t a, uint32_t n_a, uint16_t b, uint32_t n_b, uint16_t out)
{
    halo_builder_concat(builder,
                        &(struct halo_op_concat){.a = a, .b = b, .out = out, .n_head = 1, .n_a = n_a, .n_b = n_b});
}

/* q, k, v and z of each head of k lie together: puts those of all heads beside each other, as the convolution and the
 * gate take them. */
static void separate(struct halo_builder *builder, uint16_t qkvz, uint16_t qkv)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t groups = h->n_ssm_groups, dim_k = h->n_ssm_state, n_k = groups * dim_k, dim_v = h->n_ssm_inner / groups;
    uint16_t q = pick(builder, "delta_q", qkvz, groups, 0, dim_k),
             k = pick(builder, "delta_k", qkvz, groups, dim_k, dim_k),
             v = pick(builder, "delta_v", qkvz, groups, 2 * dim_k, dim_v);
    uint16_t qk = halo_builder_value(builder, "delta_qk", 2ull * n_k);

    pick(builder, "z", qkvz, groups, 2 * dim_k + dim_v, dim_v);
    join(builder, q, n_k, k, n_k, qk);
    join(builder, qk, 2 * n_k, v, h->n_ssm_inner, qkv);
}

void halo_blocks_delta(struct halo_builder *builder, const struct halo_blocks *values, bool grouped)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t heads = h->n_ssm_heads, groups = h->n_ssm_groups, dim_v = h->n_ssm_inner / heads, per_k = heads / groups;
    uint64_t n_qkv = 2ull * groups * h->n_ssm_state + h->n_ssm_inner;
    bool joint = halo_builder_has(builder, HALO_TENSOR_SSM_BETA_ALPHA),
         fused = halo_builder_has(builder, HALO_TENSOR_DELTA_QKVZ);
    uint16_t qkv = halo_builder_value(builder, "qkv", n_qkv), z = halo_builder_value(builder, "z", h->n_ssm_inner),
             conv = halo_builder_value(builder, "conv", n_qkv),
             heads_out = halo_builder_value(builder, "delta", h->n_ssm_inner),
             alpha = halo_builder_value(builder, joint ? "beta_alpha" : "alpha", (joint ? 2ull : 1) * heads),
             beta = joint ? alpha : halo_builder_value(builder, "beta", heads);
    const struct halo_builder_pair in[] = {
        {HALO_TENSOR_DELTA_QKV, qkv}, {HALO_TENSOR_ATTN_GATE, z}, {HALO_TENSOR_SSM_BETA_ALPHA, alpha}};
    const struct halo_builder_pair fused_in[] = {
        {HALO_TENSOR_DELTA_QKVZ, fused ? halo_builder_value(builder, "qkvz", n_qkv + h->n_ssm_inner) : HALO_NONE},
        {HALO_TENSOR_SSM_BETA_ALPHA, alpha}};
    const struct halo_builder_pair gates[] = {{HALO_TENSOR_SSM_BETA, beta}, {HALO_TENSOR_SSM_ALPHA, alpha}};
    const struct halo_builder_pair out[] = {{HALO_TENSOR_SSM_OUT, values->out}};

    halo_builder_state(builder, (h->n_conv - 1) * n_qkv + (uint64_t)h->n_ssm_inner * h->n_ssm_state);
    halo_builder_matmul(builder, values->normed, fused ? fused_in : in, 2 + joint - fused);
    if (fused)
        separate(builder, fused_in[0].out, qkv);
    if (!joint)
        halo_builder_matmul(builder, values->normed, gates, 2);
    halo_builder_conv1d(builder, qkv, HALO_TENSOR_SSM_CONV1D, true, conv);
    halo_builder_delta_rule(builder, &(struct halo_op_delta_rule){.qkv = conv,
                                                                  .alpha = alpha,
                                                                  .beta = beta,
                                                                  .out = heads_out,
                                                                  .n_head_k = groups,
                                                                  .n_head_v = heads,
                                                                  .dim_k = h->n_ssm_state,
                                                                  .dim_v = dim_v,
                                                                  .gate_stride = joint ? 2 * per_k : per_k,
                                                                  .alpha_first = joint ? per_k : 0,
                                                                  .grouped = grouped,
                                                                  .scale = (float)(1 / sqrt((double)h->n_ssm_state))});
    halo_builder_head_norm(builder, HALO_TENSOR_SSM_NORM, heads_out, heads, h->norm_eps);
    halo_builder_glu(builder, z, heads_out, heads_out, HALO_GLU_SILU);
    halo_builder_matmul(builder, heads_out, out, 1);
}
