/* deliver.c: one line of the engine: to its record (record.c), and the line itself to the client under its id.
 *
 * The hot path: a look-up and a rewrite of the id into the client's buffer; no second scan, no decoding, no allocation
 * while the buffer has room. The engine is not trusted: an event that its request cannot have is the reason to replace
 * it.
 */
#include <serve/request/requests.h>

#include <base/log.h>
#include <protocol/envelope.h>
#include <protocol/message.h>

#include "answer_priv.h"
#include "dispatch_priv.h"
#include "order_priv.h"
#include "query_priv.h"
#include "record_priv.h"
#include "reload_priv.h"
#include "resume_priv.h"
#include "table_priv.h"

#define GARBAGE_SHOWN 80

static const int replies[HALO_N_MSGS] = {
    [HALO_MSG_MODELS] = HALO_EV_MODELS,   [HALO_MSG_LOAD] = HALO_EV_LOADED,     [HALO_MSG_UNLOAD] = HALO_EV_UNLOADED,
    [HALO_MSG_STATUS] = HALO_EV_STATUS,   [HALO_MSG_STATS] = HALO_EV_STATS,     [HALO_MSG_GENERATE] = HALO_EV_DONE,
    [HALO_MSG_TOKENIZE] = HALO_EV_TOKENS, [HALO_MSG_DETOKENIZE] = HALO_EV_TEXT, [HALO_MSG_TEMPLATE] = HALO_EV_TEMPLATE,
    [HALO_MSG_SCORE] = HALO_EV_DONE,      [HALO_MSG_PLAN] = HALO_EV_PLAN,       [HALO_MSG_BENCH] = HALO_EV_BENCH,
    [HALO_MSG_DIAG] = HALO_EV_DIAG,       [HALO_MSG_RESET] = HALO_EV_RESET,     [HALO_MSG_PROFILE] = HALO_EV_PROFILE,
};

static bool may_have(enum halo_msg_type request, enum halo_ev_type event)
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
    default: return (int)event == replies[request];
    }
}

/* Its user leaves too much unread for one event more: the request ends instead. */
static void refuse_output(struct halo_requests *requests, struct halo_request *request,
                          const struct halo_event_line *line)
{
    const struct halo_quota_user *user = request->client->user;
    int64_t unread = user->used[HALO_QUOTA_OUTPUT];
    requests->counters->output_refused++;
    halo_answer_late(request, HALO_ERROR_CLIENT_STALLED,
                     HALO_NUMBERS({"unread_bytes", unread}, {"limit_bytes", requests->config->output_user_bytes}),
                     "user %u has %lld bytes of unread events, an event of %zu bytes does not fit; the limits are %lld "
                     "for one user and %lld for all",
                     (unsigned)user->uid, (long long)unread, line->len, (long long)requests->config->output_user_bytes,
                     (long long)requests->config->output_bytes);
    if (!halo_ev_is_terminal(line->type))
        halo_request_abandon(requests, request);
}

static void pass_on(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line)
{
    struct halo_client *client = request->client;
    if (!client || (line->type == HALO_EV_COMMITTED && !request->wants_ids))
        return;
    if (halo_quota_fits(requests->quota, client->user, HALO_QUOTA_OUTPUT, line->len) != 0) {
        refuse_output(requests, request, line);
        return;
    }
    requests->counters->events++;
    if (halo_envelope_rewrite(client->out, line->at, &line->env, &request->client_id) < 0)
        halo_client_break(client);
    else
        halo_client_touch(client);
}

static void end_reload(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    bool failed = line->type != HALO_EV_LOADED;
    bool known = line->type == HALO_EV_ERROR && halo_ev_decode(&ev, line->at, line->len, 0, &refusal) == 0;
    halo_reload_ended(requests, request, !failed, known ? ev.error.message.at : "the engine did not say why");
    if (known)
        halo_ev_finish(&ev);
}

/* `done` of the last engine, which knows nothing of the rows before it. */
static bool is_joined_score(const struct halo_request *request, const struct halo_event_line *line)
{
    size_t bytes;
    return line->type == HALO_EV_DONE && request->type == HALO_MSG_SCORE && request->n_resumes > 0 &&
           request->score.over && !halo_event_line_bytes(line, HALO_EVENT_FINISH_REASON, &bytes);
}

/* An error that only says that the model was unloaded before the request came. */
static bool found_nothing(const struct halo_request *request, const struct halo_event_line *line)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (line->type != HALO_EV_ERROR || !request->missed || halo_ev_decode(&ev, line->at, line->len, 0, &refusal) != 0)
        return false;
    bool nothing = ev.error.code == HALO_ERROR_NOT_FOUND;
    halo_ev_finish(&ev);
    return nothing;
}

static int deliver_to(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line,
                      struct halo_fault *fault)
{
    bool terminal = halo_ev_is_terminal(line->type);
    if (!may_have(request->type, line->type))
        return halo_event_line_refuse(fault, "a %s event for a %s request", halo_ev_type_name(line->type),
                                      halo_msg_type_name(request->type));
    if (terminal && halo_request_is_query(request->type)) {
        bool fits = (int)line->type == replies[request->type];
        halo_query_answer(requests, request, fits ? line->at : NULL, line->len);
        return 0;
    }
    if (found_nothing(request, line) && halo_dispatch_again(requests, request))
        return 0;
    int r = halo_record_event(requests, request, line, fault);
    if (r < 0)
        return r;
    if (is_joined_score(request, line))
        halo_resume_score_done(request);
    else
        pass_on(requests, request, line);
    if (!terminal)
        return 0;
    requests->counters->requests_done += !halo_request_is_own_load(request);
    halo_request_detach(request);
    if (request->reload_model)
        end_reload(requests, request, line);
    halo_request_end(requests, request);
    return 0;
}

/* Lines that belong to no request. */
static int deliver_unaddressed(struct halo_requests *requests, const struct halo_event_line *line,
                               struct halo_fault *fault)
{
    if (line->type == HALO_EV_UNLOADED) /* its keep-alive time has passed, or it made room */
        return halo_record_model(requests, NULL, line, fault);
    if (line->type != HALO_EV_NOTICE && line->type != HALO_EV_ERROR)
        return halo_event_line_refuse(fault, "a %s event without an id", halo_ev_type_name(line->type));
    halo_log_limited(&requests->log_limit, HALO_LOG_WARN, "engine says: %.*s", (int)(line->len > 512 ? 512 : line->len),
                     line->at);
    return 0;
}

int halo_requests_engine_line(struct halo_requests *requests, const struct halo_event_line *line, uint64_t now_ns,
                              struct halo_fault *fault)
{
    const struct halo_envelope *env = &line->env;
    requests->now_ns = now_ns;
    if (env->id_kind == HALO_ID_NONE)
        return deliver_unaddressed(requests, line, fault);
    uint64_t id = env->id_kind == HALO_ID_INT && env->id_num > 0 ? (uint64_t)env->id_num : UINT64_MAX;
    if (id > requests->last_id)
        return halo_event_line_refuse(fault, "an event for an unknown id: '%.*s'",
                                      (int)(line->len > GARBAGE_SHOWN ? GARBAGE_SHOWN : line->len), line->at);
    struct halo_request *request = halo_request_find(requests, id);
    if (!request || request->state == HALO_REQUEST_WAITING) {
        requests->counters->events_late++;
        return 0;
    }
    return deliver_to(requests, request, line, fault);
}
