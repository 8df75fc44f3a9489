/* deliver.c: one line of the engine: to its record (record.c), and the line itself to the client under its id.
 *
 * The hot path: an envelope scan, a look-up, a rewrite of the id into the peer's buffer; no decoding, no allocation
 * while the buffer has room. The engine is not trusted to be sane: a line that is no event, or that its request cannot
 * have, is the reason to replace it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/envelope.h>
#include <protocol/message.h>

#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/reload.h>
#include <serve/resume.h>

#define GARBAGE_SHOWN 80

static const int replies[HALO_N_MSGS] = {
    [HALO_MSG_MODELS] = HALO_EV_MODELS,   [HALO_MSG_LOAD] = HALO_EV_LOADED,     [HALO_MSG_UNLOAD] = HALO_EV_UNLOADED,
    [HALO_MSG_STATUS] = HALO_EV_STATUS,   [HALO_MSG_STATS] = HALO_EV_STATS,     [HALO_MSG_GENERATE] = HALO_EV_DONE,
    [HALO_MSG_TOKENIZE] = HALO_EV_TOKENS, [HALO_MSG_DETOKENIZE] = HALO_EV_TEXT, [HALO_MSG_TEMPLATE] = HALO_EV_TEMPLATE,
    [HALO_MSG_SCORE] = HALO_EV_DONE,      [HALO_MSG_PLAN] = HALO_EV_PLAN,       [HALO_MSG_BENCH] = HALO_EV_BENCH,
    [HALO_MSG_DIAG] = HALO_EV_DIAG,       [HALO_MSG_RESET] = HALO_EV_RESET,
};

int halo_deliver_garbage(struct halo_fault *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    fault->code = HALO_FAULT_INTERNAL;
    return -EPROTO;
}

static bool may_have(enum halo_msg_type request, int event)
{
    switch (event) {
    case HALO_EV_ERROR:
    case HALO_EV_PROGRESS:
    case HALO_EV_NOTICE:
    case HALO_EV_DONE: /* of any request: cancelled */ return true;
    case HALO_EV_STARTED:
    case HALO_EV_COMMITTED:
    case HALO_EV_TOKEN: return request == HALO_MSG_GENERATE;
    case HALO_EV_SCORE_ROW: return request == HALO_MSG_SCORE;
    default: return event == replies[request];
    }
}

static void pass_on(struct halo_daemon *daemon, struct halo_request *request, int type, const char *line,
                    const struct halo_envelope *env)
{
    struct halo_peer *peer = request->peer;
    if (!peer || (type == HALO_EV_COMMITTED && !request->wants_ids))
        return;
    daemon->counters.events++;
    daemon->engine.n_read_events++;
    if (halo_envelope_rewrite(&peer->sink.pending, line, env, &request->client_id) < 0) {
        halo_peer_break(peer);
        return;
    }
    halo_peer_mark(peer);
}

static void end(struct halo_daemon *daemon, struct halo_request *request, int type, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    daemon->counters.requests_done++;
    halo_peer_detach(request);
    if (request->reload_model) {
        bool failed = type != HALO_EV_LOADED;
        bool known = failed && type == HALO_EV_ERROR && halo_ev_decode(&ev, line, len, 0, &refusal) == 0;
        halo_reload_ended(daemon, request, !failed, known ? ev.error.message.at : "the engine did not say why");
        if (known)
            halo_ev_finish(&ev);
    }
    halo_dispatch_ended(daemon, request);
}

/* `done` of the last engine, which knows nothing of the rows before it. */
static bool is_joined_score(const struct halo_request *request, int type, const char *line,
                            const struct halo_envelope_field *fields)
{
    size_t bytes;
    return type == HALO_EV_DONE && request->type == HALO_MSG_SCORE && request->n_resumes > 0 && request->score.over &&
           !halo_envelope_str_bytes(line, fields[HALO_EVENT_FINISH_REASON].value, &bytes);
}

