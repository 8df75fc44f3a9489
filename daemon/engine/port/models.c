/* models.c: models that come and go, as the port sees them: loads, unloads, users, and requests that wait for a
 * load.
 *
 * Port thread. A model's users are requests; an unload takes no new ones and waits for those it has. A request that
 * names a model which is still loading waits for it, one that names a model which is going waits until it is gone: a
 * load then brings it again.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>

#include "port_priv.h"

/* ---- finding ---- */

static struct halo_instance *find(struct halo_port *port, struct halo_str name)
{
    char stem[HALO_MODEL_STEM_BYTES];
    halo_model_stem(name.at, name.len, stem);
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (strcmp(port->instances[i]->name, stem) == 0)
            return port->instances[i];
    return NULL;
}

struct halo_instance *halo_port_instance_at(struct halo_port *port, const char *path)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i]->state != HALO_INSTANCE_LOADING && strcmp(port->instances[i]->path, path) == 0)
            return port->instances[i];
    return NULL;
}

/* The only model, when the request names none. NULL: the request was ended. */
static struct halo_instance *find_only(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *found = NULL;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        if (port->instances[i]->state == HALO_INSTANCE_DRAINING)
            continue;
        if (found) {
            halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                               "several models are loaded (%s, %s, ...): `model` must name one", found->name,
                               port->instances[i]->name);
            return NULL;
        }
        found = port->instances[i];
    }
    if (!found)
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "no model is loaded; send `load` first");
    return found;
}

static void park(struct halo_instance *instance, struct halo_job *job)
{
    struct halo_job **at = &instance->waiting;
    while (*at)
        at = &(*at)->wait_next;
    job->wait_next = NULL;
    *at = job;
    job->model = instance;
    halo_job_move(job, HALO_JOB_PARKED);
}

static bool unpark_from(struct halo_job **at, struct halo_job *job)
{
    for (; *at; at = &(*at)->wait_next)
        if (*at == job) {
            *at = job->wait_next;
            return true;
        }
    return false;
}

void halo_port_unpark(struct halo_port *port, struct halo_job *job)
{
    assert(job->state == HALO_JOB_PARKED);
    if (unpark_from(&port->parked, job))
        return;
    bool found = unpark_from(&job->model->waiting, job);
    assert(found);
    job->model = NULL;
}

int halo_port_hold_model(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    struct halo_instance *instance = name.len > 0 ? find(port, name) : find_only(port, job);
    if (!instance) {
        if (name.len > 0)
            halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is not loaded; send `load` first",
                               name.at);
        return -1;
    }
    if (instance->state != HALO_INSTANCE_READY) {
        park(instance, job);
        return 1;
    }
    job->model = instance;
    job->holds_model = true;
    instance->n_users++;
    return 0;
}

/* ---- unload ---- */

static void maybe_unload(struct halo_port *port, struct halo_instance *instance)
{
    if (instance->state != HALO_INSTANCE_DRAINING || instance->n_users > 0)
        return;
    if (instance->to_save)
        halo_port_save_next(port);
    else
        halo_note_post(&port->device.box, &instance->note, HALO_NOTE_UNLOAD);
}

void halo_port_release_model(struct halo_port *port, struct halo_job *job)
{
    if (!job->holds_model)
        return;
    struct halo_instance *instance = job->model;
    job->holds_model = false;
    assert(instance->n_users > 0);
    instance->n_users--;
    instance->idle_since_ns = halo_clock_ns();
    maybe_unload(port, instance);
}

void halo_port_let_go(struct halo_port *port, struct halo_instance *instance)
{
    assert(instance->n_users > 0);
    instance->n_users--;
    maybe_unload(port, instance);
}

void halo_port_unload(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *instance = find(port, job->msg.unload.model);
    if (!instance) {
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is not loaded", job->msg.unload.model.at);
        return;
    }
    if (instance->state == HALO_INSTANCE_LOADING) {
        park(instance, job);
        return;
    }
    if (instance->state == HALO_INSTANCE_DRAINING && instance->unloader) {
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %s is being unloaded already", instance->name);
        return;
    }
    job->model = instance;
    instance->unloader = job;
    halo_job_move(job, HALO_JOB_LOAD);
    if (instance->state == HALO_INSTANCE_READY)
        halo_port_drain(port, instance, HALO_UNLOAD_ASKED);
}

