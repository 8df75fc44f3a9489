/* report.c: hello, status, stats: what the daemon says of itself, with what the engine said of itself. */
#include <stdio.h>

#include <base/clock.h>
#include <protocol/message.h>

#include "daemon_priv.h"

#define MS 1000000ull
#define FAULT_TEXT_BYTES HALO_REQUESTS_REFUSAL_BYTES

const char *halo_report_engine_state(const struct halo_daemon *daemon)
{
    static const char *const names[HALO_N_ENGINE_STATES] = {
        [HALO_ENGINE_DOWN] = "waiting to restart",
        [HALO_ENGINE_STARTING] = "starting",
        [HALO_ENGINE_UP] = "loading",
        [HALO_ENGINE_DYING] = "dying",
    };
    if (daemon->requests.breaker.open)
        return "broken";
    return daemon->requests.link.state == HALO_LINK_READY ? "ready" : names[daemon->engine.state];
}

const char *halo_report_death_note(struct halo_daemon *daemon, bool advise)
{
    const char *found = daemon->checkup.last.text;
    int n = 0;
    daemon->note[0] = '\0';
    if (daemon->n_held > 0)
        n = snprintf(daemon->note, sizeof(daemon->note), "; the GPU's driver still had %u of its hardware queues",
                     daemon->n_held);
    if (found[0] != '\0')
        snprintf(daemon->note + n, sizeof(daemon->note) - (size_t)n, " (halo-doctor: %s)", found);
    else if (advise && daemon->requests.link.known && halo_engine_has_gpu(&daemon->engine))
        snprintf(daemon->note + n, sizeof(daemon->note) - (size_t)n, "; `halo-doctor` may know why");
    return daemon->note;
}

static void fill_hello(struct halo_daemon *daemon, struct halo_ev *ev, struct halo_str features[HALO_ENGINE_FEATURES])
{
    const struct halo_config *config = daemon->config;
    const struct halo_engine *engine = &daemon->engine;
    ev->hello.protocol = HALO_PROTOCOL_VERSION;
    ev->hello.server = halo_str_of("halod " HALO_VERSION);
    ev->hello.limits = (struct halo_part_limits){
        .connections = config->connections,
        .open_requests = config->open_requests,
        .queued_requests = config->queued_requests,
        .line_bytes = config->line_bytes,
        .stop_strings = HALO_LIMIT_STOP_STRINGS,
        .stop_bytes = HALO_LIMIT_STOP_BYTES,
        .answer_bytes = HALO_LIMIT_ANSWER_BYTES,
        .answer_values = HALO_LIMIT_ANSWER_VALUES,
        .output_high_bytes = config->output_high_bytes,
        .output_low_bytes = config->output_low_bytes,
        .stall_ms = config->stall_ms,
    };
    for (size_t i = 0; i < engine->n_features; i++)
        features[i] = halo_str_of(engine->features[i]);
    ev->hello.features = (struct halo_str_list){features, engine->n_features};
    ev->hello.has_worker = config->remote != NULL;
    if (config->remote)
        ev->hello.worker = halo_str_of(config->remote);
}

/* Facts for people: what the engine said, and what will be loaded again after a restart. */
static void write_more(struct halo_daemon *daemon, const struct halo_ev *engine_said, struct halo_json *w)
{
    halo_json_reset(w);
    halo_json_object_begin(w);
    halo_json_key(w, "engine_answered");
    halo_json_bool(w, engine_said != NULL);
    halo_json_key(w, "engine_steps");
    halo_json_i64(w, daemon->engine.beat.steps);
    halo_json_key(w, "engine_deaths");
    halo_json_u64(w, daemon->counters.engine_deaths);
    if (daemon->requests.link.reason[0] != '\0') {
        halo_json_key(w, "last_death");
        halo_json_str(w, daemon->requests.link.reason);
    }
    if (daemon->n_held > 0) {
        halo_json_key(w, "queues_held");
        halo_json_u64(w, daemon->n_held);
    }
    halo_json_key(w, "remembered_models");
    halo_json_array_begin(w);
    for (size_t i = 0; i < daemon->requests.models.n_models; i++)
        halo_json_str(w, daemon->requests.models.models[i].name);
    halo_json_array_end(w);
    halo_json_key(w, "request_line_bytes");
    halo_json_i64(w, daemon->quota.used[HALO_QUOTA_LINES]);
    halo_json_key(w, "unread_event_bytes");
    halo_json_i64(w, daemon->quota.used[HALO_QUOTA_OUTPUT]);
    if (engine_said && engine_said->status.has_more) {
        halo_json_key(w, "engine");
        halo_json_raw(w, engine_said->status.more.at, engine_said->status.more.len);
    }
    halo_json_object_end(w);
}

