/* mkgguf_maker.c: see mkgguf_maker.h.
 *
 * Weights have the deviation 1/sqrt(columns), so that a normalized row stays of size 1 through every matrix. A matrix
 * whose rows do not divide into the wanted blocks falls back as quantizers do it.
 */
#include "mkgguf_maker.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include <kernels/tensor.h>

uint32_t mkgguf_type_that_fits(uint32_t type, uint64_t columns)
{
    uint32_t small;
    switch (type) {
    case HALO_TYPE_Q4_K: small = HALO_TYPE_Q5_0; break;
    case HALO_TYPE_Q5_K: small = HALO_TYPE_Q5_1; break;
    case HALO_TYPE_Q6_K: small = HALO_TYPE_Q8_0; break;
    default: small = HALO_TYPE_IQ4_NL;
    }
    if (columns % halo_type_info(type).block_weights == 0)
        return type;
    return columns % halo_type_info(small).block_weights == 0 ? small : HALO_TYPE_F16;
}

void mkgguf_emit_tensor(struct mkgguf_maker *m, struct mkgguf_tensor *t)
{
    t->n_dims = 1;
    uint64_t rows = 1;
    for (uint32_t i = 1; i < 3; i++) {
        if (t->dims[i])
            t->n_dims = i + 1;
        rows *= t->dims[i] ? t->dims[i] : 1;
    }
    t->n_bytes = halo_type_row_bytes(t->type, t->dims[0]) * rows;
    t->number = m->number++;
    if (m->result == 0)
        m->result = m->emit(m->ud, t);
}

void mkgguf_vector(struct mkgguf_maker *m, uint64_t n, int fill, float deviation, const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {n}, .type = HALO_TYPE_F32, .deviation = deviation};
    t.fill = fill;
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    mkgguf_emit_tensor(m, &t);
}

void mkgguf_table(struct mkgguf_maker *m, uint64_t n, uint64_t n_vectors, int fill, const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {n, n_vectors}, .type = HALO_TYPE_F32};
    t.fill = fill;
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    mkgguf_emit_tensor(m, &t);
}

void mkgguf_matrix(struct mkgguf_maker *m, uint64_t columns, uint64_t rows, uint64_t planes, uint32_t type,
                   const char *format, ...)
{
    struct mkgguf_tensor t = {.dims = {columns, rows, planes}, .deviation = 1 / sqrtf((float)columns)};
    t.type = mkgguf_type_that_fits(type, columns);
    va_list args;
    va_start(args, format);
    vsnprintf(t.name, sizeof t.name, format, args);
    va_end(args);
    mkgguf_emit_tensor(m, &t);
}

bool mkgguf_more_bits(uint32_t layer, uint32_t n_layers)
{
    uint32_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}
