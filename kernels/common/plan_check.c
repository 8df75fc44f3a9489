/* plan_check.c: whether the values, weights and shapes of an op fit each other (contract in check.h). The creation of a
 * model checks every op, so that the op functions check nothing again. */
#include "check_priv.h"

#include <errno.h>

#include <common/reason.h>

int halo_plan_check(const struct halo_plan *plan, uint32_t index, const struct halo_plan_limits *limits, char *reason)
{
    const struct halo_op *op = &plan->ops[index];
    switch (op->kind) {
#define CASE(id, name)                                                                                                 \
    case HALO_OP_##id: return halo_check_##name(&(struct halo_check){plan, limits, #name, reason}, &op->u.name)
        CASE(EMBED, embed);
        CASE(RMSNORM, rmsnorm);
        CASE(MATMUL, matmul);
        CASE(QK_NORM, qk_norm);
        CASE(ROPE, rope);
        CASE(KV_WRITE, kv_write);
        CASE(ATTEND, attend);
        CASE(GLU, glu);
        CASE(MOE_ROUTE, moe_route);
        CASE(MOE_MATMUL, moe_matmul);
        CASE(MOE_SUM, moe_sum);
        CASE(ADD, add);
        CASE(LOGITS, logits);
        CASE(CONCAT, concat);
        CASE(CONV1D, conv1d);
        CASE(SSM_SCAN, ssm_scan);
        CASE(DELTA_RULE, delta_rule);
        CASE(STREAMS_MIX, streams_mix);
        CASE(STREAMS_ADD, streams_add);
        CASE(COMPRESS, compress);
        CASE(BLOCKS_CHOOSE, blocks_choose);
        CASE(ATTEND_BLOCKS, attend_blocks);
#undef CASE
    case HALO_OP_COUNT: break;
    }
    return halo_reason(reason, -ENOTSUP, "op %u has no kernel", (unsigned)op->kind);
}
