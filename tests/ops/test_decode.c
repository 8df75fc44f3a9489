/* test_decode.c: blocks whose weights are known, through each way in which a matrix is read: dequantized in the layout
 * of the file, dequantized from the packed form, and multiplied with one-hot rows by every instruction set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <matmul/matmul.h>

#include "blocks.h"

static const struct decode_block {
    enum halo_type type;
    const char *hex;
    uint64_t hash;
    float some[4];
} blocks[] = {
#define HALO_DECODE_BLOCK(type, hex, hash, ...) {HALO_TYPE_##type, hex, hash, {__VA_ARGS__}},
#include "decode_blocks.def"
#undef HALO_DECODE_BLOCK
};
#define N_BLOCKS (sizeof blocks / sizeof *blocks)
#define WEIGHTS_MAX 256

static void block_bytes(const struct decode_block *b, uint8_t *ret)
{
    uint32_t n = halo_type_info(b->type).block_bytes;
    assert_int_equal(strlen(b->hex), 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(b->hex + 2 * i, "%2x", &byte), 1);
        ret[i] = (uint8_t)byte;
    }
}

static uint64_t hash_of(const float *weights, uint32_t n)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t i = 0; i < n; i++) {
        float value = weights[i] + 0; /* no minus zero */
        const uint8_t *bytes = (const uint8_t *)&value;
        for (size_t k = 0; k < sizeof value; k++)
            hash = (hash ^ bytes[k]) * 0x100000001b3;
    }
    return hash;
}

static void known_blocks_have_their_weights(void **state)
{
    bool seen[HALO_TYPE_END] = {false};
    unsigned n_types = 0;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        const struct decode_block *b = &blocks[i];
        uint32_t n = halo_type_info(b->type).block_weights;
        uint8_t bytes[WEIGHTS_MAX];
        float weights[WEIGHTS_MAX];
        block_bytes(b, bytes);
        halo_dequantize(b->type, bytes, n, weights);
        for (uint32_t k = 0; k < 4; k++)
            if (weights[n * (2 * k + 1) / 8] != b->some[k])
                fail_msg("block %u, %s: weight %u is %g, not %g", i, halo_type_info(b->type).name, n * (2 * k + 1) / 8,
                         (double)weights[n * (2 * k + 1) / 8], (double)b->some[k]);
        if (hash_of(weights, n) != b->hash)
            fail_msg("block %u, %s: another hash", i, halo_type_info(b->type).name);
        n_types += !seen[b->type];
        seen[b->type] = true;
    }
    assert_int_equal(n_types, 12);
}

/* One row of the matrix is the block, the others are zero; row i of x is one at column i. */
static void check_products(const struct decode_block *b, enum halo_cpu_isa isa)
{
    enum { N_ROWS = 3, ROW = 1 };
    const uint32_t n = halo_type_info(b->type).block_weights;
    const size_t row_bytes = halo_type_row_bytes(b->type, n), act_bytes = halo_cpu_act_bytes(HALO_CPU_ACT_Q8, n);
    uint8_t file[N_ROWS * WEIGHTS_MAX] = {0};
    float weights[WEIGHTS_MAX], row[WEIGHTS_MAX], out[N_ROWS], *outs[] = {out};
    void *packed = ops_alloc(halo_cpu_matrix_bytes(b->type, n, N_ROWS)), *act = ops_alloc(act_bytes);
    void *scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(b->type, n));
    const void *acts[] = {act};
    struct halo_cpu_matrix w;
    block_bytes(b, file + ROW * row_bytes);
    halo_dequantize(b->type, file + ROW * row_bytes, n, weights);
    halo_cpu_matrix_pack(b->type, n, N_ROWS, file, packed, scratch);
    halo_cpu_matrix_init(&w, b->type, n, N_ROWS, packed);
    halo_cpu_matrix_row(&w, ROW, row);
    assert_memory_equal(row, weights, n * sizeof(float));
    for (uint32_t i = 0; i < n; i++) {
        float x[WEIGHTS_MAX] = {0};
        x[i] = 127; /* quantized to 127 times 1 */
        halo_cpu_act_prepare(isa, HALO_CPU_ACT_Q8, n, x, act);
        halo_cpu_matmul(isa, &w, 0, w.n_groups, acts, 1, outs, NULL);
        if (out[ROW] != 127 * weights[i] || out[0] != 0)
            fail_msg("%s: %s has %g at %u, not %g", halo_cpu_isa_name(isa), halo_type_info(b->type).name,
                     (double)out[ROW] / 127, i, (double)weights[i]);
    }
    free(packed);
    free(act);
    free(scratch);
}

static void products_see_every_weight(void **state)
{
    for (unsigned i = 0; i < N_BLOCKS; i++)
        for (int isa = HALO_CPU_REFERENCE; isa <= HALO_CPU_AVX512; isa++)
            if (halo_cpu_isa_supported((enum halo_cpu_isa)isa))
                check_products(&blocks[i], (enum halo_cpu_isa)isa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_blocks_have_their_weights),
        cmocka_unit_test(products_see_every_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
