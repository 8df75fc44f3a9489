/* pressure.c: acts on memory pressure, and lets caches of experts give memory back and take it again.
 *
 * Port thread, which alone has the time: it looks once a second, more often when little is left, and at once when the
 * kernel's trigger fires or the control group is at its limit. What is to be done is decided by <engine/pressure.h>;
 * the memory is given back by the device thread when a layer has ended, and taken again by the prefetch thread. One
 * resize of a model at a time; a model does not go before its resize is over. Whatever is done is a notice to the
 * replies that it slows down, or a line of the log where there are none.
 */
#include <assert.h>
#include <stdio.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/size.h>

#include "port/port_priv.h"

#define TEXT_BYTES 400
#define PLENTY 3    /* reserves that are more than a burst takes */
#define NEAR_RATE 4 /* looks for each one of a quiet time: as often as poll returns */

/* ---- telling ---- */

/* To the replies of a model; NULL: of every model that streams. */
static void tell(struct halo_port *port, const struct halo_instance *of, const char *text)
{
    bool is_told = false;
    for (const struct halo_job *job = port->jobs; job; job = job->next) {
        const struct halo_instance *model = job->holds_model ? job->model : NULL;
        struct halo_ev ev;
        if (job->msg.type != HALO_MSG_GENERATE || !model || model->streamed_bytes == 0 || (of && model != of))
            continue;
        halo_ev_init_notice(&ev, &job->msg.id, HALO_NOTICE_MEMORY_PRESSURE, text);
        halo_port_put(port, &ev);
        is_told = true;
    }
    if (!is_told || !port->config.link) /* halod logs what it passes on */
        halo_log(HALO_LOG_WARN, "%s", text);
}

static void tell_level(struct halo_port *port, bool has_risen)
{
    static const char *const begins[HALO_PRESSURE_LEVELS] = {
        [HALO_PRESSURE_SHRINK] = "caches of experts give memory back",
        [HALO_PRESSURE_NO_GUESSES] = "no expert is read ahead on a guess",
        [HALO_PRESSURE_NO_LOADS] = "loads are refused unless an idle model can go for them",
    };
    static const char *const ends[HALO_PRESSURE_LEVELS] = {
        [HALO_PRESSURE_CALM] = "caches of experts may grow again",
        [HALO_PRESSURE_SHRINK] = "experts are read ahead again",
        [HALO_PRESSURE_NO_GUESSES] = "loads are accepted again",
    };
    const struct halo_pressure_sample *m = &port->memory;
    char text[TEXT_BYTES], available[HALO_SIZE_TEXT], reserve[HALO_SIZE_TEXT];
    snprintf(text, sizeof(text),
             "%s: %s are available, the reserve is %s, some tasks waited for memory %.0f %% of the last 10 s and all "
             "of them %.0f %%; %s",
             has_risen ? "memory pressure rises" : "memory pressure eases",
             halo_size_text(m->available_bytes, available),
             halo_size_text(halo_budget_reserve(m->total_bytes), reserve), m->some, m->full,
             has_risen ? begins[port->pressure.level] : ends[port->pressure.level]);
    tell(port, NULL, text);
}

/* ---- resizing ---- */

static bool can_resize(const struct halo_instance *instance)
{
    return instance->state == HALO_INSTANCE_READY && instance->experts && !instance->resizing;
}

static uint64_t spare_bytes(const struct halo_instance *instance)
{
    struct halo_experts_memory memory;
    if (!can_resize(instance))
        return 0;
    halo_experts_memory(instance->experts, &memory);
    return memory.spare_bytes;
}

uint64_t halo_port_spare_bytes(const struct halo_port *port, const struct halo_instance *instance)
{
    uint64_t bytes = 0;
    if (instance)
        return spare_bytes(instance);
    for (uint32_t i = 0; i < port->n_instances; i++)
        bytes += spare_bytes(port->instances[i]);
    return bytes;
}

bool halo_port_is_resizing(const struct halo_port *port)
{
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i]->resizing)
            return true;
    return false;
}

/* Whether `a` should rather have memory than `b`: in use before idle, then the one that was used last. */
static bool is_wanted_more(const struct halo_instance *a, const struct halo_instance *b)
{
    if ((a->n_users > 0) != (b->n_users > 0))
        return a->n_users > 0;
    return a->n_users == 0 && a->idle_since_ns > b->idle_since_ns;
}

