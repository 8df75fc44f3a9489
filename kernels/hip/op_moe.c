/* op_moe.c: routing, the products of the chosen experts, and their sum. Device thread. */
#include "run_priv.h"

int halo_hip_op_moe_route(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    struct halo_moe_route_args args = {.logits = halo_hip_value(run->model, u->logits),
                                       .choice = halo_hip_value(run->model, u->choice),
                                       .n_expert = u->n_expert,
                                       .n_used = u->n_used,
                                       .normalise = u->normalise,
                                       .scale = u->scale};
    halo_hip_wrote(run, u->choice);
    return halo_hip_launch(run, HALO_HIP_MOE_ROUTE, HALO_HIP_TYPE_ANY, run->n_rows,
                           (struct halo_hip_grid){run->n_rows, 1, 1}, &args);
}

static struct halo_expert_arg expert_arg(const struct halo_hip_run *run, const struct halo_op_moe_matmul *u, uint32_t k)
{
    return (struct halo_expert_arg){.weight = halo_hip_weight(run->model, u->weight[k]),
                                    .expert_bytes = run->model->weights[u->weight[k]].expert_bytes,
                                    .out = halo_hip_value(run->model, u->out[k]),
                                    .n_rows = run->model->plan->weights[u->weight[k]].n_rows};
}

_Static_assert(HALO_HIP_GEMV_ROWS_MAX *HALO_MOE_EXPERTS_MAX <= HALO_MOE_SLOTS_MAX, "the slots of few rows fit");

/* Eight rows at a time. */
static int few(struct halo_hip_run *run, const struct halo_op_moe_matmul *u, uint32_t type, uint32_t first, uint32_t n)
{
    uint32_t n_cols = run->model->plan->weights[u->weight[first]].n_cols, x_rows = u->per_slot ? u->n_used : 1;
    const float *values = halo_hip_value(run->model, u->x), *choice = halo_hip_value(run->model, u->choice);
    bool quantized = halo_hip_quantized(type);
    const uint8_t *x = quantized ? run->model->scratch.act : (const uint8_t *)(const void *)values;
    uint64_t x_stride = quantized ? halo_hip_act_bytes(n_cols) : n_cols * sizeof(float);
    int error = quantized ? halo_hip_act(run, u->x, values, run->n_rows * x_rows, n_cols) : 0;
    for (uint32_t r = 0; r < run->n_rows && !error; r += HALO_HIP_GEMV_ROWS_MAX) {
        uint32_t n_rows = run->n_rows - r < HALO_HIP_GEMV_ROWS_MAX ? run->n_rows - r : HALO_HIP_GEMV_ROWS_MAX;
        struct halo_moe_gemv_args args = {.x = x + r * x_rows * x_stride,
                                          .choice = choice + (uint64_t)r * 2 * u->n_used,
                                          .n_cols = n_cols,
                                          .n_used = u->n_used,
                                          .per_slot = u->per_slot};
        for (uint32_t k = 0; k < n; k++) {
            args.matrix[k] = expert_arg(run, u, first + k);
            args.matrix[k].out += (uint64_t)r * u->n_used * args.matrix[k].n_rows;
            args.n_slot_blocks += HALO_HIP_CEIL(args.matrix[k].n_rows, HALO_MOE_GEMV_ROWS(!quantized, n_cols));
        }
        args.n_blocks = args.n_slot_blocks * n_rows * u->n_used;
        args.n_grid = halo_hip_walk_grid(run, HALO_HIP_MOE_GEMV, type, n_cols, args.n_blocks);
        error = halo_hip_launch(run, HALO_HIP_MOE_GEMV, type, n_rows, (struct halo_hip_grid){args.n_grid, 1, 1}, &args);
    }
    return error;
}

/* Sorts the slots by expert, once for all products of one choice. */
static int group(struct halo_hip_run *run, const struct halo_op_moe_matmul *u, uint32_t n_tiles)
{
    if (run->grouped_choice == u->choice)
        return 0;
    struct halo_moe_group_args args = {.choice = halo_hip_value(run->model, u->choice),
                                       .slot = run->model->scratch.moe_slot,
                                       .tile = run->model->scratch.moe_tile,
                                       .n_slots = run->n_rows * u->n_used,
                                       .n_used = u->n_used,
                                       .n_expert = run->model->plan->weights[u->weight[0]].n_experts,
                                       .n_tiles = n_tiles};
    run->grouped_choice = u->choice;
    return halo_hip_launch(run, HALO_HIP_MOE_GROUP, HALO_HIP_TYPE_ANY, run->n_rows, (struct halo_hip_grid){1, 1, 1},
                           &args);
}

static int many(struct halo_hip_run *run, const struct halo_op_moe_matmul *u, uint32_t k)
{
    const struct halo_weight *w = &run->model->plan->weights[u->weight[k]];
    uint32_t n_x = run->n_rows * (u->per_slot ? u->n_used : 1),
             n_tiles = halo_hip_moe_tiles(run->n_rows * u->n_used, w->n_experts);
    struct halo_moe_gemm_args args = {.matrix = expert_arg(run, u, k),
                                      .half = run->model->scratch.half,
                                      .scale = run->model->scratch.half_scale,
                                      .slot = run->model->scratch.moe_slot,
                                      .tile = run->model->scratch.moe_tile,
                                      .n_cols = w->n_cols,
                                      .n_used = u->n_used,
                                      .per_slot = u->per_slot};
    int r = group(run, u, n_tiles);
    if (!r)
        r = halo_hip_half(run, u->x, halo_hip_value(run->model, u->x), n_x, w->n_cols, false);
    return r ? r
             : halo_hip_launch(run, HALO_HIP_MOE_GEMM, w->type, run->n_rows,
                               (struct halo_hip_grid){n_tiles, HALO_HIP_CEIL(w->n_rows, HALO_GEMM_COLS), 1}, &args);
}

int halo_hip_op_moe_matmul(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_moe_matmul *u = &op->u.moe_matmul;
    const struct halo_weight *weights = run->model->plan->weights;
    int r = 0;
    for (uint32_t k = 0; k < u->n; k++)
        halo_hip_wrote(run, u->out[k]);
    for (uint32_t k = 0; k < u->n && !r;) {
        uint32_t type = weights[u->weight[k]].type;
        bool pair = k + 1 < u->n && weights[u->weight[k + 1]].type == type;
        if (halo_hip_uses_gemm(run->n_rows, weights[u->weight[k]].n_cols) &&
            halo_hip_kernel_find(run->model->device, HALO_HIP_MOE_GEMM, type, run->n_rows) >= 0) {
            r = many(run, u, k++);
            continue;
        }
        r = few(run, u, type, k, pair ? 2 : 1);
        k += pair ? 2 : 1;
    }
    return r;
}

int halo_hip_op_moe_sum(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_moe_sum *u = &op->u.moe_sum;
    uint32_t n_cols = run->model->plan->values[u->out].width;
    struct halo_moe_sum_args args = {.x = halo_hip_value(run->model, u->x),
                                     .choice = halo_hip_value(run->model, u->choice),
                                     .out = halo_hip_value(run->model, u->out),
                                     .n_cols = n_cols,
                                     .n_used = u->n_used};
    halo_hip_wrote(run, u->out);
    return halo_hip_launch(run, HALO_HIP_MOE_SUM, HALO_HIP_TYPE_ANY, run->n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS), run->n_rows, 1}, &args);
}
