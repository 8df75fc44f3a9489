/* load.c: loads as requests: of a new model, or of one that is there or on its way. Port thread. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/size.h>
#include <model/streamed.h>

#include "port/loaded_priv.h"
#include "port/port_priv.h"

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
        halo_port_tell_loaded(port, job, instance, NULL);
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
    if (instance && (!instance->matched || !halo_port_is_path(name))) {
        load_again(port, job, instance);
        return;
    }
    if (port->n_instances == HALO_MAX_KNOWN) {
        struct halo_fault full;
        halo_fault_set(&full, HALO_FAULT_QUEUE_FULL, "%u models are loaded or waiting to be loaded, which is the limit",
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
        halo_port_tell_notices(port, load);
        halo_port_tell_loaded(port, load->job, instance, load);
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
