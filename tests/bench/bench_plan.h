/* bench_plan.h: what the benchmarks of products on the HIP device share: a plan of a fixture, timed. */
#ifndef HALO_BENCH_PLAN_H
#define HALO_BENCH_PLAN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cpu_fixture.h"

enum { BENCH_ROWS_MAX = 8, BENCH_PRODUCTS_MAX = 128 };

/* A plan for up to BENCH_ROWS_MAX rows, unless the caller raises plan.max_rows, on the HIP device; $HALO_HIP_LIB names
 * the runtime. */
void bench_init(struct fixture *f);
/* The type of that name, or ends the program. */
enum halo_type bench_type(const char *name);
/* Argument i as a number, `otherwise` where there are not so many; below 1 or above `most` ends the program. */
uint32_t bench_number(int argc, char **argv, int i, uint32_t otherwise, uint32_t most);
/* Seconds of one run of an open fixture's plan over n_x rows behind `first` positions, launches included: the median
 * of 15 means of 8, and the best of them. `out` is its last result. */
double bench_time(struct fixture *f, uint16_t out, uint32_t n_x, int32_t first, double *ret_best);
/* Runs the plan over n_x rows and prints the best and the median of 15 times, launches included, for n_products that
 * read `bytes` of weights in all and whose last result is `out`, beside the bandwidth of a copy measured in the same
 * process. For the kernels of each folder of dirs (as $HALO_KERNEL_DIR; NULL at the end), in turn, or once without. */
void bench_run(struct fixture *f, const char *what, uint16_t out, uint32_t n_x, uint32_t n_products, double bytes,
               char **dirs);

#endif
