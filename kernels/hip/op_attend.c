/* op_attend.c: the ops of the KV cache.
 *
 * The rows of a batch are runs of one sequence (a prompt's chunk) and single rows (decode). Runs go to the prefill
 * kernels, which share K and V among up to 64 rows; single rows to the decode kernels, which cut the context into
 * splits so that one row fills the GPU. Device thread.
 */
#include <errno.h>

#include "run_priv.h"

#define PREFILL_MIN_ROWS 4 /* of a tile: below, the decode kernels do */
#define BLOCKS_PER_UNIT 4  /* that keep a compute unit busy */

struct halo_kv_arg halo_hip_kv_arg(const struct halo_hip_run *run, uint32_t layer, uint32_t first_row)
{
    const struct halo_kv_shape *kv = &run->model->plan->kv;
    return (struct halo_kv_arg){
        .base = run->model->kv_region.device + layer * halo_hip_kv_layer_bytes(kv),
        .pos = run->in.pos + first_row,
        .page_first = run->in.page_first + first_row,
        .pages = run->in.pages,
        .page_bytes = halo_hip_kv_page_bytes(kv->type, kv->n_head_kv, kv->head_dim_k, kv->head_dim_v),
        .n_head_kv = kv->n_head_kv,
        .head_dim_k = kv->head_dim_k,
        .head_dim_v = kv->head_dim_v,
    };
}

static uint32_t kv_type(const struct halo_kv_shape *kv)
{
    return HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type;
}

static bool small_heads(const struct halo_kv_shape *kv)
{
    return kv->head_dim_k <= 128 && kv->head_dim_v <= 128;
}

int halo_hip_op_kv_write(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_kv_write *u = &op->u.kv_write;
    const struct halo_kv_shape *kv = &run->model->plan->kv;
    struct halo_kv_write_args args = {.kv = halo_hip_kv_arg(run, u->kv_layer, 0),
                                      .k = halo_hip_value(run->model, u->k),
                                      .v = halo_hip_value(run->model, u->v)};
    return halo_hip_launch(run, HALO_HIP_KV_WRITE, kv_type(kv), run->n_rows,
                           (struct halo_hip_grid){kv->n_head_kv, run->n_rows, 1}, &args);
}

/* What follows goes by the level of the context, not its length, so that steps of a class are the same launches. */

static uint32_t blocks_wanted(const struct halo_hip_run *run)
{
    return BLOCKS_PER_UNIT * run->model->device->properties.n_units;
}

static uint32_t most_splits(const struct halo_hip_run *run)
{
    uint32_t n_pages = 1u << 2 * run->level;
    return n_pages < HALO_SPLITS_MAX ? n_pages : HALO_SPLITS_MAX;
}

/* q heads that a block takes together. Eight read K and V once for all, but where even as many splits as there can be
 * do not fill the GPU, blocks of four are done sooner. */
static uint32_t heads_together(const struct halo_hip_run *run, uint32_t group, uint32_t n_rows)
{
    uint32_t n_blocks = run->model->plan->kv.n_head_kv * most_splits(run) * n_rows;
    return group > 4 && n_blocks < blocks_wanted(run) ? 4 : group;
}

/* A split without a page adds nothing. */
static uint32_t count_splits(const struct halo_hip_run *run, uint32_t blocks_per_split, uint32_t n_rows)
{
    uint32_t most = most_splits(run), n = HALO_HIP_CEIL(blocks_wanted(run), blocks_per_split * n_rows);
    n = n < most ? n : most;
    n = n * n_rows <= HALO_HIP_ITEMS_MAX ? n : HALO_HIP_ITEMS_MAX / n_rows;
    return n > 1 ? n : 1;
}

