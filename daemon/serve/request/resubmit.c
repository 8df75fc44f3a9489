/* resubmit.c: what becomes of requests whose engine died.
 *
 * Each one waits for the next engine: a reply that has begun continues there, everything else runs again. It ends
 * instead when that cannot be (no record, no result that anybody wants), and when several engines in a row died with it
 * before it made progress, the last one while it ran alone.
 */
#include <serve/request/requests.h>

#include <assert.h>
#include <stdio.h>

#include <base/log.h>

#include "answer_priv.h"
#include "link_priv.h"
#include "query_priv.h"
#include "reload_priv.h"
#include "resume_priv.h"
#include "retry_priv.h"
#include "table_priv.h"
#include "wait_priv.h"

static void end_guilty(struct halo_requests *requests, struct halo_request *request)
{
    requests->counters->requests_lost++;
    const char *reason = requests->link.reason, *note = requests->ops->death_note(requests->ud, false);
    if (request->n_deaths == 1)
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST,
                           "an engine died with this request before it made progress: the engine %s%s", reason, note);
    else
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST,
                           "%u engines in a row died with this request before it made progress, the last one while it "
                           "ran alone: the engine %s%s",
                           request->n_deaths, reason, note);
    halo_request_end(requests, request);
}

static void settle(struct halo_requests *requests, struct halo_request *request)
{
    switch (halo_retry_verdict(request, requests->config->request_deaths)) {
    case HALO_RETRY_AGAIN:
        if (request->state == HALO_REQUEST_WAITING)
            return;
        halo_request_move(requests, request, HALO_REQUEST_WAITING);
        halo_request_wait(requests, request);
        return;
    case HALO_RETRY_OWN:
        if (halo_request_is_query(request->type))
            halo_query_answer(requests, request, NULL, 0); /* the daemon's own part is still true */
        else
            halo_request_end(requests, request); /* reload.c or demand.c asks again */
        return;
    case HALO_RETRY_CANCELLED:
        halo_answer_ended(request, HALO_WIRE_FINISH_CANCELLED, requests->now_ns); /* that is what was asked for */
        halo_request_end(requests, request);
        return;
    case HALO_RETRY_SCORED:
        halo_resume_score_done(request);
        halo_request_end(requests, request);
        return;
    case HALO_RETRY_GUILTY: end_guilty(requests, request); return;
    }
}

static void refuse_waiting(struct halo_requests *requests)
{
    struct halo_request *request = halo_request_first_waiting(requests), *next;
    char text[HALO_REQUESTS_REFUSAL_BYTES];
    halo_requests_breaker_text(requests, text, sizeof(text));
    for (; request; request = next) {
        next = halo_request_next_waiting(request);
        if (halo_request_is_query(request->type)) {
            halo_query_answer(requests, request, NULL, 0);
            continue;
        }
        requests->counters->requests_lost++;
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "%s", text);
        halo_request_end(requests, request);
    }
}

static void tell_breaker_open(struct halo_requests *requests)
{
    char text[512];
    halo_log(HALO_LOG_ERROR,
             "the engine died %u times in a row without making progress; requests are refused for %lld ms, or "
             "until a `load`",
             requests->breaker.n_vain, (long long)requests->config->breaker_ms);
    snprintf(text, sizeof(text),
             "broken: the engine died %u times in a row, the last time it %.200s; refusing requests, `haloctl load` "
             "tries again",
             requests->breaker.n_vain, requests->link.reason);
    requests->ops->status(requests->ud, text);
}

void halo_requests_engine_died(struct halo_requests *requests, const char *reason, uint64_t now_ns)
{
    struct halo_request *request = halo_request_first(requests), *next;
    requests->now_ns = now_ns;
    halo_link_move(&requests->link, HALO_LINK_DOWN);
    requests->link.out = NULL;
    snprintf(requests->link.reason, sizeof(requests->link.reason), "%s", reason);
    if (halo_breaker_engine_died(&requests->breaker, requests->config, now_ns))
        tell_breaker_open(requests);
    for (; request; request = next) {
        next = halo_request_next(request);
        if (request->state != HALO_REQUEST_WAITING)
            halo_request_note_death(request);
        settle(requests, request);
    }
    assert(requests->alone == 0); /* a suspect that dies is guilty */
    halo_reload_died(requests);
    if (requests->breaker.open)
        refuse_waiting(requests);
}
