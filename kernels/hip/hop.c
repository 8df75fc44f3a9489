/* hop.c: a stage of a pipeline: the rows that it takes and leaves, and digests of what its memory holds.
 *
 * Rows go through pinned memory, so that nothing waits but the end of the run. The digests are computed by the GPU, in
 * the order of the stream: of tokens, positions and places of pages as the kernels read them, of what was taken before
 * the first op, of what is left behind the last. Device thread; allocates nothing.
 */
#include <errno.h>
#include <string.h>

#include <kernels/digest.h>

#include "run_priv.h"

enum { ROWS, TAKEN, LEFT, N_DIGESTS };
#define SUMS (HALO_DIGEST_SPANS * HALO_DIGEST_BLOCKS) /* of a digest */

_Static_assert(HALO_HOP_VALUES <= HALO_DIGEST_SPANS, "one launch for all values of a hop");

bool halo_hip_is_stage(const struct halo_plan *plan)
{
    return plan->takes.n > 0 || plan->leaves.n > 0;
}

uint64_t halo_hip_hop_digests(const struct halo_plan *plan)
{
    return halo_hip_is_stage(plan) ? N_DIGESTS * SUMS : 0;
}

static uint64_t hop_bytes(const struct halo_plan *plan, const struct halo_hop *hop)
{
    uint64_t n = plan->max_rows * halo_hop_width(plan, hop) * sizeof(float);
    return (n + HALO_HIP_ALIGN - 1) / HALO_HIP_ALIGN * HALO_HIP_ALIGN;
}

uint64_t halo_hip_hop_bytes(const struct halo_plan *plan)
{
    return hop_bytes(plan, &plan->takes) + hop_bytes(plan, &plan->leaves) +
           halo_hip_hop_digests(plan) * sizeof(uint64_t);
}

void halo_hip_hop_place(struct halo_device_model *model, uint8_t *pinned)
{
    const struct halo_plan *plan = model->plan;
    model->taken = (float *)(void *)pinned;
    model->left = (float *)(void *)(pinned + hop_bytes(plan, &plan->takes));
    model->digests = (uint64_t *)(void *)(pinned + hop_bytes(plan, &plan->takes) + hop_bytes(plan, &plan->leaves));
}

static int find_digest(const struct halo_device *device)
{
    return halo_hip_kernel_find(device, HALO_HIP_DIGEST, HALO_HIP_TYPE_ANY, 1);
}

int halo_hip_hop_check(const struct halo_device *device, const struct halo_plan *plan, char *reason)
{
    if (!halo_hip_is_stage(plan) || find_digest(device) >= 0)
        return 0;
    return halo_reason(reason, -ENOTSUP, "%s has no digest kernel, which every stage needs", device->kernels_path);
}

/* Launches one of the digests over the lists that args has. */
static int launch_digest(struct halo_hip_run *run, uint32_t which, uint32_t n, struct halo_digest_args *args)
{
    args->to = run->model->scratch.digests + which * SUMS;
    return halo_hip_launch(run, (uint32_t)find_digest(run->model->device),
                           (struct halo_hip_grid){HALO_DIGEST_BLOCKS, n, 1}, args);
}

static int digest_rows(struct halo_hip_run *run)
{
    struct halo_digest_args args = {.from = {(const uint32_t *)(const void *)run->in.token,
                                             (const uint32_t *)(const void *)run->in.pos, run->in.page_first},
                                    .n = {run->n_rows, run->n_rows, run->n_rows}};
    return launch_digest(run, ROWS, 3, &args);
}

static int digest_hop(struct halo_hip_run *run, uint32_t which, const struct halo_hop *hop)
{
    struct halo_digest_args args = {0};
    for (uint32_t i = 0; i < hop->n; i++) {
        args.from[i] = (const uint32_t *)(const void *)halo_hip_value(run->model, hop->value[i]);
        args.n[i] = run->n_rows * run->model->plan->values[hop->value[i]].width;
    }
    return hop->n > 0 ? launch_digest(run, which, hop->n, &args) : 0;
}

/* The rows of all values between the GPU's memory and pinned memory. */
static int copy_hop(struct halo_hip_run *run, const struct halo_hop *hop, float *pinned, int direction)
{
    struct halo_device *device = run->model->device;
    bool down = direction == HIP_COPY_TO_HOST;
    int r = 0;
    for (uint32_t i = 0; i < hop->n && !r; i++) {
        float *value = halo_hip_value(run->model, hop->value[i]);
        size_t n = (size_t)run->n_rows * run->model->plan->values[hop->value[i]].width;
        r = halo_hip_check(device,
                           device->api.MemcpyAsync(down ? pinned : value, down ? value : pinned, n * sizeof(float),
                                                   direction, device->stream),
                           down ? "copying the rows that a stage leaves" : "copying the rows that a stage takes",
                           run->reason);
        pinned += n;
    }
    return r;
}

int halo_hip_hop_take(struct halo_hip_run *run)
{
    struct halo_device_model *model = run->model;
    const struct halo_plan *plan = model->plan;
    if (!halo_hip_is_stage(plan))
        return 0;
    if (plan->takes.n > 0) /* the run before has ended: it read them */
        memcpy(model->taken, run->batch->taken, run->n_rows * halo_hop_width(plan, &plan->takes) * sizeof(float));
    int r = copy_hop(run, &plan->takes, model->taken, HIP_COPY_TO_DEVICE);
    r = r ? r : digest_rows(run);
    return r ? r : digest_hop(run, TAKEN, &plan->takes);
}

int halo_hip_hop_leave(struct halo_hip_run *run)
{
    struct halo_device_model *model = run->model;
    struct halo_device *device = model->device;
    if (!halo_hip_is_stage(model->plan))
        return 0;
    int r = digest_hop(run, LEFT, &model->plan->leaves);
    r = r ? r : copy_hop(run, &model->plan->leaves, model->left, HIP_COPY_TO_HOST);
    return r ? r
             : halo_hip_check(device,
                              device->api.MemcpyAsync(model->digests, model->scratch.digests,
                                                      halo_hip_hop_digests(model->plan) * sizeof(uint64_t),
                                                      HIP_COPY_TO_HOST, device->stream),
                              "copying the digests of a stage", run->reason);
}

static uint64_t digest_of(const struct halo_device_model *model, uint32_t which, uint32_t n)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *sums = model->digests + which * SUMS + i * HALO_DIGEST_BLOCKS;
        uint64_t sum = 0;
        for (uint32_t k = 0; k < HALO_DIGEST_BLOCKS; k++)
            sum += sums[k];
        digest = halo_digest_join(digest, sum);
    }
    return digest;
}

void halo_hip_hop_bring(const struct halo_hip_run *run)
{
    const struct halo_device_model *model = run->model;
    const struct halo_plan *plan = model->plan;
    const struct halo_batch *batch = run->batch;
    if (!halo_hip_is_stage(plan))
        return;
    if (plan->leaves.n > 0)
        memcpy(batch->left, model->left, run->n_rows * halo_hop_width(plan, &plan->leaves) * sizeof(float));
    if (batch->digests)
        *batch->digests = (struct halo_hop_digests){.rows = digest_of(model, ROWS, 3),
                                                    .taken = digest_of(model, TAKEN, plan->takes.n),
                                                    .left = digest_of(model, LEFT, plan->leaves.n)};
}
