/* gemm_small.hip: products of many rows with weights in blocks of 32 (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(Q8_0, q8_0)
HALO_GEMM_KERNELS(Q4_0, q4_0)
HALO_GEMM_KERNELS(Q4_1, q4_1)
HALO_GEMM_KERNELS(Q5_0, q5_0)
HALO_GEMM_KERNELS(Q5_1, q5_1)
HALO_GEMM_KERNELS(IQ4_NL, iq4_nl)
HALO_GEMM_KERNELS(MXFP4, mxfp4)
