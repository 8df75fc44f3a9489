/* dispatch.c: requests and orders on their way to the engine.
 *
 * Everything is sent at once, oldest first; the engine has a queue of its own. Only a suspect, a request with which
 * engines have died before it got anything done, is alone in the engine: until it commits something, ends, or kills
 * that engine too. Meanwhile the others wait here.
 */
#include <assert.h>
#include <errno.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/resubmit.h>
#include <serve/resume.h>

#define MS 1000000ull
#define RETRY_MS 50

int64_t halo_dispatch_left_ms(const struct halo_request *request, uint64_t now_ns)
{
    return request->deadline_ms == 0 ? INT64_MAX
                                     : request->deadline_ms - (int64_t)((now_ns - request->arrived_ns) / MS);
}

void halo_dispatch_late(struct halo_request *request)
{
    if (request->n_tokens > 0)
        halo_answer_ended(request, HALO_WIRE_FINISH_DEADLINE);
    else
        halo_answer_failed(request, HALO_ERROR_DEADLINE,
                           "the deadline of %lld ms passed while the request waited for the engine",
                           (long long)request->deadline_ms);
}

/* False: it cannot go on, and its client knows. */
static bool may_go_on(struct halo_daemon *daemon, struct halo_request *request, int64_t left_ms)
{
    char reason[512];
    if (left_ms <= 0 && request->n_tokens == 0)
        halo_dispatch_late(request);
    else if (!halo_resume_possible(daemon, request, reason, sizeof(reason)))
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "the engine %.200s, and %.280s", daemon->engine.reason,
                           reason);
    else
        return true;
    return false;
}

