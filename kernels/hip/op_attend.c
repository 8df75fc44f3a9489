/* op_attend.c: launches of the ops of the KV cache (contract in compile_priv.h).
 *
 * The rows of a batch are runs of one sequence (a prompt's chunk) and single rows (decode). Runs go to the prefill
 * kernels, which share K and V among up to 64 rows; single rows to the decode kernels, which cut the context into
 * splits so that one row fills the GPU; latent_tiles is both. How many splits follows from the level of the context,
 * not its length, so that steps of a class are the same launches; a split without a page adds nothing.
 */
#include <string.h>

#include "compile_priv.h"

struct halo_kv_arg halo_hip_kv_arg(const struct halo_hip_compiler *c, uint32_t group, uint32_t layer)
{
    const struct halo_kv_group *kv = &c->plan->kv[group];
    return (struct halo_kv_arg){
        .base = halo_hip_kv_layer(c->model, group, layer),
        .page_bytes = halo_hip_kv_page_stride(kv),
        .n_head_kv = kv->n_head_kv,
        .head_dim_k = kv->head_dim_k,
        .head_dim_v = kv->head_dim_v,
    };
}

static uint32_t kv_type(const struct halo_kv_group *kv)
{
    return HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type;
}

/* The heads that the kernels for a group are made for: 128, 256 or 512 elements. */
static uint32_t heads_of(const struct halo_kv_group *kv)
{
    uint32_t dim = kv->head_dim_k > kv->head_dim_v ? kv->head_dim_k : kv->head_dim_v;
    return dim <= 128 ? 128 : dim <= 256 ? 256 : 512;
}

int halo_hip_emit_kv_write(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_kv_write *u = &op->u.kv_write;
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    struct halo_kv_write_args args = {.kv = halo_hip_kv_arg(c, u->kv_group, u->kv_layer),
                                      .k = halo_hip_value(c->model, u->k),
                                      .v = halo_hip_value(c->model, u->v)};
    return halo_hip_emit(c, &(struct halo_hip_emission){
                                .op = HALO_HIP_KV_WRITE,
                                .type = kv_type(kv),
                                .grid = {halo_hip_fixed(kv->n_head_kv), halo_hip_per_row(1)},
                                HALO_HIP_ARGS(args),
                                HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_kv_write_args, 0, u->kv_group))});
}

/* Blocks of decode attention: of which kernel, how many heads of a kv head they take, for contexts of which levels. */
struct blocks {
    uint32_t op, rows, n_heads;
    uint32_t weight;      /* blocks that one of them keeps the GPU as busy as */
    uint8_t levels;       /* 0: all */
    uint32_t step, least; /* of splits that a launch of its own merges; 0: the last block does */
};

/* A unit of AMD's chips is two compute units, which hold twice as many blocks; more than the GPU holds of the kernel
 * would wait for the others. 0: blocks_wanted. */
static uint32_t more_blocks(const struct halo_hip_compiler *c, const struct halo_kv_group *kv,
                            const struct blocks *blocks)
{
    const struct halo_device *device = c->model->device;
    int variant = halo_hip_kernel_find(device, blocks->op, kv_type(kv), blocks->rows);
    uint32_t most = 2 * c->blocks_wanted, resident = variant < 0 ? 0 : device->n_resident[variant];
    if (strncmp(device->properties.arch, "gfx", 3) != 0 || resident <= c->blocks_wanted)
        return 0;
    return resident < most ? resident : most;
}

