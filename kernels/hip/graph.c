/* graph.c: decode steps as graphs: the launches of a step recorded once, at load, and replayed as one.
 *
 * A graph serves one class of batches: so many rows, each of a sequence of its own and wanting its logits, contexts up
 * to a number of pages (run_priv.h), and one of the two sets of inputs. What changes from step to step lies in buffers,
 * so a replay needs no new arguments. The first step of a class is launched kernel by kernel, so that one that hangs
 * has a name; graphs are for those after it. Recording uses a stream of its own, because the device's may be uploading
 * the weights of another model. Where the runtime cannot record, steps are launched as before, and a notice says so.
 * Device thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "run_priv.h"

#define CAPTURE_THIS_THREAD 1 /* hipStreamCaptureModeThreadLocal */

bool halo_hip_graph_fits(const struct halo_hip_run *run)
{
    const struct halo_batch *batch = run->batch;
    return batch->n_rows <= HALO_HIP_GRAPH_ROWS && batch->n_outputs == batch->n_rows && run->apart;
}

struct halo_hip_graph *halo_hip_graph_of(const struct halo_hip_run *run)
{
    assert(run->n_rows >= 1 && run->n_rows <= HALO_HIP_GRAPH_ROWS);
    return &run->model->graphs[run->n_rows - 1][run->level];
}

/* A run of n_rows into another stream; positions are in the buffers. */
static int record(struct halo_hip_run *run, void **ret_exec)
{
    struct halo_hip_api *api = &run->model->device->api;
    void *recorded = NULL;
    int r = api->StreamBeginCapture(run->stream, CAPTURE_THIS_THREAD), failed;
    if (r)
        return r;
    failed = halo_hip_replay(run);
    r = api->StreamEndCapture(run->stream, &recorded);
    if (!r && !failed)
        r = api->GraphInstantiate(ret_exec, recorded, NULL, NULL, 0);
    if (recorded)
        api->GraphDestroy(recorded);
    return failed ? failed : r;
}

static int record_class(struct halo_device_model *model, void *stream, uint32_t set, uint32_t n_rows, uint32_t level,
                        char *reason)
{
    static const int32_t zeros[HALO_HIP_GRAPH_ROWS];
    static const uint32_t rows[HALO_HIP_GRAPH_ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32_t page = 0;
    struct halo_batch_seq seq = {.n_pages = 1};
    struct halo_batch_seq seqs[HALO_HIP_GRAPH_ROWS];
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        seq.pages[group] = &page;
    for (uint32_t i = 0; i < HALO_HIP_GRAPH_ROWS; i++)
        seqs[i] = seq;
    const struct halo_batch batch = {.n_rows = n_rows,
                                     .token = zeros,
                                     .pos = zeros,
                                     .seq = rows,
                                     .n_seqs = n_rows,
                                     .seqs = seqs,
                                     .n_outputs = n_rows,
                                     .output = rows};
    struct halo_hip_run run;
    halo_hip_run_init(&run, model, &batch, NULL, reason);
    /* The addresses are those of the class; what is filled in is overwritten by the first step. */
    halo_hip_input_fill(&run, model->input[set].host, model->input[set].device);
    run.level = level;
    run.stream = stream;
    run.recording = true;
    return record(&run, &model->graphs[n_rows - 1][level].exec[set]);
}

/* For halo-doctor, and for users whom it tells that graphs hang. */
static bool switched_off(void)
{
    const char *text = getenv("HALO_HIP_GRAPHS");
    return text && strcmp(text, "0") == 0;
}

int halo_hip_graphs_record(struct halo_device_model *model, char *reason)
{
    struct halo_device *device = model->device;
    if (switched_off()) {
        halo_hip_notice(device, "decode steps are launched kernel by kernel: HALO_HIP_GRAPHS=0");
        return 0;
    }
    const struct halo_plan *plan = model->plan;
    uint32_t most = plan->max_rows < plan->max_outputs ? plan->max_rows : plan->max_outputs;
    uint32_t sets = device->properties.integrated ? 2 : 1;
    uint32_t n_rows = most < HALO_HIP_GRAPH_ROWS ? most : HALO_HIP_GRAPH_ROWS;
    char name[48];
    void *stream = NULL;
    int r = device->api.StreamCreateWithFlags(&stream, HIP_STREAM_NON_BLOCKING);
    for (uint32_t set = 0; set < sets && !r; set++)
        for (uint32_t n = 1; n <= n_rows && !r; n++)
            for (uint32_t level = 0; level < halo_hip_n_levels(plan) && !r; level++)
                r = record_class(model, stream, set, n, level, reason);
    if (stream)
        device->api.StreamDestroy(stream);
    if (!r)
        return 0;
    halo_hip_graphs_drop(model);
    halo_hip_notice(device, "decode steps are launched kernel by kernel: graphs cannot be recorded: %s",
                    r > 0 ? halo_hip_error_name(r, name) : "no kernel");
    /* If the device was lost, this says so. */
    return halo_hip_drain(device, "after recording graphs", reason);
}

void halo_hip_graphs_drop(struct halo_device_model *model)
{
    struct halo_hip_graph *graph = &model->graphs[0][0];
    for (size_t i = 0; i < sizeof(model->graphs) / sizeof(*graph); i++)
        for (int set = 0; set < 2; set++)
            if (graph[i].exec[set] && !atomic_load(&model->device->lost))
                model->device->api.GraphExecDestroy(graph[i].exec[set]);
    memset(model->graphs, 0, sizeof(model->graphs));
}
