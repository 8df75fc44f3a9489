/* shutdown.c: the end, in stages, each with a time limit.
 *
 * DRAINING  no new connections and requests; open ones may finish within drain_ms, less save_ms when prefixes are to be
 *           saved. What is still open then ends with shutting_down.
 * SAVING    the engine writes cached prefixes to disk, until drain_ms are over at the latest.
 * CLOSING   the engine sees the end of its socket and is killed after
 *           kill_ms; connections close when their output is out, or then.
 * CLOSED    every handle is closing; uv_run() returns when the last one is.
 */
#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/notify.h>

#define MS 1000000ull
#define REAP_MS 2000   /* from SIGKILL to giving the process up */
#define ANSWER_SHARE 8 /* of the time for saving, one part in so many is left for the answer */

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
    for (const struct halo_peer *peer = daemon->peers; peer; peer = peer->next)
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
    while (daemon->peers)
        halo_peer_close(daemon->peers);
    uv_timer_start(&daemon->close_timer, reap_over, REAP_MS, 0);
    halo_shutdown_check(daemon);
}

static void begin_closing(struct halo_daemon *daemon)
{
    daemon->state = HALO_DAEMON_CLOSING;
    halo_engine_stop(&daemon->engine);
    halo_checkup_stop(&daemon->checkup);
    for (struct halo_peer *peer = daemon->peers; peer; peer = peer->next)
        halo_peer_doom(peer);
    uv_timer_start(&daemon->close_timer, kill_over, (uint64_t)daemon->config->kill_ms, 0);
    halo_shutdown_check(daemon);
}

bool halo_daemon_saves(const struct halo_config *config)
{
    return config->state_dir && config->save_bytes > 0 && config->save_ms > 0;
}

static void save_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    if (daemon->state != HALO_DAEMON_SAVING)
        return;
    if (daemon->save_id != 0)
        halo_log(HALO_LOG_WARN, "cached prefixes are not saved: the engine did not answer in time");
    begin_closing(daemon);
}

/* False: there is nobody to ask, nothing to save, or no time. */
static bool ask_to_save(struct halo_daemon *daemon)
{
    struct halo_json *out = daemon->engine.state == HALO_ENGINE_READY ? halo_engine_out(&daemon->engine) : NULL;
    uint64_t now = halo_clock_ns();
    struct halo_msg msg;
    if (!halo_daemon_saves(daemon->config) || !out || daemon->loaded.n_models == 0 ||
        now + ANSWER_SHARE * MS >= daemon->drain_ends_ns)
        return false;
    int64_t left_ms = (int64_t)((daemon->drain_ends_ns - now) / MS);
    if (left_ms > daemon->config->save_ms)
        left_ms = daemon->config->save_ms;
    daemon->save_id = halo_requests_next_id(&daemon->requests);
    halo_msg_init(&msg, HALO_MSG_SAVE);
    msg.id = halo_id_of((int64_t)daemon->save_id);
    msg.save.deadline_ms = left_ms - left_ms / ANSWER_SHARE;
    if (halo_msg_encode(out, &msg) < 0)
        return false;
    uv_timer_start(&daemon->close_timer, save_over, (uint64_t)left_ms, 0);
    return true;
}

void halo_shutdown_saved(struct halo_daemon *daemon, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    daemon->save_id = 0;
    if (!line || halo_ev_decode(&ev, line, len, 0, &refusal) != 0) {
        halo_log(HALO_LOG_WARN, "cached prefixes are not saved: %s",
                 !line ? "the engine died" : "its answer cannot be read");
    } else {
        if (ev.type == HALO_EV_SAVED)
            halo_log(HALO_LOG_INFO, "cached prefixes are saved: %lld pages of %lld models, %lld bytes",
                     (long long)ev.saved.pages, (long long)ev.saved.models, (long long)ev.saved.bytes);
        else
            halo_log(HALO_LOG_WARN, "cached prefixes are not saved: %s",
                     ev.type == HALO_EV_ERROR ? ev.error.message.at : "the engine answered something else");
        halo_ev_finish(&ev);
    }
    if (daemon->state == HALO_DAEMON_SAVING) /* not now: the engine's lines are being read */
        uv_timer_start(&daemon->close_timer, save_over, 0, 0);
}

static void drain_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    struct halo_request *request;
    if (daemon->state != HALO_DAEMON_DRAINING)
        return;
    daemon->state = HALO_DAEMON_SAVING;
    if (n_attached(daemon) > 0)
        halo_log(HALO_LOG_INFO, "%zu requests are still open and end now", n_attached(daemon));
    while ((request = halo_requests_next(&daemon->requests, NULL))) {
        halo_answer_failed(request, HALO_ERROR_SHUTTING_DOWN,
                           "the daemon is shutting down; send the request again later");
        halo_dispatch_ended(daemon, request);
    }
    if (!ask_to_save(daemon))
        begin_closing(daemon);
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
    int64_t drain_ms = daemon->config->drain_ms, save_ms = 0;
    if (halo_daemon_saves(daemon->config) && daemon->loaded.n_models > 0)
        save_ms = daemon->config->save_ms < drain_ms / 2 ? daemon->config->save_ms : drain_ms / 2;
    daemon->state = HALO_DAEMON_DRAINING;
    daemon->drain_ends_ns = halo_clock_ns() + (uint64_t)drain_ms * MS;
    halo_log(HALO_LOG_INFO, "shutting down: %zu requests are open, they have %lld ms", n_attached(daemon),
             (long long)(drain_ms - save_ms));
    halo_notify_stopping();
    halo_notify_extend_ms((uint64_t)(daemon->config->drain_ms + daemon->config->kill_ms) + REAP_MS + 1000);
    halo_accept_stop(daemon);
    halo_listen_close(&daemon->listen);
    uv_timer_start(&daemon->close_timer, drain_over, (uint64_t)(drain_ms - save_ms), 0);
    halo_shutdown_check(daemon);
}

/* Called in the middle of other work: only ever arms a timer, or closes what nobody uses any more. */
void halo_shutdown_check(struct halo_daemon *daemon)
{
    if (daemon->state == HALO_DAEMON_DRAINING && n_attached(daemon) == 0)
        uv_timer_start(&daemon->close_timer, look, 0, 0);
    else if (daemon->state == HALO_DAEMON_CLOSING && daemon->engine.state == HALO_ENGINE_DOWN && !daemon->checkup.run &&
             !daemon->peers)
        finish(daemon);
}
