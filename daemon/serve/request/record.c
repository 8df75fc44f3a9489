/* record.c: what an event of the engine means for the record of its request: state, phase, and what another engine
 * would need to continue.
 *
 * The engine is not trusted: tokens and rows must come without gap or repeat, or it is replaced.
 */
#include "record_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/log.h>
#include <protocol/message.h>

#include "table_priv.h"

#define PRINT_BYTES 512

/* Its engine committed something of it: it is no suspect (any more). */
static void note_commit(struct halo_requests *requests, struct halo_request *request)
{
    halo_breaker_engine_progressed(&requests->breaker);
    request->progressed = true;
    if (requests->alone == request->id) {
        requests->alone = 0;
        requests->dispatch_due = true;
    }
}

static const char *phase_of(const struct halo_event_line *line)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    const char *phase = NULL;
    if (halo_ev_decode(&ev, line->at, line->len, 0, &refusal) != 0)
        return NULL;
    if (ev.progress.phase == HALO_WIRE_PHASE_QUEUE)
        phase = "queued";
    else if (ev.progress.phase == HALO_WIRE_PHASE_LOAD)
        phase = "loading";
    else if (ev.progress.phase == HALO_WIRE_PHASE_PREFILL)
        phase = "prefill";
    else if (ev.progress.phase == HALO_WIRE_PHASE_PROFILE)
        phase = "profile";
    halo_ev_finish(&ev);
    return phase;
}

static void begin_running(struct halo_requests *requests, struct halo_request *request)
{
    if (request->state == HALO_REQUEST_SENT)
        halo_request_move(requests, request, HALO_REQUEST_RUNNING);
}

/* The model that the reply comes from, when it is one that the daemon brings back. */
static void bind_model(struct halo_requests *requests, struct halo_request *request, struct halo_str name)
{
    const struct halo_known_model *model = halo_known_models_find(&requests->models, name);
    if (!model)
        return;
    request->model = strdup(model->name);
    request->print = strdup(model->print);
    halo_known_models_touch(&requests->models, name);
    request->record_lost = request->record_lost || !request->model || !request->print;
}

static int note_started(struct halo_requests *requests, struct halo_request *request,
                        const struct halo_event_line *line, struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (request->started_ns != 0)
        return halo_event_line_refuse(fault, "a second started event");
    request->started_ns = requests->now_ns;
    request->phase = "prefill";
    begin_running(requests, request);
    int r = halo_ev_decode(&ev, line->at, line->len, 0, &refusal);
    if (r == HALO_MSG_E_REFUSED)
        return halo_event_line_refuse(fault, "%s", refusal.message);
    if (r < 0) {
        request->record_lost = true; /* no memory: it streams, but no other engine can continue it */
        return 0;
    }
    bind_model(requests, request, ev.started.model);
    snprintf(request->effective_md5, sizeof(request->effective_md5), "%s", ev.started.effective_md5.at);
    halo_ev_finish(&ev);
    return 0;
}

static int note_committed(struct halo_requests *requests, struct halo_request *request,
                          const struct halo_event_line *line, struct halo_fault *fault)
{
    int64_t tok_id = -1, pos = -1;
    if (!halo_event_line_i64(line, HALO_EVENT_TOK_ID, &tok_id) || tok_id < 0 || tok_id > INT32_MAX)
        return halo_event_line_refuse(fault, "a committed event without a token id");
    if (!halo_event_line_i64(line, HALO_EVENT_POS, &pos) || pos != (int64_t)request->n_tokens ||
        request->started_ns == 0)
        return halo_event_line_refuse(fault, "token %lld of a reply that has %zu", (long long)pos, request->n_tokens);
    halo_request_note_token(requests, request, (int32_t)tok_id);
    request->phase = "decode";
    note_commit(requests, request);
    begin_running(requests, request);
    return 0;
}

