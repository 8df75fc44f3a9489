/* models.c: loads and unloads as requests, and requests that name a model.
 *
 * Port thread. A name stands for a file. The plain name of a loaded model is that model's; any other name, and every
 * path, is looked up by the io thread and stands for the model of that very file. A request that names a model which is
 * loading waits for it, one that names a model which is being unloaded waits until it is gone.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/size.h>
#include <model/streamed.h>

#include "port/port_priv.h"
#include "port/stages_priv.h"

/* ---- which model a request means ---- */

static bool is_path(struct halo_str name)
{
    return memchr(name.at, '/', name.len);
}

static void look_up(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    job->lookup = calloc(1, sizeof(*job->lookup));
    if (!job->lookup) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory to look up a model");
        return;
    }
    job->lookup->job = job;
    job->lookup->name = name.at;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &job->lookup->note, HALO_NOTE_LOOKUP);
}

void halo_port_lookup_done(struct halo_port *port, struct halo_lookup *lookup)
{
    struct halo_job *job = lookup->job;
    job->wait_next = NULL;
    halo_job_wake(port, job);
}

static void refuse_replaced(struct halo_port *port, struct halo_job *job, const struct halo_instance *instance)
{
    halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                       "%.200s was replaced or changed after it was loaded as %.200s: unload that model first",
                       instance->path, instance->name);
}

/* The model of the file that the name leads to. NULL: the request was ended. */
static struct halo_instance *find_at(struct halo_port *port, struct halo_job *job)
{
    const struct halo_lookup *lookup = job->lookup;
    if (lookup->fault.code != HALO_FAULT_NONE) {
        halo_job_end_fault(port, job, &lookup->fault);
        return NULL;
    }
    struct halo_instance *found = halo_port_instance_of(port, &lookup->id);
    struct halo_instance *before = halo_port_instance_before(port, lookup->name, &lookup->id);
    if (!found && before)
        refuse_replaced(port, job, before);
    else if (!found)
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is not loaded; send `load` first",
                           lookup->name);
    return found;
}

/* The only model, when the request names none. NULL: the request was ended. */
static struct halo_instance *find_only(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *found = NULL;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state != HALO_INSTANCE_LOADING && instance->state != HALO_INSTANCE_READY)
            continue;
        if (found) {
            halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                               "several models are loaded (%.150s, %.150s, ...): `model` must name one", found->name,
                               instance->name);
            return NULL;
        }
        found = instance;
    }
    if (!found)
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "no model is loaded; send `load` first");
    return found;
}

/* NULL: the request waits for the io thread, or was ended. */
static struct halo_instance *find(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    struct halo_instance *found = halo_port_instance_named(port, name);
    if (found && (!found->matched || !is_path(name)))
        return found;
    if (job->lookup)
        return find_at(port, job);
    look_up(port, job, name); /* another name of a file may be loaded */
    return NULL;
}

bool halo_port_hold_model(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    struct halo_instance *instance = name.len > 0 ? find(port, job, name) : find_only(port, job);
    if (!instance)
        return false;
    if (instance->state != HALO_INSTANCE_READY) {
        halo_job_park(instance, job);
        return false;
    }
    halo_port_hold_instance(job, instance);
    return true;
}

/* ---- unload, reset ---- */

void halo_port_unload(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *instance = find(port, job, job->msg.unload.model);
    if (!instance)
        return;
    if (instance->state == HALO_INSTANCE_LOADING) {
        halo_job_park(instance, job);
        return;
    }
    if (instance->state != HALO_INSTANCE_READY && instance->unloader) {
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is being unloaded already", instance->name);
        return;
    }
    job->model = instance;
    instance->unloader = job;
    halo_job_move(job, HALO_JOB_LOAD);
    if (instance->state == HALO_INSTANCE_READY)
        halo_port_drain(port, instance, HALO_UNLOAD_ASKED);
}

