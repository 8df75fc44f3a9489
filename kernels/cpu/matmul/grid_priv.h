/* grid_priv.h: the code books of the IQ1, IQ2 and IQ3 types: as the format has them, for plain C, and as words that a
 * vector unit gathers.
 *
 * An entry holds 8 codes of 2 bits or 4 codes of 3 bits; what a code stands for is in kernels/quant.h. A word holds 8
 * codes, those of weights b and b + 4 in the low and the high half of byte b, or 4 numbers.
 */
#ifndef HALO_CPU_GRID_PRIV_H
#define HALO_CPU_GRID_PRIV_H

#include <stdint.h>

#include <kernels/quant.h>

enum { HALO_GRID_IQ1 = 2048, HALO_GRID_IQ2_XXS = 256, HALO_GRID_IQ2_XS = 512, HALO_GRID_IQ2_S = 1024 };
enum { HALO_GRID_IQ3_XXS = 256, HALO_GRID_IQ3_S = 512 };

extern const uint16_t halo_grid_iq1[HALO_GRID_IQ1], halo_grid_iq2_xxs[HALO_GRID_IQ2_XXS];
extern const uint16_t halo_grid_iq2_xs[HALO_GRID_IQ2_XS], halo_grid_iq2_s[HALO_GRID_IQ2_S];
extern const uint16_t halo_grid_iq3_xxs[HALO_GRID_IQ3_XXS], halo_grid_iq3_s[HALO_GRID_IQ3_S];

extern const uint32_t halo_words_iq1[HALO_GRID_IQ1], halo_words_iq2_xxs[HALO_GRID_IQ2_XXS];
extern const uint32_t halo_words_iq2_xs[HALO_GRID_IQ2_XS], halo_words_iq2_s[HALO_GRID_IQ2_S];
extern const uint32_t halo_words_iq3_xxs[HALO_GRID_IQ3_XXS], halo_words_iq3_s[HALO_GRID_IQ3_S];

#endif