static void send_now(struct halo_daemon *daemon, struct halo_request *request, struct halo_json *out)
{
    uint64_t now = halo_clock_ns();
    int64_t left_ms = halo_dispatch_left_ms(request, now);
    char note[HALO_CHECKUP_TEXT_BYTES + 32];
    if (!may_go_on(daemon, request, left_ms)) {
        halo_dispatch_ended(daemon, request);
        return;
    }
    /* A reply that is late by now is sent all the same: the engine has text of it that is still due. */
    if (halo_demand(daemon, request, out) < 0 || halo_resume_append(out, request, left_ms > 0 ? left_ms : 1, now) < 0) {
        halo_answer_failed(request, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory to pass this request on");
        halo_dispatch_ended(daemon, request);
        return;
    }
    if (halo_resubmit_is_suspect(daemon, request))
        daemon->alone = request->id;
    if (request->died) {
        request->n_resumes++;
        daemon->counters.requests_resumed++;
    }
    halo_resume_notify(request, daemon->engine.reason, halo_checkup_note(&daemon->checkup, note, sizeof(note)));
    request->dispatched_ns = now;
    request->expires_ns = UINT64_MAX;
    request->phase = request->type == HALO_MSG_LOAD ? "loading" : "queued";
    halo_request_move(&daemon->requests, request, HALO_REQUEST_SENT);
    if (request->peer && request->peer->state == HALO_PEER_SLOW)
        halo_dispatch_pause(daemon, request, true);
}

static struct halo_request *first_suspect(const struct halo_daemon *daemon)
{
    struct halo_request *request = daemon->requests.wait_first;
    while (request && !halo_resubmit_is_suspect(daemon, request))
        request = request->wait_next;
    return request;
}

static struct halo_json *ready_out(struct halo_daemon *daemon)
{
    return daemon->engine.state == HALO_ENGINE_READY ? halo_engine_out(&daemon->engine) : NULL;
}

void halo_dispatch_wait(struct halo_daemon *daemon, struct halo_request *request)
{
    uint64_t now = halo_clock_ns(), expires = now + (uint64_t)daemon->config->wait_ms * MS;
    int64_t left_ms = halo_dispatch_left_ms(request, now);
    if (left_ms < daemon->config->wait_ms)
        expires = left_ms > 0 ? now + (uint64_t)left_ms * MS : now;
    request->expires_ns = expires;
    halo_expire_arm(daemon, expires);
}

void halo_dispatch(struct halo_daemon *daemon, struct halo_request *request)
{
    struct halo_json *out = ready_out(daemon);
    assert(request->state == HALO_REQUEST_WAITING);
    if (out && daemon->alone == 0 && !first_suspect(daemon))
        send_now(daemon, request, out);
    else
        halo_dispatch_wait(daemon, request);
}

void halo_dispatch_waiting(struct halo_daemon *daemon)
{
    const size_t *n = daemon->requests.n_states;
    struct halo_request *suspect, *next;
    daemon->dispatch_due = false;
    while (ready_out(daemon) && daemon->alone == 0 && (suspect = first_suspect(daemon))) {
        if (n[HALO_REQUEST_SENT] + n[HALO_REQUEST_RUNNING] + n[HALO_REQUEST_CANCELLING] > 0)
            return; /* looked at again when they end */
        send_now(daemon, suspect, ready_out(daemon));
    }
    for (struct halo_request *request = daemon->requests.wait_first; request; request = next) {
        struct halo_json *out = ready_out(daemon);
        next = request->wait_next;
        if (!out || daemon->alone != 0)
            return;
        if (!halo_request_is_query(request->type))
            send_now(daemon, request, out);
    }
}

/* Tells the engine what its state says: cancel, pause or continue. An order that found no memory is given again a
 * little later: it must not get lost. The answer to a cancel comes for an id that nobody knows any more. */
void halo_dispatch_order(struct halo_daemon *daemon, struct halo_request *request)
{
    struct halo_json *out = halo_engine_out(&daemon->engine);
    struct halo_msg msg;
    struct halo_id target = halo_id_of((int64_t)request->id);
    request->order_due = false;
    if (!out)
        return;
    if (request->state == HALO_REQUEST_CANCELLING) {
        halo_msg_init(&msg, HALO_MSG_CANCEL);
        msg.id = halo_id_of((int64_t)halo_requests_next_id(&daemon->requests));
        msg.cancel.target = target;
    } else if (request->paused) {
        halo_msg_init(&msg, HALO_MSG_PAUSE);
        msg.pause.target = target;
    } else {
        halo_msg_init(&msg, HALO_MSG_UNPAUSE);
        msg.unpause.target = target;
    }
    if (halo_msg_encode(out, &msg) == 0)
        return;
    halo_log(HALO_LOG_ERROR, "no memory to tell the engine to %s a request; trying again",
             halo_msg_type_name(msg.type));
    request->order_due = true;
    request->expires_ns = halo_clock_ns() + RETRY_MS * MS;
    halo_expire_arm(daemon, request->expires_ns);
}

void halo_dispatch_cancel(struct halo_daemon *daemon, struct halo_request *request)
{
    if (request->state == HALO_REQUEST_CANCELLING)
        return;
    halo_request_move(&daemon->requests, request, HALO_REQUEST_CANCELLING);
    halo_dispatch_order(daemon, request);
}

void halo_dispatch_pause(struct halo_daemon *daemon, struct halo_request *request, bool pause)
{
    bool in_engine = request->state == HALO_REQUEST_SENT || request->state == HALO_REQUEST_RUNNING;
    if (!request->streams || !in_engine || request->paused == pause)
        return;
    request->paused = pause;
    halo_dispatch_order(daemon, request);
}

void halo_dispatch_abandon(struct halo_daemon *daemon, struct halo_request *request)
{
    halo_peer_detach(request);
    if (request->type == HALO_MSG_LOAD)
        return; /* it belongs to the daemon */
    if (request->state == HALO_REQUEST_WAITING || halo_request_is_query(request->type))
        halo_dispatch_ended(daemon, request);
    else
        halo_dispatch_cancel(daemon, request);
}

bool halo_dispatch_again(struct halo_daemon *daemon, struct halo_request *request)
{
    bool again = request->missed && request->state == HALO_REQUEST_SENT && daemon->config->on_demand;
    request->missed = false;
    if (!again)
        return false;
    request->paused = false;
    halo_request_move(&daemon->requests, request, HALO_REQUEST_WAITING);
    halo_dispatch_wait(daemon, request);
    daemon->dispatch_due = true;
    return true;
}

void halo_dispatch_ended(struct halo_daemon *daemon, struct halo_request *request)
{
    assert(!request->peer);
    if (daemon->alone == request->id)
        daemon->alone = 0;
    if (request->needs || request->model)
        halo_loaded_touch(&daemon->loaded, halo_str_of(request->model ? request->model : request->needs));
    daemon->dispatch_due = true; /* not now: somebody may be walking over the requests */
    halo_request_move(&daemon->requests, request, HALO_REQUEST_ENDED);
    halo_request_destroy(&daemon->requests, request);
    halo_shutdown_check(daemon);
}
