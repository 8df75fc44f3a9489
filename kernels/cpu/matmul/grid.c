/* grid.c: the code books as arrays. Immutable. */
#include "grid_priv.h"

#define X(code) code,
const uint16_t halo_grid_iq1[HALO_GRID_IQ1] = {
#include <kernels/grid_iq1.def>
};
const uint16_t halo_grid_iq2_xxs[HALO_GRID_IQ2_XXS] = {
#include <kernels/grid_iq2_xxs.def>
};
const uint16_t halo_grid_iq2_xs[HALO_GRID_IQ2_XS] = {
#include <kernels/grid_iq2_xs.def>
};
const uint16_t halo_grid_iq2_s[HALO_GRID_IQ2_S] = {
#include <kernels/grid_iq2_s.def>
};
const uint16_t halo_grid_iq3_xxs[HALO_GRID_IQ3_XXS] = {
#include <kernels/grid_iq3_xxs.def>
};
const uint16_t halo_grid_iq3_s[HALO_GRID_IQ3_S] = {
#include <kernels/grid_iq3_s.def>
};
#undef X

#define PAIR(code, b) ((code) >> 2 * (b)&3u) | ((code) >> (2 * (b) + 8) & 3u) << 4
#define X(code) (PAIR(code, 0)) | (PAIR(code, 1)) << 8 | (PAIR(code, 2)) << 16 | (PAIR(code, 3)) << 24,
const uint32_t halo_words_iq1[HALO_GRID_IQ1] = {
#include <kernels/grid_iq1.def>
};
const uint32_t halo_words_iq2_xxs[HALO_GRID_IQ2_XXS] = {
#include <kernels/grid_iq2_xxs.def>
};
const uint32_t halo_words_iq2_xs[HALO_GRID_IQ2_XS] = {
#include <kernels/grid_iq2_xs.def>
};
const uint32_t halo_words_iq2_s[HALO_GRID_IQ2_S] = {
#include <kernels/grid_iq2_s.def>
};
#undef X

/* HALO_IQ3_XXS_VALUES: multiples of 8 from 4 on, but for the last. */
#define NUMBER(code, b) (((code) >> 3 * (b)&7u) == 7 ? 62u : ((code) >> 3 * (b)&7u) * 8 + 4)
#define X(code) NUMBER(code, 0) | NUMBER(code, 1) << 8 | NUMBER(code, 2) << 16 | NUMBER(code, 3) << 24,
const uint32_t halo_words_iq3_xxs[HALO_GRID_IQ3_XXS] = {
#include <kernels/grid_iq3_xxs.def>
};
#undef X
#undef NUMBER
#define NUMBER(code, b) (((code) >> 3 * (b)&7u) * 2 + 1)
#define X(code) NUMBER(code, 0) | NUMBER(code, 1) << 8 | NUMBER(code, 2) << 16 | NUMBER(code, 3) << 24,
const uint32_t halo_words_iq3_s[HALO_GRID_IQ3_S] = {
#include <kernels/grid_iq3_s.def>
};
#undef X
