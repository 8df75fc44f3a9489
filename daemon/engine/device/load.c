/* load.c: from a path to weights in the device's memory, in the three pieces that three threads run.
 *
 * Admission comes before any large allocation: it says what is needed, what is free and which context would fit. Bytes
 * land once, in the device's own slots; a finisher thread repacks tensors while the next ones are read. Fails with:
 * NOT_FOUND, LOAD_FAILED, UNSUPPORTED, OUT_OF_MEMORY, CANCELLED, DEVICE_HANG, DEVICE_FAULT, in load->fault.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include <engine/instance.h>

#define REMEDY_BYTES 128
#define PROGRESS_NS 100000000u
#define RESERVE_BYTES (512ull << 20) /* left to the rest of the machine, or a sixteenth of it when it is small */

enum halo_fault_code halo_load_fault_code(int error)
{
    switch (error) {
    case -ENOMEM: return HALO_FAULT_OUT_OF_MEMORY;
    case -ETIME: return HALO_FAULT_DEVICE_HANG;
    case -EIO: return HALO_FAULT_DEVICE_FAULT;
    default: return HALO_FAULT_LOAD_FAILED;
    }
}

/* ---- text thread ---- */

static struct halo_span piece_of(const void *ud, int32_t id)
{
    return halo_tokenizer_piece(ud, id, false);
}

static bool is_end_of(const void *ud, int32_t id)
{
    return halo_tokenizer_is_end(ud, id);
}

void halo_load_parse(struct halo_load *load)
{
    struct halo_instance *instance = load->instance;
    struct halo_model_params params = {.context = load->wish.context,
                                       .kv_tokens = load->wish.kv_tokens,
                                       .kv = load->wish.kv,
                                       .max_rows = HALO_BATCH_ROWS,
                                       .max_outputs = HALO_BATCH_OUTPUTS};
    int r = halo_model_create(&instance->model, instance->path, &params, &load->fault);
    if (r == 0)
        r = halo_texts_create(&instance->texts, instance->model->gguf, instance->model->hparams.n_vocab, &load->fault);
    if (r < 0) {
        halo_model_destroy(instance->model);
        instance->model = NULL;
        if (load->fault.code == HALO_FAULT_NONE)
            halo_fault_errno(&load->fault, HALO_FAULT_LOAD_FAILED, r, "%s could not be loaded", instance->path);
        return;
    }
    instance->pieces = (struct halo_pieces){instance->texts.tokenizer, piece_of, is_end_of,
                                            halo_tokenizer_max_piece_bytes(instance->texts.tokenizer)};
}

/* ---- device thread: admission ---- */

uint64_t halo_budget_free_bytes(const struct halo_device_info *info)
{
    uint64_t reserve = info->memory_bytes / 16 < RESERVE_BYTES ? info->memory_bytes / 16 : RESERVE_BYTES;
    return info->free_bytes > reserve ? info->free_bytes - reserve : 0;
}

void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret)
{
    *ret = (struct halo_budget){0};
    ops->estimate(device, plan, &ret->weights_bytes, &ret->kv_bytes, &ret->scratch_bytes);
    uint64_t row_bytes = (uint64_t)plan->n_vocab * sizeof(float);
    ret->scratch_bytes +=
        row_bytes * plan->max_outputs + 4 * row_bytes; /* logits and the sampler's four arrays of a row */
    ret->page_bytes = plan->kv.n_pages > 0 ? ret->kv_bytes / plan->kv.n_pages : halo_kv_page_bytes(&plan->kv);
    uint64_t fixed = ret->weights_bytes + ret->scratch_bytes;
    uint64_t pages = free_bytes > fixed && ret->page_bytes > 0 ? (free_bytes - fixed) / ret->page_bytes : 0;
    ret->max_pages = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
}

uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit)
{
    assert(n_sequences > 0);
    uint32_t n_pages = budget->max_pages / n_sequences;
    return n_pages >= halo_kv_pages_for(limit) ? limit : n_pages * HALO_KV_PAGE_TOKENS;
}

/* What would make room for need_bytes, where `bytes` are what there would be with every idle model gone. */
static void find_remedy(const struct halo_load *load, const struct halo_room *room, uint64_t need_bytes, uint64_t bytes,
                        char ret[REMEDY_BYTES])
{
    char size[HALO_SIZE_TEXT];
    uint64_t busy_bytes = room->held_bytes > load->evictable_bytes ? room->held_bytes - load->evictable_bytes : 0;
    if (busy_bytes > 0 && need_bytes - bytes <= busy_bytes)
        snprintf(ret, REMEDY_BYTES, "unload another model, those that are pinned or in use hold %s",
                 halo_size_text(busy_bytes, size));
    else if (room->budget_bytes > 0 && room->budget_bytes < room->free_bytes + room->held_bytes)
        snprintf(ret, REMEDY_BYTES, "raise budget_bytes, all models together may take %s",
                 halo_size_text(room->budget_bytes, size));
    else
        snprintf(ret, REMEDY_BYTES, "take a smaller model, or end what else uses the memory of the device");
}

