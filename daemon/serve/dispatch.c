/* dispatch.c: requests and orders on their way to the engine. */
#include <assert.h>
#include <errno.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>
#include <serve/answer.h>
#include <serve/daemon.h>

#define MS 1000000ull
#define RETRY_MS 50

static int append_line(struct halo_json *out, const char *line, size_t len)
{
    struct halo_json_mark mark = halo_json_mark(out);
    halo_json_raw(out, line, len);
    int r = halo_json_line_end(out);
    if (r < 0)
        halo_json_rollback(out, mark);
    return r;
}

/* What is left of the deadline after the time spent waiting here: the engine counts from when it reads the line. */
static int append_with_deadline(struct halo_json *out, const struct halo_request *request, int64_t left_ms)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    if (halo_msg_decode(&msg, request->line, request->line_len, HALO_ROLE_LINK, &refusal) != 0)
        return -ENOMEM; /* it was encoded here: nothing else can be wrong with it */
    msg.generate.deadline_ms = left_ms;
    int r = halo_msg_encode(out, &msg);
    halo_msg_finish(&msg);
    return r;
}

static void send_now(struct halo_daemon *daemon, struct halo_request *request, struct halo_json *out)
{
    uint64_t now = halo_clock_ns();
    int64_t waited_ms = (int64_t)((now - request->arrived_ns) / MS);
    if (request->deadline_ms > 0 && waited_ms >= request->deadline_ms) {
        halo_answer_failed(request, HALO_ERROR_DEADLINE,
                           "the deadline of %lld ms passed while the request waited for the engine",
                           (long long)request->deadline_ms);
        halo_dispatch_ended(daemon, request);
        return;
    }
    int r = request->deadline_ms > 0 && waited_ms > 0
                ? append_with_deadline(out, request, request->deadline_ms - waited_ms)
                : append_line(out, request->line, request->line_len);
    if (r < 0) {
        halo_answer_failed(request, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory to pass this request on");
        halo_dispatch_ended(daemon, request);
        return;
    }
    request->dispatched_ns = now;
    request->expires_ns = UINT64_MAX;
    request->phase = request->type == HALO_MSG_LOAD ? "loading" : "queued";
    halo_request_move(&daemon->requests, request, HALO_REQUEST_SENT);
    if (request->peer != NULL && request->peer->state == HALO_PEER_SLOW)
        halo_dispatch_pause(daemon, request, true);
}

void halo_dispatch(struct halo_daemon *daemon, struct halo_request *request)
{
    struct halo_json *out = daemon->engine.state == HALO_ENGINE_READY ? halo_engine_out(&daemon->engine) : NULL;
    assert(request->state == HALO_REQUEST_WAITING);
    if (out != NULL) {
        send_now(daemon, request, out);
        return;
    }
    uint64_t now = halo_clock_ns(), expires = now + (uint64_t)daemon->config->wait_ms * MS;
    if (request->deadline_ms > 0 && request->deadline_ms < (int64_t)(daemon->config->wait_ms))
        expires = request->arrived_ns + (uint64_t)request->deadline_ms * MS;
    request->expires_ns = expires;
    halo_expire_arm(daemon, expires);
}

void halo_dispatch_waiting(struct halo_daemon *daemon)
{
    struct halo_request *next;
    for (struct halo_request *request = daemon->requests.wait_first; request != NULL; request = next) {
        struct halo_json *out = halo_engine_out(&daemon->engine);
        next = request->wait_next;
        if (out == NULL || daemon->engine.state != HALO_ENGINE_READY)
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
    if (out == NULL)
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

void halo_dispatch_ended(struct halo_daemon *daemon, struct halo_request *request)
{
    assert(request->peer == NULL);
    halo_request_move(&daemon->requests, request, HALO_REQUEST_ENDED);
    halo_request_destroy(&daemon->requests, request);
    halo_shutdown_check(daemon);
}
