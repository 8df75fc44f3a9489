/* run.c: runs the ops of a plan for one batch, one after the other.
 *
 * Device thread. A batch is checked before anything is touched: a bad token, position or page is -EINVAL with the
 * numbers and leaves the model as it was. Allocates nothing.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "device_priv.h"
#include <cpu/cpu.h>

static void (*const run_op[HALO_OP_COUNT])(struct halo_device_model *model, const struct halo_op *op) = {
    [HALO_OP_EMBED] = halo_cpu_op_embed,         [HALO_OP_RMSNORM] = halo_cpu_op_rmsnorm,
    [HALO_OP_MATMUL] = halo_cpu_op_matmul,       [HALO_OP_QK_NORM] = halo_cpu_op_qk_norm,
    [HALO_OP_ROPE] = halo_cpu_op_rope,           [HALO_OP_KV_WRITE] = halo_cpu_op_kv_write,
    [HALO_OP_ATTEND] = halo_cpu_op_attend,       [HALO_OP_GLU] = halo_cpu_op_glu,
    [HALO_OP_MOE_ROUTE] = halo_cpu_op_moe_route, [HALO_OP_MOE_MATMUL] = halo_cpu_op_moe_matmul,
    [HALO_OP_MOE_SUM] = halo_cpu_op_moe_sum,     [HALO_OP_ADD] = halo_cpu_op_add,
    [HALO_OP_LOGITS] = halo_cpu_op_logits,
};

/* How the phase of each op is called. */
static const char *const op_name[HALO_OP_COUNT] = {
    "embed", "rmsnorm",   "matmul",     "qk_norm", "rope", "kv_write", "attend",
    "glu",   "moe_route", "moe_matmul", "moe_sum", "add",  "logits",
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int check_row(const struct halo_plan *plan, const struct halo_batch *batch, uint32_t r, char *reason)
{
    if (batch->token[r] < 0 || (uint32_t)batch->token[r] >= plan->n_vocab)
        return halo_cpu_reason(reason, -EINVAL, "row %u: token %d is outside the vocabulary of %u", r, batch->token[r],
                               plan->n_vocab);
    if (batch->seq[r] >= batch->n_seqs)
        return halo_cpu_reason(reason, -EINVAL, "row %u: sequence %u of %u", r, batch->seq[r], batch->n_seqs);
    if (batch->pos[r] < 0 || (uint32_t)batch->pos[r] >= plan->n_context)
        return halo_cpu_reason(reason, -EINVAL, "row %u: position %d is outside the context of %u", r, batch->pos[r],
                               plan->n_context);
    if ((uint32_t)batch->pos[r] / HALO_KV_PAGE_TOKENS >= batch->seqs[batch->seq[r]].n_pages)
        return halo_cpu_reason(reason, -EINVAL, "row %u: position %d has no page, the sequence has %u", r,
                               batch->pos[r], batch->seqs[batch->seq[r]].n_pages);
    if (r > 0 && batch->seq[r] == batch->seq[r - 1] && batch->pos[r] <= batch->pos[r - 1])
        return halo_cpu_reason(reason, -EINVAL, "row %u: position %d after %d", r, batch->pos[r], batch->pos[r - 1]);
    return 0;
}

static int check_batch(const struct halo_plan *plan, const struct halo_batch *batch, char *reason)
{
    if (batch->n_rows > plan->max_rows || batch->n_outputs > plan->max_outputs)
        return halo_cpu_reason(reason, -EINVAL, "a batch of %u rows and %u outputs, the plan allows %u and %u",
                               batch->n_rows, batch->n_outputs, plan->max_rows, plan->max_outputs);
    if (batch->n_top > 0)
        return halo_cpu_reason(reason, -ENOTSUP, "lists of the %u largest: this device brings rows", batch->n_top);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        int error = check_row(plan, batch, r, reason);
        if (error)
            return error;
    }
    for (uint32_t s = 0; s < batch->n_seqs; s++)
        for (uint32_t i = 0; i < batch->seqs[s].n_pages; i++)
            if (batch->seqs[s].pages[i] >= plan->kv.n_pages)
                return halo_cpu_reason(reason, -EINVAL, "sequence %u: page %u of a pool of %u", s,
                                       batch->seqs[s].pages[i], plan->kv.n_pages);
    for (uint32_t i = 0; i < batch->n_outputs; i++)
        if (batch->output[i] >= batch->n_rows)
            return halo_cpu_reason(reason, -EINVAL, "output %u: row %u of %u", i, batch->output[i], batch->n_rows);
    return 0;
}

static void publish(struct halo_device_phase *phase, const char *what, uint32_t op)
{
    if (!phase)
        return;
    atomic_store_explicit(&phase->what, what, memory_order_relaxed);
    atomic_store_explicit(&phase->op, op, memory_order_relaxed);
    atomic_fetch_add_explicit(&phase->step, 1, memory_order_release);
}

int halo_cpu_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                 char *reason)
{
    const struct halo_plan *plan = model->plan;
    if (!model->sealed)
        return halo_cpu_reason(reason, -EINVAL, "the model was not sealed");
    int r = check_batch(plan, batch, reason);
    if (r || batch->n_rows == 0)
        return r;
    model->batch = batch;
    model->n_rows = batch->n_rows;
    halo_cpu_rope_tables(model);
    uint64_t before = now_ns();
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        publish(phase, op_name[op->kind], i);
        run_op[op->kind](model, op);
        uint64_t after = now_ns();
        model->op_ns[op->kind] += after - before;
        before = after;
    }
    model->batch = NULL;
    return 0;
}

int halo_cpu_peek(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason)
{
    if (value >= model->plan->n_values || row >= model->n_rows)
        return halo_cpu_reason(reason, -EINVAL, "value %u of row %u: the last run had %u values and %u rows", value,
                               row, model->plan->n_values, model->n_rows);
    memcpy(ret, halo_cpu_row(model, value, row), model->scratch.values[value].width * sizeof(*ret));
    return 0;
}

void halo_cpu_profile(const struct halo_device_model *model, uint64_t ret_ns[HALO_OP_COUNT])
{
    memcpy(ret_ns, model->op_ns, sizeof(model->op_ns));
}
