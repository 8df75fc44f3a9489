/* run_priv.h: one run under way: its inputs on the GPU, and what the shared buffers hold at the moment. Device thread.
 */
#ifndef HALO_HIP_RUN_PRIV_H
#define HALO_HIP_RUN_PRIV_H

#include "device_priv.h"

/* The inputs of a batch as the GPU sees them. */
struct halo_hip_inputs {
    const int32_t *token, *pos;
    const uint32_t *page_first, *output, *pages;
    const struct halo_prefill_tile *tile;
    const float *rope[4];
    uint64_t n_bytes; /* from the begin of the set to the last page number */
};
#define HALO_HIP_ROPES_MAX 4

struct halo_hip_run {
    struct halo_device_model *model;
    const struct halo_batch *batch;
    struct halo_device_phase *phase;
    char *reason;
    struct halo_hip_inputs in;
    void *stream;   /* where kernels are launched */
    bool recording; /* into a graph: nothing runs, nothing can be waited for */
    uint32_t op;    /* index in the plan */
    uint32_t n_rows;
    uint32_t level;       /* of the longest context: it has at most 4^level pages, or this is the last level */
    uint32_t n_positions; /* of the longest sequence, up to its row's */
    uint32_t n_tiles;     /* of prefill attention */
    const struct halo_prefill_tile *tiles; /* the same in host memory */
    bool apart;                            /* no two rows belong to one sequence */
    /* The value whose rows stand in act, in half, and the choice whose groups stand in moe_slot; HALO_NONE: nothing of
     * use. */
    uint16_t act_value, half_value, grouped_choice;
    uint32_t act_cols, half_cols; /* lengths of the rows in them */
    bool half_strips;             /* half is in the order of strips */
};

/* run.c */
void halo_hip_run_init(struct halo_hip_run *run, struct halo_device_model *model, const struct halo_batch *batch,
                       struct halo_device_phase *phase, char *reason);
int halo_hip_run_ops(struct halo_hip_run *run);

/* graph.c. Whether the batch is of a kind that has graphs (its inputs are filled), and the one of its class. */
bool halo_hip_graph_fits(const struct halo_hip_run *run);
struct halo_hip_graph *halo_hip_graph_of(const struct halo_hip_run *run);

/* output.c. The entries of a row that the launches of `top` leave on their way to its list, at most. */
uint64_t halo_hip_top_left(uint32_t n_vocab);
/* Launches what makes the lists that the batch wants; nothing when it wants none. */
int halo_hip_find_top(struct halo_hip_run *run);
/* Queues the copies of a discrete GPU; when the stream is done, hands everything to the caller. */
int halo_hip_outputs_copy(struct halo_hip_run *run);
void halo_hip_outputs_take(const struct halo_hip_run *run);

/* input.c: bytes of one set of inputs, at most. */
uint64_t halo_hip_input_bytes(const struct halo_plan *plan);
/* Fills a set at `host`; the addresses in run->in are those of `device`. */
void halo_hip_input_fill(struct halo_hip_run *run, uint8_t *host, uint8_t *device);

/* launch.c: launches the variant for (op, type, rows) with the struct of arguments; after a kernel's first launch on
 * this device it waits for it, so that one that hangs has a name. */
struct halo_hip_grid {
    uint32_t x, y, z;
};
int halo_hip_launch(struct halo_hip_run *run, uint32_t op, uint32_t type, uint32_t rows, struct halo_hip_grid grid,
                    void *args);
/* The variant's index in the table when its kernel exists, or -1. */
int halo_hip_kernel_find(const struct halo_device *device, uint32_t op, uint32_t type, uint32_t rows);

/* product.c: brings rows of x (f32, contiguous, n_cols) into act, or into half. `value` names them for reuse,
 * HALO_NONE: never. */
int halo_hip_act(struct halo_hip_run *run, uint16_t value, const float *x, uint32_t n_rows, uint32_t n_cols);
int halo_hip_half(struct halo_hip_run *run, uint16_t value, const float *x, uint32_t n_rows, uint32_t n_cols,
                  bool strips);
/* n matrices of one type over n_rows rows of x. row_index (may be NULL) is for at most HALO_HIP_GEMV_ROWS_MAX rows. */
struct halo_hip_product {
    uint32_t type, n_cols, n_matrices, n_rows;
    struct halo_matrix_arg matrix[HALO_MATMUL_MAX];
    const float *x;
    uint16_t value; /* whose rows x are, for reuse */
    uint32_t n_x;   /* rows of x: n_rows, or more with a row_index */
    const uint32_t *row_index;
};
int halo_hip_product_run(struct halo_hip_run *run, const struct halo_hip_product *product);
/* Whether this many rows take the GEMM, given the row length. */
bool halo_hip_uses_gemm(uint32_t n_rows, uint32_t n_cols);
/* Blocks of a product of one row, or of experts: no more than the GPU holds at once where they go on to further rows
 * (gfx/walk.h). */
uint32_t halo_hip_walk_grid(const struct halo_hip_run *run, uint32_t op, uint32_t type, uint32_t n_cols,
                            uint32_t n_blocks);
/* The value that was written is no longer what act and half were made from. */
void halo_hip_wrote(struct halo_hip_run *run, uint16_t value);
/* When the next op reads `out` as activation rows: their length (and how many to a row of the batch), else 0. A fused
 * op leaves them in act then, and says so in act_value and act_cols. */
uint32_t halo_hip_act_wanted(const struct halo_hip_run *run, uint16_t out, uint32_t *ret_per_row);

static inline uint32_t halo_hip_moe_tiles(uint32_t n_slots, uint32_t n_experts)
{
    return n_slots / HALO_MOE_TILE + (n_experts < n_slots ? n_experts : n_slots);
}

/* op_heads.c: norm, rotation and cache in one launch, attention included where all rows are apart, when the ops from
 * `index` on are those and a kernel fits. 0, or an error; `ret_n` gets how many ops that was, 0: none. */
int halo_hip_op_heads(struct halo_hip_run *run, uint32_t index, uint32_t *ret_n);

/* op_row.c, op_attend.c, op_matmul.c, op_moe.c */
int halo_hip_op_embed(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_rmsnorm(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_glu(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_add(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_qk_norm(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_rope(struct halo_hip_run *run, const struct halo_op *op);
/* The cache of a layer for the rows from first_row on. */
struct halo_kv_arg halo_hip_kv_arg(const struct halo_hip_run *run, uint32_t layer, uint32_t first_row);
int halo_hip_op_kv_write(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_attend(struct halo_hip_run *run, const struct halo_op *op);
/* Decode attention for all rows, which must be apart, with what `heads` would do first. */
int halo_hip_attend_fresh(struct halo_hip_run *run, const struct halo_op_attend *u,
                          const struct halo_heads_args *heads);
int halo_hip_op_matmul(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_logits(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_moe_route(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_moe_matmul(struct halo_hip_run *run, const struct halo_op *op);
int halo_hip_op_moe_sum(struct halo_hip_run *run, const struct halo_op *op);

#endif
