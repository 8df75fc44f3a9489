/* op_parts.c: what each op reads, writes and names (contract in op_parts.h). */
#include <common/op_parts.h>

#define INPUTS(...) ((struct halo_op_values){{__VA_ARGS__}})

struct halo_op_values halo_op_inputs(const struct halo_op *op)
{
    switch (op->kind) {
    case HALO_OP_RMSNORM: return INPUTS(op->u.rmsnorm.x, op->u.rmsnorm.add, HALO_NONE, HALO_NONE);
    case HALO_OP_MATMUL: return INPUTS(op->u.matmul.x, HALO_NONE, HALO_NONE, HALO_NONE);
    case HALO_OP_QK_NORM: return INPUTS(op->u.qk_norm.q, op->u.qk_norm.k, HALO_NONE, HALO_NONE);
    case HALO_OP_ROPE: return INPUTS(op->u.rope.q, op->u.rope.k, HALO_NONE, HALO_NONE);
    case HALO_OP_KV_WRITE: return INPUTS(op->u.kv_write.k, op->u.kv_write.v, HALO_NONE, HALO_NONE);
    case HALO_OP_ATTEND: return INPUTS(op->u.attend.q, HALO_NONE, HALO_NONE, HALO_NONE);
    case HALO_OP_GLU: return INPUTS(op->u.glu.gate, op->u.glu.up, HALO_NONE, HALO_NONE);
    case HALO_OP_MOE_ROUTE: return INPUTS(op->u.moe_route.logits, HALO_NONE, HALO_NONE, HALO_NONE);
    case HALO_OP_MOE_MATMUL: return INPUTS(op->u.moe_matmul.x, op->u.moe_matmul.choice, HALO_NONE, HALO_NONE);
    case HALO_OP_MOE_SUM:
        return INPUTS(op->u.moe_sum.x, op->u.moe_sum.choice, op->u.moe_sum.add, op->u.moe_sum.add_gate);
    case HALO_OP_CONCAT: return INPUTS(op->u.concat.a, op->u.concat.b, HALO_NONE, HALO_NONE);
    case HALO_OP_SSM_SCAN: return INPUTS(op->u.ssm_scan.xbc, op->u.ssm_scan.dt, HALO_NONE, HALO_NONE);
    case HALO_OP_CONV1D: return INPUTS(op->u.conv1d.x, HALO_NONE, HALO_NONE, HALO_NONE);
    case HALO_OP_DELTA_RULE:
        return INPUTS(op->u.delta_rule.qkv, op->u.delta_rule.alpha, op->u.delta_rule.beta, HALO_NONE);
    case HALO_OP_STREAMS_MIX: return INPUTS(op->u.streams_mix.x, op->u.streams_mix.mix, HALO_NONE, HALO_NONE);
    case HALO_OP_STREAMS_ADD:
        return INPUTS(op->u.streams_add.x, op->u.streams_add.back, op->u.streams_add.add, HALO_NONE);
    case HALO_OP_COMPRESS: return INPUTS(op->u.compress.u, op->u.compress.z, HALO_NONE, HALO_NONE);
    case HALO_OP_BLOCKS_CHOOSE: return INPUTS(op->u.blocks_choose.q, op->u.blocks_choose.weight, HALO_NONE, HALO_NONE);
    case HALO_OP_ATTEND_BLOCKS: return INPUTS(op->u.attend_blocks.q, op->u.attend_blocks.chosen, HALO_NONE, HALO_NONE);
    case HALO_OP_ADD: return INPUTS(op->u.add.x, op->u.add.add, HALO_NONE, HALO_NONE);
    case HALO_OP_LOGITS: return INPUTS(op->u.logits.x, HALO_NONE, HALO_NONE, HALO_NONE);
    case HALO_OP_EMBED:
    case HALO_OP_COUNT: break;
    }
    return INPUTS(HALO_NONE, HALO_NONE, HALO_NONE, HALO_NONE);
}

