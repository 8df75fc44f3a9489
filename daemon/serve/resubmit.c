/* resubmit.c: what becomes of requests whose engine died.
 *
 * Each one waits for the next engine: a reply that has begun goes on there, everything else runs again. It ends instead
 * when that cannot be (no record, no result that anybody wants), and when engines died with it again and again without
 * getting anything done of it; the last of them had nothing else to die of.
 */
#include <serve/resubmit.h>

#include <serve/answer.h>
#include <serve/reload.h>
#include <serve/resume.h>

bool halo_resubmit_is_suspect(const struct halo_daemon *daemon, const struct halo_request *request)
{
    return request->n_deaths > 0 && (int64_t)request->n_deaths + 1 >= daemon->config->request_deaths &&
           !request->progressed && !halo_request_is_query(request->type);
}

enum halo_resubmit halo_resubmit_verdict(const struct halo_request *request, int64_t most_deaths)
{
    if (request->state == HALO_REQUEST_WAITING)
        return HALO_RESUBMIT_AGAIN;
    if (halo_request_is_query(request->type) || request->reload_model || request->demanded)
        return HALO_RESUBMIT_OWN;
    if (request->state == HALO_REQUEST_CANCELLING)
        return HALO_RESUBMIT_CANCELLED;
    if (request->score.over)
        return HALO_RESUBMIT_SCORED;
    if ((int64_t)request->n_deaths >= most_deaths)
        return HALO_RESUBMIT_GUILTY;
    return HALO_RESUBMIT_AGAIN;
}

static void end_guilty(struct halo_daemon *daemon, struct halo_request *request, const char *reason)
{
    char note[HALO_CHECKUP_TEXT_BYTES + 32];
    daemon->counters.requests_lost++;
    halo_answer_failed(request, HALO_ERROR_ENGINE_LOST,
                       "%u engines in a row died with this request and committed nothing of it, the last one %sthe "
                       "engine %s%s",
                       request->n_deaths, request->n_deaths > 1 ? "with nothing else to do: " : ": ", reason,
                       halo_checkup_note(&daemon->checkup, note, sizeof(note)));
    halo_dispatch_ended(daemon, request);
}

static void settle(struct halo_daemon *daemon, struct halo_request *request, const char *reason)
{
    switch (halo_resubmit_verdict(request, daemon->config->request_deaths)) {
    case HALO_RESUBMIT_AGAIN:
        if (request->state == HALO_REQUEST_WAITING)
            return;
        halo_request_move(&daemon->requests, request, HALO_REQUEST_WAITING);
        halo_dispatch_wait(daemon, request);
        return;
    case HALO_RESUBMIT_OWN:
        if (halo_request_is_query(request->type))
            halo_query_answer(daemon, request, NULL, 0); /* the daemon's own part is still true */
        else
            halo_dispatch_ended(daemon, request); /* reload.c or demand.c asks again */
        return;
    case HALO_RESUBMIT_CANCELLED:
        halo_answer_ended(request, HALO_WIRE_FINISH_CANCELLED); /* that is what was asked for */
        halo_dispatch_ended(daemon, request);
        return;
    case HALO_RESUBMIT_SCORED:
        halo_resume_score_done(request);
        halo_dispatch_ended(daemon, request);
        return;
    case HALO_RESUBMIT_GUILTY: end_guilty(daemon, request, reason); return;
    }
}

void halo_resubmit_all(struct halo_daemon *daemon, const char *reason)
{
    struct halo_request *request = halo_requests_next(&daemon->requests, NULL), *next;
    daemon->alone = 0;
    for (; request; request = next) {
        next = halo_requests_next(&daemon->requests, request);
        if (request->state != HALO_REQUEST_WAITING)
            halo_request_note_death(request);
        settle(daemon, request, reason);
    }
    halo_reload_died(daemon);
    if (halo_engine_is_broken(&daemon->engine))
        halo_breaker_refuse(daemon);
}