static struct halo_part_engine_info engine_info(const struct halo_daemon *daemon, const struct halo_ev *said,
                                                const char *reason)
{
    const struct halo_engine *engine = &daemon->engine;
    const char *found = daemon->checkup.last.text;
    struct halo_part_engine_info info = {
        .state = halo_str_of(halo_report_engine_state(daemon)),
        .has_pid = halo_engine_pid(engine) != 0,
        .pid = halo_engine_pid(engine),
        .restarts = daemon->n_restarts,
        .has_phase = halo_engine_phase(engine)[0] != '\0',
        .phase = halo_str_of(halo_engine_phase(engine)),
        .has_reason = reason[0] != '\0',
        .reason = halo_str_of(reason),
        .has_doctor = found[0] != '\0',
        .doctor = halo_str_of(found),
    };
    if (daemon->config->remote) {
        info.has_worker = true;
        info.worker = halo_str_of(daemon->config->remote);
    }
    if (!said || !said->status.has_engine)
        return info;
    info.has_device = said->status.engine.has_device;
    info.device = said->status.engine.device;
    if (said->status.engine.has_phase) { /* of now: a heartbeat may have come in the middle of work that is over */
        info.has_phase = true;
        info.phase = said->status.engine.phase;
    }
    return info;
}

/* `reason`: room for what is wrong with the engine, alive until the event is written. */
static void fill_status(struct halo_daemon *daemon, struct halo_ev *ev, const struct halo_ev *said,
                        char reason[FAULT_TEXT_BYTES])
{
    const struct halo_requests *requests = &daemon->requests;
    ev->status.has_engine = true;
    if (requests->breaker.open)
        halo_requests_breaker_text(requests, reason, FAULT_TEXT_BYTES);
    else if (requests->link.state != HALO_LINK_READY)
        snprintf(reason, FAULT_TEXT_BYTES, "%s", requests->link.reason);
    else if (!said) /* a working engine needs no reason */
        snprintf(reason, FAULT_TEXT_BYTES, "it did not answer within %lld ms, so its models are not listed",
                 (long long)daemon->config->status_ms);
    else
        reason[0] = '\0';
    ev->status.engine = engine_info(daemon, said, reason);
    if (said) {
        ev->status.models = said->status.models;
        ev->status.has_memory = said->status.has_memory;
        ev->status.memory = said->status.memory;
    }
    ev->status.queue = (int64_t)halo_requests_n_queued(requests);
    ev->status.running = (int64_t)halo_requests_n_running(requests);
    ev->status.has_connections = true;
    ev->status.connections = (int64_t)daemon->clients.peers.n;
    ev->status.has_uptime_ms = true;
    ev->status.uptime_ms = (int64_t)((halo_clock_ns() - requests->started_ns) / MS);
    ev->status.has_version = true;
    ev->status.version = halo_str_of(HALO_VERSION);
    write_more(daemon, said, &daemon->requests.scratch);
    ev->status.has_more = true;
    ev->status.more = (struct halo_raw){daemon->requests.scratch.at, daemon->requests.scratch.len};
}

/* Up to three objects, one behind the other in an array; spans are taken once the buffer moves no more. */
static void fill_stats(struct halo_daemon *daemon, struct halo_ev *ev, const struct halo_ev *said)
{
    struct halo_json *w = &daemon->requests.scratch;
    halo_json_reset(w);
    halo_json_array_begin(w);
    size_t counters_at = w->len;
    halo_counters_write(&daemon->counters, w);
    size_t histograms_at = w->len + 1; /* behind the comma */
    halo_counters_write_histograms(&daemon->counters, w);
    size_t engine_at = w->len + 1;
    if (said) {
        halo_json_object_begin(w);
        halo_json_key(w, "counters");
        halo_json_raw(w, said->stats.counters.at, said->stats.counters.len);
        halo_json_key(w, "histograms");
        halo_json_raw(w, said->stats.histograms.at, said->stats.histograms.len);
        halo_json_object_end(w);
    }
    size_t end = w->len;
    halo_json_array_end(w);
    ev->stats.counters = (struct halo_raw){w->at + counters_at, histograms_at - 1 - counters_at};
    ev->stats.histograms = (struct halo_raw){w->at + histograms_at, engine_at - 1 - histograms_at};
    ev->stats.has_engine = said != NULL;
    if (said)
        ev->stats.engine = (struct halo_raw){w->at + engine_at, end - engine_at};
}

void halo_report_query(struct halo_daemon *daemon, struct halo_request *request, const struct halo_ev *said)
{
    static const enum halo_ev_type types[] = {
        [HALO_MSG_HELLO] = HALO_EV_HELLO, [HALO_MSG_STATUS] = HALO_EV_STATUS, [HALO_MSG_STATS] = HALO_EV_STATS};
    struct halo_str features[HALO_ENGINE_FEATURES];
    char reason[FAULT_TEXT_BYTES];
    struct halo_ev ev;
    halo_ev_init(&ev, types[request->type], &request->client_id);
    if (request->type == HALO_MSG_HELLO)
        fill_hello(daemon, &ev, features);
    else if (request->type == HALO_MSG_STATUS)
        fill_status(daemon, &ev, said, reason);
    else
        fill_stats(daemon, &ev, said);
    if (daemon->requests.scratch.error < 0)
        halo_answer_failed(request, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory for this answer");
    else
        halo_answer_terminal(request, &ev);
    halo_json_reset(&daemon->requests.scratch);
}
