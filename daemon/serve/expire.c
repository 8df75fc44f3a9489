/* expire.c: one timer for all requests that wait with a limit: for an engine, or for the engine's part of an answer. */
#include <base/clock.h>

#include <serve/answer.h>
#include <serve/daemon.h>

#define MS 1000000ull

void halo_expire_arm(struct halo_daemon *daemon, uint64_t at_ns)
{
    uint64_t now = halo_clock_ns();
    if (at_ns >= daemon->expire_at_ns || daemon->state == HALO_DAEMON_CLOSED)
        return;
    daemon->expire_at_ns = at_ns;
    /* Rounded up, from the loop's own idea of now, which may be behind. */
    uv_update_time(daemon->loop);
    uv_timer_start(&daemon->expire_timer, halo_expire_fired, at_ns > now ? (at_ns - now + MS - 1) / MS : 0, 0);
}

static void expired(struct halo_daemon *daemon, struct halo_request *request, uint64_t now)
{
    const struct halo_engine *engine = &daemon->engine;
    int64_t waited_ms = (int64_t)((now - request->arrived_ns) / MS);
    bool up = engine->state == HALO_ENGINE_READY || engine->state == HALO_ENGINE_LOADING;
    bool late = halo_dispatch_left_ms(request, now) <= 0;
    if (request->order_due) {
        request->expires_ns = UINT64_MAX;
        halo_dispatch_order(daemon, request);
        return;
    }
    if (halo_request_is_query(request->type)) {
        halo_query_answer(daemon, request, NULL, 0);
        return;
    }
    if (!late && up) { /* models come back, or a suspect goes first: there is something to wait for */
        halo_dispatch_wait(daemon, request);
        return;
    }
    if (late)
        halo_dispatch_late(request);
    else
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "no engine was ready within %lld ms (it is %s%s%s)",
                           (long long)waited_ms, halo_engine_state_name(engine), engine->reason[0] != '\0' ? ": " : "",
                           engine->reason);
    halo_dispatch_ended(daemon, request);
}

void halo_expire_fired(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    struct halo_request *request = halo_requests_next(&daemon->requests, NULL), *next;
    uint64_t now = halo_clock_ns(), first = UINT64_MAX;
    daemon->expire_at_ns = UINT64_MAX;
    for (; request; request = next) {
        next = halo_requests_next(&daemon->requests, request);
        if (request->expires_ns <= now)
            expired(daemon, request, now); /* may arm the timer anew, and free the request */
        else if (request->expires_ns < first)
            first = request->expires_ns;
    }
    if (first != UINT64_MAX)
        halo_expire_arm(daemon, first);
}