static int emit_blocks(struct halo_hip_compiler *c, const struct halo_op_attend *u, struct halo_attend_args args,
                       uint32_t rope, const struct blocks *blocks)
{
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    uint32_t n_parts = HALO_HIP_CEIL(u->n_head / kv->n_head_kv, blocks->n_heads);
    uint32_t q_step = u->n_head * kv->head_dim_k * (uint32_t)sizeof(float);
    uint32_t out_step = u->n_head * kv->head_dim_v * (uint32_t)sizeof(float);
    struct halo_hip_amount n_splits = {HALO_HIP_SPLITS, kv->n_head_kv * n_parts * blocks->weight, 1,
                                       more_blocks(c, kv, blocks)};
    args.n_parts = n_parts;
    args.split_step = blocks->step;
    args.split_least = blocks->least;
    struct halo_hip_emission e = {
        .op = blocks->op,
        .type = kv_type(kv),
        .rows = blocks->rows,
        .grid = {n_splits, halo_hip_fixed(kv->n_head_kv * n_parts), halo_hip_per_span(1)},
        HALO_HIP_ARGS(args),
        HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_attend_args, sizeof(uint32_t), u->kv_group),
                         HALO_HIP_STEP(struct halo_attend_args, q, q_step),
                         HALO_HIP_STEP(struct halo_attend_args, out, out_step),
                         HALO_HIP_AMOUNT(struct halo_attend_args, n_splits, n_splits),
                         args.k ? (struct halo_hip_patch)HALO_HIP_ROPE_INPUT(struct halo_attend_args, table, rope)
                                : (struct halo_hip_patch){0}),
        .levels = blocks->levels};
    int r = halo_hip_emit(c, &e);
    if (r || !blocks->step)
        return r;
    e.op = HALO_HIP_ATTEND_MERGE;
    e.rows = heads_of(kv) / 128;
    e.grid[0] = halo_hip_fixed(u->n_head);
    e.grid[1] = halo_hip_fixed(1);
    return halo_hip_emit(c, &e);
}

/* Levels first .. end - 1 of the context, and whether a launch of its own merges splits there. */
struct levels {
    uint32_t first, end;
    bool merge;
};

/* `together` heads of a kv head to a block, or as many of them as the kernels take. */
static int emit_decode(struct halo_hip_compiler *c, const struct halo_op_attend *u, const struct halo_attend_args *args,
                       uint32_t rope, uint32_t together, uint8_t levels, bool merge)
{
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    uint32_t dim = heads_of(kv), op = dim == 128   ? HALO_HIP_ATTEND_D128
                                      : dim == 256 ? HALO_HIP_ATTEND_D256
                                                   : HALO_HIP_ATTEND_D512;
    const struct halo_hip_variant *v = NULL;
    while (!(v = halo_hip_variant_find(op, kv_type(kv), together)) && together > 1)
        together /= 2;
    struct blocks blocks = {.op = op,
                            .rows = together,
                            .n_heads = v && v->max_rows ? v->max_rows : 8,
                            .weight = 1,
                            .levels = levels,
                            .step = merge ? HALO_KV_PAGE_TOKENS : 0,
                            .least = merge ? 1 : 0};
    return emit_blocks(c, u, *args, rope, &blocks);
}

/* The most rows for which blocks of four heads are taken where more share a kv head. Eight read K and V once for all,
 * but where even as many splits as the level can have do not fill the GPU, blocks of four finish sooner. */
static uint32_t rows_of_four(const struct halo_hip_compiler *c, const struct halo_op_attend *u, uint32_t level)
{
    uint32_t n_head_kv = c->plan->kv[u->kv_group].n_head_kv, group = u->n_head / n_head_kv;
    uint32_t n_blocks = n_head_kv * halo_hip_most_splits(level);
    return group > 4 && c->blocks_wanted > 0 ? (c->blocks_wanted - 1) / n_blocks : 0;
}

/* Spans of min .. max rows. */
static int emit_levels(struct halo_hip_compiler *c, const struct halo_op_attend *u, const struct halo_attend_args *args,
                       uint32_t rope, uint32_t min, uint32_t max, struct levels of)
{
    uint32_t group = u->n_head / c->plan->kv[u->kv_group].n_head_kv, done = 0;
    int r = 0;
    for (uint32_t level = of.first; level < of.end && !r; level++) {
        uint32_t four = rows_of_four(c, u, level), levels = 0;
        if (done >> level & 1)
            continue;
        for (uint32_t l = level; l < of.end; l++)
            levels |= rows_of_four(c, u, l) == four ? 1u << l : 0;
        done |= levels;
        if (four >= min) {
            halo_hip_span_limit(c, min, four < max ? four : max);
            r = emit_decode(c, u, args, rope, 4, (uint8_t)levels, of.merge);
        }
        if (four < max && !r) {
            halo_hip_span_limit(c, four >= min ? four + 1 : min, max);
            r = emit_decode(c, u, args, rope, group, (uint8_t)levels, of.merge);
        }
    }
    return r;
}

static bool has_kernel(const struct halo_hip_compiler *c, const struct halo_kv_group *kv, uint32_t op, uint32_t rows)
{
    return halo_hip_kernel_find(c->model->device, op, kv_type(kv), rows) >= 0;
}