void halo_port_unload_done(struct halo_port *port, struct halo_instance *instance)
{
    static_assert((int)HALO_WIRE_UNLOAD_IDLE == (int)HALO_UNLOAD_IDLE &&
                      (int)HALO_WIRE_UNLOAD_ROOM == (int)HALO_UNLOAD_ROOM,
                  "the words and the reasons have one order");
    static const struct halo_id nobody = {0};
    struct halo_job *job = instance->unloader, *waiting = instance->waiting;
    struct halo_ev ev;
    HALO_COUNT(&port->stats, unloads, 1);
    halo_ev_init(&ev, HALO_EV_UNLOADED, job ? &job->msg.id : &nobody);
    ev.unloaded.model = halo_str_of(instance->name);
    ev.unloaded.freed_bytes = (int64_t)instance->freed_bytes;
    ev.unloaded.reason = (enum halo_wire_unload)instance->why;
    ev.unloaded.has_prefix_pages = instance->n_saved > 0;
    ev.unloaded.prefix_pages = instance->n_saved;
    ev.unloaded.has_prefixes_not_saved = instance->save_fault.code != HALO_FAULT_NONE;
    ev.unloaded.prefixes_not_saved = halo_str_of(instance->save_fault.text);
    if (job)
        halo_job_end(port, job, &ev);
    else if (port->config.link)
        halo_port_put(port, &ev); /* halod must not bring it back */
    instance->waiting = NULL;
    halo_job_wake(port, waiting);
    halo_port_forget_instance(port, instance);
}

void halo_port_reset(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_reset *msg = &job->msg.reset;
    if (!halo_port_hold_model(port, job, msg->model))
        return;
    struct halo_reset *reset = job->reset = calloc(1, sizeof(*reset));
    if (!reset) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a reset");
        return;
    }
    *reset =
        (struct halo_reset){.job = job, .instance = job->model, .all = !msg->has_user, .user = (uint64_t)msg->user};
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->device.box, &reset->note, HALO_NOTE_RESET);
}

void halo_port_reset_done(struct halo_port *port, struct halo_reset *reset)
{
    struct halo_job *job = reset->job;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_RESET, &job->msg.id);
    ev.reset.freed_pages = reset->n_freed;
    halo_job_end(port, job, &ev);
}

/* ---- load ---- */

static void write_tiers(const struct halo_instance *instance, char *ret, size_t size)
{
    uint64_t memory = halo_instance_weights_bytes(instance) + instance->kv_bytes;
    if (instance->streamed_bytes == 0)
        snprintf(ret, size, "{\"memory\":%llu}", (unsigned long long)memory);
    else if (instance->n_streamed_layers > 0)
        snprintf(ret, size, "{\"memory\":%llu,\"buffers\":%llu,\"n_layers\":%u,\"disk\":%llu}",
                 (unsigned long long)memory, (unsigned long long)instance->slots_bytes, instance->n_streamed_layers,
                 (unsigned long long)instance->streamed_bytes);
    else {
        struct halo_experts_memory slots;
        halo_experts_memory(instance->experts, &slots);
        snprintf(ret, size, "{\"memory\":%llu,\"slots\":%llu,\"n_slots\":%u,\"disk\":%llu}", (unsigned long long)memory,
                 (unsigned long long)slots.slots_bytes, slots.n_slots, (unsigned long long)instance->streamed_bytes);
    }
}

