/* fat_program.h: a program as hipcc compiles one: a bundle behind a wrapper, stubs that stand for kernels, shadows of
 * variables. The code objects are those of vector_host.c. */
#ifndef HALO_TESTS_FAT_PROGRAM_H
#define HALO_TESTS_FAT_PROGRAM_H

#include <stdint.h>

#include "bundle_build.h"
#include "rig.h"

extern float vector_shift_shadow[4];

/* The stubs' addresses alone count. */
void stub_scale(void);
void stub_shift(void);
void stub_nap(void);
void stub_unknown(void);

/* What the constructors of a program do, and its last destructor. */
void **fat_register(enum bundle_method method, int version);
void fat_unregister(void **binary);

/* What the compiler makes of stub<<<1, 64, 0, stream>>>(out, in, n, factor); the result of hipLaunchKernel. */
int fat_launch(void (*stub)(void), void *out, const void *in, uint32_t n, float factor, void *stream);

#endif
