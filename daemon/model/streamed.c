/* streamed.c: see streamed.h. */
#include <model/streamed.h>

#include <stdio.h>

#include <kernels/experts.h>

/* The weights lie in the model's arena; only what everybody gets to see of them is constant. */
static struct halo_weight *weights_of(struct halo_model *model)
{
    return (struct halo_weight *)(uintptr_t)model->plan.weights;
}

static void make_resident(struct halo_model *model)
{
    for (uint32_t i = 0; i < model->plan.n_weights; i++)
        weights_of(model)[i].streamed = 0;
}

/* The layer of experts that a product belongs to, from 1 on: those of one layer follow each other. */
struct walk {
    uint32_t n_layers, n_parts, layer;
};

/* Returns 0 for an op that multiplies no routed experts. */
static uint32_t enter(struct walk *walk, const struct halo_op *op)
{
    if (op->kind != HALO_OP_MOE_MATMUL || op->u.moe_matmul.choice == HALO_NONE)
        return 0;
    if (walk->n_layers == 0 || op->layer != walk->layer) {
        walk->layer = op->layer;
        walk->n_layers++;
        walk->n_parts = 0;
    }
    walk->n_parts += op->u.moe_matmul.n;
    return walk->n_layers;
}

uint32_t halo_plan_expert_layers(const struct halo_plan *plan)
{
    struct walk walk = {0};
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (enter(&walk, &plan->ops[i]) > 0 && walk.n_parts > HALO_EXPERT_PARTS)
            return 0;
    return walk.n_layers;
}

uint32_t halo_model_stream_experts(struct halo_model *model, bool streamed)
{
    struct walk walk = {0};
    make_resident(model);
    if (!streamed || halo_plan_expert_layers(&model->plan) == 0)
        return 0;
    for (uint32_t i = 0; i < model->plan.n_ops; i++) {
        const struct halo_op_moe_matmul *u = &model->plan.ops[i].u.moe_matmul;
        uint32_t number = enter(&walk, &model->plan.ops[i]);
        for (uint32_t k = 0; number > 0 && k < u->n; k++)
            weights_of(model)[u->weight[k]].streamed = number;
    }
    return walk.n_layers;
}

uint16_t halo_weight_stream_layer(const struct halo_weight *weight)
{
    unsigned number;
    if (weight->role != HALO_WEIGHT_MATRIX || weight->embed || sscanf(weight->name, "blk.%u.", &number) != 1 ||
        number >= HALO_MODEL_MAX_LAYERS)
        return HALO_NONE;
    return (uint16_t)number;
}

/* The products that read a weight: a layer that streams is there from the first of its products to the last one. */
static uint32_t count_products(const struct halo_plan *plan, uint32_t weight)
{
    uint32_t n = 0;
    for (const struct halo_op *op = plan->ops; op < plan->ops + plan->n_ops; op++)
        for (uint32_t k = 0; op->kind == HALO_OP_MATMUL && k < op->u.matmul.n; k++)
            n += op->u.matmul.weight[k] == weight;
    return n;
}

uint32_t halo_model_stream_layers(struct halo_model *model, const bool is_streamed[HALO_MODEL_MAX_LAYERS])
{
    uint32_t n_layers = 0, n_parts = 0;
    uint16_t layer = HALO_NONE;
    make_resident(model);
    for (uint32_t i = 0; i < model->plan.n_weights; i++) {
        uint16_t number = halo_weight_stream_layer(&model->plan.weights[i]);
        if (number == HALO_NONE || !is_streamed[number])
            continue;
        bool is_in_order = layer == HALO_NONE || number >= layer;
        n_parts = number == layer ? n_parts + 1 : 1;
        n_layers += number != layer;
        layer = number;
        weights_of(model)[i].streamed = n_layers;
        if (!is_in_order || n_parts > HALO_LAYER_PARTS || count_products(&model->plan, i) != 1) {
            make_resident(model);
            return 0;
        }
    }
    return n_layers;
}
