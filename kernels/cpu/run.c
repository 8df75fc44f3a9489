/* run.c: runs the ops of a plan for one batch, one after the other.
 *
 * Device thread. A batch is checked before anything is touched: a bad token, position or page is -EINVAL with the
 * numbers and leaves the model as it was. A streamed expert or layer that cannot be had ends the run with the error of
 * its source; the logits are not touched then. Allocates nothing.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include <common/check.h>
#include <common/clock.h>
#include <common/phase.h>
#include <cpu/cpu.h>

#include "device_priv.h"

static void (*const run_op[HALO_OP_COUNT])(struct halo_device_model *model, const struct halo_op *op) = {
    [HALO_OP_EMBED] = halo_cpu_op_embed,
    [HALO_OP_RMSNORM] = halo_cpu_op_rmsnorm,
    [HALO_OP_MATMUL] = halo_cpu_op_matmul,
    [HALO_OP_QK_NORM] = halo_cpu_op_qk_norm,
    [HALO_OP_ROPE] = halo_cpu_op_rope,
    [HALO_OP_KV_WRITE] = halo_cpu_op_kv_write,
    [HALO_OP_ATTEND] = halo_cpu_op_attend,
    [HALO_OP_GLU] = halo_cpu_op_glu,
    [HALO_OP_MOE_ROUTE] = halo_cpu_op_moe_route,
    [HALO_OP_MOE_MATMUL] = halo_cpu_op_moe_matmul,
    [HALO_OP_MOE_SUM] = halo_cpu_op_moe_sum,
    [HALO_OP_ADD] = halo_cpu_op_add,
    [HALO_OP_CONCAT] = halo_cpu_op_concat,
    [HALO_OP_LOGITS] = halo_cpu_op_logits,
    [HALO_OP_STREAMS_MIX] = halo_cpu_op_streams_mix,
    [HALO_OP_STREAMS_ADD] = halo_cpu_op_streams_add,
    [HALO_OP_COMPRESS] = halo_cpu_op_compress,
    [HALO_OP_BLOCKS_CHOOSE] = halo_cpu_op_blocks_choose,
    [HALO_OP_ATTEND_BLOCKS] = halo_cpu_op_attend_blocks,
    [HALO_OP_CONV1D] = halo_cpu_op_conv1d,
    [HALO_OP_SSM_SCAN] = halo_cpu_op_ssm_scan,
    [HALO_OP_DELTA_RULE] = halo_cpu_op_delta_rule,
};

int halo_cpu_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                 char *reason)
{
    const struct halo_plan *plan = model->plan;
    if (!model->sealed)
        return halo_reason(reason, -EINVAL, "the model is not sealed");
    int r = halo_batch_check(plan, batch, reason);
    if (!r && batch->n_top > 0)
        r = halo_reason(reason, -ENOTSUP, "lists of the %u largest logits: the cpu device returns whole rows",
                        batch->n_top);
    if (r || batch->n_rows == 0)
        return r;
    model->batch = batch;
    model->n_rows = batch->n_rows;
    model->experts.error = 0;
    model->experts.reason = reason;
    model->experts.phase = phase;
    halo_cpu_rope_tables(model);
    halo_cpu_hop_take(model);
    halo_workers_keep_awake(model->device->workers, model->experts.n_layers > 0);
    uint64_t before = halo_monotonic_ns();
    for (uint32_t i = 0; i < plan->n_ops && !model->experts.error; i++) {
        const struct halo_op *op = &plan->ops[i];
        halo_phase_publish(phase, halo_op_name(op->kind), i);
        if (!halo_cpu_layer_enter(model, op))
            break;
        run_op[op->kind](model, op);
        halo_cpu_layer_leave(model, op);
        uint64_t after = halo_monotonic_ns();
        model->op_ns[op->kind] += after - before;
        before = after;
    }
    halo_cpu_experts_release(model);
    halo_workers_keep_awake(model->device->workers, false);
    halo_cpu_hop_leave(model);
    model->batch = NULL;
    return model->experts.error;
}

int halo_cpu_peek(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason)
{
    if (value >= model->plan->n_values || row >= model->n_rows)
        return halo_reason(reason, -EINVAL, "value %u of row %u: the last run had %u values and %u rows", value, row,
                           model->plan->n_values, model->n_rows);
    memcpy(ret, halo_cpu_row(model, value, row), model->scratch.values[value].width * sizeof(*ret));
    return 0;
}

void halo_cpu_profile(const struct halo_device_model *model, uint64_t ret_ns[HALO_OP_COUNT])
{
    memcpy(ret_ns, model->op_ns, sizeof(model->op_ns));
}
