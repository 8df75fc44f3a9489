/* record.c: what an event of the engine means for the record of its request: state, phase, and what another engine
 * would need to go on.
 *
 * The engine is not trusted to be sane: tokens and rows must come without gap or repeat, or it is replaced. Loop
 * thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/daemon.h>

#define PRINT_BYTES 512

static void note_progress(struct halo_daemon *daemon)
{
    daemon->engine.progressed = true;
    daemon->engine.n_futile = 0;
}

/* Its engine committed something of it: it is no suspect (any more). */
static void note_commit(struct halo_daemon *daemon, struct halo_request *request)
{
    note_progress(daemon);
    request->progressed = true;
    if (daemon->alone == request->id) {
        daemon->alone = 0;
        daemon->dispatch_due = true;
    }
}

static const char *phase_of(const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    const char *phase = NULL;
    if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
        return NULL;
    if (ev.progress.phase == HALO_WIRE_PHASE_QUEUE)
        phase = "queued";
    else if (ev.progress.phase == HALO_WIRE_PHASE_LOAD)
        phase = "loading";
    else if (ev.progress.phase == HALO_WIRE_PHASE_PREFILL)
        phase = "prefill";
    halo_ev_finish(&ev);
    return phase;
}

static void begin_running(struct halo_daemon *daemon, struct halo_request *request)
{
    if (request->state == HALO_REQUEST_SENT)
        halo_request_move(&daemon->requests, request, HALO_REQUEST_RUNNING);
}

/* The model that the reply comes from, when it is one that the daemon brings back. */
static void bind_model(struct halo_daemon *daemon, struct halo_request *request, struct halo_str name)
{
    const struct halo_loaded_model *model = halo_loaded_find(&daemon->loaded, name);
    if (!model)
        return;
    request->model = strdup(model->name);
    request->print = strdup(model->print);
    halo_loaded_touch(&daemon->loaded, name);
    request->record_lost = request->record_lost || !request->model || !request->print;
}

static int note_started(struct halo_daemon *daemon, struct halo_request *request, const char *line, size_t len,
                        struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (request->started_ns != 0)
        return halo_deliver_garbage(fault, "a second started event");
    request->started_ns = halo_clock_ns();
    request->phase = "prefill";
    begin_running(daemon, request);
    int r = halo_ev_decode(&ev, line, len, 0, &refusal);
    if (r == HALO_MSG_E_REFUSED)
        return halo_deliver_garbage(fault, "%s", refusal.message);
    if (r < 0) {
        request->record_lost = true; /* no memory: it streams, but cannot go on elsewhere */
        return 0;
    }
    bind_model(daemon, request, ev.started.model);
    snprintf(request->effective_md5, sizeof(request->effective_md5), "%s", ev.started.effective_md5.at);
    halo_ev_finish(&ev);
    return 0;
}

static int note_committed(struct halo_daemon *daemon, struct halo_request *request, const char *line,
                          const struct halo_envelope_field *fields, struct halo_fault *fault)
{
    int64_t tok_id = -1, pos = -1;
    if (!halo_envelope_i64(line, fields[HALO_EVENT_TOK_ID].value, &tok_id) || tok_id < 0 || tok_id > INT32_MAX)
        return halo_deliver_garbage(fault, "a committed event without a token id");
    if (!halo_envelope_i64(line, fields[HALO_EVENT_POS].value, &pos) || pos != (int64_t)request->n_tokens ||
        request->started_ns == 0)
        return halo_deliver_garbage(fault, "token %lld of a reply that has %zu", (long long)pos, request->n_tokens);
    halo_request_note_token(&daemon->requests, request, (int32_t)tok_id);
    request->phase = "decode";
    note_commit(daemon, request);
    begin_running(daemon, request);
    return 0;
}

static int note_row(struct halo_daemon *daemon, struct halo_request *request, const char *line,
                    const struct halo_envelope_field *fields, struct halo_fault *fault)
{
    struct halo_score_record *score = &request->score;
    int64_t pos = -1;
    double logprob;
    if (!halo_envelope_i64(line, fields[HALO_EVENT_POS].value, &pos) || pos != score->next)
        return halo_deliver_garbage(fault, "row %lld of a score that is at %lld", (long long)pos,
                                    (long long)score->next);
    score->next++;
    score->over = !halo_envelope_f64(line, fields[HALO_EVENT_LOGPROB].value, &logprob);
    if (!score->over) {
        score->nll_sum -= logprob;
        score->n_nll++;
    }
    note_commit(daemon, request);
    begin_running(daemon, request);
    return 0;
}

