/* daemon.c: puts the parts on one loop, and flushes what they wrote. */
#include <serve/daemon.h>

#include <assert.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>

#include <serve/notify.h>

void halo_daemon_flush(struct halo_daemon *daemon)
{
    struct halo_engine *engine = &daemon->engine;
    if (daemon->dispatch_due)
        halo_dispatch_waiting(daemon);
    while (daemon->dirty)
        halo_peer_flush(daemon->dirty);
    halo_engine_flush(engine); /* last: peers that turned slow or quick just now have orders for it */
    if (engine->n_read_events > 0) {
        halo_histogram_add(&daemon->counters.forward_us, (halo_clock_ns() - engine->read_ns) / 1000,
                           engine->n_read_events);
        engine->n_read_events = 0;
    }
}

static void before_sleep(uv_prepare_t *prepare)
{
    halo_daemon_flush(prepare->data);
}

static void after_work(uv_check_t *check)
{
    halo_daemon_flush(check->data);
}

static void init_handles(struct halo_daemon *daemon)
{
    uv_loop_t *loop = daemon->loop;
    uv_prepare_init(loop, &daemon->prepare);
    uv_check_init(loop, &daemon->check);
    uv_timer_init(loop, &daemon->expire_timer);
    uv_timer_init(loop, &daemon->watchdog_timer);
    uv_timer_init(loop, &daemon->close_timer);
    daemon->prepare.data = daemon->check.data = daemon->expire_timer.data = daemon->close_timer.data = daemon;
    daemon->watchdog_timer.data = daemon;
    uv_prepare_start(&daemon->prepare, before_sleep);
    uv_check_start(&daemon->check, after_work);
    uint64_t watchdog_ms = halo_notify_watchdog_ms();
    if (watchdog_ms > 0)
        uv_timer_start(&daemon->watchdog_timer, halo_watch_feed, 0, watchdog_ms);
}

int halo_daemon_init(struct halo_daemon *daemon, uv_loop_t *loop, const struct halo_config *config, int passed_fd,
                     struct halo_fault *fault)
{
    *daemon = (struct halo_daemon){
        .loop = loop, .config = config, .uid = geteuid(), .started_ns = halo_clock_ns(), .expire_at_ns = UINT64_MAX};
    int r = passed_fd >= 0 ? halo_listen_adopt(&daemon->listen, passed_fd, fault)
                           : halo_listen_open(&daemon->listen, config->socket_path, fault);
    if (r < 0)
        return r;
    halo_json_init(&daemon->scratch);
    halo_quota_init(&daemon->quota, config->resume_bytes, config->resume_user_bytes);
    halo_requests_init(&daemon->requests, &daemon->quota);
    r = halo_accept_start(daemon);
    if (r < 0) {
        halo_accept_stop(daemon);
        halo_listen_finish(&daemon->listen);
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "cannot watch the socket");
    }
    init_handles(daemon);
    halo_engine_init(&daemon->engine, daemon);
    halo_checkup_init(&daemon->checkup, daemon);
    return 0;
}

void halo_daemon_finish(struct halo_daemon *daemon)
{
    assert(!daemon->peers && !daemon->dirty && !daemon->engine.run);
    halo_requests_finish(&daemon->requests);
    halo_quota_finish(&daemon->quota);
    halo_loaded_finish(&daemon->loaded);
    halo_json_finish(&daemon->scratch);
    halo_listen_finish(&daemon->listen);
}