static void put_loaded(struct halo_port *port, struct halo_job *job, struct halo_instance *instance,
                       const struct halo_load *load)
{
    struct halo_device_info info;
    struct halo_str changes[HALO_REMARKS];
    char tiers[160], io[400] = "", stamp[HALO_GGUF_STAMP_BYTES];
    struct halo_ev ev;
    halo_device_thread_info(&port->device, &info, NULL);
    halo_ev_init(&ev, HALO_EV_LOADED, &job->msg.id);
    ev.loaded.model = halo_str_of(instance->name);
    ev.loaded.arch = halo_str_of(instance->model->arch);
    ev.loaded.path = halo_str_of(instance->path);
    ev.loaded.has_path = true;
    ev.loaded.device = halo_str_of(info.name);
    ev.loaded.context = instance->context;
    ev.loaded.kv_tokens = instance->kv_tokens;
    ev.loaded.has_kv_tokens = true;
    ev.loaded.weights_bytes = (int64_t)halo_instance_weights_bytes(instance);
    ev.loaded.kv_bytes = (int64_t)instance->kv_bytes;
    ev.loaded.has_checkpoint_bytes = halo_instance_has_states(instance);
    ev.loaded.checkpoint_bytes = (int64_t)instance->checkpoint_bytes;
    halo_gguf_stamp(instance->model->gguf, stamp);
    ev.loaded.stamp = halo_str_of(stamp);
    ev.loaded.has_stamp = true;
    ev.loaded.pinned = instance->pinned;
    ev.loaded.has_keep_alive_s = instance->keep_alive_ns > 0;
    ev.loaded.keep_alive_s = (int64_t)(instance->keep_alive_ns / 1000000000u);
    write_tiers(instance, tiers, sizeof(tiers));
    ev.loaded.tiers = halo_raw_of(tiers);
    ev.loaded.stages = halo_port_instance_stages(&port->device, instance);
    for (uint32_t i = 0; i < instance->changes.n; i++)
        changes[i] = halo_str_of(instance->changes.text[i]);
    ev.loaded.changes.at = changes;
    ev.loaded.changes.n = instance->changes.n;
    if (load) {
        static const char *const methods[] = {"io_uring, registered buffers", "io_uring", "pread threads"};
        ev.loaded.load_ms = (double)(halo_clock_ns() - load->arrived_ns) / 1e6;
        if (load->report.elapsed_ns > 0)
            ev.loaded.gb_s = (double)load->report.bytes / (double)load->report.elapsed_ns;
        snprintf(io, sizeof(io), "%s, %s%s%s%s%s", methods[load->report.method],
                 load->report.direct ? "direct" : "buffered", load->report.notice[0] ? ": " : "", load->report.notice,
                 !instance->experts                ? ""
                 : instance->n_streamed_layers > 0 ? "; layers by "
                                                   : "; experts by ",
                 instance->experts ? halo_experts_method(instance->experts) : "");
        ev.loaded.io = halo_str_of(io);
        ev.loaded.has_io = true;
        ev.loaded.has_prefix_pages = load->n_restored > 0;
        ev.loaded.prefix_pages = load->n_restored;
    }
    halo_job_end(port, job, &ev);
}

/* Whether the weights lie where `tiers` asks for them: what can be streamed is, or not at all. */
static bool same_tiers(const struct halo_port *port, enum halo_wire_tiers tiers, const struct halo_instance *instance)
{
    bool is_resident = instance->streamed_bytes == 0;
    switch (tiers) {
    case HALO_WIRE_TIERS_MEMORY: return is_resident;
    case HALO_WIRE_TIERS_STREAM:
        return !is_resident || !port->device.ops->expert_bytes || halo_plan_expert_layers(&instance->model->plan) == 0;
    default: return true;
    }
}

static bool same_wish(const struct halo_port *port, const struct halo_msg_load *msg,
                      const struct halo_instance *instance)
{
    const struct halo_part_load_params *params = &msg->params;
    return (!params->has_context || params->context == instance->context) &&
           (!params->has_kv_tokens ||
            halo_kv_pages_for((uint64_t)params->kv_tokens) * HALO_KV_PAGE_TOKENS == instance->kv_tokens) &&
           (!params->has_kv || (enum halo_kv_type)params->kv == instance->model->plan.kv[0].type) &&
           same_tiers(port, params->tiers, instance) &&
           (!params->has_budget_bytes || halo_instance_bytes(instance) <= (uint64_t)params->budget_bytes);
}