/* bytes: with every idle model gone. */
static int refuse(struct halo_load *load, const struct halo_room *room, const struct halo_budget *budget,
                  uint64_t wanted_pages, uint64_t bytes)
{
    char need[HALO_SIZE_TEXT], weights[HALO_SIZE_TEXT], left[HALO_SIZE_TEXT], remedy[REMEDY_BYTES];
    uint64_t fixed = budget->weights_bytes + budget->scratch_bytes, least = fixed + budget->page_bytes;
    uint32_t most = halo_budget_fit_context(budget, 1, load->instance->model->hparams.n_context_train);
    const char *even = load->evictable_bytes > 0 ? " with every idle model unloaded" : "";
    if (least > bytes) {
        find_remedy(load, room, least, bytes, remedy);
        return halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY,
                              "needs %s for weights, scratch and a page of KV cache, %s are free%s; %s",
                              halo_size_text(least, need), halo_size_text(bytes, left), even, remedy);
    }
    bool pool = load->instance->model->plan.n_context <= most; /* the context would fit: the rest is what does not */
    return halo_fault_set(
        &load->fault, HALO_FAULT_OUT_OF_MEMORY,
        "needs %s of KV cache beside %s of weights, %s are left for it%s; load with a %s of at most %u",
        halo_size_text(wanted_pages * budget->page_bytes, need), halo_size_text(fixed, weights),
        halo_size_text(bytes - fixed, left), even,
        pool                       ? "kv_tokens"
        : load->wish.kv_tokens > 0 ? "context and kv_tokens"
                                   : "context",
        pool ? budget->max_pages * HALO_KV_PAGE_TOKENS : most);
}

/* The least pool that does. -1: the wish contradicts itself. */
static int64_t least_pages(struct halo_load *load)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    if (load->wish.kv_tokens == 0)
        return halo_kv_pages_for(plan->n_context);
    if (load->wish.kv_tokens >= plan->n_context)
        return halo_kv_pages_for(load->wish.kv_tokens);
    halo_fault_set(&load->fault, HALO_FAULT_BAD_REQUEST, "kv_tokens %llu is less than the context of %u",
                   (unsigned long long)load->wish.kv_tokens, plan->n_context);
    return -1;
}

/* There is not enough for the least pool: somebody goes, or that is that. */
static int lack_room(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room, const struct halo_budget *budget, uint64_t n_pages)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    struct halo_budget most;
    if (load->evictable_bytes != HALO_LOAD_ASK) {
        uint64_t all = room->bytes + load->evictable_bytes;
        halo_budget_of(ops, device, plan, all, &most);
        if (n_pages > most.max_pages)
            return refuse(load, room, &most, n_pages, all);
    }
    load->evictable_bytes = HALO_LOAD_ASK;
    if (__builtin_mul_overflow(n_pages, budget->page_bytes, &load->need_bytes) ||
        __builtin_add_overflow(load->need_bytes, budget->weights_bytes + budget->scratch_bytes, &load->need_bytes))
        load->need_bytes = UINT64_MAX;
    return HALO_LOAD_E_ROOM;
}

/* Sets plan->kv.n_pages to a number that there is room for; the least is known to fit. */
static void settle_pool(struct halo_load *load, const struct halo_budget *budget, uint32_t least)
{
    struct halo_plan *plan = &load->instance->model->plan;
    uint64_t pages = load->wish.kv_tokens > 0 ? least : 4 * (uint64_t)least;
    if (pages > budget->max_pages) {
        assert(load->n_changes < HALO_LOAD_CHANGES);
        snprintf(load->changes[load->n_changes++], HALO_LOAD_CHANGE_BYTES,
                 "kv_tokens: %u instead of %llu, as memory allows", budget->max_pages * HALO_KV_PAGE_TOKENS,
                 (unsigned long long)(pages * HALO_KV_PAGE_TOKENS));
        pages = budget->max_pages;
    }
    plan->kv.n_pages = (uint32_t)pages;
}

int halo_load_create(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room)
{
    struct halo_instance *instance = load->instance;
    struct halo_plan *plan = &instance->model->plan;
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        int r = ops->supports(device, plan, i, reason);
        if (r < 0)
            return halo_fault_set(&load->fault, HALO_FAULT_UNSUPPORTED, "the %s device cannot run op %u: %s", ops->name,
                                  i, reason);
    }
    struct halo_budget budget;
    load->room_bytes = room->bytes;
    halo_budget_of(ops, device, plan, room->bytes, &budget);
    int64_t least = least_pages(load);
    if (least < 0)
        return -EINVAL;
    if (least > budget.max_pages)
        return lack_room(load, ops, device, room, &budget, (uint64_t)least);
    settle_pool(load, &budget, (uint32_t)least);
    halo_budget_of(ops, device, plan, room->bytes, &budget);
    int r = ops->model_create(device, plan, &instance->device_model, reason);
    if (r < 0) {
        instance->device_model = NULL;
        return halo_fault_set(&load->fault, halo_load_fault_code(r), "%s", reason);
    }
    instance->weights_bytes = budget.weights_bytes;
    instance->kv_bytes = budget.kv_bytes;
    instance->scratch_bytes = budget.scratch_bytes;
    instance->context = plan->n_context;
    instance->kv_tokens = plan->kv.n_pages * HALO_KV_PAGE_TOKENS;
    return 0;
}

