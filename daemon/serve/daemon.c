/* daemon.c: puts the parts on one loop, passes on what each one tells, and flushes what they wrote. */
#include <serve/daemon.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>

#include "daemon_priv.h"
#include "notify_priv.h"

#define MS 1000000ull
#define QUEUES_LOOK_MS 50   /* between two looks at the hardware queues of a dead engine ... */
#define QUEUES_WAIT_MS 5000 /* ... until the next one starts beside them */

/* ---- clients ---- */

static void peer_line(struct halo_peer *peer, const char *line, size_t len)
{
    struct halo_daemon *daemon = peer->clients->ud;
    halo_requests_line(&daemon->requests, &peer->client, line, len, halo_clock_ns());
}

static void peer_dropped(struct halo_peer *peer, enum halo_error code, struct halo_numbers numbers, const char *message)
{
    struct halo_daemon *daemon = peer->clients->ud;
    halo_requests_refuse(&daemon->requests, &peer->client, code, numbers, "%s", message);
}

static void peer_pressure(struct halo_peer *peer, enum halo_pressure pressure)
{
    struct halo_daemon *daemon = peer->clients->ud;
    if (pressure == HALO_PRESSURE_STALLED)
        halo_requests_client_stalled(&daemon->requests, &peer->client, halo_clock_ns());
    else
        halo_requests_client_slow(&daemon->requests, &peer->client, pressure == HALO_PRESSURE_SLOW, halo_clock_ns());
}

static void peer_gone(struct halo_peer *peer)
{
    struct halo_daemon *daemon = peer->clients->ud;
    halo_requests_client_gone(&daemon->requests, &peer->client, halo_clock_ns());
}

static const struct halo_peer_ops peer_ops = {
    .line = peer_line,
    .dropped = peer_dropped,
    .pressure = peer_pressure,
    .gone = peer_gone,
};

/* ---- the engine ---- */

static int engine_line(struct halo_engine *engine, const struct halo_event_line *line, struct halo_fault *fault)
{
    struct halo_daemon *daemon = engine->ud;
    if (daemon->read_ns == 0)
        daemon->read_ns = engine->heard_ns;
    if (daemon->save_id != 0 && line->env.id_kind == HALO_ID_INT && line->env.id_num == (int64_t)daemon->save_id) {
        halo_shutdown_saved(daemon, line->at, line->len);
        return 0;
    }
    return halo_requests_engine_line(&daemon->requests, line, engine->heard_ns, fault);
}

static void engine_ready(struct halo_engine *engine)
{
    struct halo_daemon *daemon = engine->ud;
    halo_requests_engine_up(&daemon->requests, halo_engine_out(engine), halo_clock_ns());
}

static void engine_died(struct halo_engine *engine, const char *reason)
{
    struct halo_daemon *daemon = engine->ud;
    daemon->counters.engine_deaths++;
    daemon->dead_pid = halo_engine_pid(engine);
    daemon->n_held = 0;
    halo_notify_engine_death(reason, halo_engine_phase(engine), (long)halo_engine_pid(engine));
    halo_notify_status("engine is down: it %.200s", reason);
    if (daemon->state == HALO_DAEMON_SERVING)
        halo_checkup_begin(&daemon->checkup, engine);
    halo_requests_engine_died(&daemon->requests, reason, halo_clock_ns());
}

static void restart(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    if (daemon->requests.breaker.open)
        halo_requests_close_breaker(&daemon->requests, "breaker_ms have passed");
    else
        halo_daemon_start_engine(daemon);
}

static void engine_gone(struct halo_engine *engine)
{
    struct halo_daemon *daemon = engine->ud;
    const struct halo_breaker *breaker = &daemon->requests.breaker;
    if (daemon->state == HALO_DAEMON_SAVING)
        halo_shutdown_saved(daemon, NULL, 0);
    if (daemon->state >= HALO_DAEMON_SAVING)
        return;
    daemon->n_restarts++;
    daemon->gone_ns = halo_clock_ns();
    uv_timer_start(&daemon->restart_timer, restart,
                   breaker->open ? halo_breaker_left_ms(breaker, halo_clock_ns())
                                 : halo_breaker_backoff_ms(breaker, daemon->config),
                   0);
}

