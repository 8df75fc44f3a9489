/* gemv_grid.hip: products of few rows with weights that are indices into a code book (gemv.h). */
#include "gemv.h"

HALO_GEMV_KERNELS(IQ3_S, iq3_s)
HALO_GEMV_KERNELS(IQ3_XXS, iq3_xxs)
HALO_GEMV_KERNELS(IQ2_S, iq2_s)
HALO_GEMV_KERNELS(IQ2_XS, iq2_xs)
HALO_GEMV_KERNELS(IQ2_XXS, iq2_xxs)
HALO_GEMV_KERNELS(IQ1_M, iq1_m)
HALO_GEMV_KERNELS(IQ1_S, iq1_s)