/* ---- prefetch thread ---- */

struct arrival {
    struct halo_mail mail;
    uint32_t weight;
};

/* The second pair of hands: repacks what has arrived. */
struct finisher {
    pthread_t thread;
    struct halo_mailbox box;
    const struct halo_device_ops *ops;
    struct halo_device_model *device_model;
    struct arrival *arrivals; /* [n_weights] */
    const struct halo_plan *plan;
    int result;
    char reason[HALO_DEVICE_REASON];
    atomic_bool *cancel;
    struct halo_load *load;
    struct halo_mailbox *port;
};

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
    halo_mailbox_post(&f->box, &f->arrivals[job].mail);
}

static void on_progress(void *ud, uint64_t bytes_done, uint64_t bytes_total)
{
    struct finisher *f = ud;
    struct halo_load *load = f->load;
    atomic_store(&load->bytes_done, bytes_done);
    atomic_store(&load->bytes_total, bytes_total);
    uint64_t now_ns = halo_clock_ns();
    if (now_ns - load->progress_ns < PROGRESS_NS)
        return;
    load->progress_ns = now_ns;
    if (!atomic_exchange(&load->progress_posted, true))
        halo_note_post(f->port, &load->progress_note, HALO_NOTE_LOAD_PROGRESS);
}

static void list_jobs(const struct halo_instance *instance, const struct halo_device_ops *ops,
                      struct halo_reader_job *jobs, struct arrival *arrivals)
{
    const struct halo_plan *plan = &instance->model->plan;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *weight = &plan->weights[i];
        struct halo_device_slot slot;
        ops->weight_slot(instance->device_model, i, &slot);
        jobs[i] = (struct halo_reader_job){.part = weight->part,
                                           .offset = weight->offset,
                                           .n_bytes = weight->n_bytes,
                                           .dest = slot.data,
                                           .slack = slot.slack,
                                           .name = weight->name};
        arrivals[i].weight = i;
    }
}

/* Reads with the finisher beside. `stop` is the reader's cancel flag: the client's wish or a failed repack. */
static int read_and_finish(struct halo_load *load, struct finisher *f, struct halo_reader_job *jobs,
                           const char *const *paths, uint32_t n_paths)
{
    struct halo_fault read_fault = {0};
    struct halo_reader_options options = {.cancel = &load->cancel, .done = on_done, .progress = on_progress, .ud = f};
    bool asked = false;
    int r = halo_mailbox_init(&f->box, false);
    if (r == 0) {
        r = -pthread_create(&f->thread, NULL, finish_arrivals, f);
        if (r < 0)
            halo_mailbox_finish(&f->box);
    }
    if (r < 0)
        return halo_fault_errno(&load->fault, HALO_FAULT_OUT_OF_MEMORY, r, "no thread to repack weights");
    r = halo_reader_run(paths, n_paths, jobs, f->plan->n_weights, &options, &load->report, &read_fault);
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

int halo_load_read(struct halo_load *load, const struct halo_device_ops *ops, struct halo_mailbox *port)
{
    struct halo_instance *instance = load->instance;
    const struct halo_plan *plan = &instance->model->plan;
    uint32_t n_paths = halo_gguf_n_parts(instance->model->gguf);
    struct halo_reader_job *jobs = calloc(plan->n_weights, sizeof(*jobs));
    struct arrival *arrivals = calloc(plan->n_weights, sizeof(*arrivals));
    const char **paths = calloc(n_paths, sizeof(*paths));
    int r;
    if (!jobs || !arrivals || !paths) {
        r = halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the list of %u tensors",
                           plan->n_weights);
    } else {
        for (uint32_t i = 0; i < n_paths; i++)
            paths[i] = halo_gguf_part_path(instance->model->gguf, i);
        list_jobs(instance, ops, jobs, arrivals);
        struct finisher f = {.ops = ops,
                             .device_model = instance->device_model,
                             .arrivals = arrivals,
                             .plan = plan,
                             .cancel = &load->cancel,
                             .load = load,
                             .port = port};
        r = read_and_finish(load, &f, jobs, paths, n_paths);
    }
    free(jobs);
    free(arrivals);
    free(paths);
    return r;
}
