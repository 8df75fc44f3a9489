/* expire.c: requests whose time limit is over: for an engine, for the engine's part of an answer, for an order. */
#include <serve/request/requests.h>

#include "answer_priv.h"
#include "order_priv.h"
#include "query_priv.h"
#include "table_priv.h"
#include "wait_priv.h"

#define MS 1000000ull

static void expired(struct halo_requests *requests, struct halo_request *request)
{
    uint64_t now = requests->now_ns;
    int64_t waited_ms = (int64_t)((now - request->arrived_ns) / MS);
    bool late = halo_request_left_ms(request, now) <= 0;
    if (request->order_due) {
        halo_request_order_again(requests, request);
        return;
    }
    if (halo_request_is_query(request->type)) {
        halo_query_answer(requests, request, NULL, 0);
        return;
    }
    if (!late && requests->link.state != HALO_LINK_DOWN) { /* models come back, or a suspect goes first */
        halo_request_wait(requests, request);
        return;
    }
    if (late)
        halo_request_late(request, now);
    else
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "no engine was ready within %lld ms (it is %s%s%s)",
                           (long long)waited_ms, requests->ops->engine_state(requests->ud),
                           requests->link.reason[0] != '\0' ? ": " : "", requests->link.reason);
    halo_request_end(requests, request);
}

void halo_requests_expire(struct halo_requests *requests, uint64_t now_ns)
{
    struct halo_request *request = halo_request_first(requests), *next;
    requests->now_ns = now_ns;
    requests->next_ns = UINT64_MAX;
    for (; request; request = next) {
        next = halo_request_next(request);
        if (request->expires_ns <= now_ns)
            expired(requests, request); /* may free it */
        else if (request->expires_ns < requests->next_ns)
            requests->next_ns = request->expires_ns;
    }
}
