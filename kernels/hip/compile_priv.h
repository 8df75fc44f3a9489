/* compile_priv.h: how a plan becomes a program: the state of the compiler, and the emitters of the ops.
 *
 * program.c goes through the ops once for each class of batches. It decides and hands over to an emitter (op_*.c,
 * product.c), which appends launches. Every function returns 0, -ENOTSUP when a kernel is missing or -ENOMEM.
 */
#ifndef HALO_HIP_COMPILE_PRIV_H
#define HALO_HIP_COMPILE_PRIV_H

#include <common/op_parts.h>

#include "device_priv.h"
#include "program_priv.h"

/* What the shared buffers hold: the values whose rows stand in act and in half, and the choice whose groups stand in
 * moe_slot; HALO_NONE: nothing of use. */
enum halo_hip_half_place {
    HALO_HIP_HALF_SCRATCH, /* in scratch.half */
    HALO_HIP_HALF_OF_GLU,  /* where the f32 rows of a GLU would be that a product had in its epilogue */
    HALO_HIP_HALF_PLACES
};
struct halo_hip_forms {
    struct {
        uint16_t value;
        uint32_t n_cols;               /* of a row */
        struct halo_factor_arg factor; /* what the row lacks (gfx/args_fused.h) */
    } act[HALO_HIP_ACTS];
    uint32_t act_last; /* the one of act that was used last */
    struct halo_hip_half_form {
        uint16_t value;
        uint32_t n_cols;
        bool strips; /* in the order of strips */
        uint16_t *half;
        float *scale;
    } half[HALO_HIP_HALF_PLACES];
    uint32_t half_last; /* the one of half that was used last */
    uint16_t grouped_choice;
};

struct halo_hip_compiler {
    const struct halo_device_model *model;
    const struct halo_plan *plan;
    struct halo_hip_program *program; /* NULL: kernels are looked up, nothing is kept */
    char *reason;
    uint32_t min_rows, max_rows; /* the class */
    enum halo_hip_shape shape;
    uint32_t blocks_wanted;
    uint32_t op;      /* index in the plan */
    uint32_t brought; /* the streamed layer, or the one whose streamed experts, the host has brought; 0: none */
    uint32_t chosen;  /* launches up to the last one that chose experts */
    struct halo_hip_forms forms;
    /* Activation rows that the op leaves for a later one: where, NULL: none; their length, 0: none; how many to a row
     * of the batch. */
    uint8_t *act;
    uint32_t act_cols, act_per_row;
    /* Rows of f16 that the op leaves likewise, and whether it leaves nothing else. */
    uint16_t *half;
    uint32_t half_cols, half_per_row;
    bool half_alone;
    /* The GLU that the next product has in its epilogue; has_glu: whether there is one. */
    struct halo_glu_arg glu;
    bool has_glu;
    /* Where the next launches go: the loop, and the spans that they are for. */
    struct halo_hip_loop loop;
    bool new_loop;
    uint32_t min_span, max_span;
};

/* emit.c */
struct halo_hip_emission {
    uint32_t op, type;              /* of variants.def */
    uint32_t rows;                  /* chooses among variants.def; 0: the rows of the span */
    struct halo_hip_amount grid[3]; /* y and z may be left out */
    const void *args;
    uint32_t n_arg_bytes;
    const struct halo_hip_patch *patches; /* the last is HALO_HIP_PATCH_END; NULL: none */
    uint8_t levels;                       /* 0: all */
    bool tiles;
};
int halo_hip_emit(struct halo_hip_compiler *c, const struct halo_hip_emission *e);
/* The launches that follow are in a loop of their own over min .. max rows or outputs in all, or again for all rows of
 * the batch. */
void halo_hip_loop_begin(struct halo_hip_compiler *c, enum halo_hip_over over, uint32_t most, uint32_t min,
                         uint32_t max);
