/* placement_parts.c: what the weights of a plan are for, and how many bytes of them a token reads. */
#include "placement_priv.h"

#include <stdio.h>
#include <string.h>

#include <model/streamed.h>

const char *halo_placed_name(enum halo_placed placed)
{
    switch (placed) {
    case HALO_PLACED_ATTENTION: return "attention";
    case HALO_PLACED_FEED_FORWARD: return "feed_forward";
    case HALO_PLACED_NORMS: return "norms";
    case HALO_PLACED_ROUTERS: return "routers";
    case HALO_PLACED_SHARED: return "shared_experts";
    case HALO_PLACED_EMBEDDING: return "embedding";
    case HALO_PLACED_OUTPUT: return "output";
    case HALO_PLACED_EXPERTS: return "experts";
    case HALO_PLACED_KINDS: break;
    }
    return "unknown";
}

/* The op that reads a weight by the choice of a router; NULL: none does. */
static const struct halo_op *routed_by(const struct halo_plan *plan, uint32_t index)
{
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        if (op->kind != HALO_OP_MOE_MATMUL || op->u.moe_matmul.choice == HALO_NONE)
            continue;
        for (uint16_t k = 0; k < op->u.moe_matmul.n; k++)
            if (op->u.moe_matmul.weight[k] == index)
                return op;
    }
    return NULL;
}

static bool makes_logits(const struct halo_plan *plan, uint32_t index)
{
    for (uint32_t i = plan->n_ops; i > 0; i--)
        if (plan->ops[i - 1].kind == HALO_OP_LOGITS)
            return plan->ops[i - 1].u.logits.weight == index;
    return false;
}

/* Of weights that no router chooses. The names are those of the GGUF format. */
static enum halo_placed placed_of(const struct halo_weight *weight, bool is_output)
{
    if (weight->embed)
        return HALO_PLACED_EMBEDDING;
    if (is_output)
        return HALO_PLACED_OUTPUT;
    if (weight->role == HALO_WEIGHT_VECTOR)
        return HALO_PLACED_NORMS;
    if (strstr(weight->name, "_shexp"))
        return HALO_PLACED_SHARED;
    if (strstr(weight->name, ".ffn_gate_inp."))
        return HALO_PLACED_ROUTERS;
    return strstr(weight->name, ".ffn_") ? HALO_PLACED_FEED_FORWARD : HALO_PLACED_ATTENTION;
}

static double bits_of(enum halo_type type)
{
    struct halo_type_info info = halo_type_info(type);
    return 8.0 * info.block_bytes / info.block_weights;
}

static uint64_t bytes_as(const struct halo_weight *weight, enum halo_type type)
{
    if (type == HALO_TYPE_END || weight->role == HALO_WEIGHT_VECTOR || bits_of(weight->type) <= bits_of(type) ||
        weight->n_cols % halo_type_info(type).block_weights != 0)
        return weight->n_bytes;
    return halo_type_row_bytes(type, weight->n_cols) * weight->n_rows * weight->n_experts;
}

static void add_experts(const struct halo_weight *weight, const struct halo_op *op, uint64_t n_bytes,
                        struct halo_parts_layer *layer)
{
    const struct halo_op_moe_matmul *matmul = &op->u.moe_matmul;
    layer->n_expert = weight->n_experts;
    layer->n_used = matmul->n_used;
    layer->n_pieces++;
    uint64_t piece = n_bytes / weight->n_experts;
    layer->expert_bytes += piece;
    layer->slot_bytes += (piece + 2 * HALO_PLACEMENT_BLOCK - 2) / HALO_PLACEMENT_BLOCK * HALO_PLACEMENT_BLOCK;
    if (!matmul->per_slot) /* the experts' results are the input of the other product */
        layer->first_bytes += piece;
}

void halo_parts_of(const struct halo_plan *plan, enum halo_type type, struct halo_parts *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *weight = &plan->weights[i];
        const struct halo_op *routed = weight->role == HALO_WEIGHT_EXPERTS ? routed_by(plan, i) : NULL;
        uint64_t n_bytes = bytes_as(weight, type);
        unsigned number;
        struct halo_parts_layer *layer = NULL;
        if (sscanf(weight->name, "blk.%u.", &number) == 1 && number < HALO_MODEL_MAX_LAYERS) {
            layer = &ret->layers[number];
            ret->n_layers = number + 1 > ret->n_layers ? number + 1 : ret->n_layers;
        }
        if (routed && layer) {
            ret->bytes[HALO_PLACED_EXPERTS] += n_bytes;
            ret->expert_bytes += n_bytes / weight->n_experts * routed->u.moe_matmul.n_used;
            add_experts(weight, routed, n_bytes, layer);
            continue;
        }
        bool is_output = makes_logits(plan, i);
        enum halo_placed placed = placed_of(weight, is_output);
        ret->bytes[placed] += n_bytes;
        ret->always_bytes += weight->embed && !is_output ? n_bytes / weight->n_rows : n_bytes;
        if (layer)
            layer->always_bytes += n_bytes;
        if (layer && halo_weight_stream_layer(weight) != HALO_NONE) {
            layer->matrix_bytes += n_bytes;
            layer->n_matrices++;
            layer->ff_bytes += placed == HALO_PLACED_FEED_FORWARD ? n_bytes : 0;
        }
    }
}
