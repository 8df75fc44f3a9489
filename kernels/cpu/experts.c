/* experts.c: streamed experts of the layer under way, or the matrices of a streamed dense layer: asked for once,
 * repacked when they arrive, kept until the last product of the layer.
 *
 * Device thread. A matrix that arrives is repacked at once, while others are being read, on all threads: a few in
 * pieces, many one by one. Allocates nothing in a run. A failure of the source is
 * remembered in experts.error, with its sentence, and ends the run.
 */
#include <assert.h>

#include <common/carve.h>

#include "device_priv.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* That matrices are cut into which arrive together. The last one saves nothing. */
static uint32_t n_pieces_most(uint32_t n_threads)
{
    return n_threads < HALO_CPU_PACK_PIECES ? n_threads : HALO_CPU_PACK_PIECES;
}

uint64_t halo_cpu_experts_carve(const struct halo_plan *plan, uint32_t n_threads, uint8_t *base,
                                struct halo_cpu_experts *experts)
{
    struct halo_carver carver = {.base = base};
    uint32_t n_experts = 0, n_layers = 0;
    uint64_t pack_bytes = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *w = &plan->weights[i];
        if (w->streamed == 0)
            continue;
        n_experts = w->n_experts > n_experts ? w->n_experts : n_experts;
        n_layers = w->streamed > n_layers ? w->streamed : n_layers;
        pack_bytes = max_u64(pack_bytes, halo_cpu_matrix_scratch_bytes(w->type, w->n_cols));
    }
    experts->ids = halo_carve(&carver, n_experts, sizeof(*experts->ids), 64);
    experts->taken = halo_carve(&carver, n_experts, sizeof(*experts->taken), 64);
    for (uint32_t part = 0; part < HALO_LAYER_PARTS; part++)
        experts->base[part] = halo_carve(&carver, n_experts, sizeof(*experts->base[part]), 64);
    experts->parts = halo_carve(&carver, n_experts, sizeof(*experts->parts), 64);
    experts->is_done = halo_carve(&carver, n_experts, sizeof(*experts->is_done), 64);
    experts->fresh = halo_carve(&carver, (uint64_t)n_experts * HALO_LAYER_PARTS, sizeof(*experts->fresh), 64);
    experts->n_layers = n_layers;
    experts->layers = halo_carve(&carver, n_layers, sizeof(*experts->layers), 64);
    experts->pack_bytes = (pack_bytes + 63) / 64 * 64;
    experts->pack = halo_carve(&carver, n_experts > 0 ? n_threads : 0, experts->pack_bytes, 64);
    uint32_t n_pieces = n_pieces_most(n_threads);
    experts->saved = halo_carve(&carver, n_experts > 0 ? n_pieces - 1 : 0, experts->pack_bytes, 64);
    return carver.n_bytes;
}

/* The routing of each layer, and the product whose first weight gives its logits. */
static void find_routers(struct halo_device_model *model)
{
    const struct halo_plan *plan = model->plan;
    const struct halo_op *route = NULL, *router = NULL, *before = NULL;
    for (const struct halo_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if (op->kind == HALO_OP_MATMUL)
            before = op;
        if (op->kind == HALO_OP_MOE_ROUTE) {
            route = op;
            router = before && before->u.matmul.out[0] == op->u.moe_route.logits ? before : NULL;
        }
        uint32_t layer = op->kind == HALO_OP_MOE_MATMUL ? plan->weights[op->u.moe_matmul.weight[0]].streamed : 0;
        if (layer == 0)
            continue;
        model->experts.layers[layer - 1].route = route;
        model->experts.layers[layer - 1].router = router;
    }
}

void halo_cpu_experts_number(struct halo_device_model *model)
{
    const struct halo_plan *plan = model->plan;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        if (plan->weights[i].streamed == 0)
            continue;
        struct halo_cpu_expert_layer *layer = &model->experts.layers[plan->weights[i].streamed - 1];
        assert(layer->n_parts < HALO_LAYER_PARTS);
        model->weights[i].part = (uint8_t)layer->n_parts;
        layer->weight[layer->n_parts++] = i;
    }
    find_routers(model);
}

uint64_t halo_cpu_expert_bytes(const struct halo_device *device, const struct halo_weight *weight)
{
    return halo_cpu_matrix_bytes(weight->type, weight->n_cols, weight->n_rows);
}

