/* test_pack.c: the packed form returns every weight, bit for bit, whatever the alignment of source and destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <matmul/matmul.h>

#include "blocks.h"

struct packing {
    enum halo_type type;
    uint32_t n_cols, n_rows;
    size_t src_bytes, packed_bytes;
    uint8_t *file;   /* the rows, untouched */
    uint8_t *memory; /* room for source and destination */
    void *scratch;
    float *row, *oracle;
};

static void packing_init(struct packing *p, enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint64_t seed)
{
    *p = (struct packing){.type = type, .n_cols = n_cols, .n_rows = n_rows};
    p->src_bytes = halo_type_row_bytes(type, n_cols) * n_rows;
    p->packed_bytes = halo_cpu_matrix_bytes(type, n_cols, n_rows);
    p->file = ops_alloc(p->src_bytes);
    p->memory = ops_alloc(2 * p->packed_bytes + 256);
    p->scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(type, n_cols));
    p->row = ops_alloc(n_cols * sizeof(float));
    p->oracle = ops_alloc(n_cols * sizeof(float));
    ops_fill_blocks(type, OPS_SCALES_USUAL, (uint64_t)n_cols * n_rows, &seed, p->file);
}

static void packing_finish(struct packing *p)
{
    free(p->file);
    free(p->memory);
    free(p->scratch);
    free(p->row);
    free(p->oracle);
}

/* In pieces, the last one first: each has written over what it may before the piece in front of it reads. */
static void pack_in_pieces(struct packing *p, size_t src_at, size_t dst_at, uint32_t n)
{
    enum { MOST = 8 };
    struct halo_cpu_piece pieces[MOST];
    const uint8_t *src = p->memory + src_at;
    size_t scratch_bytes = halo_cpu_matrix_scratch_bytes(p->type, p->n_cols);
    assert_in_range(n, 2, MOST);
    for (uint32_t i = 0; i < n; i++) {
        pieces[i] = (struct halo_cpu_piece){.i = i, .n = n, .saved = ops_alloc(scratch_bytes)};
        halo_cpu_piece_save(p->type, p->n_cols, p->n_rows, src, &pieces[i]);
    }
    for (uint32_t i = n; i-- > 0;) {
        halo_cpu_piece_pack(p->type, p->n_cols, p->n_rows, src, p->memory + dst_at, &pieces[i], p->scratch);
        free(pieces[i].saved);
    }
}

static void packing_check(struct packing *p, size_t src_at, size_t dst_at, uint32_t n_pieces)
{
    memset(p->memory, 0xa5, 2 * p->packed_bytes + 256);
    memcpy(p->memory + src_at, p->file, p->src_bytes);
    memset(p->scratch, 0xa5, halo_cpu_matrix_scratch_bytes(p->type, p->n_cols));
    if (n_pieces > 1)
        pack_in_pieces(p, src_at, dst_at, n_pieces);
    else
        halo_cpu_matrix_pack(p->type, p->n_cols, p->n_rows, p->memory + src_at, p->memory + dst_at, p->scratch);
    struct halo_cpu_matrix matrix;
    halo_cpu_matrix_init(&matrix, p->type, p->n_cols, p->n_rows, p->memory + dst_at);
    assert_int_equal(matrix.n_groups * matrix.group_bytes, p->packed_bytes);
    size_t row_bytes = halo_type_row_bytes(p->type, p->n_cols);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        halo_cpu_matrix_row(&matrix, r, p->row);
        halo_dequantize(p->type, p->file + r * row_bytes, p->n_cols, p->oracle);
        assert_memory_equal(p->row, p->oracle, p->n_cols * sizeof(float));
    }
    matrix.n_rows = matrix.n_groups * HALO_CPU_GROUP; /* the padding is zero */
    for (uint32_t r = p->n_rows; r < matrix.n_rows; r++) {
        halo_cpu_matrix_row(&matrix, r, p->row);
        for (uint32_t k = 0; k < p->n_cols; k++)
            assert_true(p->row[k] == 0);
    }
    for (size_t i = 0; i < 2 * p->packed_bytes + 256; i++) /* nothing else was written */
        if ((i < src_at || i >= src_at + p->src_bytes) && (i < dst_at || i >= dst_at + p->packed_bytes))
            assert_int_equal(p->memory[i], 0xa5);
}

