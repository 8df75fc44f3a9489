/* device_priv.h: what the files of the CPU device share: the device, a model on it, and small helpers.
 *
 * A device and its models belong to the engine's device thread; weight slots may be asked for and committed by other
 * threads between create and seal. The op functions below run on the device thread and share their work among the
 * workers.
 */
#ifndef HALO_CPU_DEVICE_PRIV_H
#define HALO_CPU_DEVICE_PRIV_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <common/reason.h>
#include <common/workers.h>
#include <kernels/device.h>
#include <matmul/matmul.h>

#include "lanes_priv.h"

#define HALO_CPU_PAGE_BYTES 4096
#define HALO_CPU_EXPERTS_MAX 1024
/* Positions of a split of attention, at least; splits of a row, at most; items for each thread below which splits are
 * items. */
#define HALO_CPU_SPLIT_MIN 256
#define HALO_CPU_SPLITS_MAX 32
#define HALO_CPU_SPLIT_BELOW 4

#define HALO_CPU_BUILD_ID 40
/* That matrices which arrive together are cut into, at most. */
#define HALO_CPU_PACK_PIECES 16
/* Guesses of the next layer's experts: rows of a batch, and experts of a row, at most. */
#define HALO_CPU_GUESS_ROWS 4
#define HALO_CPU_GUESS_USED 32

struct halo_device {
    struct halo_workers *workers;
    enum halo_cpu_isa isa;
    const struct halo_cpu_lanes *lanes;
    uint32_t n_threads;
    struct halo_device_model *models; /* those that exist, linked by next */
    char build_id[HALO_CPU_BUILD_ID + 1];
};

/* Anonymous memory from the kernel, zero, huge pages where it can. */
struct halo_cpu_region {
    uint8_t *base;
    uint64_t n_bytes;
};

struct halo_cpu_weight {
    const struct halo_weight *info;
    uint8_t *slot; /* 64-byte aligned: where the repacked bytes begin */
    uint8_t *data; /* where the file's bytes go */
    bool slack;
    uint64_t expert_bytes;         /* repacked bytes of one matrix */
    struct halo_cpu_matrix matrix; /* of expert 0; unused for a vector. Without data when streamed */
    uint8_t part;                  /* streamed: in the slots of its layer */
    atomic_bool committed;
};

/* One activation of all rows. */
struct halo_cpu_value {
    float *data;
    uint32_t width, stride; /* floats */
};

/* Rows of one sequence, beside each other in the batch, that an op takes together. The rest is attention's. */
struct halo_cpu_row_tile {
    uint32_t first_row, n_rows;
    uint32_t split;      /* positions of a split, the same for all rows of the tile */
    uint32_t n_splits;   /* of the last row */
    uint32_t first_item; /* when every split is an item of its own */
};

/* One product of a matrix with some rows, and how it is cut into items. */
struct halo_cpu_product {
    struct halo_cpu_matrix matrix;
    const float *bias;
    const void *const *act;
    float *const *out;
    uint32_t n_x;
    uint32_t chunk_groups, n_row_blocks, block_rows; /* set by halo_cpu_products_run */
    uint32_t first_item;
};

/* Everything a run writes, carved out of one region when the model is created. */
struct halo_cpu_scratch {
    struct halo_cpu_value *values;    /* [n_values] */
    uint8_t *act;                     /* prepared rows of the op under way */
    const void **plain_row;           /* [n_slots] rows as they are */
    const void **act_row;             /* [n_slots] the same rows prepared */
    const void **slot_row[2];         /* [n_slots] rows sorted by expert, for each weight of a MoE product */
    float **out_row[HALO_MATMUL_MAX]; /* [n_slots] */
    struct halo_cpu_product *products;
    float **rope;                    /* [n_ropes] -> [max_rows][n_rot / 2] pairs of cosine and sine */
    struct halo_cpu_row_tile *tiles; /* [max_rows] */
    uint32_t *expert_first;          /* [n_expert + 1] */
    uint32_t *expert_slot;           /* [n_slots] slots sorted by expert */
    uint8_t *attend_thread;          /* [n_threads][attend_thread_bytes] */
    uint64_t attend_thread_bytes;
    float *partial; /* [n_partials][partial_floats]: a softmax for each split that is an item of its own */
    uint32_t n_partials, partial_floats;
    float *block_scores; /* [n_threads][n_block_scores]: of the blocks that a row may choose */
    uint32_t n_block_scores;
    uint32_t n_slots; /* max_rows times the most experts a row uses */
};

