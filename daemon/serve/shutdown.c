/* shutdown.c: the end, in stages, each with a time limit.
 *
 * DRAINING  no new connections and requests; open ones may finish within drain_ms.
 * CLOSING   what is still open ends with shutting_down; the engine sees the end of its socket and is killed after
 *           kill_ms; connections close when their output is out, or then.
 * CLOSED    every handle is closing; uv_run() returns when the last one is.
 */
#include <base/log.h>
#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/notify.h>

#define REAP_MS 2000 /* from SIGKILL to giving the process up */

static void close_handle(void *handle)
{
    uv_close(handle, NULL);
}

static void finish(struct halo_daemon *daemon)
{
    daemon->state = HALO_DAEMON_CLOSED;
    close_handle(&daemon->prepare);
    close_handle(&daemon->check);
    close_handle(&daemon->expire_timer);
    close_handle(&daemon->watchdog_timer);
    close_handle(&daemon->close_timer);
    halo_engine_close(&daemon->engine);
    halo_checkup_close(&daemon->checkup);
}

static size_t n_attached(const struct halo_daemon *daemon)
{
    size_t n = 0;
    for (const struct halo_peer *peer = daemon->peers; peer != NULL; peer = peer->next)
        n += peer->n_requests;
    return n;
}

static void reap_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    halo_log(HALO_LOG_ERROR, "the engine does not end even by SIGKILL; leaving it behind");
    daemon->engine_stuck = true;
    uv_stop(daemon->loop);
}

static void kill_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    halo_engine_kill(&daemon->engine);
    while (daemon->peers != NULL)
        halo_peer_close(daemon->peers);
    uv_timer_start(&daemon->close_timer, reap_over, REAP_MS, 0);
    halo_shutdown_check(daemon);
}

static void drain_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    struct halo_request *request;
    if (daemon->state != HALO_DAEMON_DRAINING)
        return;
    daemon->state = HALO_DAEMON_CLOSING;
    if (n_attached(daemon) > 0)
        halo_log(HALO_LOG_INFO, "%zu requests are still open and end now", n_attached(daemon));
    halo_engine_stop(&daemon->engine);
    halo_checkup_stop(&daemon->checkup);
    while ((request = halo_requests_next(&daemon->requests, NULL)) != NULL) {
        halo_answer_failed(request, HALO_ERROR_SHUTTING_DOWN,
                           "the daemon is shutting down; send the request again later");
        halo_dispatch_ended(daemon, request);
    }
    for (struct halo_peer *peer = daemon->peers; peer != NULL; peer = peer->next)
        halo_peer_doom(peer);
    uv_timer_start(&daemon->close_timer, kill_over, (uint64_t)daemon->config->kill_ms, 0);
    halo_shutdown_check(daemon);
}

static void look(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    if (daemon->state == HALO_DAEMON_DRAINING)
        drain_over(timer);
}

void halo_shutdown_begin(struct halo_daemon *daemon)
{
    if (daemon->state != HALO_DAEMON_SERVING)
        return;
    daemon->state = HALO_DAEMON_DRAINING;
    halo_log(HALO_LOG_INFO, "shutting down: %zu requests are open, they have %lld ms", n_attached(daemon),
             (long long)daemon->config->drain_ms);
    halo_notify_stopping();
    halo_notify_extend_ms((uint64_t)(daemon->config->drain_ms + daemon->config->kill_ms) + REAP_MS + 1000);
    halo_accept_stop(daemon);
    halo_listen_close(&daemon->listen);
    uv_timer_start(&daemon->close_timer, drain_over, (uint64_t)daemon->config->drain_ms, 0);
    halo_shutdown_check(daemon);
}

/* Called in the middle of other work: only ever arms a timer, or closes what nobody uses any more. */
void halo_shutdown_check(struct halo_daemon *daemon)
{
    if (daemon->state == HALO_DAEMON_DRAINING && n_attached(daemon) == 0)
        uv_timer_start(&daemon->close_timer, look, 0, 0);
    else if (daemon->state == HALO_DAEMON_CLOSING && daemon->engine.state == HALO_ENGINE_DOWN &&
             daemon->checkup.run == NULL && daemon->peers == NULL)
        finish(daemon);
}
