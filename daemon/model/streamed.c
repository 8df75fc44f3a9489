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

uint32_t halo_model_stream_experts(struct halo_model *model, bool streamed)
{
    uint32_t n_layers = 0, n_parts = 0, layer = HALO_NONE;
    make_resident(model);
    for (uint32_t i = 0; i < model->plan.n_ops && streamed; i++) {
        const struct halo_op *op = &model->plan.ops[i];
        if (op->kind != HALO_OP_MOE_MATMUL || op->u.moe_matmul.choice == HALO_NONE)
            continue;
        if (n_layers == 0 || op->layer != layer) {
            layer = op->layer;
            n_layers++;
            n_parts = 0;
        }
        for (uint32_t k = 0; k < op->u.moe_matmul.n; k++, n_parts++)
            weights_of(model)[op->u.moe_matmul.weight[k]].streamed = n_layers;
        if (n_parts > HALO_EXPERT_PARTS) {
            make_resident(model);
            return 0;
        }
    }
    return n_layers;
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
