/* watchdog.c: the service manager's watchdog, which is fed only while the engine makes progress or is being replaced:
 * a process that even SIGKILL does not end is cured by nothing less than a new service. */
#include <base/clock.h>
#include <base/log.h>

#include "daemon_priv.h"
#include "notify_priv.h"

void halo_watchdog_feed(struct halo_daemon *daemon)
{
    const struct halo_engine *engine = &daemon->engine;
    if (daemon->state != HALO_DAEMON_SERVING || halo_engine_is_well(engine, halo_clock_ns())) {
        halo_notify_watchdog();
        daemon->unwell = false;
        return;
    }
    if (!daemon->unwell) {
        halo_log(HALO_LOG_ERROR,
                 "the engine makes no progress and does not exit; no longer feeding the service manager's watchdog");
        halo_notify_status("the engine (pid %ld) makes no progress and does not exit: it is %s",
                           (long)halo_engine_pid(engine), halo_report_engine_state(daemon));
    }
    daemon->unwell = true;
}

static void feed(uv_timer_t *timer)
{
    halo_watchdog_feed(timer->data);
}

void halo_watchdog_start(struct halo_daemon *daemon)
{
    uint64_t every_ms = halo_notify_watchdog_ms();
    if (every_ms > 0)
        uv_timer_start(&daemon->watchdog_timer, feed, 0, every_ms);
}