/* The level of context from which on a launch of its own merges splits and matrix tiles pay, where the device has
 * them; and how many other blocks one of tiles is worth: it fills a compute unit. */
enum { LONG_LEVEL = 4, TILES_WEIGHT = 4 };

/* Whether rows can see so many pages as only that level has. */
static bool sees_long(const struct halo_hip_compiler *c, const struct halo_op_attend *u)
{
    uint32_t n_window = HALO_HIP_CEIL(u->window, HALO_KV_PAGE_TOKENS) + 1;
    return halo_hip_n_levels(c->plan) > LONG_LEVEL && (u->window == 0 || n_window > 1u << 2 * (LONG_LEVEL - 1));
}

/* Spans of min .. max rows, at every level. */
static int emit_rows(struct halo_hip_compiler *c, const struct halo_op_attend *u, const struct halo_attend_args *args,
                     uint32_t rope, uint32_t min, uint32_t max)
{
    static const struct blocks tiles = {.op = HALO_HIP_ATTEND_TILES_D128,
                                        .rows = 1,
                                        .n_heads = HALO_ATTEND_TILE_HEADS,
                                        .weight = TILES_WEIGHT,
                                        .levels = 1u << LONG_LEVEL,
                                        .step = HALO_ATTEND_TILE_STEP,
                                        .least = HALO_ATTEND_TILE_LEAST};
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    uint32_t n_levels = halo_hip_n_levels(c->plan);
    if (!sees_long(c, u) || !has_kernel(c, kv, HALO_HIP_ATTEND_MERGE, heads_of(kv) / 128))
        return emit_levels(c, u, args, rope, min, max, (struct levels){0, n_levels, false});
    int r = emit_levels(c, u, args, rope, min, max, (struct levels){0, LONG_LEVEL, false});
    if (r || heads_of(kv) > 128 || !has_kernel(c, kv, tiles.op, 1))
        return r ? r : emit_levels(c, u, args, rope, min, max, (struct levels){LONG_LEVEL, n_levels, true});
    halo_hip_span_limit(c, min, max);
    return emit_blocks(c, u, *args, rope, &tiles);
}

static struct halo_score_arg score_arg(const struct halo_hip_compiler *c, const struct halo_op_attend *u)
{
    return (struct halo_score_arg){.sinks = halo_hip_vector(c->model, u->sinks),
                                   .scale = u->scale,
                                   .cap = u->cap,
                                   .temperature = u->temperature,
                                   .period = u->temperature_period,
                                   .window = u->window};
}

static struct halo_attend_args decode_args(const struct halo_hip_compiler *c, const struct halo_op_attend *u)
{
    return (struct halo_attend_args){.kv = halo_hip_kv_arg(c, u->kv_group, u->kv_layer),
                                     .q = halo_hip_value(c->model, u->q),
                                     .out = halo_hip_value(c->model, u->out),
                                     .act = c->act,
                                     .act_cols = c->act_cols,
                                     .partial = c->model->scratch.partial,
                                     .counter = c->model->scratch.counters,
                                     .n_head = u->n_head,
                                     .score = score_arg(c, u)};
}

int halo_hip_emit_attend_heads(struct halo_hip_compiler *c, const struct halo_op_attend *u,
                               const struct halo_heads_args *heads, uint32_t rope)
{
    struct halo_attend_args args = decode_args(c, u);
    args.k = heads->k;
    args.v = heads->v;
    args.q_weight = heads->q_weight;
    args.k_weight = heads->k_weight;
    args.n_rot = heads->n_rot;
    args.neox = heads->neox;
    args.eps = heads->eps;
    int r = emit_rows(c, u, &args, rope, c->min_rows, c->max_rows);
    halo_hip_span_limit(c, c->min_rows, c->max_rows);
    return r;
}

static uint32_t prefill_of(const struct halo_kv_group *kv)
{
    uint32_t dim = heads_of(kv);
    return kv->latent   ? HALO_HIP_LATENT_TILES
           : dim == 128 ? HALO_HIP_PREFILL_D128
           : dim == 256 ? HALO_HIP_PREFILL_D256
                        : HALO_HIP_PREFILL_D512;
}

