/* bench_gemv.c: products of few rows alone, on the HIP device: bytes of weights read per second.
 *
 *   bench_gemv TYPE COLS ROWS [N_X] [N_MATRICES] [KERNEL_DIR...]
 *
 * A plan of N_MATRICES (default 16) different matrices that share one input of N_X rows (default 1), so that no cache
 * holds them all. $HALO_HIP_LIB names the runtime. Prints the best and the median of 15 runs, launches included, beside
 * the bandwidth of a copy measured in the same process; with KERNEL_DIRs (as $HALO_KERNEL_DIR) for the kernels of each,
 * in turn. No pass or fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cpu_fixture.h"

#include <hip/hip.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_REPEAT = 15, RUNS = 8, MATRICES_MAX = 128 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum halo_type type_of(const char *name)
{
    for (uint32_t type = 0; type < HALO_TYPE_END; type++)
        if (halo_type_info(type).name && strcmp(halo_type_info(type).name, name) == 0)
            return (enum halo_type)type;
    fprintf(stderr, "no type is called %s\n", name);
    exit(2);
}

/* Seconds of one run of the plan, the mean of RUNS that are queued together. */
static double time_runs(struct fixture *f, uint16_t value, uint32_t n_x, float *row)
{
    int32_t tokens[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    fixture_peek(f, value, 0, row);
    double begin = now_s();
    for (int i = 0; i < RUNS; i++)
        fixture_run(f, 1, tokens, n_x, 0, NULL);
    fixture_peek(f, value, 0, row);
    return (now_s() - begin) / RUNS;
}

/* The plan with the kernels of $HALO_KERNEL_DIR. */
static void measure(struct fixture *f, char **argv, uint16_t out, uint32_t n_x, double bytes, float *row)
{
    const char *dir = getenv("HALO_KERNEL_DIR");
    double times[N_REPEAT];
    fixture_open(f, NULL, 1);
    fixture_run(f, 1, (const int32_t[8]){0, 1, 2, 3, 4, 5, 6, 7}, n_x, 0, NULL);
    for (int i = 0; i < N_REPEAT; i++)
        times[i] = time_runs(f, out, n_x, row);
    qsort(times, N_REPEAT, sizeof(times[0]), ascending);
    double copy = f->device_ops->measure_bandwidth(f->device), median = times[N_REPEAT / 2];
    printf("%-6s %6s x %-6s x%u: median %8.1f GB/s, best %8.1f GB/s, copy %8.1f GB/s, share %5.1f %%, %.2f us each"
           "%s%s\n",
           argv[1], argv[2], argv[3], n_x, bytes / median * 1e-9, bytes / times[0] * 1e-9, copy * 1e-9,
           100 * bytes / median / copy, median / (f->plan.n_ops - 1) * 1e6, dir ? "  " : "", dir ? dir : "");
    fixture_close(f);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_gemv TYPE COLS ROWS [N_X] [N_MATRICES] [KERNEL_DIR...]\n");
        return 2;
    }
    static struct fixture f;
    enum halo_type type = type_of(argv[1]);
    uint32_t n_cols = (uint32_t)atoi(argv[2]), n_rows = (uint32_t)atoi(argv[3]),
             n_x = argc > 4 ? (uint32_t)atoi(argv[4]) : 1, n = argc > 5 ? (uint32_t)atoi(argv[5]) : 16;
    if (n_x < 1 || n_x > 8 || n < 1 || n > MATRICES_MAX)
        return 2;
    fixture_init(&f, 16, 8, 64);
    f.device_ops = halo_device_hip();
    f.library = getenv("HALO_HIP_LIB");
    uint16_t x = fixture_input(&f, n_cols, 1), out = fixture_value(&f, n_rows);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = fixture_weight(&f, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 1 / sqrt(n_cols));
        struct halo_op_matmul u = {x, 1, {w}, {HALO_WEIGHT_NONE}, {out}};
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = u});
    }
    double bytes = (double)halo_type_row_bytes(type, n_cols) * n_rows * n;
    float *row = malloc(n_rows * sizeof(*row));
    if (argc <= 6)
        measure(&f, argv, out, n_x, bytes, row);
    for (int i = 6; i < argc; i++) {
        setenv("HALO_KERNEL_DIR", argv[i], 1);
        measure(&f, argv, out, n_x, bytes, row);
    }
    free(row);
    fixture_finish(&f);
    return 0;
}