void halo_hip_loop_end(struct halo_hip_compiler *c);
/* The host does something between the launches, for c->op. */
int halo_hip_stop(struct halo_hip_compiler *c, enum halo_hip_over what);
/* layers.c: the stops in front of an op, and behind the ops first .. first + n - 1, where streamed layers begin and
 * end. */
int halo_hip_layer_begin(struct halo_hip_compiler *c, uint32_t index);
int halo_hip_layer_end(struct halo_hip_compiler *c, uint32_t first, uint32_t n);
/* They are for spans of min .. max rows. */
void halo_hip_span_limit(struct halo_hip_compiler *c, uint32_t min, uint32_t max);

#define HALO_HIP_ARGS(struct_) .args = &(struct_), .n_arg_bytes = sizeof(struct_)
#define HALO_HIP_PATCHES(...)                                                                                          \
    .patches = (const struct halo_hip_patch[])                                                                         \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            .kind = HALO_HIP_PATCH_END                                                                                 \
        }                                                                                                              \
    }
/* The field of the arguments is an input; its address goes on by `step_` bytes a row. */
#define HALO_HIP_INPUT(type_, field_, input_, step_)                                                                   \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_INPUT, .at = offsetof(type_, field_),                                                   \
        .input = offsetof(struct halo_hip_inputs, input_), .step = (step_)                                             \
    }
#define HALO_HIP_ROPE_INPUT(type_, field_, index_)                                                                     \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_INPUT, .at = offsetof(type_, field_),                                                   \
        .input = (uint16_t)(offsetof(struct halo_hip_inputs, rope) + (index_) * sizeof(float *))                       \
    }
#define HALO_HIP_STEP(type_, field_, step_)                                                                            \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_STEP, .at = offsetof(type_, field_), .step = (step_)                                    \
    }
#define HALO_HIP_AMOUNT(type_, field_, amount_)                                                                        \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_AMOUNT, .at = offsetof(type_, field_), .amount = (amount_)                              \
    }

static inline struct halo_hip_amount halo_hip_fixed(uint32_t n)
{
    return (struct halo_hip_amount){HALO_HIP_ONE, n, 1, 0};
}
/* For each row of the batch, or of the span. */
static inline struct halo_hip_amount halo_hip_per_row(uint32_t times)
{
    return (struct halo_hip_amount){HALO_HIP_BATCH, times, 1, 0};
}
static inline struct halo_hip_amount halo_hip_per_sequence(uint32_t times)
{
    return (struct halo_hip_amount){HALO_HIP_SEQUENCES, times, 1, 0};
}
static inline struct halo_hip_amount halo_hip_per_span(uint32_t times)
{
    return (struct halo_hip_amount){HALO_HIP_SPAN, times, 1, 0};
}
/* Tiles of experts, of n_used slots to a row. */
static inline struct halo_hip_amount halo_hip_expert_tiles(uint32_t n_used, uint32_t n_experts)
{
    return (struct halo_hip_amount){HALO_HIP_EXPERT_TILES, n_used, n_experts, 0};
}
static inline struct halo_hip_amount halo_hip_over(struct halo_hip_amount amount, uint32_t over)
{
    amount.over = over;
    return amount;
}

/* What the products of a matrix are multiplied by. */
static inline float halo_hip_factor(const struct halo_weight *w)
{
    return halo_hip_scaled(w) ? w->scales[0] : 1;
}

/* forms.c: forgets the forms of a value that is written. */
void halo_hip_forms_init(struct halo_hip_forms *forms);
void halo_hip_forms_wrote(struct halo_hip_forms *forms, uint16_t value);
/* The buffer for activation rows of `value`: the one that was not used last. */
uint8_t *halo_hip_forms_take_act(struct halo_hip_compiler *c, uint16_t value, uint32_t n_cols);
/* Brings rows of x (f32, contiguous, n_cols) into a buffer of act, or into half, unless they are in one. `value` names
 * them for reuse, HALO_NONE: never. ret_act: where they are; halves are in forms.half[forms.half_last]. */
