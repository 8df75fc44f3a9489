/* dispatch.c: a line becomes a message, a message a request, and a request goes where it is served.
 *
 * Port thread. Nothing here waits. Orders about other requests (cancel, pause, continue) raise flags that the owner of
 * the work looks at.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>

#include "port_priv.h"

static void put_error(struct halo_port *port, const struct halo_id *id, enum halo_error code, const char *message)
{
    struct halo_ev ev;
    halo_ev_init_error(&ev, id, code, message);
    halo_port_put(port, &ev);
}

void halo_port_take_long_line(struct halo_port *port)
{
    char message[128];
    snprintf(message, sizeof(message), "a line is at most %zu bytes; this one was dropped", port->lines.limit_bytes);
    HALO_COUNT(&port->stats, requests_refused, 1);
    put_error(port, NULL, HALO_ERROR_LINE_TOO_LONG, message);
}

const char *halo_request_was(const struct halo_request *request)
{
    switch (request->state) {
    case HALO_REQUEST_LOAD: return request->load ? "loading" : "draining";
    case HALO_REQUEST_DEVICE:
        if (request->sequence)
            return halo_sequence_state_name(halo_sequence_state_of(request->sequence));
        return request->bench ? "bench" : request->forecast ? "plan" : request->saving ? "saving" : "reset";
    default: return "queued";
    }
}

static void cancel_target(struct halo_port *port, struct halo_request *target)
{
    atomic_store(&target->cancel, true);
    switch (target->state) {
    case HALO_REQUEST_PARKED:
        halo_port_unpark(port, target);
        halo_request_end_cancelled(port, target);
        return;
    case HALO_REQUEST_LOAD:
        if (target->load) {
            halo_port_load_cancel(port, target->load);
        } else { /* an unload goes on without the one who asked */
            target->model->unloader = NULL;
            halo_request_end_cancelled(port, target);
        }
        return;
    case HALO_REQUEST_DEVICE:
        if (target->sequence)
            atomic_store(&target->sequence->cancel, true);
        if (target->bench)
            atomic_store(&target->bench->cancel, true);
        halo_device_thread_kick(&port->device);
        return;
    default: /* TEXT: looked at when it comes back */ return;
    }
}

static void cancel(struct halo_port *port, struct halo_request *request)
{
    struct halo_request *target = halo_request_find(port, &request->msg.cancel.target);
    if (!target || target == request) {
        halo_request_end_error(port, request, HALO_ERROR_NOT_FOUND, "no open request has the id that `target` names");
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_CANCELLED, &request->msg.id);
    ev.cancelled.target = request->msg.cancel.target;
    ev.cancelled.was = halo_str_of(halo_request_was(target));
    halo_request_end(port, request, &ev); /* first: the target's end follows it */
    cancel_target(port, target);
}

/* pause and continue have no answer; one that names nobody is late news. */
static void hold(struct halo_port *port, const struct halo_id *id, bool value)
{
    struct halo_request *target = halo_request_find(port, id);
    if (!target)
        return;
    atomic_store(&target->hold, value);
    if (target->state == HALO_REQUEST_DEVICE && target->sequence) {
        atomic_store(&target->sequence->hold, value);
        halo_device_thread_kick(&port->device);
    }
}

static void with_model(struct halo_port *port, struct halo_request *request, struct halo_str name)
{
    if (halo_port_hold_model(port, request, name) == 0)
        halo_request_to_text(port, request);
}

static void pong(struct halo_port *port, struct halo_request *request)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PONG, &request->msg.id);
    ev.pong.uptime_ms = (int64_t)((halo_clock_ns() - port->born_ns) / 1000000);
    halo_request_end(port, request, &ev);
}

void halo_port_dispatch(struct halo_port *port, struct halo_request *request)
{
    struct halo_msg *msg = &request->msg;
    switch (msg->type) {
    case HALO_MSG_HELLO: halo_port_hello(port, request); break;
    case HALO_MSG_PING: pong(port, request); break;
    case HALO_MSG_STATUS: halo_port_status(port, request); break;
    case HALO_MSG_STATS: halo_port_stats(port, request); break;
    case HALO_MSG_DIAG: halo_port_diag(port, request); break;
    case HALO_MSG_LOAD: halo_port_load(port, request); break;
    case HALO_MSG_UNLOAD: halo_port_unload(port, request); break;
    case HALO_MSG_CANCEL: cancel(port, request); break;
    case HALO_MSG_SAVE: halo_port_save(port, request); break;
    case HALO_MSG_RESET: halo_port_reset(port, request); break;
    case HALO_MSG_BENCH: halo_port_bench(port, request); break;
    case HALO_MSG_MODELS:
    case HALO_MSG_PLAN: halo_request_to_text(port, request); break;
    case HALO_MSG_TOKENIZE: with_model(port, request, msg->tokenize.model); break;
    case HALO_MSG_DETOKENIZE: with_model(port, request, msg->detokenize.model); break;
    case HALO_MSG_SCORE: with_model(port, request, msg->score.model); break;
    case HALO_MSG_GENERATE:
        with_model(port, request, msg->generate.has_model ? msg->generate.model : (struct halo_str){NULL, 0});
        break;
    case HALO_MSG_TEMPLATE: with_model(port, request, msg->template.model); break;
    default: assert(!"pause, continue and heartbeat are no requests");
    }
}

/* Those that are served without a request. */
static bool is_order(struct halo_port *port, const struct halo_msg *msg)
{
    switch (msg->type) {
    case HALO_MSG_PAUSE: hold(port, &msg->pause.target, true); return true;
    case HALO_MSG_UNPAUSE: hold(port, &msg->unpause.target, false); return true;
    case HALO_MSG_HEARTBEAT: halo_port_heartbeat(port, &msg->id, msg->heartbeat.beat); return true;
    default: return false;
    }
}

void halo_port_take_line(struct halo_port *port, const char *line, size_t len)
{
    struct halo_msg msg;
    struct halo_refusal refusal;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0) {
        HALO_COUNT(&port->stats, requests_refused, 1);
        if (halo_refusal_encode(&port->out, &refusal) < 0)
            halo_log(HALO_LOG_ERROR, "no memory to answer a refused line");
        return;
    }
    HALO_COUNT(&port->stats, requests, 1);
    if (is_order(port, &msg)) {
        halo_msg_finish(&msg);
        return;
    }
    if (msg.id.kind != HALO_ID_NONE && halo_request_find(port, &msg.id)) {
        put_error(port, &msg.id, HALO_ERROR_DUPLICATE_ID,
                  "a request with this id is open; wait for its end or use another id");
        halo_msg_finish(&msg);
        return;
    }
    struct halo_request *request = halo_request_create(port, &msg);
    if (!request) {
        put_error(port, &msg.id, HALO_ERROR_OUT_OF_MEMORY, "no memory for a request");
        halo_msg_finish(&msg);
        return;
    }
    halo_port_dispatch(port, request);
}