struct halo_op_values halo_op_outputs(const struct halo_op *op)
{
    struct halo_op_values ret = {{HALO_NONE, HALO_NONE, HALO_NONE, HALO_NONE}};
    switch (op->kind) {
    case HALO_OP_EMBED: ret.value[0] = op->u.embed.out; break;
    case HALO_OP_RMSNORM:
        ret.value[0] = op->u.rmsnorm.out;
        ret.value[1] = op->u.rmsnorm.add == HALO_NONE ? HALO_NONE : op->u.rmsnorm.x;
        break;
    case HALO_OP_MATMUL:
        for (uint32_t k = 0; k < op->u.matmul.n; k++)
            ret.value[k] = op->u.matmul.out[k];
        break;
    case HALO_OP_QK_NORM:
        ret.value[0] = op->u.qk_norm.q;
        ret.value[1] = op->u.qk_norm.k;
        break;
    case HALO_OP_ROPE:
        ret.value[0] = op->u.rope.q;
        ret.value[1] = op->u.rope.k;
        break;
    case HALO_OP_ATTEND: ret.value[0] = op->u.attend.out; break;
    case HALO_OP_GLU:
        ret.value[0] = op->u.glu.out;
        ret.value[1] = op->u.glu.limit > 0 ? op->u.glu.gate : HALO_NONE;
        ret.value[2] = op->u.glu.limit > 0 ? op->u.glu.up : HALO_NONE;
        break;
    case HALO_OP_MOE_ROUTE: ret.value[0] = op->u.moe_route.choice; break;
    case HALO_OP_MOE_MATMUL:
        for (uint32_t k = 0; k < op->u.moe_matmul.n; k++)
            ret.value[k] = op->u.moe_matmul.out[k];
        break;
    case HALO_OP_MOE_SUM: ret.value[0] = op->u.moe_sum.out; break;
    case HALO_OP_ADD: ret.value[0] = op->u.add.x; break;
    case HALO_OP_CONCAT: ret.value[0] = op->u.concat.out; break;
    case HALO_OP_CONV1D: ret.value[0] = op->u.conv1d.out; break;
    case HALO_OP_SSM_SCAN: ret.value[0] = op->u.ssm_scan.out; break;
    case HALO_OP_DELTA_RULE: ret.value[0] = op->u.delta_rule.out; break;
    case HALO_OP_STREAMS_MIX:
        ret.value[0] = op->u.streams_mix.out;
        ret.value[1] = op->u.streams_mix.back;
        break;
    case HALO_OP_STREAMS_ADD: ret.value[0] = op->u.streams_add.x; break;
    case HALO_OP_COMPRESS: ret.value[0] = op->u.compress.u; break;
    case HALO_OP_BLOCKS_CHOOSE: ret.value[0] = op->u.blocks_choose.out; break;
    case HALO_OP_ATTEND_BLOCKS: ret.value[0] = op->u.attend_blocks.out; break;
    case HALO_OP_KV_WRITE:
    case HALO_OP_LOGITS:
    case HALO_OP_COUNT: break;
    }
    return ret;
}

bool halo_op_reads(const struct halo_op *op, uint16_t value)
{
    const struct halo_op_values in = halo_op_inputs(op);
    for (uint32_t i = 0; i < HALO_OP_VALUES; i++)
        if (in.value[i] == value)
            return true;
    return false;
}

bool halo_op_writes(const struct halo_op *op, uint16_t value)
{
    const struct halo_op_values out = halo_op_outputs(op);
    for (uint32_t i = 0; i < HALO_OP_VALUES; i++)
        if (out.value[i] == value)
            return true;
    return false;
}

/* Lists of addresses of fields. */
#define LIST(...)                                                                                                      \
    do {                                                                                                               \
        uint32_t *const list_[] = {__VA_ARGS__};                                                                       \
        uint32_t n_ = sizeof(list_) / sizeof(list_[0]);                                                                \
        for (uint32_t i_ = 0; i_ < n_; i_++)                                                                           \
            ret[i_] = list_[i_];                                                                                       \
        return n_;                                                                                                     \
    } while (0)

static uint32_t pairs(uint32_t *weight, uint32_t *bias, uint32_t n, uint32_t *ret[HALO_OP_WEIGHTS])
{
    for (uint32_t k = 0; k < n; k++) {
        ret[2 * k] = &weight[k];
        ret[2 * k + 1] = &bias[k];
    }
    return 2 * n;
}

