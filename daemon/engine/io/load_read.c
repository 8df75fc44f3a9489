/* load_read.c: the weights of a model into the device's memory.
 *
 * Prefetch thread. Bytes land once, in the device's own slots; a second thread repacks tensors while the next ones are
 * read, and others back the slots with pages ahead of the reads. A device that reads its weights through memory that it
 * uses again gives some slots only while the load goes on. Fails with LOAD_FAILED, OUT_OF_MEMORY, CANCELLED,
 * DEVICE_HANG, DEVICE_FAULT in load->fault.
 */
#include <errno.h>
#include <stdlib.h>

#include <base/clock.h>
#include <base/size.h>
#include <base/thread.h>
#include <common/workers.h>

#include <engine/load.h>

#define PROGRESS_NS 100000000u
#define POPULATING_MIN 2u
#define POPULATING_MAX 4u

struct arrival {
    struct halo_mail mail;
    uint32_t weight;
    uint32_t n_pieces; /* still to be read */
};

/* The second thread: repacks what has arrived. */
struct finisher {
    pthread_t thread;
    struct halo_mailbox box;
    const struct halo_device_ops *ops;
    struct halo_device_model *device_model;
    struct arrival *arrivals; /* [n_weights] */
    const struct halo_reader_job *jobs;
    uint32_t *weight_of; /* [jobs] */
    const struct halo_plan *plan;
    int result;
    char reason[HALO_DEVICE_REASON];
    atomic_bool *cancel;
    struct halo_load *load;
    struct halo_mailbox *port;
    struct halo_phase *phase;
};

static void tick(struct finisher *f)
{
    if (f->phase)
        halo_phase_tick(f->phase);
}

static void *finish_arrivals(void *ud)
{
    struct finisher *f = ud;
    for (;;) {
        struct halo_mail *mail = halo_mailbox_wait(&f->box, UINT64_MAX);
        if (!mail && halo_mailbox_is_closed(&f->box))
            return NULL;
        while (mail) {
            struct arrival *arrival = (struct arrival *)mail;
            mail = mail->next;
            if (f->result < 0)
                continue; /* failed already: let the rest pass */
            f->result = f->ops->weight_commit(f->device_model, arrival->weight, f->reason);
            tick(f);
            atomic_fetch_add(&f->load->n_committed, 1);
            if (f->result < 0) {
                halo_fault_set(&f->load->fault, halo_load_fault_code(f->result), "tensor %s: %s",
                               f->plan->weights[arrival->weight].name, f->reason);
                atomic_store(f->cancel, true); /* no use reading on */
            }
        }
    }
}

static void on_done(void *ud, size_t job)
{
    struct finisher *f = ud;
    struct arrival *arrival = &f->arrivals[f->weight_of[job]];
    if (--arrival->n_pieces == 0)
        halo_mailbox_post(&f->box, &arrival->mail);
}

static void on_progress(void *ud, uint64_t bytes_done, uint64_t bytes_total)
{
    struct finisher *f = ud;
    struct halo_load *load = f->load;
    tick(f);
    atomic_store(&load->bytes_done, bytes_done);
    atomic_store(&load->bytes_total, bytes_total);
    uint64_t now_ns = halo_clock_ns();
    if (now_ns - load->progress_ns < PROGRESS_NS)
        return;
    load->progress_ns = now_ns;
    if (f->phase)
        halo_phase_set(f->phase, HALO_ACTIVITY_FILE, "model %s: %llu of %llu bytes read, %u tensors in place",
                       load->instance->name, (unsigned long long)bytes_done, (unsigned long long)bytes_total,
                       atomic_load(&load->n_committed));
    if (!atomic_exchange(&load->progress_posted, true))
        halo_note_post(f->port, &load->progress_note, HALO_NOTE_LOAD_PROGRESS);
}

/* Reader's thread: a slot that the device could not give before other weights were committed. */
static bool on_place(void *ud, size_t job, void **ret_dest, bool *ret_slack)
{
    struct finisher *f = ud;
    uint32_t index = f->weight_of[job];
    const struct halo_weight *weight = &f->plan->weights[index];
    uint32_t n = halo_weight_n_pieces(weight);
    uint64_t piece = n > 1 ? (f->jobs[job].offset - weight->offset) / weight->expert_step : 0;
    struct halo_device_slot slot;
    if (f->ops->weight_slot(f->device_model, index, &slot) < 0)
        return false;
    *ret_dest = (uint8_t *)slot.data + piece * (weight->n_bytes / n);
    *ret_slack = slot.slack && n == 1;
    return true;
}

/* What is to be read, and of which weight each job is. */
struct work {
    struct halo_reader_job *jobs;
    uint32_t *weight_of;
    size_t n_jobs;
    struct arrival *arrivals;
};

/* The pieces of one weight; only one that is read at once has its slot's slack. slot->data NULL: on_place says. */
static void list_pieces(struct work *work, uint32_t index, const struct halo_weight *weight,
                        const struct halo_device_slot *slot)
{
    uint32_t n = halo_weight_n_pieces(weight);
    uint64_t n_bytes = weight->n_bytes / n;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = slot->data ? (uint8_t *)slot->data + i * n_bytes : NULL;
        work->weight_of[work->n_jobs] = index;
        work->jobs[work->n_jobs++] = (struct halo_reader_job){.part = weight->part,
                                                              .offset = weight->offset + i * weight->expert_step,
                                                              .n_bytes = n_bytes,
                                                              .dest = at,
                                                              .slack = slot->slack && n == 1,
                                                              .name = weight->name};
    }
    work->arrivals[index] = (struct arrival){.weight = index, .n_pieces = n};
}

