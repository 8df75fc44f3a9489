/* instances.c: the models that are loaded or on their way: found, held, given back.
 *
 * Port thread. A model's users are requests; an unload takes no new ones and waits for those it has.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "port/port_priv.h"

/* ---- finding ---- */

/* Of a model whose file is not known yet: whether it may be the one. */
static bool may_be(const struct halo_instance *instance, struct halo_str name, const char *stem)
{
    char asked[HALO_MODEL_STEM_BYTES];
    if (halo_str_is(name, instance->path))
        return true;
    halo_model_stem(instance->path, strlen(instance->path), asked);
    return strcmp(asked, stem) == 0;
}

struct halo_instance *halo_port_instance_named(const struct halo_port *port, struct halo_str name)
{
    char stem[HALO_MODEL_STEM_BYTES] = "";
    if (!memchr(name.at, '/', name.len))
        halo_model_stem(name.at, name.len, stem);
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->matched && (halo_str_is(name, instance->name) || strcmp(stem, instance->name) == 0))
            return instance;
    }
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (!port->instances[i]->matched && may_be(port->instances[i], name, stem))
            return port->instances[i];
    return NULL;
}

struct halo_instance *halo_port_instance_of(const struct halo_port *port, const struct halo_file_id *id)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i]->matched && halo_file_id_is_unwritten(&port->instances[i]->file_id, id))
            return port->instances[i];
    return NULL;
}

struct halo_instance *halo_port_instance_before(const struct halo_port *port, const char *path,
                                                const struct halo_file_id *id)
{
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->matched && !halo_file_id_is_unwritten(&instance->file_id, id) &&
            (strcmp(instance->path, path) == 0 || halo_file_id_is_same(&instance->file_id, id)))
            return instance;
    }
    return NULL;
}

/* ---- users ---- */

void halo_port_hold_instance(struct halo_job *job, struct halo_instance *instance)
{
    assert(instance->state == HALO_INSTANCE_READY && !job->holds_model);
    job->model = instance;
    job->holds_model = true;
    instance->n_users++;
}

void halo_port_release_model(struct halo_job *job)
{
    if (!job->holds_model)
        return;
    struct halo_instance *instance = job->model;
    job->holds_model = false;
    assert(instance->n_users > 0);
    instance->n_users--;
    instance->idle_since_ns = halo_clock_ns();
}

/* ---- out ---- */

bool halo_port_can_save(const struct halo_port *port)
{
    return port->device.keeps_prefixes && port->device.ops->kv_read;
}

void halo_port_drain(struct halo_port *port, struct halo_instance *instance, enum halo_unload_why why)
{
    instance->why = why;
    instance->to_save = port->config.save_ms > 0 && halo_port_can_save(port);
    halo_instance_move(instance, HALO_INSTANCE_DRAINING);
}

void halo_port_unload_unused(struct halo_port *port)
{
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state != HALO_INSTANCE_DRAINING || instance->n_users > 0 || instance->to_save ||
            instance->resizing)
            continue;
        halo_instance_move(instance, HALO_INSTANCE_LEAVING);
        halo_note_post(&port->device.box, &instance->note, HALO_NOTE_UNLOAD);
    }
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

void halo_port_forget_instance(struct halo_port *port, struct halo_instance *instance)
{
    uint32_t at = 0;
    while (port->instances[at] != instance)
        at++;
    assert(!instance->waiting && instance->n_users == 0);
    port->instances[at] = port->instances[--port->n_instances];
    halo_instance_move(instance, HALO_INSTANCE_GONE);
    halo_texts_destroy(&instance->texts);
    halo_model_destroy(instance->model);
    free(instance->stages_shown);
    free(instance);
}
