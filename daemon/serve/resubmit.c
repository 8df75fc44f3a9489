/* resubmit.c: what becomes of requests whose engine died.
 *
 * Today: a request that the engine had ends with engine_lost, whatever it was. Resuming streams means another verdict
 * here and a `resume` field in the line that dispatch.c sends; the record keeps all that it needs.
 */
#include <serve/resubmit.h>

#include <serve/answer.h>
#include <serve/reload.h>

enum halo_resubmit halo_resubmit_verdict(const struct halo_request *request)
{
    return request->state == HALO_REQUEST_WAITING ? HALO_RESUBMIT_AGAIN : HALO_RESUBMIT_END;
}

static void lost(struct halo_daemon *daemon, struct halo_request *request, const char *reason)
{
    daemon->counters.requests_lost++;
    if (halo_request_is_query(request->type)) {
        halo_query_answer(daemon, request, NULL, 0); /* the daemon's own part is still true */
        return;
    }
    if (request->state == HALO_REQUEST_CANCELLING)
        halo_answer_cancelled(request); /* that is what was asked for */
    else
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "the engine %s; send the request again", reason);
    halo_dispatch_ended(daemon, request);
}

/* The breaker is open: nobody is left waiting for an engine that dies each time. */
static void refuse_waiting(struct halo_daemon *daemon, const char *reason)
{
    struct halo_request *request = daemon->requests.wait_first, *next;
    for (; request != NULL; request = next) {
        next = request->wait_next;
        if (halo_request_is_query(request->type)) {
            halo_query_answer(daemon, request, NULL, 0);
            continue;
        }
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST,
                           "the engine died %u times in a row without doing anything (%s)", daemon->engine.n_futile,
                           reason);
        halo_dispatch_ended(daemon, request);
    }
}

void halo_resubmit_all(struct halo_daemon *daemon, const char *reason)
{
    struct halo_request *request = halo_requests_next(&daemon->requests, NULL), *next;
    for (; request != NULL; request = next) {
        next = halo_requests_next(&daemon->requests, request);
        request->n_deaths += request->state != HALO_REQUEST_WAITING;
        if (halo_resubmit_verdict(request) == HALO_RESUBMIT_END)
            lost(daemon, request, reason);
        else if (request->state != HALO_REQUEST_WAITING)
            halo_request_move(&daemon->requests, request, HALO_REQUEST_WAITING);
    }
    halo_reload_died(daemon);
    if (halo_engine_is_broken(&daemon->engine))
        refuse_waiting(daemon, reason);
}
