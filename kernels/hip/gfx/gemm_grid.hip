/* gemm_grid.hip: products of many rows with weights that are indices into a code book (gemm.h). */
#include "gemm.h"

HALO_GEMM_KERNELS(IQ3_S, iq3_s)
HALO_GEMM_KERNELS(IQ3_XXS, iq3_xxs)
HALO_GEMM_KERNELS(IQ2_S, iq2_s)
HALO_GEMM_KERNELS(IQ2_XS, iq2_xs)
HALO_GEMM_KERNELS(IQ2_XXS, iq2_xxs)
HALO_GEMM_KERNELS(IQ1_M, iq1_m)
HALO_GEMM_KERNELS(IQ1_S, iq1_s)
