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
    uint32_t n_rows;    /* N: dims[1]; of vectors, how many: 1, or one for each expert */
    uint32_t n_experts; /* dims[2]; 1 outside MoE */
    uint64_t n_bytes;   /* in the file */
    uint32_t part;      /* file and offset of the bytes, for the store */
    uint64_t offset;
    uint64_t expert_step; /* bytes from one expert to the next in the file; 0: nothing lies between them */
    uint32_t streamed;    /* 0: resident; else 1 + the index of its expert layer (experts.h), chosen at load */
    const float
        *scales; /* [n_experts]: factors of the matrix or vector, wherever it is used; NULL: none. In the arena */
};

/* The bytes of a weight in the file: all at once, or those of each expert. */
static inline uint32_t halo_weight_n_pieces(const struct halo_weight *weight)
{
    return weight->expert_step > 0 ? weight->n_experts : 1;
}

struct halo_value {
    const char *name;
    uint32_t width; /* f32 elements per row */
};

/* What a model remembers of a sequence is made of groups. A group is a number of layers whose K and V have one shape
 * and type, and has pages of its own: a page holds HALO_KV_PAGE_TOKENS positions of every layer of its group. KV_WRITE
 * and ATTEND name a group and a layer in it; a layer that is written by one op may be read by several. The first group
 * keeps every position. Another one may have a window: what lies behind it is given up, so every ATTEND of its layers
 * must have a window that is no wider.
 *
 * A group with a stride keeps one row for so many positions: a page of it holds fewer rows. Compressed blocks whose
 * ratio is a multiple of HALO_KV_PAGE_TOKENS have that as their stride, and their row is in the page of their last
 * position.
 *
 * A group of states has no positions: a page of it is a *slot* with what the recurrent layers of one sequence have come
 * to, state_width f32 for each of them. Ops that name such a group read the slot and leave in it what follows from
 * their rows, in order; a row at position 0 begins with zeros, whatever the slot holds. */
#define HALO_KV_PAGE_TOKENS 32
#define HALO_KV_GROUPS_MAX 6
#define HALO_KV_NO_PAGE UINT32_MAX /* in a table of pages: positions that no row sees any more */
struct halo_kv_group {
    enum halo_kv_type type;
    uint32_t n_layers, n_head_kv, head_dim_k, head_dim_v;
    uint32_t n_pages;     /* chosen at load */
    uint32_t window;      /* positions, the row's own included; 0: every position is kept */
    uint32_t stride;      /* positions of a row: 0 or 1: one; else a divisor of HALO_KV_PAGE_TOKENS */
    uint32_t state_width; /* > 0: a group of states; the type and what belongs to heads mean nothing then */
    bool latent;          /* V is the first head_dim_v elements of K: one row is kept for both */
};

static inline uint32_t halo_kv_value_bytes(const struct halo_kv_group *kv) /* of a row of V as it is kept */
{
    return kv->latent ? 0 : halo_kv_row_bytes(kv->type, kv->head_dim_v);
}

static inline uint32_t halo_kv_page_rows(const struct halo_kv_group *kv)
{
    return HALO_KV_PAGE_TOKENS / (kv->stride > 1 ? kv->stride : 1);
}

/* Of a group with this window: the first page that a row at position `pos` sees something of. */
static inline uint32_t halo_kv_first_page(uint32_t window, uint32_t pos)
{
    return window > 0 && pos >= window ? (pos + 1 - window) / HALO_KV_PAGE_TOKENS : 0;
}

/* Pages that one sequence holds of a group with a window, at most: for the window and a step of max_rows rows. */
static inline uint32_t halo_kv_span(uint32_t window, uint32_t max_rows)
{
    return (window + max_rows + HALO_KV_PAGE_TOKENS - 2) / HALO_KV_PAGE_TOKENS + 1;
}

/* Pages that one sequence holds of a group, at most; UINT32_MAX: as many as of the first one. */
static inline uint32_t halo_kv_group_span(const struct halo_kv_group *kv, uint32_t max_rows)
{
    return kv->state_width > 0 ? 1 : kv->window > 0 ? halo_kv_span(kv->window, max_rows) : UINT32_MAX;
}

/* How many pages a group gets when the first one has n_first and a whole sequence takes n_context of those: where a
 * sequence holds at most `span`, for twice as many sequences as the first group has whole ones, so that as many short
 * ones find room, and windows and states of prefixes stay. */
static inline uint32_t halo_kv_pages_of(uint32_t span, uint32_t n_first, uint32_t n_context)
{
    uint64_t n = 2 * (uint64_t)((n_first + n_context - 1) / n_context);
    return n > n_first / span ? n_first : (uint32_t)(n * span);
}

/* Bytes of one page of a group: all layers, K and V, as elements take them; a device may pad (its kv_page_bytes). */
static inline uint64_t halo_kv_page_bytes(const struct halo_kv_group *kv)
{
    if (kv->state_width > 0)
        return (uint64_t)kv->n_layers * kv->state_width * sizeof(float);
    return (uint64_t)kv->n_layers * kv->n_head_kv * halo_kv_page_rows(kv) *
           (halo_kv_row_bytes(kv->type, kv->head_dim_k) + halo_kv_value_bytes(kv));
}

/* Values that cross from one stage of a pipeline to the next: a *hop*. */
#define HALO_HOP_VALUES 4
struct halo_hop {
    uint32_t n; /* 0: none, the plan begins or ends here */
    uint16_t value[HALO_HOP_VALUES];
};

struct halo_plan {
    uint32_t n_ops, n_weights, n_values, n_ropes;
    const struct halo_op *ops;
    const struct halo_weight *weights; /* in the order of first use: the order of loading */
    const struct halo_value *values;
    const struct halo_rope *ropes;
    uint32_t n_kv_groups;
    struct halo_kv_group kv[HALO_KV_GROUPS_MAX];
    uint32_t n_vocab;              /* rows of the logits */
    uint32_t n_context;            /* positions are < n_context */
    uint32_t max_rows;             /* rows of a batch, at most */
    uint32_t max_outputs;          /* rows of a batch whose logits are wanted, at most */
    struct halo_hop takes, leaves; /* of a stage: what the stage before leaves, and what the next one takes */
};

/* Numbers of a row of a hop. */
static inline uint64_t halo_hop_width(const struct halo_plan *plan, const struct halo_hop *hop)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < hop->n; i++)
        n += plan->values[hop->value[i]].width;
    return n;
}

/* Gives the first group n_pages pages and the others what follows from that. */
static inline void halo_plan_set_pages(struct halo_plan *plan, uint32_t n_pages)
{
    uint32_t n_context = (plan->n_context + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        plan->kv[group].n_pages =
            halo_kv_pages_of(halo_kv_group_span(&plan->kv[group], plan->max_rows), n_pages, n_context);
}

#endif
