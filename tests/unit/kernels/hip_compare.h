/* hip_compare.h: a plan of a fixture on the HIP device, over the runtime that $HALO_HIP_LIB names, and on the CPU
 * device: same batch, every value of every row. In CI the runtime is the emulated one: a GPU with every kernel, one
 * whose few rows all use dot products, and gfx1010.
 *
 * The bound of an op is the largest error, relative to the largest number of the row. Few rows are products of
 * integers, in both devices over the same int8 activations: only the order of float additions differs. From five rows
 * on with strips, and with more rows, the HIP device multiplies in f16; there the reference is a plain product in
 * double, and the bound is relative to the largest number that a row of many such products would hold: four times the
 * root of the sum of squares of what is added. Any failure fails the running test.
 */
#ifndef HALO_TESTS_HIP_COMPARE_H
#define HALO_TESTS_HIP_COMPARE_H

#include "cpu_fixture.h"

#define N_VOCAB 67
#define MAX_ROWS 67
#define CONTEXT 160

extern const double bounds[HALO_OP_COUNT], bound_f16;
#define N_FEW 3
extern const uint32_t few[N_FEW]; /* numbers of rows whose products are of integers */

/* `least`: nothing smaller is a row's largest number. */
void compare_row(const char *what, const float *have, const float *want, uint32_t n, double bound, double least);
void compare_rows(const char *what, const float *have, const float *want, uint32_t n_rows, uint32_t width,
                  double bound);

/* Rows 0 .. n_rows - 1 of one value after the fixture's plan has run on its device: [n_rows][width], freshly
 * allocated. */
float *run_and_peek(struct fixture *f, uint16_t value, uint32_t n_rows, int32_t first_pos);

/* Opens the plan again on the device. */
void use_cpu(struct fixture *f);
void use_hip(struct fixture *f);

/* Runs the plan on both devices and compares one value, for each number of rows (8 of them at most). */
void both(struct fixture *f, const char *what, enum halo_op_kind kind, uint16_t value, const uint32_t *n_rows,
          uint32_t n_runs);
/* The same for many rows, whose products are in f16. */
void many(struct fixture *f, const char *what, uint16_t value, uint32_t width, double bound);

/* Runs the tests, or those that argument 1 is a pattern of; 77 without a runtime, 1 when nothing was compared. */
struct CMUnitTest;
int compare_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n_tests);

#endif
