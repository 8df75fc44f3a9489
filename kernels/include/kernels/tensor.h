/* tensor.h: the element types a weight can have, with the ids of the GGUF format.
 *
 * Source: the block layouts of ggml (docs/gguf.md and the published block structs); the table in docs/FORMATS.md
 * restates them. Headers of the device ABI include nothing but fixed-width C headers, so that every device and tool can
 * share them.
 */
#ifndef HALO_KERNELS_TENSOR_H
#define HALO_KERNELS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

/* X(identifier, GGUF id, weights in a block, bytes of a block) */
#define HALO_TYPE_LIST(X)                                                                                              \
    X(F32, 0, 1, 4)                                                                                                    \
    X(F16, 1, 1, 2)                                                                                                    \
    X(Q4_0, 2, 32, 18)                                                                                                 \
    X(Q4_1, 3, 32, 20)                                                                                                 \
    X(Q5_0, 6, 32, 22)                                                                                                 \
    X(Q5_1, 7, 32, 24)                                                                                                 \
    X(Q8_0, 8, 32, 34)                                                                                                 \
    X(Q2_K, 10, 256, 84)                                                                                               \
    X(Q3_K, 11, 256, 110)                                                                                              \
    X(Q4_K, 12, 256, 144)                                                                                              \
    X(Q5_K, 13, 256, 176)                                                                                              \
    X(Q6_K, 14, 256, 210)                                                                                              \
    X(IQ2_XXS, 16, 256, 66)                                                                                            \
    X(IQ2_XS, 17, 256, 74)                                                                                             \
    X(IQ3_XXS, 18, 256, 98)                                                                                            \
    X(IQ1_S, 19, 256, 50)                                                                                              \
    X(IQ4_NL, 20, 32, 18)                                                                                              \
    X(IQ3_S, 21, 256, 110)                                                                                             \
    X(IQ2_S, 22, 256, 82)                                                                                              \
    X(IQ4_XS, 23, 256, 136)                                                                                            \
    X(IQ1_M, 29, 256, 56)                                                                                              \
    X(BF16, 30, 1, 2)                                                                                                  \
    X(TQ1_0, 34, 256, 54)                                                                                              \
    X(TQ2_0, 35, 256, 66)                                                                                              \
    X(MXFP4, 39, 32, 17)                                                                                               \
    X(NVFP4, 40, 64, 36)                                                                                               \
    X(Q1_0, 41, 128, 18)                                                                                               \
    X(Q2_0, 42, 64, 18)

enum halo_type {
#define X(id, gguf_id, weights, bytes) HALO_TYPE_##id = gguf_id,
    HALO_TYPE_LIST(X)
#undef X
        HALO_TYPE_I32 = 26, /* tables of indices: read on the host, never a weight */
    HALO_TYPE_END = 43      /* one past the largest id */
};

struct halo_type_info {
    const char *name; /* "Q4_K"; NULL for an id that is no type */
    uint32_t block_weights;
    uint32_t block_bytes;
};

/* The row of the table, or one with a NULL name for an unknown id. */
static inline struct halo_type_info halo_type_info(uint32_t type)
{
    switch (type) {
#define X(id, gguf_id, weights, bytes)                                                                                 \
    case gguf_id: return (struct halo_type_info){#id, weights, bytes};
        HALO_TYPE_LIST(X)
#undef X
    case HALO_TYPE_I32: return (struct halo_type_info){"I32", 1, 4};
    default: return (struct halo_type_info){NULL, 0, 0};
    }
}

/* Bytes of a row of n weights; n must be a multiple of the block. */
static inline uint64_t halo_type_row_bytes(uint32_t type, uint64_t n)
{
    struct halo_type_info info = halo_type_info(type);
    return n / info.block_weights * info.block_bytes;
}

/* How K and V rows are kept. Q8: one int8 for each element of a head row, then one f16 scale for each group of 32 (the
 * last may be shorter), so a head row has head_dim + 2 * ceil(head_dim / 32) bytes. Q4: 4 bits for each element of the
 * row rotated by a Hadamard matrix, elements 2i and 2i + 1 in the low and the high half of byte i, then the scales. */
enum halo_kv_type { HALO_KV_F32, HALO_KV_F16, HALO_KV_Q8, HALO_KV_Q4 };
#define HALO_KV_Q8_GROUP 32

static inline uint32_t halo_kv_row_bytes(enum halo_kv_type type, uint32_t head_dim)
{
    switch (type) {
    case HALO_KV_F32: return head_dim * 4;
    case HALO_KV_F16: return head_dim * 2;
    case HALO_KV_Q8: return head_dim + 2 * ((head_dim + HALO_KV_Q8_GROUP - 1) / HALO_KV_Q8_GROUP);
    case HALO_KV_Q4: return (head_dim + 1) / 2 + 2 * ((head_dim + HALO_KV_Q8_GROUP - 1) / HALO_KV_Q8_GROUP);
    }
    return 0;
}

#endif
