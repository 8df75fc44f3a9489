/* op_moe.c: launches of routing, the products of the chosen experts, and their sum (contract in compile_priv.h). */
#include "compile_priv.h"

static struct halo_moe_route_args route_args(const struct halo_hip_compiler *c, const struct halo_op_moe_route *u)
{
    struct halo_moe_route_args args = {.logits = halo_hip_value(c->model, u->logits),
                                       .choice = halo_hip_value(c->model, u->choice),
                                       .bias = halo_hip_vector(c->model, u->bias),
                                       .n_expert = u->n_expert,
                                       .n_used = u->n_used,
                                       .normalise = u->normalise,
                                       .gate = u->gate,
                                       .n_groups = u->n_groups,
                                       .n_groups_used = u->n_groups_used,
                                       .scale = u->scale};
    if (u->table && c->model->scratch.expert_tables)
        args.table = c->model->scratch.expert_tables + halo_hip_tables_before(c->plan, c->op);
    return args;
}

static bool is_scored(const struct halo_op_moe_route *u)
{
    return u->gate != HALO_MOE_SOFTMAX || u->bias != HALO_WEIGHT_NONE || u->n_groups > 1 || u->table;
}

/* A launch that leaves a choice of experts. */
static int emit_choice(struct halo_hip_compiler *c, const struct halo_hip_emission *e)
{
    int r = halo_hip_emit(c, e);
    c->chosen = c->program ? c->program->n_launches : 0;
    return r;
}

/* Whether the launch in front of the next one is another than that of the choice. */
static bool is_choice_older(const struct halo_hip_compiler *c)
{
    return c->program && c->program->n_launches > c->chosen;
}

int halo_hip_emit_moe_route(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    struct halo_moe_route_args args = route_args(c, u);
    const struct halo_hip_patch by_token[] = {HALO_HIP_INPUT(struct halo_moe_route_args, token, token, 0),
                                              {.kind = HALO_HIP_PATCH_END}};
    return emit_choice(c,
                       &(struct halo_hip_emission){.op = is_scored(u) ? HALO_HIP_MOE_ROUTE_SCORED : HALO_HIP_MOE_ROUTE,
                                                   .type = HALO_HIP_TYPE_ANY,
                                                   .grid = {halo_hip_per_row(1)},
                                                   HALO_HIP_ARGS(args),
                                                   .patches = u->table ? by_token : NULL});
}

/* ret_blocks: of each row. */
static struct halo_moe_router_args router_args(const struct halo_hip_compiler *c, const struct halo_hip_router *router,
                                               uint32_t *ret_blocks)
{
    const struct halo_op_matmul *u = router->product;
    struct halo_moe_router_args args = {.route = route_args(c, router->route),
                                        .x = halo_hip_value(c->model, u->x),
                                        .counter = c->model->scratch.counters,
                                        .n_cols = c->plan->weights[u->weight[0]].n_cols};
    uint32_t n = 0;
    for (uint32_t k = 0; k < u->n; k++) {
        args.matrix[k] = halo_hip_matrix_arg(c, u->weight[k], u->bias[k], halo_hip_value(c->model, u->out[k]));
        n += args.matrix[k].n_rows;
    }
    *ret_blocks = HALO_HIP_CEIL(n, HALO_ROUTER_ROWS);
    return args;
}

int halo_hip_emit_router(struct halo_hip_compiler *c, const struct halo_hip_router *router)
{
    uint32_t n_blocks;
    struct halo_moe_router_args args = router_args(c, router, &n_blocks);
    const struct halo_hip_patch by_token[] = {HALO_HIP_INPUT(struct halo_moe_router_args, route.token, token, 0),
                                              {.kind = HALO_HIP_PATCH_END}};
    return emit_choice(c, &(struct halo_hip_emission){.op = is_scored(router->route) ? HALO_HIP_MOE_ROUTER_SCORED
                                                                                     : HALO_HIP_MOE_ROUTER,
                                                      .type = HALO_HIP_TYPE_ANY,
                                                      .grid = {halo_hip_fixed(n_blocks), halo_hip_per_row(1)},
                                                      HALO_HIP_ARGS(args),
                                                      .patches = router->route->table ? by_token : NULL});
}