/* bytes: to give back; 0: one slab is taken again. */
static void resize(struct halo_port *port, struct halo_instance *instance, uint64_t bytes)
{
    bool grows = bytes == 0;
    instance->resizing = true;
    instance->resize = (struct halo_resize){.grows = grows};
    atomic_store(&instance->takes_memory, grows);
    if (!grows)
        halo_experts_want(instance->experts, bytes);
    halo_note_post(grows ? &port->prefetch.box : &port->device.box, &instance->resize.note, HALO_NOTE_RESIZE);
}

void halo_port_shrink(struct halo_port *port, uint64_t bytes)
{
    while (bytes > 0) {
        struct halo_instance *found = NULL;
        for (uint32_t i = 0; i < port->n_instances; i++)
            if (spare_bytes(port->instances[i]) > 0 && (!found || is_wanted_more(found, port->instances[i])))
                found = port->instances[i];
        if (!found)
            return;
        uint64_t spare = spare_bytes(found), part = spare < bytes ? spare : bytes;
        resize(port, found, part);
        bytes -= part;
    }
}

/* More is missing while a step that takes long gives memory back, layer by layer. */
static void want_more(struct halo_port *port, uint64_t bytes)
{
    for (uint32_t i = 0; i < port->n_instances && bytes > 0; i++) {
        struct halo_experts_memory memory;
        if (!port->instances[i]->resizing || port->instances[i]->resize.grows)
            continue;
        halo_experts_memory(port->instances[i]->experts, &memory);
        uint64_t part = memory.spare_bytes < bytes ? memory.spare_bytes : bytes;
        if (part > 0)
            halo_experts_want(port->instances[i]->experts, part);
        bytes -= part;
    }
}

/* One slab, for the model that wants it most, as far as budget and reserve allow. */
static void grow(struct halo_port *port)
{
    const struct halo_pressure_sample *m = &port->memory;
    struct halo_experts_memory memory;
    struct halo_instance *found = NULL;
    uint64_t held = 0;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state == HALO_INSTANCE_LOADING)
            return; /* it may need what is free */
        held += instance->state == HALO_INSTANCE_GONE ? 0 : halo_instance_bytes(instance);
        if (can_resize(instance) && atomic_load(&instance->absent_bytes) > 0 &&
            (!found || is_wanted_more(instance, found)))
            found = instance;
    }
    if (!found || halo_port_is_resizing(port))
        return;
    halo_experts_memory(found->experts, &memory);
    if (held + memory.slab_bytes <= halo_device_thread_budget(&port->device) &&
        m->available_bytes >= halo_budget_reserve(m->total_bytes) + memory.slab_bytes)
        resize(port, found, 0);
}

static void tell_shrunk(struct halo_port *port, const struct halo_instance *instance)
{
    char text[TEXT_BYTES + 512], given[HALO_SIZE_TEXT], left[HALO_SIZE_TEXT];
    struct halo_experts_memory memory;
    bool for_load = port->load_waits && port->load_now;
    halo_experts_memory(instance->experts, &memory);
    snprintf(
        text, sizeof(text), "model %.200s gives back %s of its cache of experts%s%.200s: %u of %u slots (%s) are left",
        instance->name, halo_size_text(instance->resize.done_bytes, given),
        for_load ? " to make room for " : ", because memory is short", for_load ? port->load_now->instance->name : "",
        memory.n_slots, instance->n_slots, halo_size_text(memory.slots_bytes, left));
    if (for_load)
        halo_port_tell_notice(port, port->load_now, HALO_NOTICE_EXPERTS_SHRUNK, text);
    else
        tell(port, instance, text);
}

void halo_port_resize_done(struct halo_port *port, struct halo_resize *resize)
{
    struct halo_instance *instance = HALO_NOTE_ITEM(resize, struct halo_instance, resize);
    struct halo_experts_memory memory;
    char size[HALO_SIZE_TEXT];
    instance->resizing = false;
    halo_experts_want(instance->experts, 0); /* what was asked for since comes with the next resize */
    halo_experts_memory(instance->experts, &memory);
    if (resize->fault.code != HALO_FAULT_NONE)
        halo_log(HALO_LOG_WARN, "the cache of experts of %s cannot grow: %s", instance->name, resize->fault.text);
    else if (resize->done_bytes > 0 && !resize->grows)
        tell_shrunk(port, instance);
    else if (resize->done_bytes > 0)
        halo_log(memory.absent_bytes > 0 ? HALO_LOG_DEBUG : HALO_LOG_INFO,
                 "the cache of experts of %s takes %s again: %u of %u slots are in memory", instance->name,
                 halo_size_text(resize->done_bytes, size), memory.n_slots, instance->n_slots);
}

/* ---- watching ---- */

