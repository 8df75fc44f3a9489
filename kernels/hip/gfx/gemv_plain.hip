/* gemv_plain.hip: products of few rows with F32, F16 and BF16 weights (gemv.h). */
#include "gemv.h"

HALO_GEMV_KERNELS(F32, f32)
HALO_GEMV_KERNELS(F16, f16)
HALO_GEMV_KERNELS(BF16, bf16)