int halo_hip_emit_router_norm(struct halo_hip_compiler *c, const struct halo_hip_router_norm *router)
{
    uint32_t n_blocks;
    struct halo_moe_router_norm_args args = {.router = router_args(c, &router->router, &n_blocks),
                                             .norm = halo_hip_rmsnorm_args(c, router->norm)};
    const struct halo_hip_patch by_token[] = {
        HALO_HIP_INPUT(struct halo_moe_router_norm_args, router.route.token, token, 0), {.kind = HALO_HIP_PATCH_END}};
    return emit_choice(c, &(struct halo_hip_emission){.op = is_scored(router->router.route)
                                                                ? HALO_HIP_MOE_ROUTER_NORM_SCORED
                                                                : HALO_HIP_MOE_ROUTER_NORM,
                                                      .type = HALO_HIP_TYPE_ANY,
                                                      .grid = {halo_hip_fixed(n_blocks + 1), halo_hip_per_row(1)},
                                                      HALO_HIP_ARGS(args),
                                                      .patches = router->router.route->table ? by_token : NULL});
}

/* out as the plan has it: slots after each other. */
static struct halo_expert_arg expert_arg(const struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u,
                                         uint32_t k)
{
    return (struct halo_expert_arg){.weight = halo_hip_weight(c->model, u->weight[k]),
                                    .expert_bytes = halo_hip_expert_bytes(c->model, u->weight[k]),
                                    .out = halo_hip_value(c->model, u->out[k]),
                                    .bias = halo_hip_vector(c->model, u->bias[k]),
                                    .n_rows = c->plan->weights[u->weight[k]].n_rows,
                                    .out_stride = c->plan->weights[u->weight[k]].n_rows};
}

_Static_assert(HALO_HIP_GEMV_ROWS_MAX <= HALO_MOE_ROWS_MAX, "moe_gemv takes few rows together");

/* n matrices of one type, up to eight rows at a time. out_stride: of slots, 0: they follow each other. */
static int emit_few(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint32_t first, uint32_t n,
                    uint32_t out_stride)
{
    uint32_t type = c->plan->weights[u->weight[first]].type, n_cols = c->plan->weights[u->weight[first]].n_cols;
    uint32_t x_rows = u->per_slot ? u->n_used : 1;
    bool quantized = halo_hip_quantized(type), loops = c->max_rows > HALO_HIP_GEMV_ROWS_MAX;
    uint32_t x_stride = quantized ? halo_hip_act_bytes(n_cols) : n_cols * (uint32_t)sizeof(float);
    const float *x = halo_hip_value(c->model, u->x);
    const uint8_t *act = NULL;
    int r = quantized ? halo_hip_form_act(c, u->x, x, halo_hip_per_row(x_rows), n_cols, &act) : 0;
    if (r)
        return r;
    struct halo_moe_gemv_args args = {.x = quantized ? (const void *)act : x,
                                      .choice = halo_hip_value(c->model, u->choice),
                                      .place = halo_hip_places(c->model, u->weight[first]),
                                      .n_cols = n_cols,
                                      .n_used = u->n_used,
                                      .per_slot = u->per_slot};
    args.early = !args.place && (u->choice == HALO_NONE || (u->per_slot && is_choice_older(c)));
    for (uint32_t k = 0; k < n; k++) {
        args.matrix[k] = expert_arg(c, u, first + k);
        if (out_stride > 0)
            args.matrix[k].out_stride = out_stride;
        args.n_slot_blocks += HALO_HIP_CEIL(args.matrix[k].n_rows, HALO_MOE_GEMV_ROWS(!quantized, n_cols));
    }
    struct halo_hip_amount n_blocks = halo_hip_per_span(args.n_slot_blocks * u->n_used);
    struct halo_hip_amount n_grid = halo_hip_persistent_grid(c, HALO_HIP_MOE_GEMV, type, n_cols, n_blocks);
    uint32_t out_step = u->n_used * (uint32_t)sizeof(float);
    if (loops) {
        halo_hip_loop_begin(c, HALO_HIP_OVER_ROWS, HALO_HIP_GEMV_ROWS_MAX, c->min_rows, c->max_rows);
        halo_hip_span_limit(c, 1, HALO_HIP_GEMV_ROWS_MAX);
    }
    struct halo_hip_patch patches[] = {
        HALO_HIP_AMOUNT(struct halo_moe_gemv_args, n_blocks, n_blocks),
        HALO_HIP_AMOUNT(struct halo_moe_gemv_args, n_grid, n_grid),
        HALO_HIP_STEP(struct halo_moe_gemv_args, x, x_rows * x_stride),
        HALO_HIP_STEP(struct halo_moe_gemv_args, matrix[0].out, out_step * args.matrix[0].out_stride),
        HALO_HIP_STEP(struct halo_moe_gemv_args, matrix[1].out, out_step * args.matrix[1].out_stride),
        HALO_HIP_STEP(struct halo_moe_gemv_args, choice, 2 * u->n_used * (uint32_t)sizeof(float)),
        {.kind = HALO_HIP_PATCH_END}};
    if (u->choice == HALO_NONE) /* no address to step on */
        patches[5] = patches[6];
    r = halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_MOE_GEMV, .type = type, .grid = {n_grid}, HALO_HIP_ARGS(args), .patches = patches});
    if (loops)
        halo_hip_loop_end(c);
    return r;
}

