/* op_blocks.c: launches of the ops on compressed blocks of positions (contract in compile_priv.h).
 *
 * Rows of prompts take the same kernels as single rows: which blocks a row attends to is its own choice.
 */
#include "compile_priv.h"

static struct halo_blocks_arg blocks_arg(const struct halo_hip_compiler *c, uint32_t group, uint32_t layer,
                                         uint32_t ratio)
{
    return (struct halo_blocks_arg){
        .kv = halo_hip_kv_arg(c, group, layer), .ratio = ratio, .page_rows = halo_kv_page_rows(&c->plan->kv[group])};
}

static uint32_t kv_type(const struct halo_hip_compiler *c, uint32_t group)
{
    return HALO_HIP_TYPE_KV_F32 + (uint32_t)c->plan->kv[group].type;
}

#define PAGES_INPUT(type_, field_, group_)                                                                             \
    {                                                                                                                  \
        .kind = HALO_HIP_PATCH_INPUT, .at = offsetof(type_, field_.pages),                                             \
        .input = (uint16_t)(offsetof(struct halo_hip_inputs, pages) + (group_) * sizeof(uint32_t *))                   \
    }
/* The cache of a field, as HALO_HIP_KV_INPUTS does it for `kv`. */
#define CACHE_INPUTS(type_, field_, step_, group_)                                                                     \
    HALO_HIP_INPUT(type_, field_.pos, pos, step_), HALO_HIP_INPUT(type_, field_.page_first, page_first, step_),        \
        PAGES_INPUT(type_, field_, group_)

static int emit_store(struct halo_hip_compiler *c, const struct halo_op_compress *u)
{
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    struct halo_compress_store_args args = {.blocks = blocks_arg(c, u->kv_group, u->kv_layer, u->ratio),
                                            .u = halo_hip_value(c->model, u->u),
                                            .norm = halo_hip_vector(c->model, u->norm),
                                            .u_stride = c->plan->values[u->u].width,
                                            .n_rot = rope->n_rot,
                                            .neox = rope->pairing == HALO_ROPE_NEOX,
                                            .eps = u->eps};
    uint32_t table = halo_hip_table_find(c->plan, u->rope, u->ratio);
    return halo_hip_emit(c,
                         &(struct halo_hip_emission){
                             .op = HALO_HIP_COMPRESS_STORE,
                             .type = kv_type(c, u->kv_group),
                             .rows = 1,
                             .grid = {halo_hip_per_row(1)},
                             HALO_HIP_ARGS(args),
                             HALO_HIP_PATCHES(CACHE_INPUTS(struct halo_compress_store_args, blocks.kv, 0, u->kv_group),
                                              HALO_HIP_ROPE_INPUT(struct halo_compress_store_args, table, table))});
}

int halo_hip_emit_compress(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_compress *u = &op->u.compress;
    struct halo_compress_args args = {.state = halo_hip_state_arg(c, &u->state),
                                      .u = halo_hip_value(c->model, u->u),
                                      .z = halo_hip_value(c->model, u->z),
                                      .bias = halo_hip_vector(c->model, u->bias),
                                      .dim = u->dim,
                                      .ratio = u->ratio,
                                      .overlap = u->overlap};
    int r = halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_COMPRESS,
               .type = HALO_HIP_TYPE_ANY,
               .rows = 1,
               .grid = {halo_hip_fixed(HALO_HIP_CEIL(u->dim, HALO_COMPRESS_COLS)), halo_hip_per_sequence(1)},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(HALO_HIP_STATE_INPUTS(struct halo_compress_args, u->state.kv_group))});
    return r ? r : emit_store(c, u);
}

/* For spans of the rows that scratch memory has room for scores of. */
static int emit_choice(struct halo_hip_compiler *c, const struct halo_op_blocks_choose *u)
{
    const uint32_t word = sizeof(float), dim = c->plan->kv[u->kv_group].head_dim_k;
    const struct halo_hip_amount n_splits = {HALO_HIP_SPLITS, 1, 1, 0};
    struct halo_block_scores_args scores = {.blocks = blocks_arg(c, u->kv_group, u->kv_layer, u->ratio),
                                            .q = halo_hip_value(c->model, u->q),
                                            .weight = halo_hip_value(c->model, u->weight),
                                            .order = c->model->scratch.block_order,
                                            .n_head = u->n_head,
                                            .n_most = c->plan->n_context / u->ratio,
                                            .top_k = u->top_k,
                                            .scale = u->scale};
    struct halo_blocks_choose_args choose = {.order = c->model->scratch.block_order,
                                             .out = (int32_t *)(void *)halo_hip_value(c->model, u->out),
                                             .n_most = scores.n_most,
                                             .top_k = u->top_k,
                                             .ratio = u->ratio};
    int r =
        halo_hip_emit(c, &(struct halo_hip_emission){
                             .op = HALO_HIP_BLOCK_SCORES,
                             .type = kv_type(c, u->kv_group),
                             .rows = 1,
                             .grid = {n_splits, halo_hip_fixed(1), halo_hip_per_span(1)},
                             HALO_HIP_ARGS(scores),
                             HALO_HIP_PATCHES(CACHE_INPUTS(struct halo_block_scores_args, blocks.kv, word, u->kv_group),
                                              HALO_HIP_STEP(struct halo_block_scores_args, q, u->n_head * dim * word),
                                              HALO_HIP_STEP(struct halo_block_scores_args, weight, u->n_head * word),
                                              HALO_HIP_AMOUNT(struct halo_block_scores_args, n_splits, n_splits))});
    return r ? r
             : halo_hip_emit(
                   c, &(struct halo_hip_emission){
                          .op = HALO_HIP_BLOCKS_CHOOSE,
                          .type = HALO_HIP_TYPE_ANY,
                          .rows = 1,
                          .grid = {halo_hip_per_span(1)},
                          HALO_HIP_ARGS(choose),
                          HALO_HIP_PATCHES(HALO_HIP_INPUT(struct halo_blocks_choose_args, pos, pos, word),
                                           HALO_HIP_STEP(struct halo_blocks_choose_args, out, u->top_k * word))});
}

