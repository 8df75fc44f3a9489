/* gemv_codes.hip: products of few rows with weights whose form is not that of the file (gemv.h). */
#include "gemv.h"

HALO_GEMV_KERNELS(Q2_0, q2_0)
HALO_GEMV_KERNELS(Q1_0, q1_0)
HALO_GEMV_KERNELS(NVFP4, nvfp4)
