/* query.c: hello, status, stats: the daemon's own knowledge, and the engine's part when it comes within status_ms. */
#include <stdio.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/answer.h>
#include <serve/daemon.h>

#define MS 1000000ull
#define FAULT_TEXT_BYTES HALO_BREAKER_TEXT_BYTES

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
}

/* Facts for people: what the engine said, and what will be loaded again after a restart. */
static void write_more(struct halo_daemon *daemon, const struct halo_ev *engine_said, struct halo_json *w)
{
    halo_json_reset(w);
    halo_json_object_begin(w);
    halo_json_key(w, "engine_answered");
    halo_json_bool(w, engine_said != NULL);
    halo_json_key(w, "engine_steps");
    halo_json_i64(w, daemon->engine.steps);
    halo_json_key(w, "engine_deaths");
    halo_json_u64(w, daemon->counters.engine_deaths);
    halo_json_key(w, "remembered_models");
    halo_json_array_begin(w);
    for (size_t i = 0; i < daemon->loaded.n_models; i++)
        halo_json_str(w, daemon->loaded.models[i].name);
    halo_json_array_end(w);
    halo_json_key(w, "request_line_bytes");
    halo_json_i64(w, daemon->quota.bytes);
    if (engine_said && engine_said->status.has_more) {
        halo_json_key(w, "engine");
        halo_json_raw(w, engine_said->status.more.at, engine_said->status.more.len);
    }
    halo_json_object_end(w);
}

static struct halo_part_engine_info engine_info(const struct halo_engine *engine, const struct halo_ev *said,
                                                const char *reason)
{
    struct halo_part_engine_info info = {
        .state = halo_str_of(halo_engine_state_name(engine)),
        .has_pid = engine->run && engine->run->spawned,
        .restarts = engine->n_restarts,
        .has_phase = halo_engine_phase(engine)[0] != '\0',
        .phase = halo_str_of(halo_engine_phase(engine)),
        .has_reason = reason[0] != '\0',
        .reason = halo_str_of(reason),
        .has_doctor = engine->daemon->checkup.found.text[0] != '\0',
        .doctor = halo_str_of(engine->daemon->checkup.found.text),
    };
    if (info.has_pid)
        info.pid = engine->run->process.pid;
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
    const size_t *n = daemon->requests.n_states;
    struct halo_engine *engine = &daemon->engine;
    ev->status.has_engine = true;
    if (halo_engine_is_broken(engine))
        halo_breaker_answer(engine, reason, FAULT_TEXT_BYTES);
    else
        snprintf(reason, FAULT_TEXT_BYTES, "%s", engine->reason);
    ev->status.engine = engine_info(engine, said, reason);
    if (said) {
        ev->status.models = said->status.models;
        ev->status.has_memory = said->status.has_memory;
        ev->status.memory = said->status.memory;
    }
    ev->status.queue = (int64_t)(n[HALO_REQUEST_WAITING] + n[HALO_REQUEST_SENT]);
    ev->status.running = (int64_t)(n[HALO_REQUEST_RUNNING] + n[HALO_REQUEST_CANCELLING]);
    ev->status.has_connections = true;
    ev->status.connections = (int64_t)daemon->n_peers;
    ev->status.has_uptime_ms = true;
    ev->status.uptime_ms = (int64_t)((halo_clock_ns() - daemon->started_ns) / MS);
    ev->status.has_version = true;
    ev->status.version = halo_str_of(HALO_VERSION);
    write_more(daemon, said, &daemon->scratch);
    ev->status.has_more = true;
    ev->status.more = (struct halo_raw){daemon->scratch.at, daemon->scratch.len};
}

/* Up to three objects, one behind the other in an array; spans are taken once the buffer moves no more. */
static void fill_stats(struct halo_daemon *daemon, struct halo_ev *ev, const struct halo_ev *said)
{
    struct halo_json *w = &daemon->scratch;
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

static void compose(struct halo_daemon *daemon, struct halo_request *request, const struct halo_ev *said)
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
    if (daemon->scratch.error < 0)
        halo_answer_failed(request, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory for this answer");
    else
        halo_answer_terminal(request, &ev);
    halo_json_reset(&daemon->scratch);
}

/* `line`: the engine's answer, NULL when there is none. */
void halo_query_answer(struct halo_daemon *daemon, struct halo_request *request, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev said;
    bool heard = line && halo_ev_decode(&said, line, len, 0, &refusal) == 0;
    if (line && !heard)
        halo_log(HALO_LOG_WARN, "the engine's answer to %s cannot be used: %s", halo_msg_type_name(request->type),
                 refusal.message);
    if (request->peer)
        compose(daemon, request, heard ? &said : NULL);
    if (heard)
        halo_ev_finish(&said);
    halo_dispatch_ended(daemon, request);
}

static int ask_engine(struct halo_daemon *daemon, struct halo_request *request)
{
    struct halo_engine *engine = &daemon->engine;
    struct halo_json *out = halo_engine_out(engine);
    struct halo_msg msg;
    if (!out || (engine->state != HALO_ENGINE_READY && engine->state != HALO_ENGINE_LOADING))
        return -1;
    halo_msg_init(&msg, request->type);
    msg.id = halo_id_of((int64_t)request->id);
    if (halo_msg_encode(out, &msg) < 0)
        return -1;
    halo_request_move(&daemon->requests, request, HALO_REQUEST_SENT);
    return 0;
}

void halo_query_begin(struct halo_peer *peer, enum halo_msg_type type, const struct halo_id *id)
{
    struct halo_daemon *daemon = peer->daemon;
    struct halo_engine *engine = &daemon->engine;
    struct halo_request *request = halo_request_create(&daemon->requests, type, id);
    if (!request) {
        halo_answer_error(peer, id, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory for this request");
        return;
    }
    halo_peer_attach(peer, request);
    /* The first hello may come before the engine's: it is worth a moment, the client wants to know the features. */
    bool wait =
        type == HALO_MSG_HELLO ? !engine->known && !halo_engine_is_broken(engine) : ask_engine(daemon, request) == 0;
    if (!wait) {
        halo_query_answer(daemon, request, NULL, 0);
        return;
    }
    request->expires_ns = halo_clock_ns() + (uint64_t)daemon->config->status_ms * MS;
    halo_expire_arm(daemon, request->expires_ns);
}

void halo_query_engine_known(struct halo_daemon *daemon)
{
    struct halo_request *next;
    for (struct halo_request *request = daemon->requests.wait_first; request; request = next) {
        next = request->wait_next;
        if (request->type == HALO_MSG_HELLO)
            halo_query_answer(daemon, request, NULL, 0);
    }
}
