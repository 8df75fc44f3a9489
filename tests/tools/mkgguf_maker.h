/* mkgguf_maker.h: what the tensors of a family are made with. */
#ifndef HALO_TESTS_MKGGUF_MAKER_H
#define HALO_TESTS_MKGGUF_MAKER_H

#include "mkgguf.h"

struct mkgguf_maker {
    const struct mkgguf_shape *shape;
    const struct mkgguf_types *types;
    mkgguf_emit *emit;
    void *ud;
    uint64_t number;
    int result; /* of the first emit that was not 0 */
};

/* `type`, or the one that quantizers use where rows do not divide into its blocks. */
uint32_t mkgguf_type_that_fits(uint32_t type, uint64_t columns);

/* One tensor: name, dims, type and fill are given, the rest follows. */
void mkgguf_emit_tensor(struct mkgguf_maker *m, struct mkgguf_tensor *t);

/* The name is a format. F32: a vector; vectors side by side. */
__attribute__((format(printf, 5, 6))) void mkgguf_vector(struct mkgguf_maker *m, uint64_t n, int fill, float deviation,
                                                         const char *format, ...);
__attribute__((format(printf, 5, 6))) void mkgguf_table(struct mkgguf_maker *m, uint64_t n, uint64_t n_vectors,
                                                        int fill, const char *format, ...);
/* Random, of deviation 1/sqrt(columns); of another type where rows do not divide into blocks of this one. */
__attribute__((format(printf, 6, 7))) void mkgguf_matrix(struct mkgguf_maker *m, uint64_t columns, uint64_t rows,
                                                         uint64_t planes, uint32_t type, const char *format, ...);

/* The layers whose attn_v and ffn_down a mixture spends more bits on: the first and last eighth and every third
 * between. */
bool mkgguf_more_bits(uint32_t layer, uint32_t n_layers);

#endif