void halo_port_drain(struct halo_port *port, struct halo_instance *instance, enum halo_unload_why why)
{
    instance->why = why;
    instance->to_save = port->config.save_ms > 0 && halo_port_can_save(port);
    halo_instance_move(instance, HALO_INSTANCE_DRAINING);
    maybe_unload(port, instance);
}

void halo_port_reset(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_reset *msg = &job->msg.reset;
    if (halo_port_hold_model(port, job, msg->model) != 0)
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

static void forget(struct halo_port *port, struct halo_instance *instance)
{
    uint32_t at = 0;
    while (port->instances[at] != instance)
        at++;
    port->instances[at] = port->instances[--port->n_instances];
    halo_instance_move(instance, HALO_INSTANCE_GONE);
    halo_texts_destroy(&instance->texts);
    halo_model_destroy(instance->model);
    free(instance);
}

/* They wait no more. */
static void dispatch_waiting(struct halo_port *port, struct halo_job *waiting, const struct halo_fault *fault)
{
    while (waiting) {
        struct halo_job *next = waiting->wait_next;
        waiting->wait_next = NULL;
        waiting->model = NULL;
        halo_job_move(waiting, HALO_JOB_NEW);
        if (fault->code == HALO_FAULT_NONE)
            halo_port_dispatch(port, waiting);
        else
            halo_job_end_fault(port, waiting, fault);
        waiting = next;
    }
}

void halo_port_unload_done(struct halo_port *port, struct halo_instance *instance)
{
    static_assert((int)HALO_WIRE_UNLOAD_IDLE == (int)HALO_UNLOAD_IDLE &&
                      (int)HALO_WIRE_UNLOAD_ROOM == (int)HALO_UNLOAD_ROOM,
                  "the words and the reasons have one order");
    static const struct halo_id nobody = {0};
    static const struct halo_fault fine = {0};
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
    forget(port, instance);
    halo_port_room_made(port);
    dispatch_waiting(port, waiting, &fine);
}

void halo_port_expire_models(struct halo_port *port, uint64_t now_ns)
{
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state == HALO_INSTANCE_READY && instance->n_users == 0 && instance->keep_alive_ns > 0 &&
            !instance->pinned && now_ns - instance->idle_since_ns >= instance->keep_alive_ns) {
            HALO_COUNT(&port->stats, models_expired, 1);
            halo_port_drain(port, instance, HALO_UNLOAD_IDLE);
        }
    }
}

/* ---- load ---- */

static void put_loaded(struct halo_port *port, struct halo_job *job, struct halo_instance *instance,
                       const struct halo_load *load)
{
    struct halo_device_info info;
    struct halo_str changes[HALO_REMARKS];
    char tiers[64], io[400] = "", stamp[HALO_GGUF_STAMP_BYTES];
    struct halo_ev ev;
    halo_device_thread_info(&port->device, &info, NULL);
    halo_ev_init(&ev, HALO_EV_LOADED, &job->msg.id);
    ev.loaded.model = halo_str_of(instance->name);
    ev.loaded.arch = halo_str_of(instance->model->arch);
    ev.loaded.device = halo_str_of(info.name);
    ev.loaded.context = instance->context;
    ev.loaded.kv_tokens = instance->kv_tokens;
    ev.loaded.has_kv_tokens = true;
    ev.loaded.weights_bytes = (int64_t)instance->weights_bytes;
    ev.loaded.kv_bytes = (int64_t)instance->kv_bytes;
    halo_gguf_stamp(instance->model->gguf, stamp);
    ev.loaded.stamp = halo_str_of(stamp);
    ev.loaded.has_stamp = true;
    ev.loaded.pinned = instance->pinned;
    ev.loaded.has_keep_alive_s = instance->keep_alive_ns > 0;
    ev.loaded.keep_alive_s = (int64_t)(instance->keep_alive_ns / 1000000000u);
    snprintf(tiers, sizeof(tiers), "{\"memory\":%llu}",
             (unsigned long long)(instance->weights_bytes + instance->kv_bytes));
    ev.loaded.tiers = halo_raw_of(tiers);
    if (load) {
        static const char *const methods[] = {"io_uring, registered buffers", "io_uring", "pread threads"};
        ev.loaded.load_ms = (double)(halo_clock_ns() - load->arrived_ns) / 1e6;
        if (load->report.elapsed_ns > 0)
            ev.loaded.gb_s = (double)load->report.bytes / (double)load->report.elapsed_ns;
        snprintf(io, sizeof(io), "%s, %s%s%s", methods[load->report.method],
                 load->report.direct ? "direct" : "buffered", load->report.notice[0] ? ": " : "", load->report.notice);
        ev.loaded.io = halo_str_of(io);
        ev.loaded.has_io = true;
        for (uint32_t i = 0; i < load->changes.n; i++)
            changes[i] = halo_str_of(load->changes.text[i]);
        ev.loaded.changes.at = changes;
        ev.loaded.changes.n = load->changes.n;
        ev.loaded.has_prefix_pages = load->n_restored > 0;
        ev.loaded.prefix_pages = load->n_restored;
    }
    halo_job_end(port, job, &ev);
}

