/* streamed.c: see streamed.h. */
#include <model/streamed.h>

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
