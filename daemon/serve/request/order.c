/* order.c: the engine is told what the state of a request says. The answer to a cancel comes for an id that no request
 * has. */
#include "order_priv.h"

#include <base/log.h>

#include "table_priv.h"
#include "wait_priv.h"

#define RETRY_NS 50000000ull

/* An order must not get lost: without memory it is given again a little later. */
static void order(struct halo_requests *requests, struct halo_request *request)
{
    struct halo_json *out = requests->link.out;
    struct halo_id target = halo_id_of((int64_t)request->id);
    struct halo_msg msg;
    request->order_due = false;
    if (!out)
        return;
    if (request->state == HALO_REQUEST_CANCELLING) {
        halo_msg_init(&msg, HALO_MSG_CANCEL);
        msg.id = halo_id_of((int64_t)halo_requests_next_id(requests));
        msg.cancel.target = target;
    } else if (request->paused) {
        halo_msg_init(&msg, HALO_MSG_PAUSE);
        msg.pause.target = target;
    } else {
        halo_msg_init(&msg, HALO_MSG_UNPAUSE);
        msg.unpause.target = target;
    }
    request->order_due = halo_msg_encode(out, &msg) < 0;
    if (!request->order_due)
        return;
    halo_log(HALO_LOG_ERROR, "out of memory for the order to %s a request; trying again", halo_msg_type_name(msg.type));
    halo_request_expire_at(requests, request, requests->now_ns + RETRY_NS);
}

void halo_request_order_again(struct halo_requests *requests, struct halo_request *request)
{
    request->expires_ns = UINT64_MAX;
    order(requests, request);
}

void halo_request_cancel(struct halo_requests *requests, struct halo_request *request)
{
    if (request->state == HALO_REQUEST_CANCELLING)
        return;
    halo_request_move(requests, request, HALO_REQUEST_CANCELLING);
    order(requests, request);
}

void halo_request_pause(struct halo_requests *requests, struct halo_request *request, bool pause)
{
    bool in_engine = request->state == HALO_REQUEST_SENT || request->state == HALO_REQUEST_RUNNING;
    if (!request->streams || !in_engine || request->paused == pause)
        return;
    request->paused = pause;
    order(requests, request);
}

void halo_request_abandon(struct halo_requests *requests, struct halo_request *request)
{
    halo_request_detach(request);
    if (request->type == HALO_MSG_LOAD)
        return; /* it belongs to the daemon */
    if (request->state == HALO_REQUEST_WAITING || halo_request_is_query(request->type))
        halo_request_end(requests, request);
    else
        halo_request_cancel(requests, request);
}
