/* gfx_fixture.h: runs kernels on the emulator, and computes in plain loops what they must return.
 *
 * Buffers come from malloc with their exact sizes, so that AddressSanitizer reports accesses beyond them. Fails the
 * test on any error.
 */
#ifndef HALO_TEST_GFX_FIXTURE_H
#define HALO_TEST_GFX_FIXTURE_H

#include <args.h>
#include <host_abi.h>
#include <layout.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs the kernel with its own block size; fails the test with the emulator's reason when it does not return 0. */
void gfx_run(const char *kernel, uint32_t x, uint32_t y, uint32_t z, void *args);

/* Numbers that repeat: equal seeds, equal numbers. */
uint32_t gfx_random(uint32_t *state);
float gfx_random_float(uint32_t *state); /* -1 .. 1 */
float *gfx_floats(uint32_t n, uint32_t seed);
void *gfx_zeros(size_t n_bytes);

float gfx_half_float(uint16_t half);
uint16_t gfx_float_half(float f);

/* n_rows packed rows of a type, every plane random but finite. */
uint8_t *gfx_weights(uint32_t type, uint32_t n_cols, uint32_t n_rows, uint32_t seed);
/* Weight `col` of a packed row, decoded as layout.h states. */
double gfx_weight(uint32_t type, const uint8_t *row, uint32_t n_cols, uint32_t col);

/* An activation row as layout.h states; and element i of one. */
void gfx_quantize(const float *x, uint32_t n_cols, uint8_t *act);
double gfx_act(const uint8_t *act, uint32_t n_cols, uint32_t col);

/* |have - want| <= bound * scale; otherwise the test fails and names the place. */
void gfx_near(double have, double want, double bound, double scale, const char *what, uint32_t i);

/* The types, by name. */
struct gfx_type {
    uint32_t type;
    const char *name;
    uint32_t block;
};
extern const struct gfx_type gfx_types[];
extern const uint32_t gfx_n_types;

#endif
