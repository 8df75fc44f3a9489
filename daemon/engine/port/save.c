/* save.c: cached prefixes to the disk: those of a model that is about to go, and for the request `save` those of
 * all models, one after the other.
 *
 * Port thread. One model at a time, since all write to one folder of limited size; models that go come first. Of a
 * `save` the models used last come first, for time and bytes may not do for all. What could not be saved is said in the
 * answer; a request for a model that is being saved waits meanwhile.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <base/clock.h>
#include <base/log.h>

#include "port/port_priv.h"
#include <engine/keep.h>

/* What a `save` has come to. */
struct halo_port_saving {
    uint64_t deadline_ns;
    struct halo_instance *done[HALO_MAX_LOADED]; /* not looked into: a model may be gone by now */
    uint32_t n_done;
    uint64_t left_bytes;
    int64_t n_models, n_pages, n_bytes;
    struct halo_str faults[HALO_MAX_LOADED];
    char fault_texts[HALO_MAX_LOADED][512];
    size_t n_faults;
};

/* ---- one model ---- */

static void begin(struct halo_port *port, struct halo_instance *instance, struct halo_job *job, uint64_t deadline_ns,
                  uint64_t most_bytes)
{
    struct halo_save *save = &port->save;
    *save = (struct halo_save){.job = job,
                               .instance = instance,
                               .deadline_ns = deadline_ns,
                               .most_bytes = most_bytes,
                               .all_bytes = port->config.save_bytes};
    halo_gguf_stamp(instance->model->gguf, save->stamp);
    if (getrandom(save->save_id, sizeof(save->save_id), GRND_NONBLOCK) != (ssize_t)sizeof(save->save_id))
        memcpy(save->save_id, &deadline_ns, sizeof(deadline_ns)); /* it only tells saves apart */
    if (port->load_waits) /* two models that take turns must not push each other's file out */
        halo_prefix_disk_name(halo_gguf_fingerprint(port->load_now->instance->model->gguf), save->coming);
    instance->n_users++;
    halo_note_post(&port->device.box, &save->note, HALO_NOTE_SAVE_PAGES);
}

static struct halo_instance *going(const struct halo_port *port)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i]->state == HALO_INSTANCE_DRAINING && port->instances[i]->to_save &&
            port->instances[i]->n_users == 0)
            return port->instances[i];
    return NULL;
}

static void note_going(struct halo_port *port, const struct halo_save *save, const char *problem)
{
    struct halo_instance *instance = save->instance;
    if (problem) {
        instance->save_fault = save->fault;
        if (port->load_waits)
            halo_port_tell_notice(port, port->load_now, HALO_NOTICE_PREFIXES_NOT_SAVED, problem);
        else
            halo_log(HALO_LOG_WARN, "%s", problem);
    } else {
        instance->n_saved = save->n_done;
    }
}

/* ---- the request ---- */

static bool was_done(const struct halo_port_saving *saving, const struct halo_instance *instance)
{
    for (uint32_t i = 0; i < saving->n_done; i++)
        if (saving->done[i] == instance)
            return true;
    return false;
}

/* A model that has users is in use now. */
static uint64_t last_use_ns(const struct halo_instance *instance)
{
    return instance->n_users > 0 ? UINT64_MAX : instance->idle_since_ns;
}

static struct halo_instance *most_recent(const struct halo_port *port, const struct halo_port_saving *saving)
{
    struct halo_instance *found = NULL;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state == HALO_INSTANCE_READY && !was_done(saving, instance) &&
            (!found || last_use_ns(instance) > last_use_ns(found)))
            found = instance;
    }
    return found;
}

static void answer(struct halo_port *port, struct halo_job *job)
{
    struct halo_port_saving *saving = job->saving;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_SAVED, &job->msg.id);
    ev.saved.models = saving->n_models;
    ev.saved.pages = saving->n_pages;
    ev.saved.bytes = saving->n_bytes;
    for (size_t i = 0; i < saving->n_faults; i++)
        saving->faults[i] = halo_str_of(saving->fault_texts[i]);
    ev.saved.faults = (struct halo_str_list){saving->faults, saving->n_faults};
    port->saver = NULL;
    halo_job_end(port, job, &ev);
}

static void save_requested(struct halo_port *port, struct halo_job *job)
{
    struct halo_port_saving *saving = job->saving;
    struct halo_instance *instance = saving->n_done < HALO_MAX_LOADED ? most_recent(port, saving) : NULL;
    if (!instance || halo_clock_ns() >= saving->deadline_ns || atomic_load(&job->cancel)) {
        answer(port, job);
        return;
    }
    saving->done[saving->n_done++] = instance;
    begin(port, instance, job, saving->deadline_ns, saving->left_bytes);
}

static void note_requested(struct halo_port_saving *saving, const struct halo_save *save, const char *problem)
{
    uint64_t n_bytes = save->writer.n_bytes;
    if (problem) {
        halo_log(HALO_LOG_WARN, "%s", problem);
        snprintf(saving->fault_texts[saving->n_faults++], sizeof(saving->fault_texts[0]), "%s", problem);
    } else if (save->n_done > 0) {
        saving->n_models++;
        saving->n_pages += save->n_done;
        saving->n_bytes += (int64_t)n_bytes;
        saving->left_bytes -= n_bytes < saving->left_bytes ? n_bytes : saving->left_bytes;
    }
}

void halo_port_save(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_save *msg = &job->msg.save;
    if (!halo_port_can_save(port)) {
        halo_job_end_error(port, job, HALO_ERROR_UNSUPPORTED,
                           port->device.ops->kv_read ? "the engine was started without a folder for prefixes"
                                                     : "pages of this device cannot be read");
        return;
    }
    if (port->saver) {
        struct halo_fault full;
        halo_fault_set(&full, HALO_FAULT_QUEUE_FULL, "prefixes are being saved already, for one `save` at a time");
        halo_fault_number(&full, "limit", 1);
        halo_job_end_fault(port, job, &full);
        return;
    }
    struct halo_port_saving *saving = job->saving = calloc(1, sizeof(*saving));
    if (!saving) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory to save prefixes");
        return;
    }
    saving->left_bytes = port->config.save_bytes;
    saving->deadline_ns = halo_clock_ns() + (uint64_t)msg->deadline_ms * 1000000;
    port->saver = job;
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_port_save_next(port); /* before an unload that follows */
}

/* ---- both ---- */

void halo_port_save_next(struct halo_port *port)
{
    if (port->save.instance)
        return;
    struct halo_instance *instance = going(port);
    if (instance) {
        instance->to_save = false;
        begin(port, instance, NULL, halo_clock_ns() + port->config.save_ms * 1000000, port->config.save_bytes);
    } else if (port->saver) {
        save_requested(port, port->saver);
    }
}

void halo_port_save_done(struct halo_port *port, struct halo_save *save)
{
    struct halo_job *job = save->job;
    struct halo_instance *instance = save->instance;
    char problem[512] = "";
    if (save->fault.code != HALO_FAULT_NONE)
        snprintf(problem, sizeof(problem), "prefixes of %.200s are not saved: %s", instance->name, save->fault.text);
    if (job)
        note_requested(job->saving, save, problem[0] ? problem : NULL);
    else
        note_going(port, save, problem[0] ? problem : NULL);
    save->instance = NULL;
    instance->n_users--; /* not a use: idle_since stays */
}