void halo_port_allow_guesses(const struct halo_port *port, const struct halo_instance *instance)
{
    if (instance->experts)
        halo_experts_allow_guesses(instance->experts, port->pressure.level < HALO_PRESSURE_NO_GUESSES);
}

enum halo_memory_call halo_port_memory_call(const struct halo_port *port, short trigger, short events)
{
    bool is_limited = port->watch && halo_pressure_watch_limited(port->watch, events);
    if (port->watch && halo_pressure_watch_fired(port->watch, trigger))
        return HALO_MEMORY_STALL;
    return is_limited ? HALO_MEMORY_LIMIT : HALO_MEMORY_TIME;
}

/* When memory is not far from being short, it may be gone before a whole interval is over. */
static uint64_t interval_ns(const struct halo_port *port)
{
    const struct halo_pressure_sample *m = &port->memory;
    bool is_near = m->available_bytes < halo_budget_reserve(m->total_bytes) / 4 * 3;
    return port->pressure.rules.sample_ns / (is_near || port->pressure.level > HALO_PRESSURE_CALM ? NEAR_RATE : 1);
}

/* A burst of another process may take what is left before anybody looks again: then the kernel takes slots. Where much
 * is left, that is not worth what it costs. */
static void let_purge(const struct halo_port *port)
{
    const struct halo_pressure_sample *m = &port->memory;
    uint64_t reserve = halo_budget_reserve(m->total_bytes);
    for (uint32_t i = 0; i < port->n_instances; i++)
        if (port->instances[i]->state == HALO_INSTANCE_READY && port->instances[i]->experts)
            halo_experts_let_purge(port->instances[i]->experts, m->available_bytes < PLENTY * reserve ? reserve : 0);
}

void halo_port_watch_memory(struct halo_port *port, uint64_t now_ns, enum halo_memory_call call)
{
    enum halo_pressure_level before = port->pressure.level;
    struct halo_pressure_actions actions;
    if (!port->watch || (call == HALO_MEMORY_TIME && now_ns - port->memory.now_ns < interval_ns(port)))
        return;
    halo_pressure_watch_read(port->watch, now_ns, &port->memory);
    port->memory.is_triggered = call == HALO_MEMORY_STALL;
    let_purge(port);
    halo_pressure_step(&port->pressure, &port->memory, &actions);
    if (actions.has_moved) {
        for (uint32_t i = 0; i < port->n_instances; i++)
            if (port->instances[i]->state == HALO_INSTANCE_READY)
                halo_port_allow_guesses(port, port->instances[i]);
        tell_level(port, port->pressure.level > before);
    }
    if (actions.give_bytes > 0 && halo_port_is_resizing(port))
        want_more(port, actions.give_bytes);
    else if (actions.give_bytes > 0)
        halo_port_shrink(port, actions.give_bytes);
    else if (actions.may_grow)
        grow(port);
}

int halo_port_may_load(const struct halo_port *port, struct halo_fault *fault)
{
    const struct halo_pressure_sample *m = &port->memory;
    char available[HALO_SIZE_TEXT], reserve[HALO_SIZE_TEXT];
    if (port->pressure.level < HALO_PRESSURE_NO_LOADS)
        return 0;
    int r = halo_fault_set(
        fault, HALO_FAULT_OUT_OF_MEMORY,
        "memory is short: %s are available, the reserve is %s; stop what else uses memory, or unload "
        "a model, and try again when `status` no longer says no_loads",
        halo_size_text(m->available_bytes, available), halo_size_text(halo_budget_reserve(m->total_bytes), reserve));
    halo_fault_number(fault, "free_bytes", m->available_bytes);
    return r;
}

void halo_port_write_pressure(const struct halo_port *port, struct halo_json *w)
{
    const struct halo_pressure_sample *m = &port->memory;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"available_bytes", m->available_bytes}, {"reserve_bytes", halo_budget_reserve(m->total_bytes)}};
    halo_json_object_begin(w);
    halo_json_key(w, "level");
    halo_json_str(w, halo_pressure_level_name(port->pressure.level));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        halo_json_key(w, numbers[i].name);
        halo_json_u64(w, numbers[i].value);
    }
    halo_json_key(w, "some_percent");
    halo_json_fix3(w, m->some);
    halo_json_key(w, "full_percent");
    halo_json_fix3(w, m->full);
    halo_json_key(w, "source");
    halo_json_str(w, port->watch->path);
    halo_json_key(w, "trigger");
    halo_json_bool(w, port->watch->fd >= 0);
    halo_json_object_end(w);
}
