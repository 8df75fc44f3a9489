/* bench_gemv.c: products of few rows alone, on the HIP device: bytes of weights read per second.
 *
 *   bench_gemv TYPE COLS ROWS [N_X] [N_MATRICES] [KERNEL_DIR...]
 *
 * A plan of N_MATRICES (default 16) different matrices that share one input of N_X rows (default 1), so that no cache
 * holds them all. $HALO_HIP_LIB names the runtime; the rest is in bench_plan.h. No pass or fail.
 */
#include <math.h>
#include <stdio.h>

#include "bench_plan.h"

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_gemv TYPE COLS ROWS [N_X] [N_MATRICES] [KERNEL_DIR...]\n");
        return 2;
    }
    static struct fixture f;
    enum halo_type type = bench_type(argv[1]);
    uint32_t n_cols = bench_number(argc, argv, 2, 0, UINT32_MAX), n_rows = bench_number(argc, argv, 3, 0, UINT32_MAX),
             n_x = bench_number(argc, argv, 4, 1, BENCH_ROWS_MAX),
             n = bench_number(argc, argv, 5, 16, BENCH_PRODUCTS_MAX);
    char what[64];
    bench_init(&f);
    uint16_t x = fixture_input(&f, n_cols, 1), out = fixture_value(&f, n_rows);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = fixture_weight(&f, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 1 / sqrt(n_cols));
        struct halo_op_matmul u = {x, 1, {w}, {HALO_WEIGHT_NONE}, {out}};
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = u});
    }
    snprintf(what, sizeof(what), "%-6s %6u x %-6u", argv[1], n_cols, n_rows);
    bench_run(&f, what, out, n_x, n, (double)halo_type_row_bytes(type, n_cols) * n_rows * n,
              argv + (argc < 6 ? argc : 6));
    fixture_finish(&f);
    return 0;
}
