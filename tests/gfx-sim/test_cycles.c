/* test_cycles.c: the arithmetic of the cycle model, on kernels whose time can be counted by hand (cycles_kernels.s) and
 * on one of the engine's products.
 *
 *   test_cycles HANDWRITTEN CODE-OBJECT
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cycles.h"
#include "gfx_fixture.h"
#include "isa.h"

#define LINE 128

static struct isa_module *handwritten, *engine;
static struct isa_machine machine;

static void run(struct isa_module *module, const char *name, uint32_t threads, const void *args, size_t n)
{
    const struct isa_options options = {.order = ISA_IN_ORDER, .record = 1};
    struct halo_fault fault = {0};
    struct isa_kernel *k = isa_find(module, name);
    assert_non_null(k);
    if (isa_launch(k, (uint32_t[]){1, 1, 1}, threads, args, n, &options, &fault) < 0)
        fail_msg("%s", fault.text);
    assert_int_equal(isa_n_defects(), 0);
}

static struct isa_cycles replay(uint32_t n_resident, uint32_t n_rounds)
{
    struct isa_cycles c;
    assert_int_equal(isa_cycles(&machine, n_resident, n_rounds, &c), 0);
    return c;
}

/* Of one block of 32 threads. */
static struct isa_cycles time_of(const char *name)
{
    uint64_t args[3] = {0};
    run(handwritten, name, 32, args, sizeof(args));
    return replay(1, 1);
}

static void matrix_products_fill_the_pipe(void **state)
{
    (void)state;
    /* 48 moves, the last one's latency, 64 products, the end. */
    const uint64_t one = 47 + machine.valu_latency + 63 * machine.wmma_clocks + 2;
    struct isa_cycles c = time_of("wmma");
    assert_int_equal(c.clocks, one);
    assert_int_equal(c.n_wmma, 64);
    assert_int_equal(c.busy[ISA_UNIT_WMMA], 64 * machine.wmma_clocks);
    assert_int_equal(c.busy[ISA_UNIT_VALU], 48);
    assert_string_equal(isa_limit(&machine, &c), "no wave"); /* on three SIMDs of four */
    assert_int_equal(replay(4, 1).clocks, one);              /* a SIMD each */
    c = replay(8, 1);
    assert_in_range(c.clocks, 2 * 64 * machine.wmma_clocks, 2 * one + 48);
    assert_string_equal(isa_limit(&machine, &c), "matrix unit");
    assert_in_range(replay(4, 3).clocks, 3 * 64 * machine.wmma_clocks, 3 * (one + machine.wmma_clocks));
}

static void dependent_additions_wait_for_each_other(void **state)
{
    (void)state;
    const struct isa_cycles c = time_of("chain");
    assert_int_equal(c.clocks, 100 * machine.valu_latency + 2);
    /* Of five waves on a SIMD one can always go on. */
    assert_in_range(replay(4 * machine.valu_latency, 1).clocks, c.clocks, c.clocks + 2 * machine.valu_latency);
    assert_true(replay(8 * machine.valu_latency, 1).clocks > 190 * machine.valu_latency);
}

static void bank_conflicts_take_a_pass_each(void **state)
{
    (void)state;
    const struct isa_cycles one = time_of("no_banks"), all = time_of("banks");
    assert_int_equal(one.lds_passes, 9);
    assert_int_equal(one.lds_least, 9);
    assert_int_equal(all.lds_passes, 9 * 32);
    assert_int_equal(all.lds_least, 9);
    assert_int_equal(all.clocks - one.clocks, 9 * 31);
}

static void loads_under_way_together_cost_one_latency(void **state)
{
    (void)state;
    char *memory = gfx_zeros(10 * LINE);
    uint64_t args[3] = {((uintptr_t)memory + LINE - 1) / LINE * LINE};
    struct isa_cycles c[2][2];
    for (int far = 0; far < 2; far++) {
        machine.far_latency += far * 500;
        run(handwritten, "loads", 32, args, sizeof(args));
        c[far][0] = replay(1, 1);
        run(handwritten, "loads_ahead", 32, args, sizeof(args));
        c[far][1] = replay(1, 1);
    }
    machine.far_latency -= 500;
    for (int ahead = 0; ahead < 2; ahead++) {
        assert_int_equal(c[0][ahead].far_bytes, 8 * LINE); /* L0 has the ninth */
        assert_int_equal(c[0][ahead].load_bytes, 9 * LINE);
        assert_string_equal(isa_limit(&machine, &c[0][ahead]), "no wave"); /* on three SIMDs of four */
        assert_int_equal(c[1][ahead].clocks - c[0][ahead].clocks, ahead ? 500 : 8 * 500);
    }
    assert_true(c[0][0].clocks > c[0][1].clocks + 7 * (machine.far_latency - 10));
    free(memory);
}