static bool same_wish(const struct halo_msg_load *msg, const struct halo_instance *instance)
{
    const struct halo_part_load_params *params = &msg->params;
    return (!params->has_context || params->context == instance->context) &&
           (!params->has_kv_tokens ||
            halo_kv_pages_for((uint64_t)params->kv_tokens) * HALO_KV_PAGE_TOKENS == instance->kv_tokens) &&
           (!params->has_kv || (enum halo_kv_type)params->kv == instance->model->plan.kv[0].type);
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
    if (instance->state != HALO_INSTANCE_READY)
        park(instance, job);
    else if (!same_wish(&job->msg.load, instance))
        halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                           "model %s is loaded with other parameters (context %u, kv_tokens %u); unload it first",
                           instance->name, instance->context, instance->kv_tokens);
    else {
        take_stay(instance, &job->msg.load.params);
        put_loaded(port, job, instance, NULL);
    }
}

static bool device_matches(struct halo_port *port, struct halo_job *job)
{
    enum halo_wire_device wish = job->msg.load.params.device;
    const char *word = halo_word_name_wire_device(wish);
    if (wish == HALO_WIRE_DEVICE_AUTO || strcmp(word, port->device.ops->name) == 0)
        return true;
    halo_job_end_error(port, job, HALO_ERROR_UNSUPPORTED, "this engine runs on the %s device, not on %s",
                       port->device.ops->name, word);
    return false;
}

void halo_port_load(struct halo_port *port, struct halo_job *job)
{
    static_assert((int)HALO_WIRE_KV_F32 == (int)HALO_KV_F32 && (int)HALO_WIRE_KV_F16 == (int)HALO_KV_F16 &&
                      (int)HALO_WIRE_KV_Q8 == (int)HALO_KV_Q8,
                  "the words and the types have one order");
    const struct halo_msg_load *msg = &job->msg.load;
    struct halo_instance *instance = find(port, msg->model);
    if (instance) {
        load_again(port, job, instance);
        return;
    }
    if (!device_matches(port, job))
        return;
    if (port->n_instances == HALO_MAX_KNOWN) {
        struct halo_fault full;
        halo_fault_set(&full, HALO_FAULT_QUEUE_FULL, "%u models are loaded or wait to be, which is the limit",
                       port->n_instances);
        halo_fault_number(&full, "limit", HALO_MAX_KNOWN);
        halo_job_end_fault(port, job, &full);
        return;
    }
    instance = calloc(1, sizeof(*instance));
    struct halo_load *load = calloc(1, sizeof(*load));
    if (!instance || !load) {
        free(instance);
        free(load);
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a load");
        return;
    }
    halo_model_stem(msg->model.at, msg->model.len, instance->name);
    take_stay(instance, &msg->params);
    port->instances[port->n_instances++] = instance;
    load->job = job;
    load->instance = instance;
    load->route = &port->route;
    load->arrived_ns = job->arrived_ns;
    load->wish.context = msg->params.has_context ? (uint32_t)msg->params.context : 0;
    load->wish.kv_tokens = msg->params.has_kv_tokens ? (uint64_t)msg->params.kv_tokens : 0;
    load->wish.kv = msg->params.has_kv ? (enum halo_kv_type)msg->params.kv : HALO_KV_F16;
    snprintf(instance->path, sizeof(instance->path), "%.*s", (int)msg->model.len,
             msg->model.at); /* the io thread resolves it */
    job->load = load;
    halo_job_move(job, HALO_JOB_LOAD);
    halo_port_load_enqueue(port, load);
}