int halo_hip_form_act(struct halo_hip_compiler *c, uint16_t value, const float *x, struct halo_hip_amount n_rows,
                      uint32_t n_cols, const uint8_t **ret_act);
int halo_hip_form_half(struct halo_hip_compiler *c, uint16_t value, const float *x, struct halo_hip_amount n_rows,
                       uint32_t n_cols, bool strips);
/* Rows of f16 in `place` are those of `value` from here on. */
void halo_hip_forms_set_half(struct halo_hip_compiler *c, enum halo_hip_half_place place, uint16_t value,
                             uint32_t n_cols, bool strips);
/* Sorts the slots of a choice by expert and cuts them into the tiles that the product takes. */
int halo_hip_form_groups(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u);

/* product.c: n matrices of one type over the rows of the span. With row_index they are picked out of x by the batch's
 * outputs, at most HALO_HIP_GEMV_ROWS_MAX of them. */
struct halo_hip_product {
    uint32_t type, n_cols, n_matrices;
    struct halo_matrix_arg matrix[HALO_MATMUL_MAX];
    const float *x;
    uint16_t value;             /* whose rows x are, for reuse */
    struct halo_hip_amount n_x; /* rows of x: those of the span, or of the batch with row_index */
    bool row_index;
};
int halo_hip_emit_product(struct halo_hip_compiler *c, const struct halo_hip_product *p);
/* The arguments of such a product of one row of quantized weights, but for the grid: n_grid blocks at most. */
struct halo_gemv_scaled_args halo_hip_scaled_args(const struct halo_hip_compiler *c, const struct halo_hip_product *p,
                                                  const void *x, uint32_t most);
/* Whether spans of so many rows take the kernels for matrix tiles, or strips. */
bool halo_hip_uses_gemm(uint32_t n_rows, uint32_t n_cols);
bool halo_hip_uses_strips(const struct halo_hip_compiler *c, uint32_t type, uint32_t n_rows, uint32_t n_cols);
/* op_moe.c: whether the experts of matrix k take tiles for the class's rows, else a product for each slot. */
bool halo_hip_uses_expert_tiles(const struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint32_t k);
/* The grid of a product of one row, or of experts: persistent blocks (gfx/persistent.h) are no more than the GPU holds
 * at once. */
struct halo_hip_amount halo_hip_persistent_grid(const struct halo_hip_compiler *c, uint32_t op, uint32_t type,
                                                uint32_t n_cols, struct halo_hip_amount n_blocks);

/* fuse.c. Ops between the product of q, k and v and attention that one launch does, attention included where every row
 * is of a sequence of its own. */
struct halo_hip_heads {
    const struct halo_op_qk_norm *norm; /* or NULL */
    const struct halo_op_rope *rope;
    const struct halo_op_kv_write *write;
    const struct halo_op_attend *attend; /* or NULL */
    uint32_t n_ops;
};
/* False: the ops from `index` on are no such group, or no kernel fits. */
bool halo_hip_fuse_heads(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_heads *ret);
/* Ops between the product of q and latent attention of few rows: one launch, and the product that takes each head's q
 * down, whose outputs go into q between the rotated parts. */
#define HALO_HIP_LATENT_OPS 8
#define HALO_HIP_LATENT_DOWN 4 /* which of them that product is */
struct halo_hip_latent {
    const struct halo_op_rmsnorm *norm;     /* of the compressed row */
    const struct halo_op_concat *low, *rot; /* parts of q's heads */
    const struct halo_op_rope *rope;
    const struct halo_op_moe_matmul *down;
    const struct halo_op_concat *q, *k;
    const struct halo_op_kv_write *write;
};
/* As halo_hip_fuse_heads. */
bool halo_hip_fuse_latent(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_latent *ret);
/* fuse_moe.c, as halo_hip_fuse_heads: of few rows a router of F32 and the routing of what it gives; of any the sum of
 * experts and the norm behind it. */