static int note_row(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line,
                    struct halo_fault *fault)
{
    struct halo_score_record *score = &request->score;
    int64_t pos = -1;
    double logprob;
    if (!halo_event_line_i64(line, HALO_EVENT_POS, &pos) || pos != score->next)
        return halo_event_line_refuse(fault, "row %lld of a score that is at %lld", (long long)pos,
                                      (long long)score->next);
    score->next++;
    score->over = !halo_event_line_f64(line, HALO_EVENT_LOGPROB, &logprob);
    if (!score->over) {
        score->nll_sum -= logprob;
        score->n_nll++;
    }
    request->phase = "prefill";
    note_commit(requests, request);
    begin_running(requests, request);
    return 0;
}

/* A reply can continue where these are as they were: which device, how much context, which files. */
static void print_of(const struct halo_ev *loaded, char text[PRINT_BYTES])
{
    snprintf(text, PRINT_BYTES, "on %.200s with a context of %lld, files %.64s", loaded->loaded.device.at,
             (long long)loaded->loaded.context, loaded->loaded.has_stamp ? loaded->loaded.stamp.at : "unknown");
}

/* What a load may ask for. */
static bool is_count(int64_t n)
{
    return n >= 1 && n <= INT32_MAX;
}

/* The load that brings the model back as it is now: the line by which it came, and what the engine made of it. 0 or
 * -ENOMEM. */
static int remember(struct halo_requests *requests, const struct halo_request *request, const struct halo_ev *ev,
                    const char *print)
{
    const struct halo_known_model *known = halo_known_models_find(&requests->models, ev->loaded.model);
    const char *line = known ? known->line : request->line;
    size_t len = known ? known->line_len : request->line_len;
    struct halo_json w;
    struct halo_refusal refusal;
    struct halo_msg msg;
    int r = halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal);
    if (r != 0)
        return r == -ENOMEM ? r : -EINVAL; /* it was encoded here */
    struct halo_part_load_params *params = &msg.load.params;
    if (is_count(ev->loaded.context)) {
        params->has_context = true;
        params->context = ev->loaded.context;
    }
    if (ev->loaded.has_kv_tokens && is_count(ev->loaded.kv_tokens)) {
        params->has_kv_tokens = true;
        params->kv_tokens = ev->loaded.kv_tokens;
    }
    params->has_pin = params->pin = ev->loaded.pinned;
    params->has_keep_alive_s = ev->loaded.has_keep_alive_s;
    params->keep_alive_s = ev->loaded.keep_alive_s;
    msg.load.has_name = true;
    msg.load.name = ev->loaded.model;
    halo_json_init(&w);
    r = halo_msg_encode(&w, &msg);
    if (r == 0)
        r = halo_known_models_put(&requests->models, ev->loaded.model,
                                  ev->loaded.has_path ? ev->loaded.path : halo_str_of(""), request->owner, print, w.at,
                                  w.len - 1);
    halo_json_finish(&w);
    halo_msg_finish(&msg);
    return r;
}

/* Requests that the engine has and that name the model found it gone, or will. */
static void note_gone(struct halo_requests *requests, const struct halo_ev *ev)
{
    struct halo_known_model *model = halo_known_models_find(&requests->models, ev->unloaded.model);
    struct halo_request *request = halo_request_first(requests);
    if (ev->unloaded.reason == HALO_WIRE_UNLOAD_ROOM)
        requests->counters->models_evicted++;
    if (ev->unloaded.reason != HALO_WIRE_UNLOAD_ASKED)
        halo_log_limited(&requests->log_limit, HALO_LOG_INFO, "model %.200s was unloaded: %s", ev->unloaded.model.at,
                         ev->unloaded.reason == HALO_WIRE_UNLOAD_ROOM ? "another model needed the memory"
                                                                      : "its keep-alive time has passed");
    for (; model && request; request = halo_request_next(request))
        if (halo_request_awaits_output(request) && request->type != HALO_MSG_LOAD && request->needs &&
            halo_known_models_find(&requests->models, halo_str_of(request->needs)) == model)
            request->missed = true;
    halo_known_models_remove(&requests->models, ev->unloaded.model);
}

