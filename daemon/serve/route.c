/* route.c: one line of a client: decoded strictly, answered at once, or made into a request for the engine.
 *
 * What the engine gets is the message encoded anew: its own id, every default filled in, the seed drawn, `committed`
 * events always on (the record needs the ids; deliver.c drops the events that the client did not ask for).
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <base/clock.h>
#include <base/log.h>

#include <serve/answer.h>
#include <serve/daemon.h>

static struct halo_request *find_open(struct halo_peer *peer, const struct halo_id *id)
{
    if (id->kind == HALO_ID_NONE)
        return NULL;
    struct halo_request *request = peer->requests;
    while (request && !halo_id_equal(&request->client_id, id))
        request = request->peer_next;
    return request;
}

static void answer_ping(struct halo_peer *peer, const struct halo_id *id)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PONG, id);
    ev.pong.uptime_ms = (int64_t)((halo_clock_ns() - peer->daemon->started_ns) / 1000000);
    halo_answer(peer, &ev);
}

static void answer_cancel(struct halo_peer *peer, const struct halo_msg *msg)
{
    struct halo_daemon *daemon = peer->daemon;
    struct halo_request *target = find_open(peer, &msg->cancel.target);
    struct halo_ev ev;
    if (!target) {
        halo_answer_error(peer, &msg->id, HALO_ERROR_NOT_FOUND,
                          "no request with this id is open on this connection; it may have ended already");
        return;
    }
    daemon->counters.cancels++;
    halo_ev_init(&ev, HALO_EV_CANCELLED, &msg->id);
    ev.cancelled.target = msg->cancel.target;
    ev.cancelled.was = halo_str_of(target->state == HALO_REQUEST_CANCELLING ? "cancelling" : target->phase);
    halo_answer(peer, &ev);
    if (target->state == HALO_REQUEST_WAITING || halo_request_is_query(target->type)) {
        halo_answer_ended(target, HALO_WIRE_FINISH_CANCELLED);
        halo_dispatch_ended(daemon, target);
    } else {
        halo_dispatch_cancel(daemon, target);
    }
}

/* The model or file that a request names; at NULL: none. */
static struct halo_str named_file(const struct halo_msg *msg)
{
    static const struct halo_str none = {NULL, 0};
    switch (msg->type) {
    case HALO_MSG_LOAD: return msg->load.model;
    case HALO_MSG_UNLOAD: return msg->unload.model;
    case HALO_MSG_GENERATE: return msg->generate.has_model ? msg->generate.model : none;
    case HALO_MSG_TOKENIZE: return msg->tokenize.model;
    case HALO_MSG_DETOKENIZE: return msg->detokenize.model;
    case HALO_MSG_TEMPLATE: return msg->template.model;
    case HALO_MSG_SCORE: return msg->score.model;
    case HALO_MSG_BENCH: return msg->bench.model;
    case HALO_MSG_RESET: return msg->reset.model;
    case HALO_MSG_PLAN:
        if (msg->plan.has_path)
            return msg->plan.path;
        return msg->plan.has_model ? msg->plan.model : none;
    default: return none;
    }
}

/* The one that it cannot do without, or brings; an unload and a reset want it gone. */
static struct halo_str needed_model(const struct halo_msg *msg)
{
    static const struct halo_str none = {NULL, 0};
    switch (msg->type) {
    case HALO_MSG_LOAD:
    case HALO_MSG_GENERATE:
    case HALO_MSG_TOKENIZE:
    case HALO_MSG_DETOKENIZE:
    case HALO_MSG_TEMPLATE:
    case HALO_MSG_SCORE:
    case HALO_MSG_BENCH: return named_file(msg);
    default: return none;
    }
}

static bool may_name(const struct halo_peer *peer, const struct halo_msg *msg)
{
    struct halo_str name = named_file(msg);
    if (peer->trusted || !name.at)
        return true;
    return !memchr(name.at, '/', name.len) && !(msg->type == HALO_MSG_PLAN && msg->plan.has_path);
}