/* How long it stays; what a load does not say remains as it is. */
static void take_stay(struct halo_instance *instance, const struct halo_part_load_params *params)
{
    if (params->has_keep_alive_s)
        instance->keep_alive_ns = params->keep_alive_s > 0 ? (uint64_t)params->keep_alive_s * 1000000000u : 0;
    if (params->has_pin)
        instance->pinned = params->pin;
}

/* A load of a model that is there or on its way. */
static void load_again(struct halo_port *port, struct halo_job *job, struct halo_instance *instance)
{
    char size[HALO_SIZE_TEXT];
    if (instance->state != HALO_INSTANCE_READY)
        halo_job_park(instance, job);
    else if (!same_wish(port, &job->msg.load, instance))
        halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                           "model %.200s is loaded with other parameters (context %u, kv_tokens %u, kv %s, tiers %s, "
                           "%s of memory); unload it first",
                           instance->name, instance->context, instance->kv_tokens,
                           halo_word_name_wire_kv((enum halo_wire_kv)instance->model->plan.kv[0].type),
                           instance->streamed_bytes > 0 ? "stream" : "memory",
                           halo_size_text(halo_instance_bytes(instance), size));
    else {
        take_stay(instance, &job->msg.load.params);
        put_loaded(port, job, instance, NULL);
    }
}

bool halo_port_has_device(struct halo_port *port, struct halo_job *job, enum halo_wire_device wish)
{
    const char *word = halo_word_name_wire_device(wish);
    if (wish == HALO_WIRE_DEVICE_AUTO || strcmp(word, halo_device_thread_name(&port->device)) == 0)
        return true;
    halo_job_end_error(port, job, HALO_ERROR_UNSUPPORTED, "this engine runs on the %s device, not on %s",
                       halo_device_thread_name(&port->device), word);
    return false;
}

/* A load, and the model that it will bring. NULL: no memory. */
static struct halo_load *make_load(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_load *msg = &job->msg.load;
    struct halo_instance *instance = calloc(1, sizeof(*instance));
    struct halo_load *load = calloc(1, sizeof(*load));
    if (!instance || !load) {
        free(instance);
        free(load);
        return NULL;
    }
    snprintf(instance->name, sizeof(instance->name), "%s", msg->model.at);
    snprintf(instance->path, sizeof(instance->path), "%s", msg->model.at);
    take_stay(instance, &msg->params);
    port->instances[port->n_instances++] = instance;
    load->job = job;
    load->instance = instance;
    load->route = &port->route;
    load->arrived_ns = job->arrived_ns;
    load->wish.context = msg->params.has_context ? (uint32_t)msg->params.context : 0;
    load->wish.kv_tokens = msg->params.has_kv_tokens ? (uint64_t)msg->params.kv_tokens : 0;
    load->wish.kv = msg->params.has_kv ? (enum halo_kv_type)msg->params.kv : HALO_KV_F16;
    load->wish.tiers = (enum halo_tiers)msg->params.tiers;
    load->wish.budget_bytes = msg->params.has_budget_bytes ? (uint64_t)msg->params.budget_bytes : 0;
    return load;
}

