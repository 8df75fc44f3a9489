/* plan_mamba.c: layers of Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"). Runs where the model is created; failures
 * stay in the builder.
 *
 * The stream's row becomes a gate z, the row xBC, which passes a short convolution and SiLU, and the step dt of each
 * head. What the scan gives is multiplied with SiLU(z) and then normed, group by group, where the file has that norm.
 */
#include "plan_blocks_priv.h"

void halo_blocks_mamba(struct halo_builder *builder, const struct halo_blocks *values)
{
    const struct halo_hparams *h = builder->hparams;
    uint64_t n_xbc = h->n_ssm_inner + 2ull * h->n_ssm_groups * h->n_ssm_state;
    uint16_t z = halo_builder_value(builder, "z", h->n_ssm_inner), xbc = halo_builder_value(builder, "xbc", n_xbc),
             dt = halo_builder_value(builder, "dt", h->n_ssm_heads), conv = halo_builder_value(builder, "conv", n_xbc),
             y = halo_builder_value(builder, "y", h->n_ssm_inner);
    const struct halo_builder_pair in[] = {
        {HALO_TENSOR_SSM_IN_Z, z}, {HALO_TENSOR_SSM_IN_XBC, xbc}, {HALO_TENSOR_SSM_IN_DT, dt}};
    const struct halo_builder_pair out[] = {{HALO_TENSOR_SSM_OUT, values->out}};

    halo_builder_state(builder, (h->n_conv - 1) * n_xbc + (uint64_t)h->n_ssm_inner * h->n_ssm_state);
    halo_builder_matmul(builder, values->normed, in, 3);
    halo_builder_conv1d(builder, xbc, HALO_TENSOR_SSM_CONV1D, true, conv);
    halo_builder_ssm_scan(builder, conv, dt, y);
    halo_builder_glu(builder, z, y, y, HALO_GLU_SILU);
    if (halo_builder_has(builder, HALO_TENSOR_SSM_NORM))
        halo_builder_head_norm(builder, HALO_TENSOR_SSM_NORM, y, h->n_ssm_groups, h->norm_eps);
    halo_builder_matmul(builder, y, out, 1);
}
