/* gemv_fused.hip: products of one row with the next op in their epilogue (fused.h), of the types that are used most. */
#include "fused.h"

HALO_FUSED_KERNELS(Q8_0, q8_0)
HALO_FUSED_KERNELS(Q4_K, q4_k)
HALO_FUSED_KERNELS(Q5_K, q5_k)
HALO_FUSED_KERNELS(Q6_K, q6_k)
HALO_PAIR_KERNEL(Q4_K, q4_k, Q6_K, q6_k)
HALO_PAIR_KERNEL(Q5_K, q5_k, Q6_K, q6_k)
#if !defined(__NVPTX__) && !defined(__CUDACC__) /* not measured on NVIDIA's chips */
HALO_FUSED_EXPERTS(MXFP4, mxfp4)
#endif