#define HALO_HIP_PAIR_OPS 2
struct halo_hip_router {
    const struct halo_op_matmul *product;
    const struct halo_op_moe_route *route;
};
struct halo_hip_sum_norm {
    const struct halo_op_moe_sum *sum;
    const struct halo_op_rmsnorm *norm;
};
/* Such a router with the norm in front of it. */
#define HALO_HIP_ROUTER_NORM_OPS (HALO_HIP_PAIR_OPS + 1)
struct halo_hip_router_norm {
    const struct halo_op_rmsnorm *norm;
    struct halo_hip_router router;
};
bool halo_hip_fuse_router_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_router_norm *ret);
bool halo_hip_fuse_router(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_router *ret);
bool halo_hip_fuse_sum_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_sum_norm *ret);
/* fuse_product.c, as halo_hip_fuse_heads, of one row: a product and the sum with its RMS norm behind it, or gate and up
 * and their GLU. */
struct halo_hip_product_norm {
    const struct halo_op_matmul *product;
    const struct halo_op_rmsnorm *norm;
};
struct halo_hip_product_glu {
    const struct halo_op_matmul *product;
    const struct halo_op_glu *glu;
};
/* Of one row: the GLU of experts and their product behind it. */
struct halo_hip_glu_product {
    const struct halo_op_glu *glu;
    const struct halo_op_moe_matmul *product;
};
bool halo_hip_fuse_glu_product(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_glu_product *ret);
bool halo_hip_fuse_product_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_product_norm *ret);
bool halo_hip_fuse_product_glu(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_product_glu *ret);
/* Whether no op from `index` on reads the value before one writes it again, and no stage behind this one does. */
bool halo_hip_is_dead(const struct halo_plan *plan, uint32_t index, uint16_t value);
/* fuse.c: whether the op is the norm of the rows of the logits that follow, and of nothing else. */
bool halo_hip_fuse_last_norm(const struct halo_hip_compiler *c, uint32_t index);
/* fuse_rows.c, of many rows: when products by matrix tiles read the rows of `out` behind c->op, before others bring
 * theirs to f16: their length (and how many to a row of the batch), else 0. ret_alone: nothing else reads them. */
uint32_t halo_hip_fuse_half(const struct halo_hip_compiler *c, uint16_t out, uint32_t *ret_per_row, bool *ret_alone);
/* fuse_rows.c, as halo_hip_fuse_heads, of many rows: gate and up, and their GLU, whose rows products by matrix tiles
 * alone read. */
struct halo_hip_glu_rows {
    const struct halo_op_glu *glu;
    uint32_t n_cols, per_row; /* of what it leaves: length, and how many to a row of the batch */
};
bool halo_hip_fuse_glu_rows(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_glu_rows *ret);
/* When the next op behind c->op that reads activation rows reads those of `out`: their length (and how many to a row of
 * the batch), else 0. */
uint32_t halo_hip_fuse_act(const struct halo_hip_compiler *c, uint16_t out, uint32_t *ret_per_row);

/* op_fused.c: the launches of such pairs, and of two products of one row that share an input but no type. */
int halo_hip_emit_product_norm(struct halo_hip_compiler *c, const struct halo_hip_product_norm *pair);
int halo_hip_emit_glu_product(struct halo_hip_compiler *c, const struct halo_hip_glu_product *pair);
int halo_hip_emit_product_glu(struct halo_hip_compiler *c, const struct halo_hip_product_glu *pair);
bool halo_hip_has_pair(const struct halo_hip_compiler *c, const struct halo_hip_product *first,
                       const struct halo_hip_product *second);
int halo_hip_emit_pair(struct halo_hip_compiler *c, const struct halo_hip_product *first,
                       const struct halo_hip_product *second);