int halo_record_model(struct halo_requests *requests, const struct halo_request *request,
                      const struct halo_event_line *line, struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    char print[PRINT_BYTES];
    int r = halo_ev_decode(&ev, line->at, line->len, 0, &refusal);
    if (r == HALO_MSG_E_REFUSED)
        return halo_event_line_refuse(fault, "%s", refusal.message);
    if (r < 0)
        return 0; /* no memory: the model is not remembered, the client still gets its answer */
    if (ev.type == HALO_EV_UNLOADED) {
        note_gone(requests, &ev);
    } else if (request) {
        struct halo_known_model *model = halo_known_models_find(&requests->models, ev.loaded.model);
        print_of(&ev, print);
        if (request->reload_model)
            r = model ? halo_known_model_set_print(model, print) : 0;
        else
            r = remember(requests, request, &ev, print);
        if (r < 0)
            halo_log(HALO_LOG_WARN,
                     "no memory to record a loaded model: it will not be reloaded after the engine's death");
    }
    halo_ev_finish(&ev);
    return 0;
}

static const char *model_of(const struct halo_request *load)
{
    return load->reload_model ? load->reload_model : load->needs ? load->needs : "a model";
}

/* Of the requests that load one model, each gets its notices: the oldest one's are logged. */
static bool is_first_load(const struct halo_requests *requests, const struct halo_request *load)
{
    const struct halo_request *first = halo_request_first(requests);
    while (first != load && !(first->type == HALO_MSG_LOAD && strcmp(model_of(first), model_of(load)) == 0))
        first = halo_request_next(first);
    return first == load;
}

/* A reply's only notice is about a loop. A load's notices also go to the log, for the person who runs the daemon. */
static void note_notice(struct halo_requests *requests, struct halo_request *request,
                        const struct halo_event_line *line)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if ((request->type != HALO_MSG_GENERATE && request->type != HALO_MSG_LOAD) ||
        halo_ev_decode(&ev, line->at, line->len, 0, &refusal) != 0)
        return;
    enum halo_notice code = halo_notice_from_name(ev.notice.code.at, ev.notice.code.len);
    if (request->type == HALO_MSG_GENERATE)
        request->loop_told = request->loop_told || code == HALO_NOTICE_LOOP_DETECTED;
    else if (is_first_load(requests, request))
        halo_log_limited(&requests->log_limit, halo_notice_warns(code) ? HALO_LOG_WARN : HALO_LOG_INFO,
                         "load of %.200s: %s: %s", model_of(request), ev.notice.code.at, ev.notice.message.at);
    halo_ev_finish(&ev);
}

int halo_record_event(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line,
                      struct halo_fault *fault)
{
    size_t text_bytes = 0;
    const char *phase;
    switch (line->type) {
    case HALO_EV_PROGRESS:
        phase = phase_of(line);
        if (phase)
            request->phase = phase;
        if (!phase || phase[0] != 'q')
            begin_running(requests, request);
        return 0;
    case HALO_EV_STARTED: return note_started(requests, request, line, fault);
    case HALO_EV_COMMITTED: return note_committed(requests, request, line, fault);
    case HALO_EV_SCORE_ROW: return note_row(requests, request, line, fault);
    case HALO_EV_TOKEN:
        if (!halo_event_line_bytes(line, HALO_EVENT_TEXT, &text_bytes))
            return halo_event_line_refuse(fault, "a token event without text");
        request->text_bytes += text_bytes;
        return 0;
    case HALO_EV_LOADED:
    case HALO_EV_UNLOADED:
        if (!request->reload_model) /* a model that comes back is no progress: it comes back after each death */
            halo_breaker_engine_progressed(&requests->breaker);
        return halo_record_model(requests, request, line, fault);
    case HALO_EV_NOTICE: note_notice(requests, request, line); return 0;
    case HALO_EV_ERROR: return 0;
    default:
        halo_breaker_engine_progressed(&requests->breaker);
        begin_running(requests, request);
        return 0;
    }
}
