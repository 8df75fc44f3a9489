/* route.c: one line of a client: decoded strictly, answered at once, or made into a request for the engine.
 *
 * What the engine gets is the message encoded anew: its own id, every default filled in, the seed drawn, `committed`
 * events always on (the record needs the ids; deliver.c drops the events that the client did not ask for).
 */
#include <serve/request/requests.h>

#include <errno.h>
#include <string.h>

#include "answer_priv.h"
#include "demand_priv.h"
#include "dispatch_priv.h"
#include "order_priv.h"
#include "query_priv.h"
#include "table_priv.h"

static struct halo_request *find_open(const struct halo_client *client, const struct halo_id *id)
{
    if (id->kind == HALO_ID_NONE)
        return NULL;
    for (struct halo_list_node *node = client->requests.first; node; node = node->next) {
        struct halo_request *request = HALO_LIST_ITEM(node, struct halo_request, open);
        if (halo_id_equal(&request->client_id, id))
            return request;
    }
    return NULL;
}

static void answer_ping(struct halo_requests *requests, struct halo_client *client, const struct halo_id *id)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PONG, id);
    ev.pong.uptime_ms = (int64_t)((requests->now_ns - requests->started_ns) / 1000000);
    halo_answer(client, &ev);
}

static void answer_cancel(struct halo_requests *requests, struct halo_client *client, const struct halo_msg *msg)
{
    struct halo_request *target = find_open(client, &msg->cancel.target);
    struct halo_ev ev;
    if (!target) {
        halo_answer_error(requests, client, &msg->id, HALO_ERROR_NOT_FOUND,
                          "no request with this id is open on this connection; it may have ended already");
        return;
    }
    requests->counters->cancels++;
    halo_ev_init(&ev, HALO_EV_CANCELLED, &msg->id);
    ev.cancelled.target = msg->cancel.target;
    ev.cancelled.was = halo_str_of(target->state == HALO_REQUEST_CANCELLING ? "cancelling" : target->phase);
    halo_answer(client, &ev);
    if (target->state == HALO_REQUEST_WAITING || halo_request_is_query(target->type)) {
        halo_answer_ended(target, HALO_WIRE_FINISH_CANCELLED, requests->now_ns);
        halo_request_end(requests, target);
    } else {
        halo_request_cancel(requests, target);
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
    case HALO_MSG_PROFILE: return msg->profile.model;
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

static bool may_name(const struct halo_client *client, const struct halo_msg *msg)
{
    struct halo_str name = named_file(msg);
    if (client->user->privileged || !name.at)
        return true;
    return !memchr(name.at, '/', name.len) && !(msg->type == HALO_MSG_PLAN && msg->plan.has_path);
}

/* What concerns other users is for administrators, and what concerns a model also for the user who had it loaded; else
 * the refusal is answered. */
static bool may_do(struct halo_requests *requests, struct halo_client *client, const struct halo_msg *msg)
{
    const struct halo_part_load_params *params = &msg->load.params;
    const char *what = NULL;
    if (client->admin)
        return true;
    if (msg->type == HALO_MSG_BENCH)
        what = "`bench` slows every other request";
    else if (msg->type == HALO_MSG_PROFILE)
        what = "`profile` takes all that the drive gives and describes the machine";
    else if (msg->type == HALO_MSG_DIAG)
        what = "`diag` describes the machine";
    else if (msg->type == HALO_MSG_UNLOAD)
        what = "others may use this model";
    else if (msg->type == HALO_MSG_LOAD && (params->has_pin || params->has_keep_alive_s))
        what = "another user loaded this model";
    if (what && (msg->type == HALO_MSG_UNLOAD || msg->type == HALO_MSG_LOAD)) {
        const struct halo_known_model *model = halo_known_models_find(&requests->models, named_file(msg));
        if (!model || model->owner == client->user->uid)
            return true;
    }
    if (what)
        halo_answer_error(
            requests, client, &msg->id, HALO_ERROR_FORBIDDEN,
            "%s, so only root, the daemon's own user and members of admin_group (halod.conf)%s may send this", what,
            msg->type == HALO_MSG_UNLOAD || msg->type == HALO_MSG_LOAD ? ", and the user who loaded it," : "");
    return !what;
}

/* While the breaker is open: only a load is let in, and closes it. */
static bool admit_broken(struct halo_requests *requests, struct halo_client *client, const struct halo_msg *msg)
{
    char text[480];
    if (!requests->breaker.open)
        return true;
    if (msg->type == HALO_MSG_LOAD) {
        halo_requests_close_breaker(requests, "a client asked for a load");
        return true;
    }
    halo_requests_breaker_text(requests, text, sizeof(text));
    halo_answer_error(requests, client, &msg->id, HALO_ERROR_ENGINE_LOST, "%s", text);
    return false;
}

/* Whether its user may have one more request in the queue; else the refusal is answered. */
static bool admit_queued(struct halo_requests *requests, struct halo_client *client, const struct halo_msg *msg)
{
    const struct halo_quota *quota = requests->quota;
    const struct halo_quota_user *user = client->user;
    int64_t queued = quota->used[HALO_QUOTA_QUEUED], own = user->used[HALO_QUOTA_QUEUED];
    int64_t share = halo_quota_share(quota, user, HALO_QUOTA_QUEUED);
    const struct halo_number at[] = {
        {"queued", queued}, {"limit", requests->config->queued_requests}, {"own", own}, {"share", share}};
    const struct halo_numbers numbers = {at, 4};
    int which = halo_quota_fits(quota, user, HALO_QUOTA_QUEUED, 1);
    if (which == HALO_QUOTA_E_ALL)
        halo_answer_limit(requests, client, &msg->id, HALO_ERROR_QUEUE_FULL, numbers,
                          "%lld requests are queued, %lld are allowed", (long long)queued,
                          (long long)requests->config->queued_requests);
    else if (which != 0)
        halo_answer_limit(requests, client, &msg->id, HALO_ERROR_QUEUE_FULL, numbers,
                          "%lld requests of user %u are queued and %lld in all: one user may have half of what the "
                          "others leave of %lld",
                          (long long)own, (unsigned)user->uid, (long long)queued,
                          (long long)requests->config->queued_requests);
    return which == 0;
}

/* Whether one more request fits; else the refusal is answered. */
static bool admit(struct halo_requests *requests, struct halo_client *client, const struct halo_msg *msg)
{
    int64_t n_open = (int64_t)client->requests.n, most = requests->config->open_requests;
    if (!requests->accepts) {
        halo_answer_error(requests, client, &msg->id, HALO_ERROR_SHUTTING_DOWN,
                          "the daemon is shutting down; send the request again when it is back");
        return false;
    }
    if (n_open >= most) {
        halo_answer_limit(
            requests, client, &msg->id, HALO_ERROR_TOO_MANY_REQUESTS, HALO_NUMBERS({"open", n_open}, {"limit", most}),
            "%lld requests are open on this connection, %lld are allowed", (long long)n_open, (long long)most);
        return false;
    }
    if (halo_request_is_query(msg->type))
        return true;
    if (!admit_queued(requests, client, msg))
        return false;
    if (!may_name(client, msg)) {
        halo_answer_error(requests, client, &msg->id, HALO_ERROR_NOT_FOUND,
                          "only the daemon's own user and root may name files; use a name that `models` lists");
        return false;
    }
    return may_do(requests, client, msg) && admit_broken(requests, client, msg);
}

#define SET_USER(fields, uid) ((fields).has_user = true, (fields).user = (uid))

/* Whom the engine charges for the work, whose prefixes it may share; an administrator's reset forgets everybody's. */
static void name_user(const struct halo_client *client, struct halo_msg *msg)
{
    int64_t uid = client->user->uid;
    switch (msg->type) {
    case HALO_MSG_GENERATE: SET_USER(msg->generate, uid); break;
    case HALO_MSG_SCORE: SET_USER(msg->score, uid); break;
    case HALO_MSG_TOKENIZE: SET_USER(msg->tokenize, uid); break;
    case HALO_MSG_DETOKENIZE: SET_USER(msg->detokenize, uid); break;
    case HALO_MSG_TEMPLATE: SET_USER(msg->template, uid); break;
    case HALO_MSG_RESET:
        msg->reset.has_user = !client->admin;
        msg->reset.user = uid;
        break;
    default: break;
    }
}

/* What the daemon fills in, and what the record has to know of the message. */
static int complete(const struct halo_requests *requests, struct halo_request *request, struct halo_msg *msg)
{
    struct halo_str needs = needed_model(msg);
    msg->id = halo_id_of((int64_t)request->id);
    if (needs.at && !(request->needs = strndup(needs.at, needs.len)))
        return -ENOMEM;
    if (msg->type == HALO_MSG_LOAD)
        halo_demand_complete(requests, &msg->load);
    request->streams = msg->type == HALO_MSG_GENERATE || msg->type == HALO_MSG_SCORE;
    if (msg->type == HALO_MSG_TEMPLATE && !msg->template.has_normalize) {
        msg->template.normalize = requests->config->normalize;
        msg->template.has_normalize = true;
    }
    if (msg->type == HALO_MSG_SCORE) {
        request->score.from = request->score.next = msg->score.from;
        msg->score.from = 0; /* added when it is sent */
    }
    if (msg->type != HALO_MSG_GENERATE)
        return 0;
    struct halo_msg_generate *generate = &msg->generate;
    if (!generate->has_seed && requests->ops->draw_seed(requests->ud, &generate->seed) < 0)
        return -EAGAIN;
    generate->has_seed = true;
    if (!generate->has_normalize)
        generate->normalize = requests->config->normalize;
    generate->has_normalize = true;
    if (generate->has_messages) { /* whichever engine renders them, and when: the prompt stays the same */
        generate->has_now_s = true;
        generate->now_s = requests->ops->wall_s(requests->ud);
    }
    request->wants_ids = generate->emit_token_ids || generate->logprobs > 0 || requests->config->emit_token_ids;
    generate->emit_token_ids = true;
    request->seed = generate->seed;
    request->deadline_ms = generate->has_deadline_ms ? generate->deadline_ms : 0;
    generate->has_deadline_ms = false; /* what is left of it is added when it is sent */
    return 0;
}

/* Fills the record. 0, or a code for the client with `*ret_text`, and the limit in `*ret_limit` if there is one. */
static enum halo_error fill(struct halo_requests *requests, struct halo_request *request, struct halo_msg *msg,
                            const char **ret_text, int64_t *ret_limit)
{
    struct halo_json *w = &requests->scratch;
    name_user(request->client, msg);
    int r = complete(requests, request, msg);
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
        r = halo_request_keep_line(requests, request, request->client->user, w->at, w->len - 1);
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
    *ret_limit = r == HALO_QUOTA_E_USER ? requests->config->resume_user_bytes : requests->config->resume_bytes;
    *ret_text = r == HALO_QUOTA_E_USER ? "this user's open requests hold too many bytes (limit resume_user_bytes)"
                                       : "all open requests together hold too many bytes (limit resume_bytes)";
    return HALO_ERROR_TOO_MANY_REQUESTS;
}

static void forward(struct halo_requests *requests, struct halo_client *client, struct halo_msg *msg)
{
    struct halo_id id = msg->id;
    const char *text = "the daemon has no memory for this request";
    enum halo_error code = HALO_ERROR_OUT_OF_MEMORY;
    struct halo_number limit = {"limit_bytes", 0};
    struct halo_request *request = halo_request_create(requests, client, msg->type, &msg->id);
    if (request)
        code = fill(requests, request, msg, &text, &limit.value);
    if (code == HALO_ERROR_NONE) {
        halo_dispatch(requests, request);
        return;
    }
    halo_answer_limit(requests, client, &id, code, (struct halo_numbers){&limit, limit.value > 0}, "%s", text);
    if (!request)
        return;
    halo_request_detach(request);
    halo_request_destroy(requests, request);
}

void halo_requests_line(struct halo_requests *requests, struct halo_client *client, const char *line, size_t len,
                        uint64_t now_ns)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    requests->now_ns = now_ns;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_CLIENT, &refusal) != 0) {
        halo_answer_refusal(requests, client, &refusal);
        return;
    }
    requests->counters->requests++;
    if (find_open(client, &msg.id)) {
        halo_answer_error(requests, client, &msg.id, HALO_ERROR_DUPLICATE_ID,
                          "a request with this id is still open on this connection");
    } else if (msg.type == HALO_MSG_PING) {
        answer_ping(requests, client, &msg.id);
    } else if (msg.type == HALO_MSG_CANCEL) {
        answer_cancel(requests, client, &msg);
    } else if (halo_request_is_query(msg.type)) {
        if (!requests->accepts || admit(requests, client, &msg))
            halo_query_begin(requests, client, msg.type, &msg.id);
    } else if (admit(requests, client, &msg)) {
        forward(requests, client, &msg);
    }
    halo_msg_finish(&msg);
}
