/* dispatch.c: requests on their way to the engine.
 *
 * Everything is sent at once, oldest first; the engine has a queue of its own. Only a suspect, a request with which
 * engines died before they committed anything of it, is alone in the engine: until it commits something, ends, or kills
 * that engine too. The others wait here meanwhile.
 */
#include "dispatch_priv.h"

#include <assert.h>

#include <protocol/message.h>

#include "answer_priv.h"
#include "demand_priv.h"
#include "order_priv.h"
#include "resume_priv.h"
#include "retry_priv.h"
#include "table_priv.h"
#include "wait_priv.h"

static bool is_suspect(const struct halo_requests *requests, const struct halo_request *request)
{
    return halo_retry_is_suspect(request, requests->config->request_deaths);
}

/* False: it cannot go on, and its client knows. */
static bool may_go_on(struct halo_requests *requests, struct halo_request *request, int64_t left_ms)
{
    char reason[512];
    if (left_ms <= 0 && request->n_tokens == 0)
        halo_request_late(request, requests->now_ns);
    else if (!halo_resume_possible(&requests->models, request, reason, sizeof(reason)))
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "the engine %.200s, and %.280s", requests->link.reason,
                           reason);
    else
        return true;
    return false;
}

static void send_now(struct halo_requests *requests, struct halo_request *request)
{
    uint64_t now = requests->now_ns;
    int64_t left_ms = halo_request_left_ms(request, now);
    if (!may_go_on(requests, request, left_ms)) {
        halo_request_end(requests, request);
        return;
    }
    /* A reply that is late by now is sent all the same: the engine has text of it that is still due. */
    if (halo_demand(requests, request) < 0 ||
        halo_resume_append(requests->link.out, request, left_ms > 0 ? left_ms : 1, now) < 0) {
        halo_answer_failed(request, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory to pass this request on");
        halo_request_end(requests, request);
        return;
    }
    if (is_suspect(requests, request))
        requests->alone = request->id;
    if (request->died) {
        request->n_resumes++;
        requests->counters->requests_resumed++;
    }
    halo_resume_notify(request, requests->link.reason, requests->ops->death_note(requests->ud, false));
    request->dispatched_ns = now;
    request->expires_ns = UINT64_MAX;
    request->phase = request->type == HALO_MSG_LOAD ? "loading" : "queued";
    halo_request_move(requests, request, HALO_REQUEST_SENT);
    if (request->client && request->client->slow)
        halo_request_pause(requests, request, true);
}

static struct halo_request *first_suspect(const struct halo_requests *requests)
{
    struct halo_request *request = halo_request_first_waiting(requests);
    while (request && !is_suspect(requests, request))
        request = halo_request_next_waiting(request);
    return request;
}

static bool may_send(const struct halo_requests *requests)
{
    return requests->link.state == HALO_LINK_READY && requests->alone == 0;
}

void halo_dispatch(struct halo_requests *requests, struct halo_request *request)
{
    assert(request->state == HALO_REQUEST_WAITING);
    bool is_first = requests->n_states[HALO_REQUEST_WAITING] == 1; /* older ones go before it */
    if (may_send(requests) && is_first)
        send_now(requests, request);
    else
        halo_request_wait(requests, request);
}

void halo_dispatch_waiting(struct halo_requests *requests)
{
    const size_t *n = requests->n_states;
    struct halo_request *suspect, *next;
    requests->dispatch_due = false;
    while (may_send(requests) && (suspect = first_suspect(requests))) {
        if (n[HALO_REQUEST_SENT] + n[HALO_REQUEST_RUNNING] + n[HALO_REQUEST_CANCELLING] > 0)
            return; /* looked at again when they end */
        send_now(requests, suspect);
    }
    for (struct halo_request *request = halo_request_first_waiting(requests); request; request = next) {
        next = halo_request_next_waiting(request);
        if (!may_send(requests))
            return;
        if (!halo_request_is_query(request->type))
            send_now(requests, request);
    }
}

bool halo_dispatch_again(struct halo_requests *requests, struct halo_request *request)
{
    bool again = request->missed && halo_request_awaits_output(request) && requests->config->on_demand;
    request->missed = false;
    if (!again)
        return false;
    if (requests->alone == request->id)
        requests->alone = 0; /* until it is sent */
    request->paused = false;
    halo_request_move(requests, request, HALO_REQUEST_WAITING);
    halo_request_wait(requests, request);
    requests->dispatch_due = true;
    return true;
}