static int order_compare(const void *a, const void *b, void *ud)
{
    const struct halo_weight *weights = ud, *x = &weights[*(const uint32_t *)a], *y = &weights[*(const uint32_t *)b];
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* In the order in which they are read, as the device wants to be asked; the first refusal ends the asking. */
static int list_weights(struct work *work, const struct halo_plan *plan, const struct halo_device_ops *ops,
                        struct halo_device_model *device_model)
{
    bool given = true;
    uint32_t *order = calloc(plan->n_weights, sizeof(*order));
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        order[i] = i;
    qsort_r(order, plan->n_weights, sizeof(*order), order_compare, (void *)plan->weights);
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        struct halo_device_slot slot = {0};
        if (plan->weights[order[i]].streamed > 0)
            continue; /* its experts are read when they are needed */
        given = given && ops->weight_slot(device_model, order[i], &slot) == 0;
        list_pieces(work, order[i], &plan->weights[order[i]], given ? &slot : &(struct halo_device_slot){0});
    }
    free(order);
    return 0;
}

static int list_jobs(struct halo_load *load, const struct halo_device_ops *ops, struct work *work)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    size_t n = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        n += plan->weights[i].streamed > 0 ? 0 : halo_weight_n_pieces(&plan->weights[i]);
    work->jobs = calloc(n, sizeof(*work->jobs));
    work->weight_of = calloc(n, sizeof(*work->weight_of));
    work->arrivals = calloc(plan->n_weights, sizeof(*work->arrivals));
    if (!work->jobs || !work->weight_of || !work->arrivals ||
        list_weights(work, plan, ops, load->instance->device_model) < 0)
        return halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the list of %u tensors",
                              plan->n_weights);
    return 0;
}

static void work_finish(struct work *work)
{
    free(work->jobs);
    free(work->weight_of);
    free(work->arrivals);
}

/* On a virtual machine a page may first have to come from the host, which costs waiting more than computing: two even
 * on one processor. Clearing is bound by memory, which more than a few threads do not make faster. */
static unsigned populating_threads(void)
{
    uint32_t n = halo_workers_processors() / 2;
    return n < POPULATING_MIN ? POPULATING_MIN : n < POPULATING_MAX ? n : POPULATING_MAX;
}

/* Reads with the finisher beside. `stop` is the reader's cancel flag: the client's wish or a failed repack. */
static int read_and_finish(struct halo_load *load, struct finisher *f, const struct work *work,
                           const struct halo_reader_source *sources, uint32_t n_sources)
{
    struct halo_fault read_fault = {0};
    struct halo_reader_options options = {.cancel = &load->cancel,
                                          .n_populate = populating_threads(),
                                          .place = on_place,
                                          .done = on_done,
                                          .progress = on_progress,
                                          .ud = f};
    bool asked = false;
    int r = halo_mailbox_init(&f->box, false);
    if (r == 0) {
        r = halo_thread_start(&f->thread, "repack", finish_arrivals, f);
        if (r < 0)
            halo_mailbox_finish(&f->box);
    }
    if (r < 0)
        return halo_fault_errno(&load->fault, HALO_FAULT_OUT_OF_MEMORY, r, "no thread to repack weights");
    r = halo_reader_run(sources, n_sources, work->jobs, work->n_jobs, &options, &load->report, &read_fault);
    halo_mailbox_close(&f->box);
    pthread_join(f->thread, NULL);
    halo_mailbox_finish(&f->box);
    asked = atomic_load(&load->cancel);
    if (f->result < 0)
        return f->result; /* its fault stands; the reader's "cancelled" is only an echo of it */
    if (r < 0) {
        load->fault = read_fault;
        return r;
    }
    return asked ? halo_fault_set(&load->fault, HALO_FAULT_CANCELLED, "cancelled") : 0;
}

/* Takes the memory for the slots of streamed experts, and opens the files for reads while the model runs. */
static int open_experts(struct halo_load *load, struct halo_phase *phase)
{
    char size[HALO_SIZE_TEXT];
    if (phase)
        halo_phase_set(phase, HALO_ACTIVITY_FILE, "taking %s for experts of %s",
                       halo_size_text(load->instance->slots_bytes, size), load->instance->name);
    return halo_experts_open(load->instance->experts, load->instance->model->gguf, load->read_block_bytes,
                             load->read_depth, &load->fault);
}

int halo_load_read(struct halo_load *load, const struct halo_device_ops *ops, struct halo_mailbox *port,
                   struct halo_phase *phase)
{
    struct halo_instance *instance = load->instance;
    const struct halo_plan *plan = &instance->model->plan;
    struct halo_gguf *gguf = instance->model->gguf;
    uint32_t n_sources = halo_gguf_n_parts(gguf);
    struct halo_reader_source *sources = calloc(n_sources, sizeof(*sources));
    struct work work = {0};
    int r = sources ? list_jobs(load, ops, &work)
                    : halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to read %u files", n_sources);
    if (r == 0 && instance->experts)
        r = open_experts(load, phase);
    if (r == 0) {
        for (uint32_t i = 0; i < n_sources; i++)
            sources[i] = (struct halo_reader_source){halo_gguf_part_fd(gguf, i), *halo_gguf_part_id(gguf, i),
                                                     halo_gguf_part_path(gguf, i)};
        struct finisher f = {.ops = ops,
                             .device_model = instance->device_model,
                             .arrivals = work.arrivals,
                             .jobs = work.jobs,
                             .weight_of = work.weight_of,
                             .plan = plan,
                             .cancel = &load->cancel,
                             .load = load,
                             .port = port,
                             .phase = phase};
        r = read_and_finish(load, &f, &work, sources, n_sources);
    }
    if (r < 0 || !instance->experts)
        halo_gguf_close_files(gguf); /* all of it is in memory, or never will be */
    work_finish(&work);
    free(sources);
    return r;
}