struct halo_cpu_expert_layer {
    uint32_t n_parts, weight[HALO_LAYER_PARTS];
    const struct halo_op *route, *router; /* that choose; router: the product that the choice is made of, or NULL */
};

/* A part to repack. */
struct halo_cpu_fresh {
    const struct halo_expert *expert;
    uint32_t part;
};

/* Streamed experts: the source, and those of the layer under way. */
struct halo_cpu_experts {
    struct halo_expert_source source; /* without functions: nobody has set one */
    uint32_t *ids;                    /* [experts of a layer, at most] */
    struct halo_expert *taken;        /* likewise: what the last call brought */
    uint8_t **base[HALO_LAYER_PARTS]; /* likewise, by id: where each part of those taken lies */
    uint32_t *parts;                  /* likewise, by id: bits of the parts that are there, repacked */
    bool *is_done;                    /* likewise, by id: the product under way has been computed */
    struct halo_cpu_fresh *fresh;     /* [experts of a layer][HALO_LAYER_PARTS] */
    uint8_t *pack;                    /* [n_threads][pack_bytes]: to repack */
    uint8_t *saved;                   /* [pieces, but for the last][pack_bytes]: while matrices are repacked in them */
    uint32_t n_pieces;                /* of each of fresh[] */
    uint64_t pack_bytes;
    uint32_t layer; /* as in struct halo_weight; 0: none is under way */
    uint32_t n_chosen;
    uint32_t n_layers;
    struct halo_cpu_expert_layer *layers;
    int error; /* of the run under way */
    char *reason;
    struct halo_device_phase *phase;
};

struct halo_device_model {
    struct halo_device *device;
    struct halo_device_model *next;
    const struct halo_plan *plan;
    struct halo_cpu_weight *weights;       /* [plan->n_weights] */
    uint64_t kv_first[HALO_KV_GROUPS_MAX]; /* where each group begins in its region */
    struct halo_cpu_region weight_region, kv_region, scratch_region;
    struct halo_cpu_scratch scratch;
    struct halo_cpu_experts experts;
    const struct halo_batch *batch; /* while a run is under way */
    uint32_t n_rows;                /* of the last run */
    uint64_t op_ns[HALO_OP_COUNT];
    bool sealed;
};

/* region.c. `what` names the memory in the reason: -ENOMEM. */
int halo_cpu_region_map(struct halo_cpu_region *region, uint64_t n_bytes, const char *what, char *reason);
void halo_cpu_region_unmap(struct halo_cpu_region *region);

/* weight.c: places all weights and returns the bytes of their region, or UINT64_MAX when that overflows. With base NULL
 * it only counts. */
uint64_t halo_cpu_weights_place(const struct halo_plan *plan, uint8_t *base, struct halo_cpu_weight *weights);
int halo_cpu_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret);
int halo_cpu_weight_commit(struct halo_device_model *model, uint32_t index, char *reason);

/* scratch.c: the same for the scratch. */
uint64_t halo_cpu_scratch_carve(const struct halo_plan *plan, uint32_t n_threads, uint8_t *base,
                                struct halo_cpu_scratch *scratch);

/* experts.c: the same for what streamed experts need; then the parts of each layer. */
uint64_t halo_cpu_experts_carve(const struct halo_plan *plan, uint32_t n_threads, uint8_t *base,
                                struct halo_cpu_experts *experts);
void halo_cpu_experts_number(struct halo_device_model *model);
uint64_t halo_cpu_expert_bytes(const struct halo_device *device, const struct halo_weight *weight);
void halo_cpu_set_experts(struct halo_device_model *model, const struct halo_expert_source *source);
/* Asks for the experts e of layer `layer` with first[e] < first[e + 1], unless that layer is under way already. */
void halo_cpu_experts_choose(struct halo_device_model *model, uint32_t layer, const uint32_t *first, uint32_t n_expert);
/* Waits for what comes next of them, and repacks it. False: nothing is missing any more, or a failure. */
bool halo_cpu_experts_take(struct halo_device_model *model);
/* Whether these parts (bits) of a chosen expert are there, repacked. */
bool halo_cpu_experts_has(const struct halo_device_model *model, uint32_t id, uint32_t parts);
/* Before an op: if it reads matrices of a streamed dense layer, they are there, repacked. False: a failure. */
bool halo_cpu_layer_enter(struct halo_device_model *model, const struct halo_op *op);
/* Behind it: gives the layer up if this was its last product. */
void halo_cpu_layer_leave(struct halo_device_model *model, const struct halo_op *op);
/* Guesses what the layer behind this one will choose: its router on the input of this layer's, which is there now. */
void halo_cpu_experts_guess(struct halo_device_model *model, uint32_t layer);
/* Whether no later product needs the layer of this streamed weight. */
bool halo_cpu_experts_is_last(const struct halo_device_model *model, uint32_t weight);
/* Ends the layer under way, if any. */
void halo_cpu_experts_release(struct halo_device_model *model);