static int emit_prefill(struct halo_hip_compiler *c, const struct halo_op_attend *u)
{
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    struct halo_prefill_args args = {.kv = halo_hip_kv_arg(c, u->kv_group, u->kv_layer),
                                     .q = halo_hip_value(c->model, u->q),
                                     .out = halo_hip_value(c->model, u->out),
                                     .n_head = u->n_head,
                                     .score = score_arg(c, u)};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = prefill_of(kv),
               .type = kv_type(kv),
               .rows = 1,
               .grid = {halo_hip_per_span(1), halo_hip_fixed(u->n_head),
                        halo_hip_fixed(HALO_PREFILL_BLOCKS(heads_of(kv)))},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_prefill_args, 0, u->kv_group),
                                HALO_HIP_INPUT(struct halo_prefill_args, tile, tile, sizeof(struct halo_prefill_tile))),
               .tiles = true});
}

/* A tile of prefill attention reads the whole context by itself. So few rows are faster as if each were decoded, which
 * cuts the context into splits for the whole GPU. */
uint32_t halo_hip_prefill_rows(const struct halo_device *device, const struct halo_plan *plan)
{
    uint32_t least = HALO_HIP_PREFILL_ABOVE_TILES;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        const struct halo_kv_group *kv = &plan->kv[group];
        if (kv->state_width > 0)
            continue;
        if (halo_hip_kernel_find(device, prefill_of(kv), kv_type(kv), 1) < 0)
            return 0;
        if (kv->latent || heads_of(kv) > 128 ||
            halo_hip_kernel_find(device, HALO_HIP_ATTEND_TILES_D128, kv_type(kv), 1) < 0)
            least = HALO_HIP_PREFILL_MIN_ROWS;
    }
    return least;
}

/* Heads of prompts over a latent cache: its tiles take them together. */
static int emit_latent_prefill(struct halo_hip_compiler *c, const struct halo_op_attend *u,
                               const struct halo_attend_args *args)
{
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    uint32_t n_blocks = HALO_HIP_CEIL(HALO_PREFILL_ROWS * u->n_head, HALO_LATENT_QUERIES);
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_LATENT_TILES,
               .type = kv_type(kv),
               .rows = 1,
               .grid = {halo_hip_per_span(1), halo_hip_fixed(n_blocks)},
               HALO_HIP_ARGS(*args),
               HALO_HIP_PATCHES(HALO_HIP_KV_INPUTS(struct halo_attend_args, 0, u->kv_group),
                                HALO_HIP_INPUT(struct halo_attend_args, tile, tile, sizeof(struct halo_prefill_tile))),
               .tiles = true});
}

/* Single rows over a latent cache. Tiles multiply in f16: a cache of f32 is left to the other kernel. */
static int emit_latent(struct halo_hip_compiler *c, const struct halo_op_attend *u, const struct halo_attend_args *args)
{
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    bool tiles =
        kv->type != HALO_KV_F32 && halo_hip_kernel_find(c->model->device, HALO_HIP_LATENT_TILES, kv_type(kv), 1) >= 0;
    struct blocks blocks = {.op = tiles ? HALO_HIP_LATENT_TILES : HALO_HIP_LATENT,
                            .rows = 1,
                            .n_heads = tiles ? HALO_LATENT_QUERIES : HALO_LATENT_HEADS,
                            .weight = 1};
    return emit_blocks(c, u, *args, 0, &blocks);
}

static int emit_prompt(struct halo_hip_compiler *c, const struct halo_op_attend *u, const struct halo_attend_args *args)
{
    return c->plan->kv[u->kv_group].latent ? emit_latent_prefill(c, u, args) : emit_prefill(c, u);
}

int halo_hip_emit_attend(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_attend *u = &op->u.attend;
    const struct halo_attend_args args = decode_args(c, u);
    uint32_t max = c->max_rows < HALO_HIP_ITEMS_MAX ? c->max_rows : HALO_HIP_ITEMS_MAX;
    halo_hip_loop_begin(c, HALO_HIP_OVER_RUNS, HALO_HIP_ITEMS_MAX, c->min_rows, c->max_rows);
    halo_hip_span_limit(c, 1, c->max_rows);
    int r = c->shape == HALO_HIP_MIXED ? emit_prompt(c, u, &args) : 0;
    if (!r && c->plan->kv[u->kv_group].latent) {
        halo_hip_span_limit(c, 1, max);
        r = emit_latent(c, u, &args);
    } else if (!r) {
        r = emit_rows(c, u, &args, 0, 1, max);
    }
    halo_hip_loop_end(c);
    return r;
}
