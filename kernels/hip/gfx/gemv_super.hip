/* gemv_super.hip: products of few rows with weights in super-blocks of 256 (gemv.h). */
#include "gemv.h"

HALO_GEMV_KERNELS(Q2_K, q2_k)
HALO_GEMV_KERNELS(Q3_K, q3_k)
HALO_GEMV_KERNELS(Q4_K, q4_k)
HALO_GEMV_KERNELS(Q5_K, q5_k)
HALO_GEMV_KERNELS(Q6_K, q6_k)
HALO_GEMV_KERNELS(IQ4_XS, iq4_xs)