/* While the breaker is open: only a load is let in, and closes it. */
static bool admit_broken(struct halo_peer *peer, const struct halo_msg *msg)
{
    struct halo_engine *engine = &peer->daemon->engine;
    char text[480];
    if (!halo_engine_is_broken(engine))
        return true;
    if (msg->type == HALO_MSG_LOAD) {
        halo_breaker_close(engine, "a client asked for a load");
        return true;
    }
    halo_breaker_answer(engine, text, sizeof(text));
    halo_answer_error(peer, &msg->id, HALO_ERROR_ENGINE_LOST, "%s", text);
    return false;
}

/* Whether one more request fits; else the refusal is answered. */
static bool admit(struct halo_peer *peer, const struct halo_msg *msg)
{
    struct halo_daemon *daemon = peer->daemon;
    const struct halo_config *config = daemon->config;
    const size_t *n = daemon->requests.n_states;
    size_t n_queued = n[HALO_REQUEST_WAITING] + n[HALO_REQUEST_SENT];
    if (daemon->state != HALO_DAEMON_SERVING) {
        halo_answer_error(peer, &msg->id, HALO_ERROR_SHUTTING_DOWN, "the daemon is shutting down; try its successor");
        return false;
    }
    if (peer->n_requests >= (size_t)config->open_requests) {
        halo_answer_error(peer, &msg->id, HALO_ERROR_TOO_MANY_REQUESTS,
                          "%zu requests are open on this connection, %lld are allowed", peer->n_requests,
                          (long long)config->open_requests);
        return false;
    }
    if (halo_request_is_query(msg->type))
        return true;
    if (n_queued >= (size_t)config->queued_requests) {
        halo_answer_error(peer, &msg->id, HALO_ERROR_QUEUE_FULL, "%zu requests are queued, %lld are allowed", n_queued,
                          (long long)config->queued_requests);
        return false;
    }
    if (!may_name(peer, msg)) {
        halo_answer_error(peer, &msg->id, HALO_ERROR_NOT_FOUND,
                          "only the daemon's own user may name files; use a name that `models` lists");
        return false;
    }
    return admit_broken(peer, msg);
}

static int draw_seed(int64_t *ret_seed)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != (ssize_t)sizeof(bits))
        return -EAGAIN;
    *ret_seed = (int64_t)(bits & HALO_LIMIT_DRAWN_SEED);
    return 0;
}

/* Whose prefixes the engine may share with this request; a trusted peer's reset forgets everybody's. */
static void name_user(const struct halo_peer *peer, struct halo_msg *msg)
{
    if (msg->type == HALO_MSG_GENERATE) {
        msg->generate.has_user = true;
        msg->generate.user = peer->uid;
    } else if (msg->type == HALO_MSG_SCORE) {
        msg->score.has_user = true;
        msg->score.user = peer->uid;
    } else if (msg->type == HALO_MSG_RESET) {
        msg->reset.has_user = !peer->trusted;
        msg->reset.user = peer->uid;
    }
}

/* What the daemon fills in, and what the record has to know of the message. */
static int complete(const struct halo_daemon *daemon, struct halo_request *request, struct halo_msg *msg)
{
    struct halo_str needs = needed_model(msg);
    msg->id = halo_id_of((int64_t)request->id);
    if (needs.at && !(request->needs = strndup(needs.at, needs.len)))
        return -ENOMEM;
    if (msg->type == HALO_MSG_LOAD)
        halo_demand_complete(daemon, &msg->load);
    request->streams = msg->type == HALO_MSG_GENERATE || msg->type == HALO_MSG_SCORE;
    if (msg->type == HALO_MSG_TEMPLATE && !msg->template.has_normalize) {
        msg->template.normalize = daemon->config->normalize;
        msg->template.has_normalize = true;
    }
    if (msg->type == HALO_MSG_SCORE) {
        request->score.from = request->score.next = msg->score.from;
        msg->score.from = 0; /* added when it is sent */
    }
    if (msg->type != HALO_MSG_GENERATE)
        return 0;
    struct halo_msg_generate *generate = &msg->generate;
    if (!generate->has_seed && draw_seed(&generate->seed) < 0)
        return -EAGAIN;
    generate->has_seed = true;
    if (!generate->has_normalize)
        generate->normalize = daemon->config->normalize;
    generate->has_normalize = true;
    if (generate->has_messages) { /* whichever engine renders them, and when: the prompt stays the same */
        generate->has_now_s = true;
        generate->now_s = (int64_t)time(NULL);
    }
    request->wants_ids = generate->emit_token_ids || generate->logprobs > 0 || daemon->config->emit_token_ids;
    generate->emit_token_ids = true;
    request->seed = generate->seed;
    request->deadline_ms = generate->has_deadline_ms ? generate->deadline_ms : 0;
    generate->has_deadline_ms = false; /* what is left of it is added when it is sent */
    return 0;
}