/* A reply can go on where these are as they were: which device, how much context, which files. */
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
static int remember(struct halo_daemon *daemon, const struct halo_request *request, const struct halo_ev *ev,
                    const char *print)
{
    const struct halo_loaded_model *known = halo_loaded_find(&daemon->loaded, ev->loaded.model);
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
    halo_json_init(&w);
    r = halo_msg_encode(&w, &msg);
    if (r == 0)
        r = halo_loaded_put(&daemon->loaded, ev->loaded.model, print, w.at, w.len - 1);
    halo_json_finish(&w);
    halo_msg_finish(&msg);
    return r;
}

/* Requests that the engine has and that name the model found it gone, or will. */
static void note_gone(struct halo_daemon *daemon, const struct halo_ev *ev)
{
    struct halo_loaded_model *model = halo_loaded_find(&daemon->loaded, ev->unloaded.model);
    struct halo_request *request = halo_requests_next(&daemon->requests, NULL);
    if (ev->unloaded.reason == HALO_WIRE_UNLOAD_ROOM)
        daemon->counters.models_evicted++;
    if (ev->unloaded.reason != HALO_WIRE_UNLOAD_ASKED)
        halo_log(HALO_LOG_INFO, "model %.200s was unloaded: %s", ev->unloaded.model.at,
                 ev->unloaded.reason == HALO_WIRE_UNLOAD_ROOM ? "another one needed the room"
                                                              : "its keep-alive time was over");
    for (; model && request; request = halo_requests_next(&daemon->requests, request))
        if (request->state == HALO_REQUEST_SENT && request->type != HALO_MSG_LOAD && request->needs &&
            halo_loaded_find(&daemon->loaded, halo_str_of(request->needs)) == model)
            request->missed = true;
    halo_loaded_remove(&daemon->loaded, ev->unloaded.model);
}

int halo_record_model(struct halo_daemon *daemon, const struct halo_request *request, const char *line, size_t len,
                      struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    char print[PRINT_BYTES];
    int r = halo_ev_decode(&ev, line, len, 0, &refusal);
    if (r == HALO_MSG_E_REFUSED)
        return halo_deliver_garbage(fault, "%s", refusal.message);
    if (r < 0)
        return 0; /* no memory: the model is not remembered, the client still gets its answer */
    if (ev.type == HALO_EV_UNLOADED) {
        note_gone(daemon, &ev);
    } else if (request) {
        struct halo_loaded_model *model = halo_loaded_find(&daemon->loaded, ev.loaded.model);
        print_of(&ev, print);
        if (request->reload_model)
            r = model ? halo_loaded_set_print(model, print) : 0;
        else
            r = remember(daemon, request, &ev, print);
        if (r < 0)
            halo_log(HALO_LOG_WARN, "no memory to remember a loaded model");
    }
    halo_ev_finish(&ev);
    return 0;
}

/* The engine's only notice about a reply is that of a loop. */
static void note_notice(struct halo_request *request, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (request->type != HALO_MSG_GENERATE || halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
        return;
    request->loop_told = request->loop_told || halo_str_is(ev.notice.code, "loop_detected");
    halo_ev_finish(&ev);
}

int halo_record_event(struct halo_daemon *daemon, struct halo_request *request, int type, const char *line, size_t len,
                      const struct halo_envelope_field *fields, struct halo_fault *fault)
{
    size_t text_bytes = 0;
    const char *phase;
    switch (type) {
    case HALO_EV_PROGRESS:
        phase = phase_of(line, len);
        if (phase)
            request->phase = phase;
        if (!phase || phase[0] != 'q')
            begin_running(daemon, request);
        return 0;
    case HALO_EV_STARTED: return note_started(daemon, request, line, len, fault);
    case HALO_EV_COMMITTED: return note_committed(daemon, request, line, fields, fault);
    case HALO_EV_SCORE_ROW: return note_row(daemon, request, line, fields, fault);
    case HALO_EV_TOKEN:
        if (!halo_envelope_str_bytes(line, fields[HALO_EVENT_TEXT].value, &text_bytes))
            return halo_deliver_garbage(fault, "a token event without text");
        request->text_bytes += text_bytes;
        return 0;
    case HALO_EV_LOADED:
    case HALO_EV_UNLOADED:
        if (!request->reload_model)
            note_progress(daemon); /* what the daemon wants for itself is none: it is the same after each death */
        return halo_record_model(daemon, request, line, len, fault);
    case HALO_EV_NOTICE: note_notice(request, line, len); return 0;
    case HALO_EV_ERROR: return 0;
    default:
        note_progress(daemon);
        begin_running(daemon, request);
        return 0;
    }
}
