/* bench_plan.c: times a plan on the HIP device. */
#include "bench_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hip/hip.h>

enum { N_REPEAT = 15, RUNS = 8 };

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

void bench_init(struct fixture *f)
{
    fixture_init(f, 16, BENCH_ROWS_MAX, 64);
    f->device_ops = halo_device_hip();
    f->library = getenv("HALO_HIP_LIB");
}

enum halo_type bench_type(const char *name)
{
    for (uint32_t type = 0; type < HALO_TYPE_END; type++)
        if (halo_type_info(type).name && strcmp(halo_type_info(type).name, name) == 0)
            return (enum halo_type)type;
    fprintf(stderr, "no type is called %s\n", name);
    exit(2);
}

uint32_t bench_number(int argc, char **argv, int i, uint32_t otherwise, uint32_t most)
{
    long value = i < argc ? atol(argv[i]) : (long)otherwise;
    if (value >= 1 && value <= (long)most)
        return (uint32_t)value;
    fprintf(stderr, "argument %d is %s, not 1 .. %u\n", i, argv[i], most);
    exit(2);
}

/* Seconds of one run of the plan, the mean of RUNS that are queued together. */
static double time_runs(struct fixture *f, uint16_t value, const int32_t *tokens, uint32_t n_x, int32_t first,
                        float *row)
{
    fixture_peek(f, value, 0, row);
    double begin = now_s();
    for (int i = 0; i < RUNS; i++)
        fixture_run(f, 1, tokens, n_x, first, NULL);
    fixture_peek(f, value, 0, row);
    return (now_s() - begin) / RUNS;
}

double bench_time(struct fixture *f, uint16_t out, uint32_t n_x, int32_t first, double *ret_best)
{
    double times[N_REPEAT];
    float *row = malloc(f->values[out].width * sizeof(*row));
    int32_t *tokens = malloc(n_x * sizeof(*tokens));
    assert_true(row && tokens);
    for (uint32_t i = 0; i < n_x; i++)
        tokens[i] = (int32_t)(i % f->plan.n_vocab);
    fixture_run(f, 1, tokens, n_x, first, NULL);
    for (int i = 0; i < N_REPEAT; i++)
        times[i] = time_runs(f, out, tokens, n_x, first, row);
    free(row);
    free(tokens);
    qsort(times, N_REPEAT, sizeof(times[0]), ascending);
    *ret_best = times[0];
    return times[N_REPEAT / 2];
}

/* The plan with the kernels of $HALO_KERNEL_DIR. */
static void measure(struct fixture *f, const char *what, uint16_t out, uint32_t n_x, uint32_t n_products, double bytes)
{
    const char *dir = getenv("HALO_KERNEL_DIR");
    double best;
    fixture_open(f, NULL, 1);
    double median = bench_time(f, out, n_x, 0, &best), copy = f->device_ops->measure_bandwidth(f->device);
    printf("%s x%u: median %8.1f GB/s, best %8.1f GB/s, copy %8.1f GB/s, share %5.1f %%, %.2f us each%s%s\n", what, n_x,
           bytes / median * 1e-9, bytes / best * 1e-9, copy * 1e-9, 100 * bytes / median / copy,
           median / n_products * 1e6, dir ? "  " : "", dir ? dir : "");
    fixture_close(f);
}

void bench_run(struct fixture *f, const char *what, uint16_t out, uint32_t n_x, uint32_t n_products, double bytes,
               char **dirs)
{
    if (!*dirs)
        measure(f, what, out, n_x, n_products, bytes);
    for (; *dirs; dirs++) {
        setenv("HALO_KERNEL_DIR", *dirs, 1);
        measure(f, what, out, n_x, n_products, bytes);
    }
}
