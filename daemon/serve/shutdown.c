/* shutdown.c: the end, in stages, each with a time limit.
 *
 * DRAINING  no new connections and requests; open ones may finish within drain_ms, less save_ms when prefixes are to be
 *           saved. What is still open then ends with shutting_down.
 * SAVING    the engine writes cached prefixes to disk, until drain_ms are over at the latest.
 * CLOSING   the engine sees the end of its socket and is killed after kill_ms; connections close when their output is
 *           out, or then.
 * CLOSED    every handle is closing; uv_run() returns when the last one is.
 */
#include <base/clock.h>
#include <base/log.h>
#include <base/state.h>
#include <protocol/message.h>

#include "daemon_priv.h"
#include "notify_priv.h"

#define MS 1000000ull
#define REAP_MS 2000   /* from SIGKILL to giving the process up */
#define ANSWER_SHARE 8 /* of the time for saving, one part in so many is left for the answer */

#define BIT(state) HALO_STATE_BIT(HALO_DAEMON_##state)

static const unsigned moves[HALO_N_DAEMON_STATES] = {
    [HALO_DAEMON_SERVING] = BIT(DRAINING),
    [HALO_DAEMON_DRAINING] = BIT(SAVING),
    [HALO_DAEMON_SAVING] = BIT(CLOSING),
    [HALO_DAEMON_CLOSING] = BIT(CLOSED),
    [HALO_DAEMON_CLOSED] = 0,
};

static void move(struct halo_daemon *daemon, enum halo_daemon_state to)
{
    daemon->state = halo_state_move(moves, daemon->state, to);
}

static void close_handle(void *handle)
{
    uv_close(handle, NULL);
}

static void finish(struct halo_daemon *daemon)
{
    move(daemon, HALO_DAEMON_CLOSED);
    close_handle(&daemon->prepare);
    close_handle(&daemon->check);
    close_handle(&daemon->expire_timer);
    close_handle(&daemon->restart_timer);
    close_handle(&daemon->watchdog_timer);
    close_handle(&daemon->close_timer);
    halo_clients_close_handles(&daemon->clients);
    halo_engine_close(&daemon->engine);
    halo_checkup_close(&daemon->checkup);
}

static size_t n_open(const struct halo_daemon *daemon)
{
    size_t n = 0;
    for (const struct halo_list_node *node = daemon->clients.peers.first; node; node = node->next)
        n += HALO_LIST_ITEM(node, const struct halo_peer, node)->client.requests.n;
    return n;
}

static void reap_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    halo_log(HALO_LOG_ERROR, "the engine did not exit after SIGKILL; abandoning it");
    daemon->engine_stuck = true;
    uv_stop(daemon->loop);
}

static void kill_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    halo_engine_kill(&daemon->engine);
    halo_clients_close(&daemon->clients);
    uv_timer_start(&daemon->close_timer, reap_over, REAP_MS, 0);
}

static void begin_closing(struct halo_daemon *daemon)
{
    move(daemon, HALO_DAEMON_CLOSING);
    uv_timer_stop(&daemon->restart_timer);
    halo_requests_engine_left(&daemon->requests);
    halo_engine_stop(&daemon->engine);
    halo_checkup_stop(&daemon->checkup);
    halo_clients_doom(&daemon->clients);
    uv_timer_start(&daemon->close_timer, kill_over, (uint64_t)daemon->config->kill_ms, 0);
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
    bool ready = daemon->requests.link.state == HALO_LINK_READY;
    uint64_t now = halo_clock_ns();
    struct halo_msg msg;
    if (!halo_config_saves(daemon->config) || !ready || daemon->requests.models.n_models == 0 ||
        now + ANSWER_SHARE * MS >= daemon->drain_ends_ns)
        return false;
    int64_t left_ms = (int64_t)((daemon->drain_ends_ns - now) / MS);
    if (left_ms > daemon->config->save_ms)
        left_ms = daemon->config->save_ms;
    daemon->save_id = halo_requests_next_id(&daemon->requests);
    halo_msg_init(&msg, HALO_MSG_SAVE);
    msg.id = halo_id_of((int64_t)daemon->save_id);
    msg.save.deadline_ms = left_ms - left_ms / ANSWER_SHARE;
    if (halo_msg_encode(daemon->requests.link.out, &msg) < 0)
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
            halo_log(HALO_LOG_INFO, "cached prefixes are saved: %lld page%s of %lld model%s, %lld bytes",
                     (long long)ev.saved.pages, ev.saved.pages == 1 ? "" : "s", (long long)ev.saved.models,
                     ev.saved.models == 1 ? "" : "s", (long long)ev.saved.bytes);
        else
            halo_log(HALO_LOG_WARN, "cached prefixes are not saved: %s",
                     ev.type == HALO_EV_ERROR ? ev.error.message.at : "the engine sent another answer");
        halo_ev_finish(&ev);
    }
    if (daemon->state == HALO_DAEMON_SAVING) /* not now: the engine's lines are being read */
        uv_timer_start(&daemon->close_timer, save_over, 0, 0);
}

static void drain_over(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    if (daemon->state != HALO_DAEMON_DRAINING)
        return;
    move(daemon, HALO_DAEMON_SAVING);
    size_t n = n_open(daemon);
    if (n > 0)
        halo_log(HALO_LOG_INFO, "ending %zu request%s that %s still open", n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
    halo_requests_end_all(&daemon->requests, HALO_ERROR_SHUTTING_DOWN,
                          "the daemon is shutting down; send the request again when it is back", halo_clock_ns());
    if (!ask_to_save(daemon))
        begin_closing(daemon);
}

void halo_daemon_stop(struct halo_daemon *daemon)
{
    if (daemon->state != HALO_DAEMON_SERVING)
        return;
    int64_t drain_ms = daemon->config->drain_ms, save_ms = 0;
    if (halo_config_saves(daemon->config) && daemon->requests.models.n_models > 0)
        save_ms = daemon->config->save_ms < drain_ms / 2 ? daemon->config->save_ms : drain_ms / 2;
    move(daemon, HALO_DAEMON_DRAINING);
    daemon->drain_ends_ns = halo_clock_ns() + (uint64_t)drain_ms * MS;
    size_t n = n_open(daemon);
    if (n > 0)
        halo_log(HALO_LOG_INFO, "shutting down: %zu open request%s may take %lld ms more", n, n == 1 ? "" : "s",
                 (long long)(drain_ms - save_ms));
    else
        halo_log(HALO_LOG_INFO, "shutting down: no request is open");
    halo_notify_stopping();
    halo_notify_extend_ms((uint64_t)(daemon->config->drain_ms + daemon->config->kill_ms) + REAP_MS + 1000);
    halo_clients_stop(&daemon->clients);
    daemon->requests.accepts = false;
    uv_timer_start(&daemon->close_timer, drain_over, (uint64_t)(drain_ms - save_ms), 0);
}

void halo_shutdown_check(struct halo_daemon *daemon)
{
    if (daemon->state == HALO_DAEMON_DRAINING && n_open(daemon) == 0)
        uv_timer_start(&daemon->close_timer, drain_over, 0, 0);
    else if (daemon->state == HALO_DAEMON_CLOSING && daemon->engine.state == HALO_ENGINE_DOWN &&
             !daemon->checkup.child && !daemon->clients.peers.first)
        finish(daemon);
}
