/* gemm_codes.hip: products of many rows with weights whose form is not that of the file (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(Q2_0, q2_0)
HALO_GEMM_KERNELS(Q1_0, q1_0)
HALO_GEMM_KERNELS(NVFP4, nvfp4)