static const struct halo_engine_ops engine_ops = {
    .line = engine_line,
    .ready = engine_ready,
    .died = engine_died,
    .gone = engine_gone,
};

/* Whether the start waits a little longer for the hardware queues of the engine that died. */
static bool waits_for_queues(struct halo_daemon *daemon)
{
    unsigned n = halo_queues_held(daemon->queue_dir, daemon->dead_pid);
    uint64_t waited_ms = (halo_clock_ns() - daemon->gone_ns) / MS;
    if (n > 0 && waited_ms < daemon->queue_ms) {
        if (daemon->n_held == 0)
            halo_log(HALO_LOG_INFO, "the next engine waits for %u hardware queues of the one that died (pid %ld)", n,
                     (long)daemon->dead_pid);
        daemon->n_held = n;
        uv_timer_start(&daemon->restart_timer, restart, QUEUES_LOOK_MS, 0);
        return true;
    }
    if (n > 0) {
        halo_log(HALO_LOG_WARN,
                 "the GPU's driver still has %u hardware queues of the engine that died (pid %ld) after %llu ms; the "
                 "next engine starts beside them: if it hangs too, restart the machine",
                 n, (long)daemon->dead_pid, (unsigned long long)waited_ms);
        halo_notify_queues(n, (long)daemon->dead_pid);
    }
    daemon->n_held = n;
    daemon->dead_pid = 0;
    return false;
}

void halo_daemon_start_engine(struct halo_daemon *daemon)
{
    if (daemon->state >= HALO_DAEMON_SAVING)
        return;
    uv_timer_stop(&daemon->restart_timer);
    if (waits_for_queues(daemon))
        return;
    daemon->counters.engine_starts++;
    halo_engine_start(&daemon->engine, halo_requests_next_id(&daemon->requests));
}

static void doctor_found(struct halo_checkup *checkup)
{
    halo_notify_doctor(checkup->last.text);
}

/* ---- requests ---- */

static void requests_query(void *ud, struct halo_request *request, const struct halo_ev *said)
{
    halo_report_query(ud, request, said);
}

static const char *requests_engine_state(void *ud)
{
    return halo_report_engine_state(ud);
}

static const char *requests_death_note(void *ud, bool advise)
{
    return halo_report_death_note(ud, advise);
}

static void requests_breaker_closed(void *ud)
{
    struct halo_daemon *daemon = ud;
    if (daemon->engine.state == HALO_ENGINE_DOWN)
        halo_daemon_start_engine(daemon);
}

static void requests_status(void *ud, const char *text)
{
    halo_notify_status("%s", text);
}

static int requests_draw_seed(void *ud, int64_t *ret_seed)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != (ssize_t)sizeof(bits))
        return -EAGAIN;
    *ret_seed = (int64_t)(bits & HALO_LIMIT_DRAWN_SEED);
    return 0;
}

static int64_t requests_wall_s(void *ud)
{
    return (int64_t)time(NULL);
}

static const struct halo_requests_ops requests_ops = {
    .query = requests_query,
    .engine_state = requests_engine_state,
    .death_note = requests_death_note,
    .breaker_closed = requests_breaker_closed,
    .status = requests_status,
    .draw_seed = requests_draw_seed,
    .wall_s = requests_wall_s,
};

/* ---- the loop ---- */

static void expire(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    daemon->expire_at_ns = UINT64_MAX;
    halo_requests_expire(&daemon->requests, halo_clock_ns());
}

static void arm(struct halo_daemon *daemon)
{
    uint64_t at_ns = daemon->requests.next_ns;
    if (at_ns >= daemon->expire_at_ns)
        return;
    uint64_t now_ns = halo_clock_ns();
    daemon->expire_at_ns = at_ns;
    /* Rounded up, from the loop's own idea of now, which may be behind. */
    uv_update_time(daemon->loop);
    uv_timer_start(&daemon->expire_timer, expire, at_ns > now_ns ? (at_ns - now_ns + MS - 1) / MS : 0, 0);
}