/* All of u's matrices. */
static int emit_tiles(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u)
{
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    const struct halo_hip_half_form *form = &c->forms.half[c->forms.half_last];
    uint32_t n_col_tiles = 0;
    struct halo_moe_gemm_args args = {.half = form->half,
                                      .scale = form->scale,
                                      .slot = c->model->scratch.moe_slot,
                                      .tile = c->model->scratch.moe_tile,
                                      .place = halo_hip_places(c->model, u->weight[0]),
                                      .n_cols = w->n_cols,
                                      .n_used = u->n_used,
                                      .per_slot = u->per_slot};
    for (uint32_t k = 0; k < u->n; k++) {
        args.matrix[k] = expert_arg(c, u, k);
        n_col_tiles += HALO_HIP_CEIL(args.matrix[k].n_rows, HALO_GEMM_COLS);
    }
    if (c->has_glu) {
        args.glu = c->glu;
        n_col_tiles = HALO_HIP_CEIL(args.matrix[0].n_rows, HALO_GEMM_COLS / 2);
    }
    return halo_hip_emit(c, &(struct halo_hip_emission){
                                .op = HALO_HIP_MOE_GEMM,
                                .type = w->type,
                                .grid = {halo_hip_expert_tiles(u->n_used, w->n_experts), halo_hip_fixed(n_col_tiles)},
                                HALO_HIP_ARGS(args)});
}

/* n matrices of one type. */
static int emit_many(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint32_t first, uint32_t n)
{
    struct halo_op_moe_matmul of = *u;
    of.n = n;
    for (uint32_t k = 0; k < n; k++) {
        of.weight[k] = u->weight[first + k];
        of.out[k] = u->out[first + k];
        of.bias[k] = u->bias[first + k];
    }
    int r = halo_hip_form_groups(c, u);
    if (!r)
        r = halo_hip_form_half(c, u->x, halo_hip_value(c->model, u->x), halo_hip_per_row(u->per_slot ? u->n_used : 1),
                               c->plan->weights[u->weight[first]].n_cols, false);
    return r ? r : emit_tiles(c, &of);
}

