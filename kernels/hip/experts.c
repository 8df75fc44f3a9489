/* experts.c: see experts_priv.h. */
#include "experts_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <common/carve.h>
#include <common/phase.h>

#include "pack_priv.h"
#include "run_priv.h"

/* ---- life ---- */

/* What a plan needs for its streamed experts, or layers; all zero: it has none. */
struct size {
    uint32_t n_layers, n_expert, n_used; /* of layers one expert, which no router chooses */
    bool is_dense;
};

static struct size size_of(const struct halo_plan *plan)
{
    struct size size = {0};
    for (const struct halo_weight *w = plan->weights; w < plan->weights + plan->n_weights; w++) {
        if (w->streamed == 0)
            continue;
        size.n_layers = w->streamed > size.n_layers ? w->streamed : size.n_layers;
        size.n_expert = w->n_experts > size.n_expert ? w->n_experts : size.n_expert;
        size.is_dense |= w->role == HALO_WEIGHT_MATRIX;
    }
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op_moe_matmul *u = &plan->ops[i].u.moe_matmul;
        if (plan->ops[i].kind == HALO_OP_MOE_MATMUL && plan->weights[u->weight[0]].streamed > 0)
            size.n_used = u->n_used > size.n_used ? u->n_used : size.n_used;
    }
    return size;
}

static uint64_t carve_pinned(const struct halo_plan *plan, uint8_t *base, struct halo_hip_experts *experts)
{
    struct halo_carver c = {.base = base};
    struct size size = size_of(plan);
    experts->place_host = halo_carve(&c, (uint64_t)size.n_layers * size.n_expert, sizeof(uint32_t), HALO_HIP_ALIGN);
    experts->choice = halo_carve(&c, (uint64_t)plan->max_rows * size.n_used, 2 * sizeof(uint32_t), HALO_HIP_ALIGN);
    return c.n_bytes;
}

uint64_t halo_hip_experts_pinned_bytes(const struct halo_plan *plan)
{
    struct halo_hip_experts none = {0};
    return carve_pinned(plan, NULL, &none);
}

uint64_t halo_hip_experts_table_bytes(const struct halo_plan *plan)
{
    struct size size = size_of(plan);
    return (uint64_t)size.n_layers * size.n_expert * sizeof(uint32_t);
}

int halo_hip_experts_create(struct halo_device_model *model, uint8_t *pinned, uint32_t *table, char *reason)
{
    struct halo_hip_experts *x = &model->experts;
    struct halo_device *device = model->device;
    const struct halo_plan *plan = model->plan;
    struct size size = size_of(plan);
    if (size.n_layers == 0)
        return 0;
    carve_pinned(plan, pinned, x);
    x->is_dense = size.is_dense;
    x->n_layers = size.n_layers;
    x->n_expert = size.n_expert;
    x->place_device = table;
    x->layers = calloc(x->n_layers, sizeof(*x->layers));
    x->is_chosen = calloc(x->n_expert, sizeof(*x->is_chosen));
    x->ids = calloc(x->n_expert, sizeof(*x->ids));
    x->taken = calloc(x->n_expert, sizeof(*x->taken));
    if (device->properties.integrated)
        x->copy = malloc(HALO_HIP_PACK_COPY_BYTES);
    if (!x->layers || !x->is_chosen || !x->ids || !x->taken || (device->properties.integrated && !x->copy))
        return halo_reason(reason, -ENOMEM, "no memory for streamed experts");
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        if (plan->weights[i].streamed == 0)
            continue;
        struct halo_hip_expert_layer *layer = &x->layers[plan->weights[i].streamed - 1];
        assert(layer->n_parts < HALO_LAYER_PARTS);
        layer->weight[layer->n_parts++] = i;
    }
    return halo_hip_check(device, device->api.EventCreateWithFlags(&x->event, HIP_EVENT_NO_TIMING), "an event", reason);
}

void halo_hip_experts_destroy(struct halo_device_model *model)
{
    struct halo_hip_experts *x = &model->experts;
    if (x->event && !atomic_load(&model->device->lost))
        model->device->api.EventDestroy(x->event);
    halo_hip_slots_release(model);
    free(x->layers);
    free(x->is_chosen);
    free(x->ids);
    free(x->taken);
    free(x->copy);
    *x = (struct halo_hip_experts){0};
}

uint64_t halo_hip_expert_size(const struct halo_device *device, const struct halo_weight *weight)
{
    (void)device;
    return halo_hip_weight_bytes(weight->type, weight->n_cols, weight->n_rows);
}

void halo_hip_set_experts(struct halo_device_model *model, const struct halo_expert_source *source)
{
    assert(!model->sealed);
    model->experts.source = *source;
}

/* ---- a step ---- */

