/* gemm_codes.hip: products of many rows with weights whose form is not that of the file (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(IQ3_S, iq3_s)
HALO_GEMM_KERNELS(IQ2_S, iq2_s)
HALO_GEMM_KERNELS(IQ1_M, iq1_m)
HALO_GEMM_KERNELS(Q2_0, q2_0)
HALO_GEMM_KERNELS(Q1_0, q1_0)
HALO_GEMM_KERNELS(NVFP4, nvfp4)