/* Fills the record. 0, or a code for the client with `*ret_text`. */
static enum halo_error fill(struct halo_peer *peer, struct halo_request *request, struct halo_msg *msg,
                            const char **ret_text)
{
    struct halo_daemon *daemon = peer->daemon;
    struct halo_json *w = &daemon->scratch;
    name_user(peer, msg);
    int r = complete(daemon, request, msg);
    if (r == -ENOMEM) {
        *ret_text = "the daemon has no memory for this request";
        return HALO_ERROR_OUT_OF_MEMORY;
    }
    if (r < 0) {
        *ret_text = "the system has no random numbers yet; give a seed";
        return HALO_ERROR_INTERNAL;
    }
    halo_json_reset(w);
    r = halo_msg_encode(w, msg);
    if (r == 0)
        r = halo_request_keep_line(&daemon->requests, request, peer->user, w->at, w->len - 1);
    if (w->cap > HALO_LIMIT_LINE_BYTES / 8) {
        halo_json_finish(w);
        halo_json_init(w);
    }
    if (r == 0)
        return HALO_ERROR_NONE;
    if (r < 0) {
        *ret_text = r == -ENOMEM ? "the daemon has no memory for this request" : "the request could not be passed on";
        return r == -ENOMEM ? HALO_ERROR_OUT_OF_MEMORY : HALO_ERROR_INTERNAL;
    }
    *ret_text = r == HALO_QUOTA_E_USER ? "this user's open requests hold too many bytes (limit resume_user_bytes)"
                                       : "all open requests together hold too many bytes (limit resume_bytes)";
    return HALO_ERROR_TOO_MANY_REQUESTS;
}

static void forward(struct halo_peer *peer, struct halo_msg *msg)
{
    struct halo_daemon *daemon = peer->daemon;
    struct halo_id id = msg->id;
    const char *text = "the daemon has no memory for this request";
    enum halo_error code = HALO_ERROR_OUT_OF_MEMORY;
    struct halo_request *request = halo_request_create(&daemon->requests, msg->type, &msg->id);
    if (request)
        code = fill(peer, request, msg, &text);
    if (code == HALO_ERROR_NONE) {
        halo_peer_attach(peer, request);
        halo_dispatch(daemon, request);
        return;
    }
    halo_answer_error(peer, &id, code, "%s", text);
    if (request)
        halo_request_destroy(&daemon->requests, request);
}

void halo_route_line(struct halo_peer *peer, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_CLIENT, &refusal) != 0) {
        halo_answer_refusal(peer, &refusal);
        return;
    }
    peer->daemon->counters.requests++;
    if (find_open(peer, &msg.id)) {
        halo_answer_error(peer, &msg.id, HALO_ERROR_DUPLICATE_ID,
                          "a request with this id is still open on this connection");
    } else if (msg.type == HALO_MSG_PING) {
        answer_ping(peer, &msg.id);
    } else if (msg.type == HALO_MSG_CANCEL) {
        answer_cancel(peer, &msg);
    } else if (halo_request_is_query(msg.type)) {
        if (peer->daemon->state != HALO_DAEMON_SERVING || admit(peer, &msg))
            halo_query_begin(peer, msg.type, &msg.id);
    } else if (admit(peer, &msg)) {
        forward(peer, &msg);
    }
    halo_msg_finish(&msg);
}
