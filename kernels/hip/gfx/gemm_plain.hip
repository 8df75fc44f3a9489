/* gemm_plain.hip: products of many rows with F32, F16 and BF16 weights (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(F32, f32)
HALO_GEMM_KERNELS(F16, f16)
HALO_GEMM_KERNELS(BF16, bf16)