static int decode(struct halo_hip_run *run, const struct halo_op_attend *u, uint32_t first, uint32_t n_rows,
                  const struct halo_heads_args *heads)
{
    const struct halo_kv_shape *kv = &run->model->plan->kv;
    uint32_t which = small_heads(kv) ? HALO_HIP_ATTEND_D128 : HALO_HIP_ATTEND_D256, group = u->n_head / kv->n_head_kv;
    uint32_t together = heads_together(run, group, n_rows);
    const struct halo_hip_variant *v = halo_hip_variant_find(which, kv_type(kv), together);
    uint32_t n_heads = v && v->max_rows ? v->max_rows : 8, n_parts = HALO_HIP_CEIL(group, n_heads);
    uint32_t n_splits = count_splits(run, kv->n_head_kv * n_parts, n_rows);
    /* All rows at once: the next product's activations are made on the way. */
    uint32_t per_row, n_cols = u->n_head * kv->head_dim_v;
    bool fused = n_rows == run->n_rows && kv->head_dim_v % HALO_HIP_UNIT == 0 &&
                 halo_hip_act_wanted(run, u->out, &per_row) == n_cols;
    if (fused) {
        run->act_value = u->out;
        run->act_cols = n_cols;
    }
    struct halo_attend_args args = {
        .kv = halo_hip_kv_arg(run, u->kv_layer, first),
        .q = halo_hip_value(run->model, u->q) + (uint64_t)first * u->n_head * kv->head_dim_k,
        .out = halo_hip_value(run->model, u->out) + (uint64_t)first * n_cols,
        .act = fused ? run->model->scratch.act : NULL,
        .partial = run->model->scratch.partial,
        .counter = run->model->scratch.counters,
        .n_head = u->n_head,
        .n_splits = n_splits,
        .n_parts = n_parts,
        .scale = u->scale,
    };
    if (heads) {
        args.k = heads->k;
        args.v = heads->v;
        args.q_weight = heads->q_weight;
        args.k_weight = heads->k_weight;
        args.table = heads->table;
        args.n_rot = heads->n_rot;
        args.neox = heads->neox;
        args.eps = heads->eps;
    }
    return halo_hip_launch(run, which, kv_type(kv), together,
                           (struct halo_hip_grid){n_splits, kv->n_head_kv * n_parts, n_rows}, &args);
}

int halo_hip_attend_fresh(struct halo_hip_run *run, const struct halo_op_attend *u, const struct halo_heads_args *heads)
{
    halo_hip_wrote(run, u->out);
    return decode(run, u, 0, run->n_rows, heads);
}

static int prefill(struct halo_hip_run *run, const struct halo_op_attend *u, uint32_t first_tile, uint32_t n_tiles)
{
    const struct halo_kv_shape *kv = &run->model->plan->kv;
    struct halo_prefill_args args = {.kv = halo_hip_kv_arg(run, u->kv_layer, 0),
                                     .tile = run->in.tile + first_tile,
                                     .q = halo_hip_value(run->model, u->q),
                                     .out = halo_hip_value(run->model, u->out),
                                     .n_head = u->n_head,
                                     .scale = u->scale};
    return halo_hip_launch(run, small_heads(kv) ? HALO_HIP_PREFILL_D128 : HALO_HIP_PREFILL_D256, kv_type(kv), 1,
                           (struct halo_hip_grid){n_tiles, u->n_head, small_heads(kv) ? 1 : 2}, &args);
}

/* Tiles first .. first + n - 1, all of them long or all short. */
static int attend_tiles(struct halo_hip_run *run, const struct halo_op_attend *u, bool is_long, uint32_t first,
                        uint32_t n)
{
    if (is_long)
        return prefill(run, u, first, n);
    const struct halo_prefill_tile *last = &run->tiles[first + n - 1];
    uint32_t row = run->tiles[first].first_row, end = last->first_row + last->n_rows;
    int r = 0;
    /* As many rows as the partial results of two splits have room for. */
    for (; row < end && !r; row += HALO_HIP_ITEMS_MAX)
        r = decode(run, u, row, end - row < HALO_HIP_ITEMS_MAX ? end - row : HALO_HIP_ITEMS_MAX, NULL);
    return r;
}

int halo_hip_op_attend(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_attend *u = &op->u.attend;
    const struct halo_kv_shape *kv = &run->model->plan->kv;
    bool has_prefill =
        halo_hip_kernel_find(run->model->device, small_heads(kv) ? HALO_HIP_PREFILL_D128 : HALO_HIP_PREFILL_D256,
                             kv_type(kv), 1) >= 0;
    halo_hip_wrote(run, u->out);
    for (uint32_t first = 0, n; first < run->n_tiles; first += n) {
        bool is_long = has_prefill && run->tiles[first].n_rows >= PREFILL_MIN_ROWS;
        for (n = 1; first + n < run->n_tiles; n++)
            if ((has_prefill && run->tiles[first + n].n_rows >= PREFILL_MIN_ROWS) != is_long)
                break;
        int r = attend_tiles(run, u, is_long, first, n);
        if (r)
            return r;
    }
    return 0;
}