static void pack_gives_back_every_row(void **state)
{
    static const uint32_t rows[] = {1, 15, 16, 17, 33}, blocks[] = {1, 2, 3, 5, 33};
    unsigned n_checked = 0;
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned b = 0; b < 5; b++)
            for (unsigned r = 0; r < 5; r++) {
                struct packing p;
                packing_init(&p, ops_types[t], blocks[b] * halo_type_info(ops_types[t]).block_weights, rows[r],
                             t + 100 * b + r);
                packing_check(&p, p.packed_bytes + 64, 0, 1); /* apart */
                packing_check(&p, 64, 64, 1);                 /* in place */
                packing_check(&p, 117, 64, 1);                /* down a little, from an odd address */
                packing_check(&p, 64, 64 + 48, 1);            /* up a little */
                packing_check(&p, 64 + p.packed_bytes / 2, 64, 1);
                packing_finish(&p);
                n_checked++;
            }
    assert_int_equal(n_checked, ops_n_types * 25);
}

static void pieces_are_the_whole(void **state)
{
    static const uint32_t rows[] = {17, 48, 112};
    unsigned n_checked = 0;
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned r = 0; r < 3; r++) {
            struct packing p;
            packing_init(&p, ops_types[t], 2 * halo_type_info(ops_types[t]).block_weights, rows[r], t + r);
            size_t row_bytes = halo_type_row_bytes(p.type, p.n_cols), group_bytes = row_bytes * HALO_CPU_GROUP;
            const size_t src_at[] = {64, 65, 64 + group_bytes, 65 + group_bytes, 63};
            for (unsigned i = 0; i < sizeof(src_at) / sizeof(src_at[0]); i++) {
                uint32_t n = halo_cpu_matrix_pieces(p.type, p.n_cols, p.n_rows, p.memory + src_at[i], p.memory + 64, 5);
                assert_int_equal(n, i > 2 ? 1 : rows[r] == 17 ? 2 : rows[r] == 48 ? 3 : 5);
                packing_check(&p, src_at[i], 64, n);
                n_checked++;
            }
            packing_finish(&p);
        }
    assert_int_equal(n_checked, ops_n_types * 15);
}

static void experts_that_grow_are_packed_from_the_last(void **state)
{
    enum { N_COLS = 64, N_ROWS = 20, N_EXPERTS = 3 };
    uint64_t seed = 7;
    size_t src_bytes = halo_type_row_bytes(HALO_TYPE_Q4_0, N_COLS) * N_ROWS;
    size_t packed_bytes = halo_cpu_matrix_bytes(HALO_TYPE_Q4_0, N_COLS, N_ROWS);
    assert_true(packed_bytes > src_bytes);
    uint8_t *file = ops_alloc(src_bytes * N_EXPERTS), *memory = ops_alloc(packed_bytes * N_EXPERTS);
    void *scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(HALO_TYPE_Q4_0, N_COLS));
    ops_fill_blocks(HALO_TYPE_Q4_0, OPS_SCALES_USUAL, (uint64_t)N_COLS * N_ROWS * N_EXPERTS, &seed, file);
    memcpy(memory, file, src_bytes * N_EXPERTS);
    for (int e = N_EXPERTS - 1; e >= 0; e--)
        halo_cpu_matrix_pack(HALO_TYPE_Q4_0, N_COLS, N_ROWS, memory + e * src_bytes, memory + e * packed_bytes,
                             scratch);
    for (int e = 0; e < N_EXPERTS; e++) {
        struct halo_cpu_matrix matrix;
        halo_cpu_matrix_init(&matrix, HALO_TYPE_Q4_0, N_COLS, N_ROWS, memory + e * packed_bytes);
        for (uint32_t r = 0; r < N_ROWS; r++) {
            float row[N_COLS], oracle[N_COLS];
            halo_cpu_matrix_row(&matrix, r, row);
            halo_dequantize(HALO_TYPE_Q4_0, file + e * src_bytes + r * src_bytes / N_ROWS, N_COLS, oracle);
            assert_memory_equal(row, oracle, sizeof row);
        }
    }
    free(file);
    free(memory);
    free(scratch);
}

static void shapes_without_kernels_are_refused(void **state)
{
    assert_true(halo_cpu_matrix_fits(HALO_TYPE_F16, 1));
    assert_true(halo_cpu_matrix_fits(HALO_TYPE_Q4_K, 512));
    assert_false(halo_cpu_matrix_fits(HALO_TYPE_Q4_K, 32));
    assert_false(halo_cpu_matrix_fits(HALO_TYPE_Q8_0, 33));
    assert_false(halo_cpu_matrix_fits(HALO_TYPE_Q8_0, 0));
    assert_false(halo_cpu_matrix_fits((enum halo_type)4, 32)); /* a removed type */
    assert_false(halo_cpu_matrix_fits((enum halo_type)1000, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_gives_back_every_row),
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(experts_that_grow_are_packed_from_the_last),
        cmocka_unit_test(shapes_without_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
