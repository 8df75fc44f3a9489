/* embed.hip: the row of a token, from the packed table. A thread takes a unit of 32 weights, or one weight of a plain
 * type. */
#include "gemv.h"

template <uint32_t TYPE> HALO_DEVICE void embed(const halo_embed_args &a)
{
    typedef halo_type_code<TYPE> code;
    const halo_row_layout at = halo_hip_row_layout(TYPE, a.n_cols);
    const uint8_t *row =
        static_cast<const uint8_t *>(a.weight) + (uint64_t)(uint32_t)a.token[halo_block_x()] * at.stride;
    float *out = a.out + (uint64_t)halo_block_x() * a.n_cols;
    for (uint32_t u = halo_tid(); u < a.n_cols / HALO_HIP_UNIT; u += 256) {
        halo_unit w;
        halo_expand<TYPE>(code::load(row, at, u), u, halo_book<TYPE>::table(), &w);
        for (int i = 0; i < 8; i++) {
            halo_f4 v;
            for (int j = 0; j < 4; j++)
                v.e[j] = halo_unit_weight<code>(w, i, j) * a.scale;
            *reinterpret_cast<halo_f4 *>(out + u * HALO_HIP_UNIT + 4 * i) = v;
        }
    }
}

template <uint32_t TYPE> HALO_DEVICE void embed_plain(const halo_embed_args &a)
{
    const uint64_t token = (uint32_t)a.token[halo_block_x()];
    const uint8_t *row = static_cast<const uint8_t *>(a.weight) + token * halo_hip_row_layout(TYPE, a.n_cols).stride;
    for (uint32_t i = halo_tid(); i < a.n_cols; i += 256)
        a.out[(uint64_t)halo_block_x() * a.n_cols + i] = gemv_plain_code<TYPE>::one(row, i) * a.scale;
}

HALO_KERNEL(embed_f32, halo_embed_args, 256)
{
    embed_plain<HALO_TYPE_F32>(a);
}
HALO_KERNEL(embed_f16, halo_embed_args, 256)
{
    embed_plain<HALO_TYPE_F16>(a);
}
HALO_KERNEL(embed_bf16, halo_embed_args, 256)
{
    embed_plain<HALO_TYPE_BF16>(a);
}

#define HALO_EMBED_KERNEL(TYPE, type)                                                                                  \
    HALO_KERNEL(embed_##type, halo_embed_args, 256)                                                                    \
    {                                                                                                                  \
        embed<HALO_TYPE_##TYPE>(a);                                                                                    \
    }
HALO_EMBED_KERNEL(Q8_0, q8_0)
HALO_EMBED_KERNEL(Q4_0, q4_0)
HALO_EMBED_KERNEL(Q4_1, q4_1)
HALO_EMBED_KERNEL(Q5_0, q5_0)
HALO_EMBED_KERNEL(Q5_1, q5_1)
HALO_EMBED_KERNEL(IQ4_NL, iq4_nl)
HALO_EMBED_KERNEL(MXFP4, mxfp4)
HALO_EMBED_KERNEL(Q2_K, q2_k)
HALO_EMBED_KERNEL(Q3_K, q3_k)
HALO_EMBED_KERNEL(Q4_K, q4_k)
HALO_EMBED_KERNEL(Q5_K, q5_k)
HALO_EMBED_KERNEL(Q6_K, q6_k)
HALO_EMBED_KERNEL(IQ4_XS, iq4_xs)
HALO_EMBED_KERNEL(IQ3_S, iq3_s)
HALO_EMBED_KERNEL(IQ3_XXS, iq3_xxs)
HALO_EMBED_KERNEL(IQ2_S, iq2_s)
HALO_EMBED_KERNEL(IQ2_XS, iq2_xs)
HALO_EMBED_KERNEL(IQ2_XXS, iq2_xxs)
HALO_EMBED_KERNEL(IQ1_M, iq1_m)
HALO_EMBED_KERNEL(IQ1_S, iq1_s)
HALO_EMBED_KERNEL(Q2_0, q2_0)
HALO_EMBED_KERNEL(Q1_0, q1_0)
HALO_EMBED_KERNEL(NVFP4, nvfp4)
