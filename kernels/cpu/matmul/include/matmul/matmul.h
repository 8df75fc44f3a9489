/* matmul.h: weight matrices of every type, packed for vector units, and their product with activations.
 *
 * Pure functions over memory of the caller: no state, no allocation, no locks, any thread. There is nothing to fail: a
 * type or shape that halo_cpu_matrix_fits() refuses, and an instruction set that halo_cpu_isa_supported() refuses, are
 * programmer errors and assert.
 *
 * Order of additions. Within a block of 32 columns the integer sums are exact; over the blocks every output row has one
 * f32 accumulator, updated by fma in ascending column order. (F32, F16, BF16: chunks of 32 columns are summed by fma
 * from zero, and the chunk sums are added in ascending order.) Nothing depends on how many activation rows are
 * multiplied together, on their place in the call, on the split of the groups, or on the instruction set: reference,
 * AVX2 and AVX-512 give the same bits (except for the payload of a NaN).
 */
#ifndef HALO_MATMUL_MATMUL_H
#define HALO_MATMUL_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels/tensor.h>

/* AVX2 stands for AVX2 + FMA + F16C, AVX512 for F + BW + VL + DQ + VNNI. */
enum halo_cpu_isa { HALO_CPU_REFERENCE, HALO_CPU_AVX2, HALO_CPU_AVX512 };

/* Whether this build and this processor (and its operating system) can run the kernels of `isa`. */
bool halo_cpu_isa_supported(enum halo_cpu_isa isa);
const char *halo_cpu_isa_name(enum halo_cpu_isa isa); /* "reference", "avx2", "avx512" */

/* Rows that are interleaved: the unit in which work is split. */
#define HALO_CPU_GROUP 16

/* A packed matrix: n_groups groups of 16 rows, each group_bytes long. The packed form is the same for all instruction
 * sets and as large as the file's, except that the rows are padded with zeros to a multiple of 16. `data` belongs to
 * the caller; 64-byte alignment makes it fast, none is needed. */
struct halo_cpu_matrix {
    enum halo_type type;
    uint32_t n_cols, n_rows, n_groups;
    uint64_t group_bytes;
    const uint8_t *data;
    float scale; /* of all weights; 1 after halo_cpu_matrix_init() */
};

/* Whether a matrix of this type and row length has kernels: a known type, n_cols > 0 and a multiple of its block. */
bool halo_cpu_matrix_fits(enum halo_type type, uint32_t n_cols);
/* Bytes of the packed form. */
uint64_t halo_cpu_matrix_bytes(enum halo_type type, uint32_t n_cols, uint32_t n_rows);
/* Bytes of scratch for packing: one group. */
uint64_t halo_cpu_matrix_scratch_bytes(enum halo_type type, uint32_t n_cols);
/* Packs n_rows rows in file layout at `src` into `dst`. The two may overlap in any way, be it dst < src, dst == src or
 * dst > src. `scratch` overlaps neither. Experts that are packed in place one by one and grow (n_rows not a multiple of
 * 16) are packed from the last to the first. */
void halo_cpu_matrix_pack(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, void *dst,
                          void *scratch);
/* One of the n pieces of a matrix that several threads pack at once. A piece is whole groups; where it writes over the
 * source of the piece before, that is its last group, which halo_cpu_piece_save() saved. */
struct halo_cpu_piece {
    uint32_t i, n;
    uint8_t *saved; /* halo_cpu_matrix_scratch_bytes(), of this piece alone */
};
/* How many pieces a matrix can be cut into: 1 to `most`; 1: by halo_cpu_matrix_pack() alone. */
uint32_t halo_cpu_matrix_pieces(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, const void *dst,
                                uint32_t most);
/* For all pieces, before any is packed. */
void halo_cpu_piece_save(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src,
                         const struct halo_cpu_piece *piece);
/* In any order, and at the same time, each with a scratch of its own. All of them together do what
 * halo_cpu_matrix_pack() does. */
void halo_cpu_piece_pack(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, void *dst,
                         const struct halo_cpu_piece *piece, void *scratch);
/* A view of packed bytes. */
void halo_cpu_matrix_init(struct halo_cpu_matrix *matrix, enum halo_type type, uint32_t n_cols, uint32_t n_rows,
                          const void *packed);
/* Dequantizes one row: n_cols floats, the same bits as halo_dequantize() of the row in the file, times the scale. */
void halo_cpu_matrix_row(const struct halo_cpu_matrix *matrix, uint32_t row, float *out);

/* Dequantizes n weights (a multiple of the block) in file layout: the oracle of everything here. */
void halo_dequantize(enum halo_type type, const void *blocks, uint64_t n, float *out);

/* The form in which a type wants its activations. F32: as they are. Q8: int8 in blocks of 32 with an f32 scale of amax
 * / 127 and the sums that offsets and minima need; a block that holds NaN or infinity makes the whole product NaN, a
 * block whose largest magnitude is below 2^-120 counts as zero. */
enum halo_cpu_act { HALO_CPU_ACT_F32, HALO_CPU_ACT_Q8 };

enum halo_cpu_act halo_cpu_act_kind(enum halo_type type);
/* Bytes of one prepared row; a multiple of 64, and padded so that rows laid end to end do not fall on the same cache
 * sets. */
size_t halo_cpu_act_bytes(enum halo_cpu_act kind, uint32_t n_cols);
/* Prepares one row. `act` is 64-byte aligned. For HALO_CPU_ACT_F32 this is a copy: passing x itself to
 * halo_cpu_matmul() will do, whatever its alignment. The bits do not depend on the instruction set. For Q8, n_cols is a
 * multiple of 32. */
void halo_cpu_act_prepare(enum halo_cpu_isa isa, enum halo_cpu_act kind, uint32_t n_cols, const float *x, void *act);

/* out[i][row] = scale * sum over columns of w[row][column] * act[i][column], + bias[row] if there is a bias, for the
 * rows of groups first_group .. first_group + n_groups - 1 (rows beyond n_rows are left out) and i < n_x. act[i] is a
 * prepared row of the kind of the type. out[i] and bias are indexed by row from the start of the matrix. Reads of `act`
 * and writes of `out` must not overlap. */
void halo_cpu_matmul(enum halo_cpu_isa isa, const struct halo_cpu_matrix *w, uint32_t first_group, uint32_t n_groups,
                     const void *const *act, uint32_t n_x, float *const *out, const float *bias);

#endif