void halo_port_load(struct halo_port *port, struct halo_job *job)
{
    static_assert((int)HALO_WIRE_KV_F32 == (int)HALO_KV_F32 && (int)HALO_WIRE_KV_F16 == (int)HALO_KV_F16 &&
                      (int)HALO_WIRE_KV_Q8 == (int)HALO_KV_Q8 && (int)HALO_WIRE_KV_Q4 == (int)HALO_KV_Q4,
                  "the words and the types have one order");
    static_assert((int)HALO_WIRE_TIERS_AUTO == (int)HALO_TIERS_AUTO &&
                      (int)HALO_WIRE_TIERS_MEMORY == (int)HALO_TIERS_MEMORY &&
                      (int)HALO_WIRE_TIERS_STREAM == (int)HALO_TIERS_STREAM,
                  "the words and the ways have one order");
    if (!halo_port_has_device(port, job, job->msg.load.params.device))
        return;
    struct halo_str name = job->msg.load.model;
    struct halo_instance *instance = halo_port_instance_named(port, name);
    if (instance && (!instance->matched || !is_path(name))) {
        load_again(port, job, instance);
        return;
    }
    if (port->n_instances == HALO_MAX_KNOWN) {
        struct halo_fault full;
        halo_fault_set(&full, HALO_FAULT_QUEUE_FULL, "%u models are loaded or wait to be, which is the limit",
                       port->n_instances);
        halo_fault_number(&full, "limit", HALO_MAX_KNOWN);
        halo_job_end_fault(port, job, &full);
        return;
    }
    struct halo_load *load = make_load(port, job);
    if (!load) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a load");
        return;
    }
    job->load = load;
    halo_job_move(job, HALO_JOB_LOAD);
    halo_load_go(load, HALO_LOAD_RESOLVE);
}

/* Ends a load whose model is there already or on its way: who asked and who waits go there. */
static void join(struct halo_port *port, struct halo_load *load, struct halo_instance *instance)
{
    struct halo_job *job = load->job, *waiting = load->instance->waiting;
    job->load = NULL;
    load->instance->waiting = NULL;
    load_again(port, job, instance);
    halo_job_wake(port, waiting);
    halo_port_forget_instance(port, load->instance);
    free(load->file_path);
    free(load);
}

static bool is_taken(const struct halo_port *port, const struct halo_instance *self, const char *name)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i] != self && port->instances[i]->matched && strcmp(port->instances[i]->name, name) == 0)
            return true;
    return false;
}

/* The file of the model is known; its name is the stem where that means no other file. */
static void settle_name(struct halo_port *port, struct halo_load *load)
{
    struct halo_instance *instance = load->instance;
    char stem[HALO_MODEL_STEM_BYTES];
    snprintf(instance->path, sizeof(instance->path), "%s", load->file_path);
    instance->file_id = load->file_id;
    halo_model_stem(instance->path, strlen(instance->path), stem);
    const struct halo_msg_load *msg = &load->job->msg.load;
    const char *name = load->stem_is_own && !is_taken(port, instance, stem) ? stem : instance->path;
    if (msg->has_name && !is_taken(port, instance, msg->name.at))
        name = msg->name.at;
    snprintf(instance->name, sizeof(instance->name), "%s", name);
    instance->matched = true;
}

enum halo_load_stage halo_port_match(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_port *port = threads->port;
    struct halo_instance *same = halo_port_instance_of(port, &load->file_id);
    struct halo_instance *before = halo_port_instance_before(port, load->file_path, &load->file_id);
    if (atomic_load(&load->cancel)) {
        halo_fault_set(&load->fault, HALO_FAULT_CANCELLED, "cancelled");
        return HALO_LOAD_DONE;
    }
    if (same) {
        join(port, load, same);
        return HALO_LOAD_MATCH;
    }
    if (before) {
        halo_fault_set(&load->fault, HALO_FAULT_BAD_REQUEST,
                       "%.80s was replaced or changed after it was loaded as %.80s: unload that model first",
                       before->path, before->name);
        return HALO_LOAD_DONE;
    }
    settle_name(port, load);
    halo_port_load_enqueue(port, load);
    return HALO_LOAD_MATCH; /* the queue takes it on */
}

void halo_port_load_progress(struct halo_port *port, struct halo_load *load)
{
    atomic_store(&load->progress_posted, false);
    halo_port_tell_progress(port, load, HALO_WIRE_PHASE_LOAD, atomic_load(&load->bytes_done),
                            atomic_load(&load->bytes_total), "reading weights");
}