/* An error that only says that the model went before the request came. */
static bool found_nothing(const struct halo_request *request, int type, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (type != HALO_EV_ERROR || !request->missed || halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
        return false;
    bool found = ev.error.code != HALO_ERROR_NOT_FOUND;
    halo_ev_finish(&ev);
    return !found;
}

static int deliver_to(struct halo_daemon *daemon, struct halo_request *request, int type, const char *line, size_t len,
                      const struct halo_envelope *env, const struct halo_envelope_field *fields,
                      struct halo_fault *fault)
{
    bool terminal = halo_ev_is_terminal((enum halo_ev_type)type);
    if (!may_have(request->type, type))
        return halo_deliver_garbage(fault, "a %s event for a %s request", halo_ev_type_name((enum halo_ev_type)type),
                                    halo_msg_type_name(request->type));
    if (terminal && halo_request_is_query(request->type)) {
        halo_query_answer(daemon, request, type == replies[request->type] ? line : NULL, len);
        return 0;
    }
    if (found_nothing(request, type, line, len) && halo_dispatch_again(daemon, request))
        return 0;
    int r = halo_record_event(daemon, request, type, line, len, fields, fault);
    if (r < 0)
        return r;
    if (is_joined_score(request, type, line, fields))
        halo_resume_score_done(request);
    else
        pass_on(daemon, request, type, line, env);
    if (terminal)
        end(daemon, request, type, line, len);
    return 0;
}

/* Lines that belong to no request. */
static int deliver_unaddressed(struct halo_daemon *daemon, int type, const char *line, size_t len,
                               struct halo_fault *fault)
{
    if (type == HALO_EV_UNLOADED) /* its keep-alive time was over, or it made room */
        return halo_record_model(daemon, NULL, line, len, fault);
    if (type != HALO_EV_NOTICE && type != HALO_EV_ERROR)
        return halo_deliver_garbage(fault, "a %s event without an id", halo_ev_type_name((enum halo_ev_type)type));
    halo_log(HALO_LOG_WARN, "engine says: %.*s", (int)(len > 512 ? 512 : len), line);
    return 0;
}

int halo_deliver_line(struct halo_daemon *daemon, const char *line, size_t len, struct halo_fault *fault)
{
    struct halo_engine *engine = &daemon->engine;
    struct halo_envelope_field fields[HALO_N_EVENT_FIELDS] = {
        [HALO_EVENT_TOK_ID] = {"tok_id"},
        [HALO_EVENT_POS] = {"pos"},
        [HALO_EVENT_TEXT] = {"text"},
        [HALO_EVENT_LOGPROB] = {"logprob"},
        [HALO_EVENT_FINISH_REASON] = {"finish_reason"},
    };
    struct halo_envelope env;
    int shown = (int)(len > GARBAGE_SHOWN ? GARBAGE_SHOWN : len);
    if (halo_envelope_scan_fields(line, len, &env, fields, HALO_N_EVENT_FIELDS) != 0)
        return halo_deliver_garbage(fault, "no JSON object at byte %zu of '%.*s'", env.bad_at, shown, line);
    int type = halo_ev_type_from_name(line + env.type.at, env.type.len);
    if (type < 0)
        return halo_deliver_garbage(fault, "no known event in '%.*s'", shown, line);
    if (type == HALO_EV_HEARTBEAT) {
        halo_engine_heartbeat(engine, line, len);
        return 0;
    }
    if (env.id_kind == HALO_ID_NONE)
        return deliver_unaddressed(daemon, type, line, len, fault);
    uint64_t id = env.id_kind == HALO_ID_INT && env.id_num > 0 ? (uint64_t)env.id_num : UINT64_MAX;
    if (id > daemon->requests.last_id)
        return halo_deliver_garbage(fault, "an event for an id that was never given: '%.*s'", shown, line);
    if (id == engine->hello_id)
        return halo_engine_hello(engine, line, len, fault);
    if (id == daemon->save_id) {
        halo_shutdown_saved(daemon, line, len);
        return 0;
    }
    struct halo_request *request = halo_request_find(&daemon->requests, id);
    if (!request || request->state == HALO_REQUEST_WAITING) {
        daemon->counters.events_late++;
        return 0;
    }
    return deliver_to(daemon, request, type, line, len, &env, fields, fault);
}
