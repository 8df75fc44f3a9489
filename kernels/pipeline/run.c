/* run.c: one stage after the other, and whether each took what the one before it left. */
#include "pipeline_priv.h"

#include <inttypes.h>

#include <common/clock.h>
#include <common/reason.h>

/* Whether stage i holds what the one before left, for the same rows. */
static int compare(const struct halo_hop_digests *digests, uint32_t i, char *reason)
{
    if (i > 0 && digests[i].rows != digests[i - 1].rows)
        return halo_reason(reason, HALO_DEVICE_E_LOST,
                           "stage %u ran other tokens, positions or sequences than stage %u (digests %016" PRIx64
                           " and %016" PRIx64 "): memory or the link of a GPU cannot be trusted",
                           i + 1, i, digests[i].rows, digests[i - 1].rows);
    if (i > 0 && digests[i].taken != digests[i - 1].left)
        return halo_reason(reason, HALO_DEVICE_E_LOST,
                           "stage %u holds other activations than stage %u sent (digests %016" PRIx64 " and %016" PRIx64
                           "): memory or the link of a GPU cannot be trusted",
                           i + 1, i, digests[i].taken, digests[i - 1].left);
    return 0;
}

/* One stage of a run; the rows of every other stage lie in the same half of the buffer. */
static int run_stage(const struct halo_pipeline_model *m, uint32_t i, const struct halo_batch *batch,
                     struct halo_hop_digests *digests, struct halo_device_phase *phase, char *reason)
{
    struct halo_batch mine = *batch;
    bool is_last = i + 1 == m->cut.n;
    char why[HALO_DEVICE_REASON] = "";
    mine.taken = i > 0 ? m->rows[(i - 1) % 2] : NULL;
    mine.left = is_last ? NULL : m->rows[i % 2];
    mine.digests = digests;
    if (!is_last)
        mine.n_outputs = mine.n_top = 0;
    int r = m->pipeline->ops->run(m->stage[i], &mine, phase, why);
    return r ? halo_reason(reason, r, "stage %u of %u: %.200s", i + 1, m->cut.n, why) : 0;
}

int halo_pipeline_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                      char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    struct halo_hop_digests digests[HALO_STAGES_MAX] = {{0}};
    uint64_t ended_ns[HALO_STAGES_MAX], began_ns = halo_monotonic_ns();
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++) {
        r = run_stage(m, i, batch, &digests[i], phase, reason);
        if (!r && batch->n_rows > 0)
            r = compare(digests, i, reason);
        ended_ns[i] = halo_monotonic_ns();
    }
    if (r || batch->n_rows == 0 || !phase)
        return r;
    for (uint32_t i = 0; i < m->cut.n; i++)
        atomic_fetch_add_explicit(&phase->divided_ns[i], ended_ns[i] - (i > 0 ? ended_ns[i - 1] : began_ns),
                                  memory_order_relaxed);
    atomic_fetch_add_explicit(&phase->n_divided_runs, 1, memory_order_relaxed);
    return 0;
}