void halo_cpu_set_experts(struct halo_device_model *model, const struct halo_expert_source *source)
{
    assert(!model->sealed);
    model->experts.source = *source;
}

/* ---- the layer under way ---- */

void halo_cpu_experts_choose(struct halo_device_model *model, uint32_t layer, const uint32_t *first, uint32_t n_expert)
{
    struct halo_cpu_experts *experts = &model->experts;
    if (experts->layer == layer || experts->error)
        return;
    assert(experts->layer == 0 && layer > 0);
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_expert; e++)
        if (first[e + 1] > first[e]) {
            experts->parts[e] = 0;
            experts->ids[n++] = e;
        }
    experts->error = experts->source.choose(experts->source.owner, layer - 1, experts->ids, n, experts->reason);
    experts->layer = layer;
    experts->n_chosen = n;
}

static struct halo_cpu_piece piece_of(const struct halo_cpu_experts *experts, uint32_t item)
{
    return (struct halo_cpu_piece){item % experts->n_pieces, experts->n_pieces,
                                   experts->n_pieces > 1 ? experts->saved + item * experts->pack_bytes : NULL};
}

static const struct halo_weight *weight_of(const struct halo_device_model *model, const struct halo_cpu_fresh *fresh)
{
    return &model->plan->weights[model->experts.layers[model->experts.layer - 1].weight[fresh->part]];
}

/* Matrix item / n_pieces, or a piece of it. */
static void pack_item(void *arg, uint32_t item, uint32_t thread)
{
    const struct halo_device_model *model = arg;
    const struct halo_cpu_experts *experts = &model->experts;
    const struct halo_cpu_fresh *fresh = &experts->fresh[item / experts->n_pieces];
    const struct halo_weight *w = weight_of(model, fresh);
    const uint8_t *data = fresh->expert->data[fresh->part];
    uint8_t *base = fresh->expert->base[fresh->part], *scratch = experts->pack + thread * experts->pack_bytes;
    struct halo_cpu_piece piece = piece_of(experts, item);
    if (piece.n > 1)
        halo_cpu_piece_pack(w->type, w->n_cols, w->n_rows, data, base, &piece, scratch);
    else
        halo_cpu_matrix_pack(w->type, w->n_cols, w->n_rows, data, base, scratch);
}

/* Repacks on all threads: few matrices in pieces, many one by one. */
static void pack_all(struct halo_device_model *model, uint32_t n_fresh)
{
    struct halo_cpu_experts *experts = &model->experts;
    uint32_t most = n_pieces_most(model->device->n_threads);
    experts->n_pieces = n_fresh < most ? most / n_fresh : 1;
    for (uint32_t i = 0; i < n_fresh && experts->n_pieces > 1; i++) {
        const struct halo_cpu_fresh *fresh = &experts->fresh[i];
        const struct halo_weight *w = weight_of(model, fresh);
        experts->n_pieces = halo_cpu_matrix_pieces(w->type, w->n_cols, w->n_rows, fresh->expert->data[fresh->part],
                                                   fresh->expert->base[fresh->part], experts->n_pieces);
    }
    for (uint32_t item = 0; item < n_fresh * experts->n_pieces && experts->n_pieces > 1; item++) {
        const struct halo_cpu_fresh *fresh = &experts->fresh[item / experts->n_pieces];
        const struct halo_weight *w = weight_of(model, fresh);
        struct halo_cpu_piece piece = piece_of(experts, item);
        halo_cpu_piece_save(w->type, w->n_cols, w->n_rows, fresh->expert->data[fresh->part], &piece);
    }
    halo_workers_run(model->device->workers, n_fresh * experts->n_pieces, pack_item, model);
}

bool halo_cpu_experts_take(struct halo_device_model *model)
{
    struct halo_cpu_experts *experts = &model->experts;
    if (experts->error)
        return false;
    int r =
        experts->source.take(experts->source.owner, experts->phase, experts->taken, experts->n_chosen, experts->reason);
    if (r < 0)
        experts->error = r;
    uint32_t n_fresh = 0;
    for (int i = 0; i < r; i++) {
        const struct halo_expert *expert = &experts->taken[i];
        experts->parts[expert->id] |= expert->parts;
        for (uint32_t part = 0; part < experts->layers[experts->layer - 1].n_parts; part++) {
            if (!(expert->parts >> part & 1))
                continue;
            experts->base[part][expert->id] = expert->base[part];
            if (expert->fresh)
                experts->fresh[n_fresh++] = (struct halo_cpu_fresh){expert, part};
        }
    }
    if (n_fresh > 0)
        pack_all(model, n_fresh);
    return r > 0;
}