int halo_hip_experts_copy_choice(struct halo_hip_run *run, const struct halo_op_moe_route *route)
{
    struct halo_device *device = run->model->device;
    struct halo_hip_experts *x = &run->model->experts;
    size_t n_bytes = (size_t)run->n_rows * 2 * route->n_used * sizeof(float);
    int r = device->api.MemcpyAsync(x->choice, halo_hip_value(run->model, route->choice), n_bytes, HIP_COPY_TO_HOST,
                                    device->stream);
    if (!r)
        r = device->api.EventRecord(x->event, device->stream);
    return halo_hip_check(device, r, "copying the choice of experts", run->reason);
}

/* Lists the experts that the batch has chosen, each once. Returns how many, or a negative errno. */
static int list_chosen(struct halo_hip_run *run, const struct halo_op_moe_matmul *product, uint32_t n_expert)
{
    struct halo_hip_experts *x = &run->model->experts;
    for (uint32_t row = 0; row < run->n_rows; row++)
        for (uint32_t slot = 0; slot < product->n_used; slot++) {
            uint32_t id = x->choice[(2 * row + 1) * product->n_used + slot];
            if (id >= n_expert)
                return halo_reason(run->reason, -EIO, "the GPU chose expert %u of %u", id, n_expert);
            x->is_chosen[id] = true;
        }
    int n = 0;
    for (uint32_t id = 0; id < n_expert; id++) {
        if (x->is_chosen[id])
            x->ids[n++] = id;
        x->is_chosen[id] = false;
    }
    return n;
}

static int bring_fresh(struct halo_hip_run *run, const struct halo_expert *expert)
{
    struct halo_device_model *model = run->model;
    const struct halo_hip_expert_layer *layer = &model->experts.layers[model->experts.layer - 1];
    int r = 0;
    halo_phase_publish(run->phase, model->experts.is_dense ? "packing a streamed layer" : "packing experts", run->op);
    for (uint32_t part = 0; part < layer->n_parts && !r; part++)
        if (expert->parts >> part & 1)
            r = halo_hip_weight_bring_expert(model, layer->weight[part], expert, part, run->reason);
    return r;
}

int halo_hip_experts_take(struct halo_hip_run *run, uint32_t n)
{
    struct halo_hip_experts *x = &run->model->experts;
    struct halo_hip_expert_layer *layer = &x->layers[x->layer - 1];
    uint32_t *place = x->place_host + (size_t)(x->layer - 1) * x->n_expert;
    for (;;) {
        int r = x->source.take(x->source.owner, run->phase, x->taken, n, run->reason);
        if (r <= 0)
            return r;
        for (int i = 0; i < r; i++) {
            const struct halo_expert *expert = &x->taken[i];
            assert(expert->slot < x->slots.n && expert->id < x->n_expert);
            uint32_t at = halo_hip_slot_place(&x->slots, expert->slot);
            layer->moved |= place[expert->id] != at;
            place[expert->id] = at;
            int failed = expert->fresh ? bring_fresh(run, expert) : 0;
            if (failed)
                return failed;
        }
    }
}

/* The table of the layer to a discrete GPU. The copy before it has long been made: the layer ran since. */
static int copy_places(struct halo_hip_run *run)
{
    struct halo_device *device = run->model->device;
    const struct halo_hip_experts *x = &run->model->experts;
    struct halo_hip_expert_layer *layer = &x->layers[x->layer - 1];
    size_t first = (size_t)(x->layer - 1) * x->n_expert;
    if (device->properties.integrated || !layer->moved)
        return 0;
    int r = halo_hip_check(device,
                           device->api.MemcpyAsync(x->place_device + first, x->place_host + first,
                                                   x->n_expert * sizeof(*x->place_host), HIP_COPY_TO_DEVICE,
                                                   device->stream),
                           "copying the places of experts", run->reason);
    layer->moved = r != 0;
    return r;
}

int halo_hip_experts_bring(struct halo_hip_run *run, const struct halo_op_moe_matmul *product)
{
    struct halo_device_model *model = run->model;
    struct halo_hip_experts *x = &model->experts;
    const struct halo_weight *w = &model->plan->weights[product->weight[0]];
    halo_phase_publish(run->phase, "waiting for the choice of experts", run->op);
    int r = halo_hip_wait(model->device, x->event, "the choice of experts", run->reason);
    if (r)
        return r;
    halo_hip_experts_release(model);
    int n = list_chosen(run, product, w->n_experts);
    if (n < 0)
        return n;
    x->layer = w->streamed;
    r = x->source.choose(x->source.owner, x->layer - 1, x->ids, (uint32_t)n, run->reason);
    r = r ? r : halo_hip_experts_take(run, (uint32_t)n);
    return r ? r : copy_places(run);
}

void halo_hip_experts_release(struct halo_device_model *model)
{
    struct halo_hip_experts *x = &model->experts;
    if (x->layer == 0)
        return;
    x->layer = 0;
    x->source.release(x->source.owner);
}