/* op_row.c, op_heads.c, op_attend.c, op_matmul.c, op_moe.c, op_state.c, op_streams.c, op_blocks.c */
typedef int halo_hip_emit_fn(struct halo_hip_compiler *c, const struct halo_op *op);
halo_hip_emit_fn halo_hip_emit_embed, halo_hip_emit_rmsnorm, halo_hip_emit_matmul, halo_hip_emit_qk_norm,
    halo_hip_emit_rope, halo_hip_emit_kv_write, halo_hip_emit_attend, halo_hip_emit_glu, halo_hip_emit_moe_route,
    halo_hip_emit_moe_matmul, halo_hip_emit_moe_sum, halo_hip_emit_add, halo_hip_emit_concat, halo_hip_emit_conv1d,
    halo_hip_emit_delta_rule, halo_hip_emit_ssm_scan, halo_hip_emit_logits, halo_hip_emit_streams_mix,
    halo_hip_emit_streams_add, halo_hip_emit_compress, halo_hip_emit_blocks_choose, halo_hip_emit_attend_blocks;
int halo_hip_emit_heads(struct halo_hip_compiler *c, const struct halo_hip_heads *heads);
/* The logits and the norm in front of them, of the rows that are wanted. */
int halo_hip_emit_last_norm(struct halo_hip_compiler *c, const struct halo_op_rmsnorm *norm,
                            const struct halo_op_logits *logits);
int halo_hip_emit_router(struct halo_hip_compiler *c, const struct halo_hip_router *router);
int halo_hip_emit_router_norm(struct halo_hip_compiler *c, const struct halo_hip_router_norm *router);
int halo_hip_emit_sum_norm(struct halo_hip_compiler *c, const struct halo_hip_sum_norm *pair);
int halo_hip_emit_half_align(struct halo_hip_compiler *c, const struct halo_hip_glu_rows *rows);
struct halo_rmsnorm_args halo_hip_rmsnorm_args(const struct halo_hip_compiler *c, const struct halo_op_rmsnorm *u);
struct halo_matrix_arg halo_hip_matrix_arg(const struct halo_hip_compiler *c, uint32_t weight, uint32_t bias,
                                           float *out);
int halo_hip_emit_latent_heads(struct halo_hip_compiler *c, const struct halo_hip_latent *latent);
/* A matrix for each head over few rows; head h of a row goes to element h * out_stride of its row of `out`. */
int halo_hip_emit_head_matmul(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint16_t out,
                              uint32_t out_stride);
/* Decode attention of all rows, which must be apart, with what heads_<kv type> would do first. */
int halo_hip_emit_attend_heads(struct halo_hip_compiler *c, const struct halo_op_attend *u,
                               const struct halo_heads_args *heads, uint32_t rope);
/* Rows of a tile that prefill attention takes, at least; 0: a group of the plan's cache has none. */
uint32_t halo_hip_prefill_rows(const struct halo_device *device, const struct halo_plan *plan);
/* The cache of a layer of a group; the arguments' pointers into the batch are patched. */
struct halo_kv_arg halo_hip_kv_arg(const struct halo_hip_compiler *c, uint32_t group, uint32_t layer);
#define HALO_HIP_KV_INPUTS(type_, step_, group_)                                                                       \
    HALO_HIP_INPUT(type_, kv.pos, pos, step_), HALO_HIP_INPUT(type_, kv.page_first, page_first, step_),                \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_INPUT, .at = offsetof(type_, kv.pages),                                                 \
        .input = (uint16_t)(offsetof(struct halo_hip_inputs, pages) + (group_) * sizeof(uint32_t *))                   \
    }

/* An op's part of the states of a layer; the arguments' pointers into the batch are patched. */
struct halo_state_arg halo_hip_state_arg(const struct halo_hip_compiler *c, const struct halo_state_part *part);
#define HALO_HIP_STATE_INPUTS(type_, group_)                                                                           \
    HALO_HIP_INPUT(type_, state.pos, pos, 0), HALO_HIP_INPUT(type_, state.run, state_run, 0),                          \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_INPUT, .at = offsetof(type_, state.slot),                                               \
        .input = (uint16_t)(offsetof(struct halo_hip_inputs, pages) + (group_) * sizeof(uint32_t *))                   \
    }

#endif
