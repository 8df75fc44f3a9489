/* engine.c: the engine's states, and what its hello and its heartbeats say. */
#include <serve/engine.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/state.h>
#include <protocol/message.h>

#include <serve/daemon.h>
#include <serve/reload.h>

#define BIT(state) HALO_STATE_BIT(HALO_ENGINE_##state)

static const unsigned moves[HALO_N_ENGINE_STATES] = {
    [HALO_ENGINE_DOWN] = BIT(STARTING),
    [HALO_ENGINE_STARTING] = BIT(LOADING) | BIT(DYING),
    [HALO_ENGINE_LOADING] = BIT(READY) | BIT(DYING),
    [HALO_ENGINE_READY] = BIT(DYING),
    [HALO_ENGINE_DYING] = BIT(DOWN),
};

bool halo_engine_may_move(enum halo_engine_state from, enum halo_engine_state to)
{
    return halo_state_may_move(moves, from, to);
}

void halo_engine_move(struct halo_engine *engine, enum halo_engine_state to)
{
    assert(halo_engine_may_move(engine->state, to));
    engine->state = to;
}

const char *halo_engine_state_name(const struct halo_engine *engine)
{
    static const char *const names[HALO_N_ENGINE_STATES] = {
        [HALO_ENGINE_DOWN] = "waiting to restart",
        [HALO_ENGINE_STARTING] = "starting",
        [HALO_ENGINE_LOADING] = "loading",
        [HALO_ENGINE_READY] = "ready",
        [HALO_ENGINE_DYING] = "dying",
    };
    return halo_engine_is_broken(engine) ? "broken" : names[engine->state];
}

int halo_engine_hello(struct halo_engine *engine, const char *line, size_t len, struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    int r = halo_ev_decode(&ev, line, len, 0, &refusal);
    if (r != 0)
        return halo_deliver_garbage(fault, "its hello cannot be read: %s", refusal.message);
    if (ev.type != HALO_EV_HELLO || engine->state != HALO_ENGINE_STARTING ||
        ev.hello.protocol != HALO_PROTOCOL_VERSION) {
        r = halo_deliver_garbage(fault, "it answered hello with '%.*s'", (int)(len > 120 ? 120 : len), line);
        halo_ev_finish(&ev);
        return r;
    }
    engine->n_features = 0;
    for (size_t i = 0; i < ev.hello.features.n && i < HALO_ENGINE_FEATURES; i++) {
        struct halo_str feature = ev.hello.features.at[i];
        if (feature.len < HALO_ENGINE_FEATURE_BYTES)
            memcpy(engine->features[engine->n_features++], feature.at, feature.len + 1);
    }
    halo_log(HALO_LOG_INFO, "engine answers after %llu ms: %s",
             (unsigned long long)((halo_clock_ns() - engine->spawned_ns) / 1000000), ev.hello.server.at);
    halo_ev_finish(&ev);
    engine->known = true;
    halo_engine_move(engine, HALO_ENGINE_LOADING);
    halo_query_engine_known(engine->daemon);
    halo_reload_begin(engine->daemon);
    return 0;
}

void halo_engine_heartbeat(struct halo_engine *engine, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0) {
        halo_log(HALO_LOG_WARN, "a heartbeat that cannot be read: %s", refusal.message);
        return;
    }
    engine->steps = ev.heartbeat.steps;
    engine->running = ev.heartbeat.running;
    for (size_t i = 0; i < ev.heartbeat.threads.n; i++) {
        const struct halo_part_thread_phase *said = &ev.heartbeat.threads.at[i];
        if (said->thread == HALO_WIRE_THREAD_UNKNOWN)
            continue; /* a newer engine's */
        struct halo_engine_thread *thread = &engine->threads[said->thread];
        snprintf(thread->phase, sizeof(thread->phase), "%s", said->phase.at);
        thread->activity = said->activity;
        thread->ms = said->ms;
    }
    halo_ev_finish(&ev);
}
