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

#include "port_priv.h"
#include <engine/keep.h>

/* What a `save` has come to. */
struct halo_port_saving {
    uint64_t deadline_ns;
    struct halo_loaded *done[HALO_MAX_LOADED]; /* not looked into: a model may be gone by now */
    uint32_t n_done;
    uint64_t left_bytes;
    int64_t n_models, n_pages, n_bytes;
    struct halo_str faults[HALO_MAX_LOADED];
    char fault_texts[HALO_MAX_LOADED][512];
    size_t n_faults;
};

bool halo_port_can_save(const struct halo_port *port)
{
    return port->device.keeps_prefixes && port->device.ops->kv_read;
}

/* ---- one model ---- */

static void begin(struct halo_port *port, struct halo_loaded *loaded, struct halo_request *request,
                  uint64_t deadline_ns, uint64_t most_bytes)
{
    struct halo_save *save = &port->save;
    *save = (struct halo_save){.request = request,
                               .loaded = loaded,
                               .deadline_ns = deadline_ns,
                               .most_bytes = most_bytes,
                               .all_bytes = port->config.save_bytes};
    halo_gguf_stamp(loaded->model->gguf, save->stamp);
    if (getrandom(save->save_id, sizeof(save->save_id), GRND_NONBLOCK) != (ssize_t)sizeof(save->save_id))
        memcpy(save->save_id, &deadline_ns, sizeof(deadline_ns)); /* it only tells saves apart */
    if (port->load_waits) /* two models that take turns must not push each other's file out */
        halo_prefix_disk_name(halo_gguf_fingerprint(port->load_now->loaded->model->gguf), save->coming);
    loaded->n_users++;
    halo_note_post(&port->device.box, &save->note, HALO_NOTE_SAVE_PAGES, save);
}

static struct halo_loaded *going(const struct halo_port *port)
{
    for (uint32_t i = 0; i < port->n_loaded; i++)
        if (port->loaded[i]->state == HALO_MODEL_DRAINING && port->loaded[i]->to_save && port->loaded[i]->n_users == 0)
            return port->loaded[i];
    return NULL;
}

static void note_going(struct halo_port *port, const struct halo_save *save, const char *problem)
{
    struct halo_loaded *loaded = save->loaded;
    if (problem) {
        loaded->save_fault = save->fault;
        if (port->load_waits)
            halo_port_notice_waiting(port, port->load_now, "prefixes_not_saved", problem);
    } else {
        loaded->n_saved = save->n_done;
    }
}

/* ---- the request ---- */

static bool was_done(const struct halo_port_saving *saving, const struct halo_loaded *loaded)
{
    for (uint32_t i = 0; i < saving->n_done; i++)
        if (saving->done[i] == loaded)
            return true;
    return false;
}

static struct halo_loaded *most_recent(const struct halo_port *port, const struct halo_port_saving *saving)
{
    struct halo_loaded *found = NULL;
    for (uint32_t i = 0; i < port->n_loaded; i++) {
        struct halo_loaded *loaded = port->loaded[i];
        if (loaded->state == HALO_MODEL_READY && !was_done(saving, loaded) &&
            (!found || loaded->idle_since_ns > found->idle_since_ns))
            found = loaded;
    }
    return found;
}

static void answer(struct halo_port *port, struct halo_request *request)
{
    struct halo_port_saving *saving = request->saving;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_SAVED, &request->msg.id);
    ev.saved.models = saving->n_models;
    ev.saved.pages = saving->n_pages;
    ev.saved.bytes = saving->n_bytes;
    for (size_t i = 0; i < saving->n_faults; i++)
        saving->faults[i] = halo_str_of(saving->fault_texts[i]);
    ev.saved.faults = (struct halo_str_list){saving->faults, saving->n_faults};
    port->saver = NULL;
    halo_request_end(port, request, &ev);
}

static void save_requested(struct halo_port *port, struct halo_request *request)
{
    struct halo_port_saving *saving = request->saving;
    struct halo_loaded *loaded = saving->n_done < HALO_MAX_LOADED ? most_recent(port, saving) : NULL;
    if (!loaded || halo_clock_ns() >= saving->deadline_ns || atomic_load(&request->cancel)) {
        answer(port, request);
        return;
    }
    saving->done[saving->n_done++] = loaded;
    begin(port, loaded, request, saving->deadline_ns, saving->left_bytes);
}

static void note_requested(struct halo_port_saving *saving, const struct halo_save *save, const char *problem)
{
    uint64_t n_bytes = save->writer.n_bytes;
    if (problem) {
        snprintf(saving->fault_texts[saving->n_faults++], sizeof(saving->fault_texts[0]), "%s", problem);
    } else if (save->n_done > 0) {
        saving->n_models++;
        saving->n_pages += save->n_done;
        saving->n_bytes += (int64_t)n_bytes;
        saving->left_bytes -= n_bytes < saving->left_bytes ? n_bytes : saving->left_bytes;
    }
}

void halo_port_save(struct halo_port *port, struct halo_request *request)
{
    const struct halo_msg_save *msg = &request->msg.save;
    if (!halo_port_can_save(port)) {
        halo_request_end_error(port, request, HALO_ERROR_UNSUPPORTED,
                               port->device.ops->kv_read ? "the engine was started without a folder for prefixes"
                                                         : "pages of this device cannot be read");
        return;
    }
    if (port->saver) {
        halo_request_end_error(port, request, HALO_ERROR_QUEUE_FULL, "prefixes are being saved already");
        return;
    }
    struct halo_port_saving *saving = request->saving = calloc(1, sizeof(*saving));
    if (!saving) {
        halo_request_end_error(port, request, HALO_ERROR_OUT_OF_MEMORY, "no memory to save prefixes");
        return;
    }
    saving->left_bytes = port->config.save_bytes;
    saving->deadline_ns = halo_clock_ns() + (uint64_t)msg->deadline_ms * 1000000;
    port->saver = request;
    halo_request_move(request, HALO_REQUEST_DEVICE);
    halo_port_save_next(port);
}

void halo_port_saving_destroy(struct halo_port_saving *saving)
{
    free(saving);
}

/* ---- both ---- */

void halo_port_save_next(struct halo_port *port)
{
    if (port->save.loaded)
        return;
    struct halo_loaded *loaded = going(port);
    if (loaded) {
        loaded->to_save = false;
        begin(port, loaded, NULL, halo_clock_ns() + port->config.save_ms * 1000000, port->config.save_bytes);
    } else if (port->saver) {
        save_requested(port, port->saver);
    }
}

void halo_port_save_done(struct halo_port *port, struct halo_save *save)
{
    struct halo_request *request = save->request;
    struct halo_loaded *loaded = save->loaded;
    char problem[512] = "";
    if (save->fault.code != HALO_FAULT_NONE) {
        snprintf(problem, sizeof(problem), "prefixes of %.200s are not saved: %s", loaded->name, save->fault.text);
        halo_log(HALO_LOG_WARN, "%s", problem);
    }
    if (request)
        note_requested(request->saving, save, problem[0] ? problem : NULL);
    else
        note_going(port, save, problem[0] ? problem : NULL);
    save->loaded = NULL;
    halo_port_let_go(port, loaded);
    halo_port_save_next(port);
}
