/* gemm_super.hip: products of many rows with weights in super-blocks of 256 (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(Q2_K, q2_k)
HALO_GEMM_KERNELS(Q3_K, q3_k)
HALO_GEMM_KERNELS(Q4_K, q4_k)
HALO_GEMM_KERNELS(Q5_K, q5_k)
HALO_GEMM_KERNELS(Q6_K, q6_k)
HALO_GEMM_KERNELS(IQ4_XS, iq4_xs)
