/* plan.h: the program of a model: a straight list of ops over values and weights.
 *
 * Built once by the model's architecture file, then read by everybody: a device runs it, the store takes the order of
 * the weights from it, the estimator bytes and operations. Immutable after building; lives in the model's arena.
 */
#ifndef HALO_KERNELS_PLAN_H
#define HALO_KERNELS_PLAN_H

#include <kernels/op.h>
#include <kernels/tensor.h>

enum halo_weight_role { HALO_WEIGHT_MATRIX, HALO_WEIGHT_VECTOR, HALO_WEIGHT_EXPERTS };

struct halo_weight {
    char name[64]; /* GGUF name */
    enum halo_type type;
    enum halo_weight_role role;
    bool embed;         /* rows are looked up by token */
    uint32_t n_cols;    /* K: dims[0] */
    uint32_t n_rows;    /* N: dims[1]; 1 for a vector */
    uint32_t n_experts; /* dims[2]; 1 outside MoE */
    uint64_t n_bytes;   /* in the file */
    uint32_t part;      /* file and offset of the bytes, for the store */
    uint64_t offset;
};

struct halo_value {
    const char *name;
    uint32_t width; /* f32 elements per row */
};

/* The cache of a model is made of groups. A group is a number of layers whose K and V have one shape and type, and has
 * pages of its own: a page holds HALO_KV_PAGE_TOKENS positions of every layer of its group. KV_WRITE and ATTEND name a
 * group and a layer in it; a layer that is written by one op may be read by several. */
#define HALO_KV_PAGE_TOKENS 32
#define HALO_KV_GROUPS_MAX 4
struct halo_kv_group {
    enum halo_kv_type type;
    uint32_t n_layers, n_head_kv, head_dim_k, head_dim_v;
    uint32_t n_pages; /* chosen at load */
};

/* Bytes of one page of a group: all layers, K and V, as elements take them; a device may pad (its kv_page_bytes). */
static inline uint64_t halo_kv_page_bytes(const struct halo_kv_group *kv)
{
    return (uint64_t)kv->n_layers * kv->n_head_kv * HALO_KV_PAGE_TOKENS *
           (halo_kv_row_bytes(kv->type, kv->head_dim_k) + halo_kv_row_bytes(kv->type, kv->head_dim_v));
}

struct halo_plan {
    uint32_t n_ops, n_weights, n_values, n_ropes;
    const struct halo_op *ops;
    const struct halo_weight *weights; /* in the order of first use: the order of loading */
    const struct halo_value *values;
    const struct halo_rope *ropes;
    uint32_t n_kv_groups;
    struct halo_kv_group kv[HALO_KV_GROUPS_MAX];
    uint32_t n_vocab;     /* rows of the logits */
    uint32_t n_context;   /* positions are < n_context */
    uint32_t max_rows;    /* rows of a batch, at most */
    uint32_t max_outputs; /* rows of a batch whose logits are wanted, at most */
};

#endif
