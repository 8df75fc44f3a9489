/* test_waits.c: the checks of the interpreter, checked: of some kernels each wait, barrier and cache invalidation that
 * runs is left out in turn. Most must be reported, or show in the numbers; the rest is redundant on the paths that
 * these launches take, such as waits for stores that no other wave reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"
#include "isa.h"

#define MOST_OUT 4096

/* A launch, made anew each time: its result in `out`, which is `out_bytes` long. */
struct subject {
    const char *kernel;
    void (*run)(const struct subject *subject, uint8_t *out);
    size_t out_bytes;
    double most_missed; /* share of the changes that may go unseen */
};

static struct isa_module *module;
static struct isa_options options;

static void launch(const struct subject *subject, uint32_t n_blocks, const void *args, size_t n)
{
    struct halo_fault fault = {0};
    struct isa_kernel *k = isa_find(module, subject->kernel);
    assert_non_null(k);
    (void)isa_launch(k, (uint32_t[]){n_blocks, 1, 1}, isa_block(k), args, n, &options,
                     &fault); /* a hang is a finding */
}

static void run_rmsnorm(const struct subject *subject, uint8_t *out)
{
    enum { N = 512, ROWS = 2 };
    float *x = gfx_floats(ROWS * N, 1), *weight = gfx_floats(N, 3), *y = gfx_zeros(ROWS * N * sizeof(*y));
    struct halo_rmsnorm_args args = {x, NULL, weight, y, NULL, N, 1e-5f};
    launch(subject, ROWS, &args, sizeof(args));
    memcpy(out, y, subject->out_bytes);
    free(x);
    free(weight);
    free(y);
}

static void run_gemv(const struct subject *subject, uint8_t *out)
{
    enum { COLS = 1024, ROWS = 37 };
    float *x = gfx_floats(COLS, 5), *y = gfx_zeros(ROWS * sizeof(*y));
    uint8_t *act = gfx_zeros(halo_hip_act_bytes(COLS)), *weight = gfx_weights(HALO_TYPE_Q4_K, COLS, ROWS, 7);
    gfx_quantize(x, COLS, act);
    struct halo_gemv_args args = {.x = act, .n_matrices = 1, .n_cols = COLS, .n_rows = 1};
    args.matrix[0] = (struct halo_matrix_arg){.weight = weight, .out = y, .n_rows = ROWS, .out_stride = ROWS};
    args.n_blocks = args.n_grid = HALO_HIP_CEIL(ROWS, HALO_GEMV_ROWS(false, 1));
    launch(subject, args.n_grid, &args, sizeof(args));
    memcpy(out, y, subject->out_bytes);
    free(x);
    free(y);
    free(act);
    free(weight);
}

/* A kernel with LDS, barriers and matrix products. */
static void run_strip(const struct subject *subject, uint8_t *out)
{
    enum { COLS = 512, ROWS = 16, N_X = 6 };
    uint16_t *half = gfx_zeros((size_t)N_X * COLS * sizeof(*half));
    float *scale = gfx_zeros(N_X * sizeof(*scale)), *y = gfx_zeros((size_t)N_X * ROWS * sizeof(*y));
    uint8_t *weight = gfx_weights(HALO_TYPE_F16, COLS, ROWS, 9);
    uint32_t seed = 11;
    for (uint32_t i = 0; i < N_X * COLS; i++)
        half[i] = gfx_float_half(gfx_random_float(&seed));
    for (uint32_t i = 0; i < N_X; i++)
        scale[i] = 1;
    struct halo_strip_args args = {
        .half = half, .scale = scale, .n_matrices = 1, .n_cols = COLS, .n_rows = N_X, .x_stride = COLS};
    args.matrix[0] = (struct halo_matrix_arg){.weight = weight, .out = y, .n_rows = ROWS, .out_stride = ROWS};
    launch(subject, HALO_HIP_CEIL(ROWS, HALO_STRIP_COLS), &args, sizeof(args));
    memcpy(out, y, subject->out_bytes);
    free(half);
    free(scale);
    free(y);
    free(weight);
}

static const struct subject subjects[] = {
    {"gemv_q4_k_x1", run_gemv, 37 * 4, 0.25},
    {"rmsnorm", run_rmsnorm, 2 * 512 * 4, 0.5},
    {"strip_f16", run_strip, 6 * 16 * 4, 0.5},
};

static bool is_guard(const char *text)
{
    return strncmp(text, "s_waitcnt ", 10) == 0 || strncmp(text, "s_waitcnt_vscnt ", 16) == 0 ||
           strncmp(text, "s_barrier", 9) == 0 || strncmp(text, "buffer_gl", 9) == 0;
}

static void check_subject(const struct subject *subject)
{
    uint8_t want[MOST_OUT], out[MOST_OUT];
    struct isa_kernel *k = isa_find(module, subject->kernel);
    unsigned n = 0, n_reported = 0, n_wrong = 0;
    assert_true(subject->out_bytes <= MOST_OUT);
    options = (struct isa_options){.order = ISA_IN_ORDER};
    isa_reset();
    subject->run(subject, want);
    assert_int_equal(isa_n_defects(), 0);
    for (uint32_t i = 0; i < isa_n_ins(k); i++) {
        if (isa_n_runs(k, i) == 0 || !is_guard(isa_text(k, i)))
            continue;
        assert_true(isa_change(k, i, ISA_LEFT_OUT));
        isa_reset();
        options = (struct isa_options){.order = i % 3 == 0   ? ISA_IN_ORDER
                                                : i % 3 == 1 ? ISA_RANDOM
                                                             : ISA_REVERSE,
                                       .resident = 4,
                                       .seed = i,
                                       .limit = 50000000};
        subject->run(subject, out);
        bool wrong = memcmp(out, want, subject->out_bytes) != 0;
        n++;
        n_reported += isa_n_defects() > 0;
        n_wrong += isa_n_defects() == 0 && wrong;
        if (isa_n_defects() == 0 && !wrong)
            print_message("%s: not seen: %s\n", subject->kernel, isa_text(k, i));
    }
    isa_change(k, 0, ISA_AS_IS);
    print_message("%s: of %u left out, %u reported, %u by the numbers alone\n", subject->kernel, n, n_reported,
                  n_wrong);
    assert_true(n >= 5);
    assert_true(n - n_reported - n_wrong <= (unsigned)(subject->most_missed * n));
}

static void a_wait_that_is_missing_is_seen(void **state)
{
    struct halo_fault fault = {0};
    const char *path = getenv("HALO_ISA_OBJECT");
    assert_non_null(path);
    assert_non_null(halo_host_kernel_find(NULL)); /* skips where it cannot run; knows the program's memory */
    if (isa_open(path, &module, &fault) < 0)
        fail_msg("%s", fault.text);
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
        check_subject(&subjects[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_is_missing_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
