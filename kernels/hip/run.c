/* run.c: runs a model's program for one batch.
 *
 * A batch is checked before anything is touched. Its inputs go to one of two sets, so that the host can fill the next
 * while the GPU still reads this one; a set is reused after the event of its last run. A decode step of few rows is
 * one graph (graph.c). Without wanted logits the call returns when everything is queued: the next chunk of a prompt is
 * prepared meanwhile, and a failure is reported by the call that meets it; but with streamed weights and as a stage it
 * waits for the end, after which nothing reads them and the next stage has its rows. Device thread; allocates nothing.
 */
#include <errno.h>
#include <stdio.h>

#include <common/check.h>
#include <common/phase.h>

#include "run_priv.h"

/* Fills a set that the GPU no longer reads, and copies it to a discrete GPU. */
static int bring_inputs(struct halo_hip_run *run, struct halo_hip_input *input)
{
    struct halo_device *device = run->model->device;
    int r = 0;
    if (input->busy) {
        halo_phase_publish(run->phase, "waiting for the step before the last", run->op);
        r = halo_hip_wait(device, input->event, "the step before the last", run->reason);
        input->busy = false;
    }
    if (r)
        return r;
    halo_hip_input_fill(run, input->host, input->device);
    if (device->properties.integrated)
        return 0;
    halo_phase_publish(run->phase, "copying inputs", run->op);
    return halo_hip_check(
        device,
        device->api.MemcpyAsync(input->device, input->host, run->in.n_bytes, HIP_COPY_TO_DEVICE, device->stream),
        "copying inputs", run->reason);
}

/* Makes the wanted lists, and waits for the results. */
static int bring_outputs(struct halo_hip_run *run, struct halo_hip_input *input)
{
    struct halo_device *device = run->model->device;
    int r = halo_hip_find_top(run);
    if (!r)
        r = halo_hip_hop_leave(run);
    if (!r)
        r = halo_hip_outputs_copy(run);
    if (!r)
        r = halo_hip_check(device, device->api.EventRecord(input->event, device->stream), "recording the end of a step",
                           run->reason);
    if (r)
        return r;
    input->busy = true;
    if (run->batch->n_outputs == 0 && run->model->experts.n_layers == 0 && !halo_hip_is_stage(run->model->plan))
        return 0;
    r = halo_hip_layer_release(run); /* the drive goes on while the rest is computed */
    if (r)
        return r;
    char what[64];
    snprintf(what, sizeof(what), "a step of %u rows", run->n_rows);
    halo_phase_publish(run->phase, "waiting for the GPU", run->op);
    if (halo_hip_graph_fits(run))
        r = halo_hip_wait_like(device, input->event, &halo_hip_graph_of(run)->took_ns, what, run->reason);
    else
        r = halo_hip_wait(device, input->event, what, run->reason);
    input->busy = false;
    if (!r) {
        halo_hip_outputs_take(run);
        halo_hip_hop_bring(run);
    }
    return r;
}

/* Replays the graph of the batch's class, or launches its kernels one by one. */
static int launch_all(struct halo_hip_run *run)
{
    struct halo_hip_graph *graph = halo_hip_graph_fits(run) ? halo_hip_graph_of(run) : NULL;
    struct halo_device *device = run->model->device;
    /* A discrete GPU has one copy of the inputs for both sets. */
    void *exec = graph ? graph->exec[device->properties.integrated ? run->model->set : 0] : NULL;
    if (!exec || !graph->warm) {
        int r = halo_hip_replay(run);
        if (graph)
            graph->warm = !r;
        return r;
    }
    halo_phase_publish(run->phase, "replaying a step", 0);
    return halo_hip_check(device, device->api.GraphLaunch(exec, run->stream), "replaying a step", run->reason);
}

/* What the lists of largest logits need besides the batch itself. */
static int check_top(const struct halo_batch *batch, char *reason)
{
    if (batch->n_top > HALO_CANDIDATES_MAX)
        return halo_reason(reason, -EINVAL, "lists of the %u largest logits: at most %d", batch->n_top,
                           HALO_CANDIDATES_MAX);
    if (batch->n_top > 0 && (!batch->top || !batch->whole))
        return halo_reason(reason, -EINVAL, "lists of the %u largest logits without memory for them", batch->n_top);
    return 0;
}

/* Lets go of the last layer's experts. After a failure kernels may still read them. Returns the run's result. */
static int end_experts(struct halo_device_model *model, int r)
{
    char reason[HALO_DEVICE_REASON];
    int drained =
        r && !atomic_load(&model->device->lost) ? halo_hip_drain(model->device, "the rest of a step", reason) : 0;
    halo_hip_experts_release(model);
    return r ? r : drained;
}

int halo_hip_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                 char *reason)
{
    const struct halo_plan *plan = model->plan;
    int r = halo_hip_usable(model->device, reason);
    if (r)
        return r;
    if (!model->sealed)
        return halo_reason(reason, -EINVAL, "the model is not sealed");
    r = halo_batch_check(plan, batch, reason);
    if (!r && batch->n_seqs > HALO_HIP_SEQUENCES_MAX)
        r = halo_reason(reason, -EINVAL, "a batch of %u sequences, the hip device takes at most %u", batch->n_seqs,
                        (unsigned)HALO_HIP_SEQUENCES_MAX);
    if (!r)
        r = check_top(batch, reason);
    if (r || batch->n_rows == 0)
        return r;
    struct halo_hip_run run;
    halo_hip_run_init(&run, model, batch, phase, reason);
    model->set ^= 1;
    r = bring_inputs(&run, &model->input[model->set]);
    if (!r)
        r = halo_hip_hop_take(&run);
    if (!r)
        r = launch_all(&run);
    model->n_rows = batch->n_rows;
    if (!r)
        r = bring_outputs(&run, &model->input[model->set]);
    if (model->experts.n_layers > 0)
        r = end_experts(model, r);
    return r;
}

int halo_hip_peek(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason)
{
    struct halo_device *device = model->device;
    int r = halo_hip_usable(device, reason);
    if (r)
        return r;
    if (value >= model->plan->n_values || row >= model->n_rows)
        return halo_reason(reason, -EINVAL, "value %u of row %u: the last run had %u values and %u rows", value, row,
                           model->plan->n_values, model->n_rows);
    uint32_t width = model->plan->values[value].width;
    const float *from = halo_hip_value(model, value) + (uint64_t)row * width;
    r = halo_hip_check(device,
                       device->api.MemcpyAsync(ret, from, width * sizeof(*ret), HIP_COPY_TO_HOST, device->stream),
                       "copying a value", reason);
    return r ? r : halo_hip_drain(device, "copying a value", reason);
}
