/* quant.h: the layouts of quantized blocks, shared by host and device code.
 *
 * All little-endian, packed as in the file; f16 fields are raw 16-bit patterns. Source: the block layouts of ggml,
 * restated in docs/FORMATS.md. Only constants and structs here, so that .hip files can include it.
 */
#ifndef HALO_KERNELS_QUANT_H
#define HALO_KERNELS_QUANT_H

#include <stdint.h>

#define HALO_QK 32    /* weights of a small block */
#define HALO_QK_K 256 /* weights of a super-block */

struct halo_block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
};
struct halo_block_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
};
struct halo_block_q5_0 {
    uint16_t d;
    uint8_t qh[4], qs[16];
};
struct halo_block_q5_1 {
    uint16_t d, m;
    uint8_t qh[4], qs[16];
};
struct halo_block_q8_0 {
    uint16_t d;
    int8_t qs[32];
};
struct halo_block_q2_k {
    uint8_t scales[16], qs[64];
    uint16_t d, dmin;
};
struct halo_block_q3_k {
    uint8_t hmask[32], qs[64], scales[12];
    uint16_t d;
};
struct halo_block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12], qs[128];
};
struct halo_block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12], qh[32], qs[128];
};
struct halo_block_q6_k {
    uint8_t ql[128], qh[64];
    int8_t scales[16];
    uint16_t d;
};
struct halo_block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
};
struct halo_block_iq4_xs {
    uint16_t d, scales_h;
    uint8_t scales_l[4], qs[128];
};
struct halo_block_mxfp4 {
    uint8_t e, qs[16];
};
struct halo_block_nvfp4 {
    uint8_t e[4], qs[32];
};
struct halo_block_q1_0 {
    uint16_t d;
    uint8_t qs[16];
};
struct halo_block_q2_0 {
    uint16_t d;
    uint8_t qs[16];
};
struct halo_block_tq1_0 {
    uint8_t qs[48], qh[4];
    uint16_t d;
};
struct halo_block_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
};
struct halo_block_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
};
struct halo_block_iq1_m {
    uint8_t qs[32], qh[16];
    uint16_t sc[4];
};
/* Two words for 32 weights: four grid indices, then four sign indices of 7 bits and a scale of 4. */
struct halo_block_iq2_xxs {
    uint16_t d, qs[32];
};
struct halo_block_iq2_xs {
    uint16_t d, qs[32];
    uint8_t scales[8];
};
struct halo_block_iq2_s {
    uint16_t d;
    uint8_t qs[32], signs[32], qh[8], scales[8];
};
struct halo_block_iq3_xxs {
    uint16_t d;
    uint8_t qs[64], words[32];
};
struct halo_block_iq3_s {
    uint16_t d;
    uint8_t qs[64], qh[8], signs[32], scales[4];
};

#define HALO_IQ4_NL_VALUES                                                                                             \
    {                                                                                                                  \
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113                                       \
    }
/* The numbers of MXFP4 and NVFP4, doubled so that they are integers; the scale of an MXFP4 block is then 2^(e - 128),
 * that of 16 weights of NVFP4 half of what its byte says. */
#define HALO_MXFP4_VALUES2                                                                                             \
    {                                                                                                                  \
        0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12                                                        \
    }
/* What the codes of the books in grid_iq2_*.def and grid_iq3_xxs.def stand for: magnitudes, whose signs are stored
 * apart. */
#define HALO_IQ2_VALUES                                                                                                \
    {                                                                                                                  \
        8, 25, 43                                                                                                      \
    }
#define HALO_IQ3_XXS_VALUES                                                                                            \
    {                                                                                                                  \
        4, 12, 20, 28, 36, 44, 52, 62                                                                                  \
    }

#endif