/* What the chosen experts gave, times their factors. */
static int emit_factors(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint32_t k)
{
    const struct halo_weight *w = &c->plan->weights[u->weight[k]];
    struct halo_moe_scale_args args = {.x = halo_hip_value(c->model, u->out[k]),
                                       .choice = halo_hip_value(c->model, u->choice),
                                       .scale = c->model->scratch.scales,
                                       .n_cols = w->n_rows,
                                       .n_used = u->n_used};
    if (!halo_hip_scaled(w))
        return 0;
    if (args.scale)
        args.scale += halo_hip_scales_before(c->plan, u->weight[k]);
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_MOE_SCALE,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .grid = {halo_hip_fixed(HALO_HIP_CEIL(w->n_rows, HALO_QUANTIZE_COLS)),
                                                halo_hip_fixed(u->n_used), halo_hip_per_row(1)},
                                       HALO_HIP_ARGS(args)});
}

int halo_hip_emit_head_matmul(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint16_t out,
                              uint32_t out_stride)
{
    struct halo_op_moe_matmul into = *u;
    into.out[0] = out;
    return emit_few(c, &into, 0, 1, out_stride);
}

/* A GPU that multiplies so few rows by strips waits for memory slab after slab where an expert has a row or two of a
 * tile: there each slot stays a product of its own. Without a choice each expert has all rows. */
bool halo_hip_uses_expert_tiles(const struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u, uint32_t k)
{
    const struct halo_weight *w = &c->plan->weights[u->weight[k]];
    bool sparse = u->choice != HALO_NONE && c->min_rows <= HALO_STRIP_X &&
                  halo_hip_uses_strips(c, w->type, c->min_rows, w->n_cols);
    return halo_hip_uses_gemm(c->min_rows, w->n_cols) && !sparse &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_MOE_GEMM, w->type, c->min_rows) >= 0;
}

/* Whether one launch takes both. */
static bool is_pair(const struct halo_weight *a, const struct halo_weight *b)
{
    return a->type == b->type && a->n_rows == b->n_rows;
}

int halo_hip_emit_moe_matmul(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_moe_matmul *u = &op->u.moe_matmul;
    const struct halo_weight *weights = c->plan->weights;
    uint32_t streamed = weights[u->weight[0]].streamed;
    int r = 0;
    if (streamed > 0 && streamed != c->brought) {
        r = halo_hip_stop(c, HALO_HIP_STOP_FOR_EXPERTS);
        c->brought = streamed;
    }
    for (uint32_t k = 0; k < u->n && !r;) {
        uint32_t n = k + 1 < u->n && is_pair(&weights[u->weight[k]], &weights[u->weight[k + 1]]) ? 2 : 1;
        r = halo_hip_uses_expert_tiles(c, u, k) ? emit_many(c, u, k, n) : emit_few(c, u, k, n, 0);
        k += n;
    }
    for (uint32_t k = 0; k < u->n && !r; k++)
        r = emit_factors(c, u, k);
    return r;
}

static struct halo_moe_sum_args sum_args(const struct halo_hip_compiler *c, const struct halo_op_moe_sum *u)
{
    return (struct halo_moe_sum_args){.x = halo_hip_value(c->model, u->x),
                                      .choice = halo_hip_value(c->model, u->choice),
                                      .add = halo_hip_value(c->model, u->add),
                                      .add_gate = halo_hip_value(c->model, u->add_gate),
                                      .out = halo_hip_value(c->model, u->out),
                                      .n_cols = c->plan->values[u->out].width,
                                      .n_used = u->n_used};
}

int halo_hip_emit_moe_sum(struct halo_hip_compiler *c, const struct halo_op *op)
{
    struct halo_moe_sum_args args = sum_args(c, &op->u.moe_sum);
    uint32_t n_blocks = HALO_HIP_CEIL(args.n_cols, HALO_QUANTIZE_COLS);
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_MOE_SUM,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {halo_hip_fixed(n_blocks), halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}

int halo_hip_emit_sum_norm(struct halo_hip_compiler *c, const struct halo_hip_sum_norm *pair)
{
    struct halo_moe_sum_norm_args args = {.sum = sum_args(c, pair->sum),
                                          .norm = halo_hip_rmsnorm_args(c, pair->norm),
                                          .joins = pair->norm->add != HALO_NONE};
    args.sum.out = NULL;
    args.norm.add = NULL;
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_MOE_SUM_NORM,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}
