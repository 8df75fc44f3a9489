/* output.c: what a batch returns: rows of logits, lists of the largest, or some of both.
 *
 * The GPU writes all rows to one buffer and makes the lists from them. An integrated GPU writes to memory that the host
 * reads; from a discrete one only what is wanted is copied. Device thread; allocates nothing.
 */
#include <errno.h>
#include <string.h>

#include "run_priv.h"

/* The next outputs from *at on, one after the other, whose rows are wanted: how many; 0: none are left. */
static uint32_t next_rows(const struct halo_batch *batch, uint32_t *at)
{
    uint32_t n = 0;
    while (*at < batch->n_outputs && batch->n_top > 0 && !batch->whole[*at])
        ++*at;
    while (*at + n < batch->n_outputs && (batch->n_top == 0 || batch->whole[*at + n]))
        n++;
    return n;
}

static size_t list_bytes(const struct halo_batch *batch)
{
    return (size_t)batch->n_outputs * batch->n_top * sizeof(struct halo_candidate);
}

uint64_t halo_hip_top_left(uint32_t n_vocab)
{
    uint64_t n = n_vocab, left = 0;
    while (n > HALO_TOP_PART) {
        n = HALO_HIP_CEIL(n, HALO_TOP_PART) * HALO_CANDIDATES_MAX;
        left += n;
    }
    return left;
}

int halo_hip_find_top(struct halo_hip_run *run)
{
    struct halo_device_model *model = run->model;
    const struct halo_batch *batch = run->batch;
    struct halo_candidate *left = model->scratch.left;
    struct halo_top_args args = {.logits = model->logits_device, .n = model->plan->n_vocab, .k = batch->n_top};
    uint32_t n_parts = 0;
    int r = 0, variant = args.k == 1 ? model->program.largest : model->program.top;
    if (batch->n_top > 0 && variant < 0)
        return halo_reason(run->reason, -ENOTSUP, "%s has no kernel for lists of the %u largest logits",
                           model->device->kernels_path, batch->n_top);
    while (batch->n_top > 0 && batch->n_outputs > 0 && n_parts != 1 && !r) {
        n_parts = args.k == 1 ? 1 : HALO_HIP_CEIL(args.n, HALO_TOP_PART);
        args.to = n_parts == 1 ? model->top_device : left;
        r = halo_hip_launch(run, (uint32_t)variant, (struct halo_hip_grid){n_parts, batch->n_outputs, 1}, &args);
        args.logits = NULL;
        args.from = args.to;
        args.n = n_parts * args.k;
        left += (size_t)batch->n_outputs * args.n;
    }
    return r;
}

static int copy_back(struct halo_hip_run *run, void *host, const void *from, size_t n_bytes)
{
    struct halo_device *device = run->model->device;
    return halo_hip_check(device, device->api.MemcpyAsync(host, from, n_bytes, HIP_COPY_TO_HOST, device->stream),
                          "copying logits", run->reason);
}

int halo_hip_outputs_copy(struct halo_hip_run *run)
{
    struct halo_device_model *model = run->model;
    size_t n_vocab = model->plan->n_vocab;
    int r = 0;
    if (model->device->properties.integrated)
        return 0;
    for (uint32_t at = 0, n; (n = next_rows(run->batch, &at)) > 0 && !r; at += n)
        r = copy_back(run, model->logits_host + at * n_vocab, model->logits_device + at * n_vocab,
                      n * n_vocab * sizeof(float));
    if (!r && list_bytes(run->batch) > 0)
        r = copy_back(run, model->top_host, model->top_device, list_bytes(run->batch));
    return r;
}

void halo_hip_outputs_take(const struct halo_hip_run *run)
{
    const struct halo_device_model *model = run->model;
    const struct halo_batch *batch = run->batch;
    size_t n_vocab = model->plan->n_vocab;
    for (uint32_t at = 0, n; (n = next_rows(batch, &at)) > 0; at += n)
        memcpy(batch->logits + at * n_vocab, model->logits_host + at * n_vocab, n * n_vocab * sizeof(float));
    if (list_bytes(batch) > 0)
        memcpy(batch->top, model->top_host, list_bytes(batch));
}