static void tell_notices(struct halo_port *port, const struct halo_load *load)
{
    const char *problem = halo_chat_problem(load->instance->texts.chat);
    if (load->report.notice[0])
        halo_port_tell_notice(port, load, HALO_NOTICE_IO_FALLBACK, load->report.notice);
    if (load->instance->experts) {
        struct halo_remarks notices = {0};
        halo_experts_notices(load->instance->experts, &notices);
        for (uint32_t i = 0; i < notices.n; i++)
            halo_port_tell_notice(port, load, HALO_NOTICE_IO_FALLBACK, notices.text[i]);
    }
    if (load->device_notice[0])
        halo_port_tell_notice(port, load, HALO_NOTICE_DEVICE_FALLBACK, load->device_notice);
    for (uint32_t i = 0; i < load->changes.n; i++)
        halo_port_tell_notice(port, load, HALO_NOTICE_LOAD_CHANGED, load->changes.text[i]);
    if (load->instance->experts && load->profile_fault.code != HALO_FAULT_NONE &&
        load->profile_fault.code != HALO_FAULT_NOT_FOUND)
        halo_port_tell_notice(port, load, HALO_NOTICE_PROFILE_IGNORED, load->profile_fault.text);
    if (load->prefix_fault.code != HALO_FAULT_NONE) {
        char text[400];
        snprintf(text, sizeof(text), "saved prefixes are ignored: %s", load->prefix_fault.text);
        halo_port_tell_notice(port, load, HALO_NOTICE_PREFIXES_IGNORED, text);
        snprintf(port->prefix_problem, sizeof(port->prefix_problem), "saved prefixes of %.200s are ignored: %s",
                 load->instance->name, load->prefix_fault.text);
    }
    if (problem) {
        char text[400];
        snprintf(text, sizeof(text), "a chat template cannot be used, so `messages` that need it will be refused: %s",
                 problem);
        halo_port_tell_notice(port, load, HALO_NOTICE_TEMPLATE_UNUSABLE, text);
    }
}

static void load_failed(struct halo_port *port, struct halo_load *load, struct halo_job *waiting)
{
    struct halo_fault fault = load->fault;
    HALO_COUNT(&port->stats, loads_failed, 1);
    halo_job_end_fault(port, load->job, &fault);
    halo_port_forget_instance(port, load->instance);
    if (fault.code == HALO_FAULT_CANCELLED)
        halo_fault_set(&fault, HALO_FAULT_LOAD_FAILED, "the load that this request waited for was cancelled");
    while (waiting) {
        struct halo_job *next = waiting->wait_next;
        waiting->model = NULL;
        halo_job_end_fault(port, waiting, &fault);
        waiting = next;
    }
}

enum halo_load_stage halo_port_load_done(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_port *port = threads->port;
    struct halo_job *waiting = load->instance->waiting;
    struct halo_instance *instance = load->instance;
    HALO_COUNT(&port->stats, loads, 1);
    HALO_COUNT(&port->stats, disk_read_bytes, load->report.bytes);
    load->job->load = NULL;
    if (load->fault.code == HALO_FAULT_NONE) {
        HALO_COUNT(&port->stats, load_bytes, load->report.bytes);
        HALO_COUNT(&port->stats, load_us, load->report.elapsed_ns / 1000);
        halo_instance_move(instance, HALO_INSTANCE_READY);
        instance->idle_since_ns = halo_clock_ns();
        halo_port_allow_guesses(port, instance);
        port->n_restored += load->n_restored;
        instance->changes = load->changes;
        tell_notices(port, load);
        put_loaded(port, load->job, instance, load);
        instance->waiting = NULL;
        halo_job_wake(port, waiting);
    } else {
        instance->waiting = NULL;
        load_failed(port, load, waiting);
    }
    halo_port_load_over(port, load);
    free(load->image);
    free(load->file_path);
    free(load);
    return HALO_LOAD_DONE;
}