void halo_port_put_waiting(struct halo_port *port, const struct halo_load *load, struct halo_ev *ev)
{
    halo_port_put(port, ev);
    for (const struct halo_job *waiting = load->instance->waiting; waiting; waiting = waiting->wait_next) {
        if (waiting->msg.type != HALO_MSG_LOAD && waiting->msg.type != HALO_MSG_GENERATE)
            continue; /* the short ones have neither progress nor notices */
        ev->id = waiting->msg.id;
        halo_port_put(port, ev);
    }
}

void halo_port_notice_waiting(struct halo_port *port, const struct halo_load *load, const char *code, const char *text)
{
    const struct halo_job *job = load->job;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_NOTICE, &job->msg.id);
    ev.notice.code = halo_str_of(code);
    ev.notice.message = halo_str_of(text);
    halo_port_put_waiting(port, load, &ev);
}

void halo_port_load_progress(struct halo_port *port, struct halo_load *load)
{
    struct halo_job *job = load->job;
    atomic_store(&load->progress_posted, false);
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PROGRESS, &job->msg.id);
    ev.progress.phase = HALO_WIRE_PHASE_LOAD;
    ev.progress.done = (int64_t)atomic_load(&load->bytes_done);
    ev.progress.total = (int64_t)atomic_load(&load->bytes_total);
    ev.progress.has_step = true;
    ev.progress.step = halo_str_of("reading weights");
    halo_port_put_waiting(port, load, &ev);
}

/* What could not be done as wished, in the open. */
static void put_notice(struct halo_port *port, struct halo_job *job, const char *code, const char *text)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_NOTICE, &job->msg.id);
    ev.notice.code = halo_str_of(code);
    ev.notice.message = halo_str_of(text);
    halo_port_put(port, &ev);
}

static void put_notices(struct halo_port *port, struct halo_job *job, const struct halo_load *load)
{
    const char *problem = halo_chat_problem(load->instance->texts.chat);
    if (load->report.notice[0])
        put_notice(port, job, "io_fallback", load->report.notice);
    for (uint32_t i = 0; i < load->changes.n; i++)
        put_notice(port, job, "load_changed", load->changes.text[i]);
    if (load->prefix_fault.code != HALO_FAULT_NONE) {
        snprintf(port->prefix_problem, sizeof(port->prefix_problem), "saved prefixes of %.200s are ignored: %s",
                 load->instance->name, load->prefix_fault.text);
        halo_log(HALO_LOG_WARN, "%s", port->prefix_problem);
        put_notice(port, job, "prefixes_ignored", port->prefix_problem);
    }
    if (problem) {
        char text[400];
        snprintf(text, sizeof(text), "a chat template cannot be used, so `messages` that need it will be refused: %s",
                 problem);
        put_notice(port, job, "template_unusable", text);
    }
}

enum halo_load_stage halo_port_load_done(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_port *port = threads->port;
    struct halo_job *job = load->job, *waiting = load->instance->waiting;
    struct halo_instance *instance = load->instance;
    struct halo_fault fault = load->fault;
    HALO_COUNT(&port->stats, loads, 1);
    instance->waiting = NULL;
    job->load = NULL;
    if (fault.code == HALO_FAULT_NONE) {
        HALO_COUNT(&port->stats, load_bytes, load->report.bytes);
        HALO_COUNT(&port->stats, load_us, load->report.elapsed_ns / 1000);
        halo_instance_move(instance, HALO_INSTANCE_READY);
        instance->idle_since_ns = halo_clock_ns();
        port->n_restored += load->n_restored;
        put_notices(port, job, load);
        put_loaded(port, job, instance, load);
    } else {
        HALO_COUNT(&port->stats, loads_failed, 1);
        halo_job_end_fault(port, job, &fault);
        forget(port, instance);
        if (fault.code == HALO_FAULT_CANCELLED)
            halo_fault_set(&fault, HALO_FAULT_LOAD_FAILED, "the load that this request waited for was cancelled");
    }
    halo_port_load_over(port, load);
    dispatch_waiting(port, waiting, &fault);
    free(load->image);
    free(load);
    return HALO_LOAD_DONE;
}