/* model.c */
void halo_cpu_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                       uint64_t *ret_kv, uint64_t *ret_scratch);
int halo_cpu_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                          char *reason);
void halo_cpu_model_destroy(struct halo_device_model *model);
int halo_cpu_model_seal(struct halo_device_model *model, char *reason);
/* build_id.c: hexadecimal digits that differ in every other build of these kernels; if the linker left none, a text
 * that differs in every process. */
void halo_cpu_build_id(char ret[HALO_CPU_BUILD_ID + 1]);

int halo_cpu_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                     char *reason);
uint64_t halo_cpu_kv_page_bytes(const struct halo_device_model *model, uint32_t group);
int halo_cpu_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason);
int halo_cpu_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason);

/* supports.c */
int halo_cpu_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason);

/* run.c */
int halo_cpu_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                 char *reason);
int halo_cpu_peek(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason);

/* bandwidth.c */
double halo_cpu_measure_bandwidth(struct halo_device *device);

/* rows.c: calls fn for ranges of the rows 0..n_rows-1, on all threads when `row_cost` (about the floats touched)
 * makes it worth it. */
typedef void halo_cpu_rows_fn(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row,
                              uint32_t n_rows);
void halo_cpu_each_row(struct halo_device_model *model, const struct halo_op *op, uint32_t n_rows, uint32_t row_cost,
                       halo_cpu_rows_fn *fn);

/* Cuts the batch where the sequence changes: scratch.tiles[].first_row and n_rows. Returns how many pieces there
 * are. */
uint32_t halo_cpu_sequences(struct halo_device_model *model);

/* product.c: prepares n_x rows given in scratch.plain_row into scratch.act_row, and runs products side by side. */
void halo_cpu_act_rows(struct halo_device_model *model, uint32_t n_cols, uint32_t n_x);
void halo_cpu_products_run(struct halo_device_model *model, struct halo_cpu_product *products, uint32_t n_products);

