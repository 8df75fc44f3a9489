/* room.c: loads one at a time, and models that go to make room for them.
 *
 * Port thread. The device thread says what a load needs and what there is; who may go is known here: a model that no
 * request uses and that nobody pinned, the one that was used least recently first. Before anybody goes, the caches of
 * streamed experts give back what they can do without, also those of models that are in use or pinned. Nobody goes for
 * a load that would not fit even without all of them. Whoever waits for a load hears of each model that goes for it.
 */
#include <assert.h>
#include <stdio.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/size.h>

#include "port/port_priv.h"

#define MAX_ROUNDS 64 /* of one load: other programs take memory as well */
#define MAX_SHRINKS 4 /* of them, rounds in which caches of experts shrink: reads may be under way into what could go */

/* ---- who may go ---- */

static bool may_go(const struct halo_instance *instance)
{
    return instance->state == HALO_INSTANCE_READY && instance->n_users == 0 && !instance->pinned;
}

static struct halo_instance *least_recent(const struct halo_port *port)
{
    struct halo_instance *found = NULL;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (may_go(instance) && (!found || instance->idle_since_ns < found->idle_since_ns))
            found = instance;
    }
    return found;
}

/* ---- one load at a time ---- */

static void tell_place(struct halo_port *port, const struct halo_load *load, uint32_t place, uint32_t n)
{
    char step[256];
    snprintf(step, sizeof(step), "waits until %.200s is loaded", port->load_now->instance->name);
    halo_port_tell_progress(port, load, HALO_WIRE_PHASE_QUEUE, n - place, n, step);
}

static void tell_places(struct halo_port *port)
{
    uint32_t n = 0, place = 0;
    for (const struct halo_load *load = port->load_queue; load; load = load->next)
        n++;
    for (const struct halo_load *load = port->load_queue; load; load = load->next)
        tell_place(port, load, ++place, n);
}

static void start_next(struct halo_port *port)
{
    struct halo_load *load = port->load_queue;
    if (port->load_now || !load)
        return;
    port->load_queue = load->next;
    load->queued = false;
    port->load_now = load;
    load->next = NULL;
    bool refused = !least_recent(port) && halo_port_may_load(port, &load->fault) < 0;
    halo_load_go(load, refused ? HALO_LOAD_DONE : HALO_LOAD_OPEN);
    tell_places(port);
}

void halo_port_load_enqueue(struct halo_port *port, struct halo_load *load)
{
    struct halo_load **at = &port->load_queue;
    uint32_t n = 1;
    load->queued = true;
    load->evictable_bytes = HALO_LOAD_ASK;
    for (; *at; at = &(*at)->next)
        n++;
    *at = load;
    if (port->load_now)
        tell_place(port, load, n, n);
    else
        start_next(port);
}

void halo_port_load_over(struct halo_port *port, struct halo_load *load)
{
    if (port->load_now != load)
        return; /* it was cancelled in the queue */
    port->load_now = NULL;
    start_next(port);
}

void halo_port_load_cancel(struct halo_port *port, struct halo_load *load)
{
    struct halo_load **at = &port->load_queue;
    atomic_store(&load->cancel, true); /* whoever has it will look */
    if (!load->queued)
        return;
    load->queued = false;
    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
    halo_fault_set(&load->fault, HALO_FAULT_CANCELLED, "cancelled");
    halo_load_go(load, HALO_LOAD_DONE);
}

/* ---- room ---- */

static void evict(struct halo_port *port, struct halo_instance *instance, const struct halo_load *load)
{
    char text[640], size[HALO_SIZE_TEXT];
    uint64_t idle_s = (halo_clock_ns() - instance->idle_since_ns) / 1000000000u;
    int n = snprintf(text, sizeof(text), "model %.200s is unloaded to make room for %.200s: %s, not used for %llu s",
                     instance->name, load->instance->name, halo_size_text(halo_instance_bytes(instance), size),
                     (unsigned long long)idle_s);
    if (load->need_place)
        snprintf(text + n, sizeof(text) - (size_t)n, "; at most %u models are loaded at once", port->device.max_models);
    halo_port_tell_notice(port, load, HALO_NOTICE_MODEL_EVICTED, text);
    HALO_COUNT(&port->stats, models_evicted, 1);
    halo_port_drain(port, instance, HALO_UNLOAD_ROOM);
}

static bool is_making_room(const struct halo_port *port)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if ((port->instances[i]->state == HALO_INSTANCE_DRAINING ||
             port->instances[i]->state == HALO_INSTANCE_LEAVING) &&
            port->instances[i]->why == HALO_UNLOAD_ROOM)
            return true;
    return halo_port_is_resizing(port);
}

enum halo_load_stage halo_port_make_room(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_port *port = threads->port;
    uint64_t evictable = 0, spare = 0, room = load->room_bytes;
    bool place = !load->need_place;
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (may_go(port->instances[i]))
            evictable += halo_instance_bytes(port->instances[i]);
        else
            spare += halo_port_spare_bytes(port, port->instances[i]);
    bool enough = load->need_place ? evictable > 0 : load->need_bytes - room <= evictable + spare;
    bool shrinks =
        enough && !load->need_place && load->n_shrinks < MAX_SHRINKS && halo_port_spare_bytes(port, NULL) > 0;
    if (!enough || load->n_rounds++ == MAX_ROUNDS) {
        load->evictable_bytes = evictable; /* the device thread finds the words */
    } else if (shrinks) {
        port->load_waits = true;
        load->n_shrinks++;
        halo_port_shrink(port, load->need_bytes - room);
    } else {
        port->load_waits = true;
        while (!place || room < load->need_bytes) {
            struct halo_instance *instance = least_recent(port);
            if (!instance)
                break;
            room += halo_instance_bytes(instance);
            place = true;
            evict(port, instance, load);
        }
    }
    if (!port->load_waits || !is_making_room(port)) {
        port->load_waits = false;
        return HALO_LOAD_ADMIT;
    }
    return HALO_LOAD_ROOM;
}

void halo_port_room_made(struct halo_port *port)
{
    if (!port->load_waits || is_making_room(port))
        return;
    port->load_waits = false;
    halo_load_go(port->load_now, HALO_LOAD_ADMIT);
}