static void a_barrier_waits_for_the_last_wave(void **state)
{
    (void)state;
    uint64_t args[3] = {0};
    run(handwritten, "barrier", 64, args, sizeof(args));
    const struct isa_cycles c = replay(1, 1);
    assert_in_range(c.clocks, 200 * machine.valu_latency, 200 * machine.valu_latency + 100);
    assert_in_range(c.idle[ISA_STALL_BARRIER], 198 * machine.valu_latency, c.clocks);
}

/* 128 x 128 outputs, 8 slabs: 32 products for each slab and wave. */
static void a_product_of_the_engine_is_predicted(void **state)
{
    enum { COLS = 256, ROWS = 128, WAVES = 4 };
    (void)state;
    uint8_t *weight = gfx_weights(HALO_TYPE_F16, COLS, HALO_GEMM_COLS, 7);
    uint16_t *half = gfx_zeros(ROWS * COLS * sizeof(*half));
    float *scale = gfx_floats(ROWS, 3), *out = gfx_zeros(ROWS * HALO_GEMM_COLS * sizeof(*out));
    struct halo_gemm_args args = {.matrix[0] = {weight, NULL, out, HALO_GEMM_COLS, HALO_GEMM_COLS},
                                  .half = half,
                                  .scale = scale,
                                  .n_cols = COLS,
                                  .n_rows = ROWS};
    run(engine, "gemm_f16", WAVES * 32, &args, sizeof(args));
    const struct isa_kernel *k = isa_find(engine, "gemm_f16");
    const uint32_t fits = isa_resident(&machine, k, WAVES);
    assert_in_range(fits, 1, machine.waves); /* of a block with four waves each SIMD has one */
    const struct isa_cycles all = replay(0, 2), one = replay(1, 2 * fits);
    assert_int_equal(all.n_resident, fits);
    assert_int_equal(all.n_blocks, 2 * fits);
    assert_int_equal(all.n_wmma, (uint64_t)2 * fits * WAVES * COLS / 32 * 32);
    assert_int_equal(one.n_wmma, all.n_wmma);
    assert_int_equal(one.n_ins, all.n_ins);
    assert_true(fits == 1 || all.clocks < one.clocks); /* other waves run while one waits */
    assert_true(all.clocks * machine.n_simds > all.busy[ISA_UNIT_WMMA] + all.busy[ISA_UNIT_VALU]);
    uint64_t idle = 0;
    for (int i = 0; i < ISA_N_STALLS; i++)
        idle += all.idle[i];
    assert_true(idle + all.busy[ISA_UNIT_WMMA] + all.busy[ISA_UNIT_VALU] <= all.clocks * machine.n_simds);
    free(weight);
    free(half);
    free(scale);
    free(out);
}

static void nothing_is_predicted_of_what_was_not_recorded(void **state)
{
    (void)state;
    struct isa_cycles c;
    struct halo_fault fault = {0};
    uint64_t args[3] = {0};
    const struct isa_options options = {.order = ISA_IN_ORDER};
    assert_int_equal(
        isa_launch(isa_find(handwritten, "chain"), (uint32_t[]){1, 1, 1}, 32, args, sizeof(args), &options, &fault), 0);
    assert_int_equal(isa_cycles(&machine, 1, 1, &c), -ENOENT);
    (void)time_of("chain");
    machine.lds_bytes = 2048;
    run(handwritten, "banks", 32, args, sizeof(args));
    assert_int_equal(isa_cycles(&machine, 0, 1, &c), -E2BIG); /* its LDS is larger */
    machine = isa_gfx1151;
}

int main(int argc, char **argv)
{
    struct halo_fault fault = {0};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fprintf(stderr, "skipped aloud: the interpreter needs a processor with AVX2 and FMA\n");
        return 77;
    }
    if (argc != 3 || isa_open(argv[1], &handwritten, &fault) < 0 || isa_open(argv[2], &engine, &fault) < 0) {
        fprintf(stderr, "test_cycles: %s\n", argc == 3 ? fault.text : "HANDWRITTEN CODE-OBJECT");
        return 2;
    }
    machine = isa_gfx1151;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_products_fill_the_pipe),
        cmocka_unit_test(dependent_additions_wait_for_each_other),
        cmocka_unit_test(bank_conflicts_take_a_pass_each),
        cmocka_unit_test(loads_under_way_together_cost_one_latency),
        cmocka_unit_test(a_barrier_waits_for_the_last_wave),
        cmocka_unit_test(a_product_of_the_engine_is_predicted),
        cmocka_unit_test(nothing_is_predicted_of_what_was_not_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
