/* layers.c: streamed layers of dense models (contract in experts_priv.h): the stops of the compiler, and what the host
 * does at them.
 *
 * In which slot a layer is differs from step to step. So compiled launches name a streamed matrix by its number, and
 * its address is filled in when they are made.
 */
#include <assert.h>

#include <common/phase.h>

#include "compile_priv.h"
#include "run_priv.h"

/* ---- compiling ---- */

static uint32_t layer_of(const struct halo_plan *plan, uint32_t op)
{
    const struct halo_op *o = &plan->ops[op];
    return o->kind == HALO_OP_MATMUL ? plan->weights[o->u.matmul.weight[0]].streamed : 0;
}

int halo_hip_layer_begin(struct halo_hip_compiler *c, uint32_t index)
{
    uint32_t layer = layer_of(c->plan, index);
    if (layer == 0 || layer == c->brought)
        return 0;
    c->brought = layer;
    c->op = index;
    return halo_hip_stop(c, HALO_HIP_STOP_FOR_LAYER);
}

static bool is_last_product(const struct halo_plan *plan, uint32_t index)
{
    for (uint32_t i = index + 1; i < plan->n_ops; i++)
        if (layer_of(plan, i) > 0)
            return layer_of(plan, i) != layer_of(plan, index);
    return true;
}

int halo_hip_layer_end(struct halo_hip_compiler *c, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        if (layer_of(c->plan, i) > 0 && is_last_product(c->plan, i)) {
            c->op = i;
            return halo_hip_stop(c, HALO_HIP_STOP_BEHIND_LAYER);
        }
    return 0;
}

/* ---- a step ---- */

uint8_t *halo_hip_layer_matrix(const struct halo_device_model *model, uint32_t weight)
{
    const struct halo_hip_experts *x = &model->experts;
    const struct halo_hip_weight *w = &model->weights[weight];
    assert(w->info->streamed == x->layer);
    return x->slots.base + x->place_host[x->layer - 1] * w->expert_bytes + w->at;
}

int halo_hip_layer_release(struct halo_hip_run *run)
{
    struct halo_device_model *model = run->model;
    struct halo_hip_experts *x = &model->experts;
    if (!x->is_dense || x->layer == 0)
        return 0;
    halo_phase_publish(run->phase, "waiting for a streamed layer", run->op);
    int r = halo_hip_wait(model->device, x->event, "a streamed layer", run->reason);
    if (!r)
        halo_hip_experts_release(model);
    return r;
}

int halo_hip_layer_bring(struct halo_hip_run *run, const struct halo_op_matmul *product)
{
    const uint32_t id = 0;
    struct halo_device_model *model = run->model;
    struct halo_hip_experts *x = &model->experts;
    int r = halo_hip_layer_release(run);
    if (r)
        return r;
    x->layer = model->plan->weights[product->weight[0]].streamed;
    r = x->source.choose(x->source.owner, x->layer - 1, &id, 1, run->reason);
    return r ? r : halo_hip_experts_take(run, 1);
}

int halo_hip_layer_leave(struct halo_hip_run *run)
{
    struct halo_device *device = run->model->device;
    if (!device->properties.integrated) { /* the next bytes for the slot are copied behind what was queued */
        halo_hip_experts_release(run->model);
        return 0;
    }
    return halo_hip_check(device, device->api.EventRecord(run->model->experts.event, device->stream),
                          "recording the end of a layer", run->reason);
}