int halo_hip_emit_blocks_choose(struct halo_hip_compiler *c, const struct halo_op *op)
{
    uint32_t most = c->max_rows < HALO_CHOOSE_ROWS ? c->max_rows : HALO_CHOOSE_ROWS;
    halo_hip_loop_begin(c, HALO_HIP_OVER_ROWS, HALO_CHOOSE_ROWS, c->min_rows, c->max_rows);
    halo_hip_span_limit(c, 1, most);
    int r = emit_choice(c, &op->u.blocks_choose);
    halo_hip_loop_end(c);
    return r;
}

/* Tiles multiply in f16: a cache of f32 is left to the other kernel. */
static int emit_attention(struct halo_hip_compiler *c, const struct halo_op_attend_blocks *u)
{
    const uint32_t word = sizeof(float), type = kv_type(c, u->kv_group);
    const uint32_t width = u->n_head * c->plan->kv[u->kv_group].head_dim_k;
    const bool tiles = halo_hip_kernel_find(c->model->device, HALO_HIP_ATTEND_BLOCKS_TILES, type, 1) >= 0;
    const uint32_t n_parts = HALO_HIP_CEIL(u->n_head, tiles ? HALO_LATENT_QUERIES : HALO_LATENT_HEADS);
    const struct halo_hip_amount n_splits = {HALO_HIP_SPLITS, n_parts, 1, 0};
    struct halo_attend_blocks_args args = {
        .attend = {.kv = halo_hip_kv_arg(c, u->kv_group, u->kv_layer),
                   .q = halo_hip_value(c->model, u->q),
                   .out = halo_hip_value(c->model, u->out),
                   .partial = c->model->scratch.partial,
                   .counter = c->model->scratch.counters,
                   .score = {.sinks = halo_hip_vector(c->model, u->sinks), .scale = u->scale, .window = u->window},
                   .n_head = u->n_head,
                   .n_parts = n_parts},
        .blocks = blocks_arg(c, u->block_group, u->block_layer, u->ratio),
        .chosen = (const int32_t *)(const void *)halo_hip_value(c->model, u->chosen),
        .n_chosen = u->chosen == HALO_NONE ? 0 : c->plan->values[u->chosen].width};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = tiles ? HALO_HIP_ATTEND_BLOCKS_TILES : HALO_HIP_ATTEND_BLOCKS,
               .type = type,
               .rows = 1,
               .grid = {n_splits, halo_hip_fixed(n_parts), halo_hip_per_span(1)},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(CACHE_INPUTS(struct halo_attend_blocks_args, attend.kv, word, u->kv_group),
                                CACHE_INPUTS(struct halo_attend_blocks_args, blocks.kv, word, u->block_group),
                                HALO_HIP_STEP(struct halo_attend_blocks_args, attend.q, width * word),
                                HALO_HIP_STEP(struct halo_attend_blocks_args, attend.out, width * word),
                                HALO_HIP_AMOUNT(struct halo_attend_blocks_args, attend.n_splits, n_splits),
                                args.n_chosen > 0 ? (struct halo_hip_patch)HALO_HIP_STEP(struct halo_attend_blocks_args,
                                                                                         chosen, args.n_chosen * word)
                                                  : (struct halo_hip_patch){0})});
}

int halo_hip_emit_attend_blocks(struct halo_hip_compiler *c, const struct halo_op *op)
{
    uint32_t most = c->max_rows < HALO_HIP_ITEMS_MAX ? c->max_rows : HALO_HIP_ITEMS_MAX;
    halo_hip_loop_begin(c, HALO_HIP_OVER_ROWS, HALO_HIP_ITEMS_MAX, c->min_rows, c->max_rows);
    halo_hip_span_limit(c, 1, most);
    int r = emit_attention(c, &op->u.attend_blocks);
    halo_hip_loop_end(c);
    return r;
}