uint32_t halo_op_weights(struct halo_op *op, uint32_t *ret[HALO_OP_WEIGHTS])
{
    switch (op->kind) {
    case HALO_OP_EMBED: LIST(&op->u.embed.weight);
    case HALO_OP_RMSNORM: LIST(&op->u.rmsnorm.weight, &op->u.rmsnorm.bias);
    case HALO_OP_MATMUL: return pairs(op->u.matmul.weight, op->u.matmul.bias, op->u.matmul.n, ret);
    case HALO_OP_QK_NORM: LIST(&op->u.qk_norm.q_weight, &op->u.qk_norm.k_weight);
    case HALO_OP_ATTEND: LIST(&op->u.attend.sinks);
    case HALO_OP_MOE_ROUTE: LIST(&op->u.moe_route.bias);
    case HALO_OP_MOE_MATMUL: return pairs(op->u.moe_matmul.weight, op->u.moe_matmul.bias, op->u.moe_matmul.n, ret);
    case HALO_OP_LOGITS: LIST(&op->u.logits.weight, &op->u.logits.bias);
    case HALO_OP_CONV1D: LIST(&op->u.conv1d.weight, &op->u.conv1d.bias);
    case HALO_OP_DELTA_RULE: LIST(&op->u.delta_rule.a, &op->u.delta_rule.dt_bias);
    case HALO_OP_SSM_SCAN: LIST(&op->u.ssm_scan.a, &op->u.ssm_scan.d, &op->u.ssm_scan.dt_bias);
    case HALO_OP_STREAMS_MIX: LIST(&op->u.streams_mix.scale, &op->u.streams_mix.base);
    case HALO_OP_COMPRESS: LIST(&op->u.compress.bias, &op->u.compress.norm);
    case HALO_OP_ATTEND_BLOCKS: LIST(&op->u.attend_blocks.sinks);
    case HALO_OP_ROPE:
    case HALO_OP_KV_WRITE:
    case HALO_OP_GLU:
    case HALO_OP_MOE_SUM:
    case HALO_OP_ADD:
    case HALO_OP_CONCAT:
    case HALO_OP_STREAMS_ADD:
    case HALO_OP_BLOCKS_CHOOSE:
    case HALO_OP_COUNT: break;
    }
    return 0;
}

static struct halo_op_layer state_layer(struct halo_state_part *state)
{
    return (struct halo_op_layer){&state->kv_group, &state->kv_layer};
}

uint32_t halo_op_layers(struct halo_op *op, struct halo_op_layer ret[HALO_OP_LAYERS])
{
    switch (op->kind) {
    case HALO_OP_KV_WRITE:
        ret[0] = (struct halo_op_layer){&op->u.kv_write.kv_group, &op->u.kv_write.kv_layer};
        return 1;
    case HALO_OP_ATTEND: ret[0] = (struct halo_op_layer){&op->u.attend.kv_group, &op->u.attend.kv_layer}; return 1;
    case HALO_OP_BLOCKS_CHOOSE:
        ret[0] = (struct halo_op_layer){&op->u.blocks_choose.kv_group, &op->u.blocks_choose.kv_layer};
        return 1;
    case HALO_OP_CONV1D: ret[0] = state_layer(&op->u.conv1d.state); return 1;
    case HALO_OP_DELTA_RULE: ret[0] = state_layer(&op->u.delta_rule.state); return 1;
    case HALO_OP_SSM_SCAN: ret[0] = state_layer(&op->u.ssm_scan.state); return 1;
    case HALO_OP_COMPRESS:
        ret[0] = (struct halo_op_layer){&op->u.compress.kv_group, &op->u.compress.kv_layer};
        ret[1] = state_layer(&op->u.compress.state);
        return 2;
    case HALO_OP_ATTEND_BLOCKS:
        ret[0] = (struct halo_op_layer){&op->u.attend_blocks.kv_group, &op->u.attend_blocks.kv_layer};
        ret[1] = (struct halo_op_layer){&op->u.attend_blocks.block_group, &op->u.attend_blocks.block_layer};
        return 2;
    default: return 0;
    }
}
