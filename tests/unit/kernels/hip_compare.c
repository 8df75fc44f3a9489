/* hip_compare.c: runs a plan on both devices (contract in hip_compare.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <hip/hip.h>

#include "hip_compare.h"

const double bounds[HALO_OP_COUNT] = {
    [HALO_OP_EMBED] = 1e-6,     [HALO_OP_RMSNORM] = 1e-6,    [HALO_OP_MATMUL] = 1e-5,  [HALO_OP_QK_NORM] = 2e-6,
    [HALO_OP_ROPE] = 1e-6,      [HALO_OP_KV_WRITE] = 0,      [HALO_OP_ATTEND] = 1e-5,  [HALO_OP_GLU] = 2e-6,
    [HALO_OP_MOE_ROUTE] = 2e-6, [HALO_OP_MOE_MATMUL] = 1e-5, [HALO_OP_MOE_SUM] = 1e-6, [HALO_OP_ADD] = 0,
    [HALO_OP_LOGITS] = 1e-5,    [HALO_OP_CONCAT] = 0,        [HALO_OP_CONV1D] = 1e-6,  [HALO_OP_DELTA_RULE] = 4e-6,
    [HALO_OP_SSM_SCAN] = 4e-6,
};
const double bound_f16 = 1e-3;
const uint32_t few[N_FEW] = {1, 3, 8};

static uint64_t n_compared;
/* Opened once, and left to the end of the process: a test that fails leaves its model there. Loading the kernel file
 * and finding its functions takes long, above all through a worker. */
static struct halo_device *hip_device;

void compare_row(const char *what, const float *have, const float *want, uint32_t n, double bound, double least)
{
    double largest = least; /* nothing smaller is a row's largest */
    for (uint32_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs((double)have[i] - (double)want[i]) <= bound * largest))
            fail_msg("%s: element %u of %u is %.9g, wanted %.9g (largest %.9g, bound %.1e)", what, i, n,
                     (double)have[i], (double)want[i], largest, bound);
    n_compared += n;
}

void compare_rows(const char *what, const float *have, const float *want, uint32_t n_rows, uint32_t width, double bound)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        char text[160];
        snprintf(text, sizeof(text), "%s, row %u of %u", what, r, n_rows);
        compare_row(text, have + (size_t)r * width, want + (size_t)r * width, width, bound, 0);
    }
}

float *run_and_peek(struct fixture *f, uint16_t value, uint32_t n_rows, int32_t first_pos)
{
    uint32_t width = f->values[value].width;
    float *rows = calloc((size_t)n_rows * width, sizeof(*rows));
    int32_t tokens[MAX_ROWS];
    assert_non_null(rows);
    for (uint32_t r = 0; r < n_rows; r++)
        tokens[r] = (int32_t)(r * 5 % N_VOCAB);
    fixture_run(f, 3, tokens, n_rows, first_pos, NULL);
    for (uint32_t r = 0; r < n_rows; r++)
        fixture_peek(f, value, r, rows + (size_t)r * width);
    return rows;
}

void use_cpu(struct fixture *f)
{
    fixture_close(f);
    f->device_ops = halo_device_cpu();
    f->library = NULL;
    f->kept = NULL;
    fixture_open(f, NULL, 1);
}

void use_hip(struct fixture *f)
{
    fixture_close(f);
    f->device_ops = halo_device_hip();
    f->library = getenv("HALO_HIP_LIB");
    f->kept = &hip_device;
    fixture_open(f, NULL, 1);
}

void both(struct fixture *f, const char *what, enum halo_op_kind kind, uint16_t value, const uint32_t *n_rows,
          uint32_t n_runs)
{
    float *want[8];
    assert_true(n_runs <= 8);
    use_cpu(f);
    for (uint32_t i = 0; i < n_runs; i++)
        want[i] = run_and_peek(f, value, n_rows[i], 0);
    use_hip(f);
    for (uint32_t i = 0; i < n_runs; i++) {
        uint32_t width = f->values[value].width;
        float *have = run_and_peek(f, value, n_rows[i], 0);
        compare_rows(what, have, want[i], n_rows[i], width, bounds[kind]);
        free(have);
        free(want[i]);
    }
    fixture_close(f);
}

void many(struct fixture *f, const char *what, uint16_t value, uint32_t width, double bound)
{
    use_cpu(f);
    float *want = run_and_peek(f, value, MAX_ROWS, 0), *have;
    use_hip(f);
    compare_rows(what, have = run_and_peek(f, value, MAX_ROWS, 0), want, MAX_ROWS, width, bound);
    free(want);
    free(have);
}

static int teardown(void **state)
{
    print_message("%llu numbers compared\n", (unsigned long long)n_compared);
    return n_compared == 0;
}

int compare_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n_tests)
{
    if (!getenv("HALO_HIP_LIB")) {
        printf("HALO_HIP_LIB names no runtime\n");
        return 77;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("hip", tests, n_tests, NULL, teardown);
}