static void flush(struct halo_daemon *daemon)
{
    if (daemon->state == HALO_DAEMON_CLOSED)
        return;
    if (daemon->requests.dispatch_due)
        halo_requests_dispatch(&daemon->requests, halo_clock_ns());
    halo_clients_flush(&daemon->clients);
    halo_engine_flush(&daemon->engine); /* last: peers that turned slow or quick just now have orders for it */
    if (daemon->read_ns != 0 && daemon->counters.events > daemon->n_events)
        halo_histogram_add(&daemon->counters.forward_us, (halo_clock_ns() - daemon->read_ns) / 1000,
                           daemon->counters.events - daemon->n_events);
    daemon->read_ns = 0;
    daemon->n_events = daemon->counters.events;
    arm(daemon);
    halo_shutdown_check(daemon);
}

static void before_sleep(uv_prepare_t *prepare)
{
    flush(prepare->data);
}

static void after_work(uv_check_t *check)
{
    struct halo_daemon *daemon = check->data;
    halo_clients_take(&daemon->clients);
    flush(daemon);
}

/* Where the driver lists the queues of processes, and how long a start waits for them; tests have their own. */
static void init_queues(struct halo_daemon *daemon)
{
    daemon->queue_dir = HALO_QUEUES_DIR;
    daemon->queue_ms = QUEUES_WAIT_MS;
#ifdef HALO_SERVE_INJECT
    const char *dir = getenv("HALO_INJECT_QUEUES"), *ms = getenv("HALO_INJECT_QUEUES_MS");
    if (dir && ms) {
        daemon->queue_dir = dir;
        daemon->queue_ms = strtoull(ms, NULL, 10);
    }
#endif
}

static void init_handles(struct halo_daemon *daemon)
{
    uv_loop_t *loop = daemon->loop;
    uv_prepare_init(loop, &daemon->prepare);
    uv_check_init(loop, &daemon->check);
    uv_timer_init(loop, &daemon->expire_timer);
    uv_timer_init(loop, &daemon->restart_timer);
    uv_timer_init(loop, &daemon->watchdog_timer);
    uv_timer_init(loop, &daemon->close_timer);
    daemon->prepare.data = daemon->check.data = daemon->expire_timer.data = daemon->close_timer.data = daemon;
    daemon->restart_timer.data = daemon->watchdog_timer.data = daemon;
    uv_prepare_start(&daemon->prepare, before_sleep);
    uv_check_start(&daemon->check, after_work);
    halo_watchdog_start(daemon);
}

int halo_daemon_init(struct halo_daemon *daemon, uv_loop_t *loop, const struct halo_config *config, int passed_fd,
                     struct halo_fault *fault)
{
    *daemon = (struct halo_daemon){.loop = loop, .config = config, .expire_at_ns = UINT64_MAX};
    daemon->clients = (struct halo_clients){.loop = loop,
                                            .config = config,
                                            .quota = &daemon->quota,
                                            .counters = &daemon->counters,
                                            .touched = &daemon->requests.touched,
                                            .ops = &peer_ops,
                                            .ud = daemon};
    int r = halo_clients_start(&daemon->clients, passed_fd, fault);
    if (r < 0)
        return r;
    halo_quota_init(&daemon->quota, config, geteuid());
    halo_requests_init(&daemon->requests, config, &daemon->quota, &daemon->counters, &requests_ops, daemon,
                       halo_clock_ns());
    halo_engine_init(&daemon->engine, loop, config, &engine_ops, daemon);
    halo_checkup_init(&daemon->checkup, loop, config, doctor_found, daemon);
    init_handles(daemon);
    init_queues(daemon);
    return 0;
}

void halo_daemon_finish(struct halo_daemon *daemon)
{
    assert(!daemon->engine.child && !daemon->checkup.child);
    halo_clients_finish(&daemon->clients);
    halo_requests_finish(&daemon->requests);
    halo_quota_finish(&daemon->quota);
}