bool halo_cpu_experts_has(const struct halo_device_model *model, uint32_t id, uint32_t parts)
{
    return (model->experts.parts[id] & parts) == parts;
}

/* The streamed dense layer whose matrices an op reads; 0: none. */
static uint32_t dense_layer_of(const struct halo_device_model *model, const struct halo_op *op)
{
    return op->kind == HALO_OP_MATMUL ? model->plan->weights[op->u.matmul.weight[0]].streamed : 0;
}

bool halo_cpu_layer_enter(struct halo_device_model *model, const struct halo_op *op)
{
    static const uint32_t first[] = {0, 1}; /* its only expert is chosen */
    uint32_t layer = dense_layer_of(model, op), parts = 0;
    if (layer == 0)
        return true;
    for (uint32_t k = 0; k < op->u.matmul.n; k++)
        parts |= 1u << model->weights[op->u.matmul.weight[k]].part;
    halo_cpu_experts_choose(model, layer, first, 1);
    while (!halo_cpu_experts_has(model, 0, parts))
        if (!halo_cpu_experts_take(model))
            return false;
    return true;
}

bool halo_cpu_experts_is_last(const struct halo_device_model *model, uint32_t weight)
{
    const struct halo_cpu_expert_layer *layer = &model->experts.layers[model->plan->weights[weight].streamed - 1];
    return layer->weight[layer->n_parts - 1] == weight;
}

/* Adds the chosen experts of a row that are not in ids[0..n) yet. Returns how many there are then. */
static uint32_t add_choice(const float *choice, uint32_t n_used, uint32_t *ids, uint32_t n)
{
    for (uint32_t s = 0, n_had = n; s < n_used; s++) {
        uint32_t expert;
        bool is_new = true;
        memcpy(&expert, choice + n_used + s, sizeof(expert));
        for (uint32_t i = 0; i < n_had; i++)
            is_new &= ids[i] != expert;
        if (is_new)
            ids[n++] = expert;
    }
    return n;
}

void halo_cpu_experts_guess(struct halo_device_model *model, uint32_t layer)
{
    struct halo_cpu_experts *experts = &model->experts;
    const struct halo_cpu_expert_layer *here = &experts->layers[layer - 1], *next = here + 1;
    if (layer == experts->n_layers || experts->error || !here->router || !next->router ||
        model->batch->n_rows > HALO_CPU_GUESS_ROWS || !experts->source.wants_guess(experts->source.owner, layer))
        return;
    const struct halo_op_moe_route *route = &next->route->u.moe_route;
    struct halo_op op = *next->router;
    if (here->route->u.moe_route.logits != route->logits || route->n_used > HALO_CPU_GUESS_USED ||
        model->scratch.values[here->router->u.matmul.x].width != model->scratch.values[op.u.matmul.x].width)
        return;
    op.u.matmul.x = here->router->u.matmul.x;
    op.u.matmul.n = 1;              /* without the gate of a shared expert beside it */
    halo_cpu_op_matmul(model, &op); /* over the logits of this layer, which has chosen */
    uint32_t ids[HALO_CPU_GUESS_ROWS * HALO_CPU_GUESS_USED], n = 0;
    for (uint32_t r = 0; r < model->batch->n_rows; r++) {
        float choice[2 * HALO_CPU_GUESS_USED];
        halo_cpu_route_row(model, route, r, choice);
        n = add_choice(choice, route->n_used, ids, n);
    }
    experts->source.guess(experts->source.owner, layer, ids, n);
}

void halo_cpu_experts_release(struct halo_device_model *model)
{
    if (model->experts.layer == 0)
        return;
    model->experts.layer = 0;
    model->experts.source.release(model->experts.source.owner);
}

void halo_cpu_layer_leave(struct halo_device_model *model, const struct halo_op *op)
{
    if (dense_layer_of(model, op) > 0 && halo_cpu_experts_is_last(model, op->u.matmul.weight[op->u.matmul.n - 1]))
        halo_cpu_experts_release(model);
}