/* op_<name>.c */
void halo_cpu_op_embed(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_rmsnorm(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_matmul(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_qk_norm(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_rope(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_kv_write(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_attend(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_glu(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_moe_route(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_moe_matmul(struct halo_device_model *model, const struct halo_op *op);
/* route.c: the choice of one row from its logits, in the op's format: 2 * n_used floats. */
void halo_cpu_route_row(const struct halo_device_model *model, const struct halo_op_moe_route *route, uint32_t row,
                        float *ret_choice);
/* A router has chosen: the streamed experts of its layer are asked for, to arrive while the ops in between run. */
void halo_cpu_moe_chosen(struct halo_device_model *model, const struct halo_op *route);
void halo_cpu_op_moe_sum(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_concat(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_conv1d(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_add(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_ssm_scan(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_delta_rule(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_streams_mix(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_streams_add(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_compress(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_blocks_choose(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_attend_blocks(struct halo_device_model *model, const struct halo_op *op);
void halo_cpu_op_logits(struct halo_device_model *model, const struct halo_op *op);
/* Fills the tables of cosines and sines for the rows of the batch. */
void halo_cpu_rope_tables(struct halo_device_model *model);

/* hop.c: the run under way: brings what a stage takes to its values, and their rows back; fills batch->digests. */
void halo_cpu_hop_take(struct halo_device_model *model);
void halo_cpu_hop_leave(struct halo_device_model *model);
/* The cosines of a rotation at a position, then its sines: n_rot in all. */
void halo_cpu_rope_table(const struct halo_rope *rope, uint32_t pos, float *ret);
/* Rotates the first n_rot elements of each head by such a table. */
void halo_cpu_rope_heads(float *x, uint32_t n_heads, uint32_t head_dim, const struct halo_rope *rope,
                         const float *table);

static inline float *halo_cpu_row(const struct halo_device_model *model, uint16_t value, uint32_t row)
{
    const struct halo_cpu_value *v = &model->scratch.values[value];
    return v->data + (size_t)row * v->stride;
}

/* The f32 numbers of a vector weight; NULL for HALO_WEIGHT_NONE. */
static inline const float *halo_cpu_vector(const struct halo_device_model *model, uint32_t weight)
{
    return weight == HALO_WEIGHT_NONE ? NULL : (const float *)(const void *)model->weights[weight].slot;
}

/* The matrix of one expert; expert 0 is the only one outside MoE. A streamed one has been taken. */
static inline struct halo_cpu_matrix halo_cpu_expert(const struct halo_device_model *model, uint32_t weight,
                                                     uint32_t expert)
{
    const struct halo_cpu_weight *w = &model->weights[weight];
    struct halo_cpu_matrix matrix = w->matrix;
    if (w->info->streamed > 0)
        matrix.data = model->experts.base[w->part][expert];
    else
        matrix.data += expert * w->expert_bytes;
    matrix.scale = w->info->scales ? w->info->scales[expert] : 1;
    return matrix;
}

/* A layer's part of a page of a group, or of a slot of states: halo_kv_page_bytes / n_layers bytes. */
static inline uint8_t *halo_cpu_kv_page(const struct halo_device_model *model, uint32_t group, uint32_t layer,
                                        uint32_t page)
{
    const struct halo_kv_group *kv = &model->plan->kv[group];
    uint64_t n_bytes = halo_kv_page_bytes(kv) / kv->n_layers;
    return model->kv_region.base + model->kv_first[group] + ((uint64_t)layer * kv->n_pages + page) * n_bytes;
}

/* ln(1 + e^x) */
static inline double halo_cpu_softplus(double x)
{
    return x > 40 ? x : log1p(exp(x));
}

/* An op's part of the state of the sequence that row `row` belongs to. */
static inline float *halo_cpu_state(const struct halo_device_model *model, const struct halo_state_part *part,
                                    uint32_t row)
{
    const struct halo_batch *batch = model->batch;
    uint32_t slot = batch->seqs[batch->seq[row]].pages[part->kv_group][0];
    return (float *)(void *)halo_cpu_kv_page(model, part->kv_group, part->kv_layer, slot) + part->offset;
}

/* The n f32 of one head in that state; zeros where `row` is the first of its sequence. */
static inline float *halo_cpu_head_state(const struct halo_device_model *model, const struct halo_state_part *part,
                                         uint32_t row, uint32_t head, size_t n)
{
    float *state = halo_cpu_state(model, part, row) + head * n;
    if (model->batch->pos[row] == 0)
        memset(state, 0, n * sizeof(*state));
    return state;
}

/* x times the Hadamard matrix of the largest power of two that divides dim, block by block, scaled so that it keeps
 * lengths: its own inverse. It spreads what stands out over the row, so that 4 bits an element are enough (HALO_KV_Q4):
 * K, q and V are rotated, and so is what attention makes of V. */
#define HALO_CPU_ROTATED_MAX 1024 /* elements of a head that is kept so */
void halo_cpu_rotate(uint32_t dim, float *x);

/* K or V rows of one head in one page of one layer of a group: [halo_kv_page_rows][row bytes]. */
static inline uint8_t *halo_cpu_kv_rows(const struct halo_device_model *model, uint32_t group, uint32_t layer,
                                        uint32_t page, bool value, uint32_t head)
{
    const struct halo_kv_group *kv = &model->plan->kv[group];
    uint64_t k_bytes = (uint64_t)halo_kv_page_rows(kv) * halo_kv_row_bytes(kv->type, kv->head_dim_k);
    uint64_t v_bytes = (uint64_t)halo_kv_page_rows(kv) * halo_kv_value_bytes(kv);
    uint8_t *base = halo_cpu_kv_page(model, group, layer, page);
    return value ? base + kv->n_head_kv * k_bytes + head * v_bytes : base + head * k_bytes;
}

/* The row of the compressed block that ends with position `last`, in a group with a stride and one head. */
static inline uint8_t *halo_cpu_kv_block(const struct halo_device_model *model, uint32_t group, uint32_t layer,
                                         const struct halo_batch_seq *seq, uint32_t last)
{
    const struct halo_kv_group *kv = &model->plan->kv[group];
    uint32_t page = seq->pages[group][last / HALO_KV_PAGE_TOKENS];
    uint32_t row = last % HALO_KV_PAGE_TOKENS / (HALO_KV_PAGE_TOKENS / halo_kv_page_rows(kv));
    return halo_cpu_kv_rows(model, group, layer, page, false, 0) +
           (size_t)row * halo_kv_row_bytes(kv->type, kv->head_dim_k);
}

#endif
