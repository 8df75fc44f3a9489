/* bench_moe.c: products of the experts of few rows alone, on the HIP device: bytes of weights read per second.
 *
 *   bench_moe TYPE COLS ROWS N_EXPERTS N_USED [N_X] [N_LAYERS] [KERNEL_DIR...]
 *
 * A plan of one routed choice for N_X rows (default 1) and N_LAYERS (default 16) products of the N_USED chosen of
 * N_EXPERTS experts, so that no cache holds all that is read. The bytes are those of the chosen experts, each counted
 * once. Gate and up of a layer are about what one matrix of the rows of both is. $HALO_HIP_LIB names the runtime; the
 * rest is in bench_plan.h. No pass or fail.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_plan.h"

/* Whether the router takes expert e: fewer than n_used have larger logits. */
static bool is_chosen(const float *logits, uint32_t n_experts, uint32_t n_used, uint32_t e)
{
    uint32_t n_larger = 0;
    for (uint32_t i = 0; i < n_experts; i++)
        n_larger += logits[i] > logits[e] || (logits[i] >= logits[e] && i < e);
    return n_larger < n_used;
}

/* Of the rows with the tokens 0 .. n_x-1, together. */
static uint32_t count_chosen(const float *logits, uint32_t n_x, uint32_t n_experts, uint32_t n_used)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_experts; e++) {
        bool chosen = false;
        for (uint32_t r = 0; r < n_x; r++)
            chosen = chosen || is_chosen(logits + r * n_experts, n_experts, n_used, e);
        n += chosen;
    }
    return n;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: bench_moe TYPE COLS ROWS N_EXPERTS N_USED [N_X] [N_LAYERS] [KERNEL_DIR...]\n");
        return 2;
    }
    static struct fixture f;
    enum halo_type type = bench_type(argv[1]);
    uint32_t n_cols = bench_number(argc, argv, 2, 0, UINT32_MAX), n_rows = bench_number(argc, argv, 3, 0, UINT32_MAX),
             n_experts = bench_number(argc, argv, 4, 0, 512), n_used = bench_number(argc, argv, 5, 0, n_experts),
             n_x = bench_number(argc, argv, 6, 1, BENCH_ROWS_MAX),
             n = bench_number(argc, argv, 7, 16, BENCH_PRODUCTS_MAX);
    char what[64];
    bench_init(&f);
    uint16_t x = fixture_input(&f, n_cols, 1), router = fixture_input(&f, n_experts, 1);
    float *logits = fixture_floats(&f, f.plan.n_weights - 1);
    uint32_t n_chosen = count_chosen(logits, n_x, n_experts, n_used);
    uint16_t choice = fixture_value(&f, 2 * n_used), out = fixture_value(&f, n_used * n_rows);
    struct halo_op_moe_route route = {router, choice, n_experts, n_used, true, 1, .bias = HALO_WEIGHT_NONE};
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE, .u.moe_route = route});
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = fixture_weight(&f, type, HALO_WEIGHT_EXPERTS, n_cols, n_rows, n_experts, 1 / sqrt(n_cols));
        struct halo_op_moe_matmul u = {x, choice, 1, false, {w}, {out}, n_used, HALO_WEIGHTS_NONE};
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = u});
    }
    snprintf(what, sizeof(what), "%-6s %6u x %-6u %u of %u", argv[1], n_cols, n_rows, n_used, n_experts);
    bench_run(&f, what, out, n_x, n, (double)halo_type_row_bytes(type, n_cols) * n_rows * n_chosen * n,
              argv + (argc < 8 ? argc : 8));
    free(logits);
    fixture_finish(&f);
    return 0;
}
