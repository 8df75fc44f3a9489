/* program_text.h: a program of the HIP device as text: what a golden text holds. Fails the running test when a pointer
 * among the arguments has no name. */
#ifndef HALO_TESTS_PROGRAM_TEXT_H
#define HALO_TESTS_PROGRAM_TEXT_H

#include <stdio.h>

#include "device_priv.h"

/* The launches of a class in full: their loops, spans, grids and arguments. */
void program_print_list(FILE *to, const struct halo_device_model *model, uint32_t row_class, enum halo_hip_shape shape);
/* The kernels of every class, in their order. */
void program_print_kernels(FILE *to, const struct halo_device_model *model);

#endif
