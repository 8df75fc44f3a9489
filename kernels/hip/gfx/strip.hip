/* strip.hip: products of 5 to 32 rows by matrix units (strip.h). Chips without them have none of these, RDNA3
 * only that of F16 for up to eight. */
#include "strip.h"

#if !defined(HALO_NO_MATRIX)
HALO_STRIP_KERNEL(F16, 8, 1, 2, strip_f16)
#endif
/* On RDNA3 both halves of a wave would unpack the same weights: slower than dot products. */
#if !defined(HALO_NO_MATRIX) && !HALO_GFX11
HALO_STRIP_KERNEL(F16, HALO_STRIP_X, 1, 2, strip_f16_x32)
HALO_STRIP_KERNELS(BF16, bf16)
HALO_STRIP_KERNELS(Q8_0, q8_0)
HALO_STRIP_KERNELS(Q4_0, q4_0)
HALO_STRIP_KERNELS(Q4_1, q4_1)
HALO_STRIP_KERNELS(Q5_0, q5_0)
HALO_STRIP_KERNELS(Q5_1, q5_1)
HALO_STRIP_KERNELS(IQ4_NL, iq4_nl)
HALO_STRIP_KERNELS(MXFP4, mxfp4)
HALO_STRIP_KERNELS(Q2_K, q2_k)
HALO_STRIP_KERNELS(Q3_K, q3_k)
HALO_STRIP_KERNELS(Q4_K, q4_k)
HALO_STRIP_KERNELS(Q5_K, q5_k)
HALO_STRIP_KERNELS(Q6_K, q6_k)
HALO_STRIP_KERNELS(IQ4_XS, iq4_xs)
HALO_STRIP_KERNELS(IQ3_S, iq3_s)
HALO_STRIP_KERNELS(IQ2_S, iq2_s)
HALO_STRIP_KERNELS(IQ1_M, iq1_m)
HALO_STRIP_KERNELS(Q2_0, q2_0)
HALO_STRIP_KERNELS(Q1_0, q1_0)
HALO_STRIP_KERNELS(NVFP4, nvfp4)
#endif
