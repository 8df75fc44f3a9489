/* supervise.c: the engine is started, watched, killed and replaced here. Nothing waits: every step is a callback. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/daemon.h>
#include <serve/notify.h>
#include <serve/reload.h>
#include <serve/resubmit.h>

#define MS 1000000ull
#define GRACE_MS 100 /* between end of file and exit status: the second one tells why */

static void start_later(uv_timer_t *timer)
{
    halo_engine_start(timer->data);
}

void halo_engine_init(struct halo_engine *engine, struct halo_daemon *daemon)
{
    *engine = (struct halo_engine){.daemon = daemon, .state = HALO_ENGINE_DOWN};
    uv_timer_init(daemon->loop, &engine->timer);
    uv_timer_init(daemon->loop, &engine->watch);
    engine->timer.data = engine->watch.data = engine;
}

static int say_hello(struct halo_engine *engine)
{
    struct halo_json *out = halo_engine_out(engine);
    struct halo_msg msg;
    engine->hello_id = halo_requests_next_id(&engine->daemon->requests);
    halo_msg_init(&msg, HALO_MSG_HELLO);
    msg.id = halo_id_of((int64_t)engine->hello_id);
    return !out ? -EPIPE : halo_msg_encode(out, &msg);
}

void halo_engine_start(struct halo_engine *engine)
{
    struct halo_daemon *daemon = engine->daemon;
    if (daemon->state >= HALO_DAEMON_SAVING)
        return;
    assert(!engine->run);
    uv_timer_stop(&engine->timer);
    halo_engine_move(engine, HALO_ENGINE_STARTING);
    daemon->counters.engine_starts++;
    engine->spawned_ns = engine->heard_ns = engine->watched_ns = halo_clock_ns();
    engine->progressed = false;
    engine->ready_ns = 0;
    memset(engine->threads, 0, sizeof(engine->threads));
    engine->running = 0;
    halo_spare_drop(engine);
    int r = halo_engine_run_create(engine, &engine->run);
    halo_spare_fill(engine);
    if (r == 0)
        r = say_hello(engine);
    if (r < 0) {
        halo_engine_fail(engine, "cannot be started (%s): %s", daemon->config->engine_path, strerror(-r));
        return;
    }
    halo_log(HALO_LOG_DEBUG, "engine %s started, pid %ld", daemon->config->engine_path, (long)engine->run->process.pid);
    halo_watch_start(engine);
}

void halo_engine_kill(struct halo_engine *engine)
{
    struct halo_engine_run *run = engine->run;
    if (run && run->spawned && !run->exited)
        kill(-run->process.pid, SIGKILL);
}

__attribute__((format(printf, 2, 0))) static void set_reason(struct halo_engine *engine, const char *format,
                                                             va_list args)
{
    const struct halo_engine_run *run = engine->run;
    int n = vsnprintf(engine->reason, sizeof(engine->reason), format, args);
    if (n < 0 || !run || run->last_words[0] == '\0' || (size_t)n + 16 > sizeof(engine->reason))
        return;
    size_t room = sizeof(engine->reason) - (size_t)n;
    snprintf(engine->reason + n, room, " (last words: %.*s)", (int)(room > 18 ? room - 18 : 0), run->last_words);
}

void halo_engine_fail(struct halo_engine *engine, const char *format, ...)
{
    struct halo_daemon *daemon = engine->daemon;
    va_list args;
    if (engine->state == HALO_ENGINE_DYING || engine->state == HALO_ENGINE_DOWN)
        return;
    va_start(args, format);
    set_reason(engine, format, args);
    va_end(args);
    daemon->counters.engine_deaths++;
    engine->died_ns = halo_clock_ns();
    halo_log(HALO_LOG_WARN, "the engine %s", engine->reason);
    halo_notify_engine_death(engine->reason, halo_engine_phase(engine),
                             engine->run && engine->run->spawned ? (long)engine->run->process.pid : 0);
    halo_notify_status("engine is down: it %.200s", engine->reason);
    halo_breaker_count(engine);
    halo_checkup_begin(&daemon->checkup, engine);
    halo_engine_move(engine, HALO_ENGINE_DYING);
    uv_timer_stop(&engine->watch);
    uv_timer_stop(&engine->timer);
    halo_engine_kill(engine);
    struct halo_engine_run *run = engine->run;
    if (run)
        halo_engine_run_cut(run);
    /* Clients learn of it now, not when the process can be reaped. */
    halo_resubmit_all(daemon, engine->reason);
    if (!run)
        halo_engine_run_gone(engine);
}

static void grace_over(uv_timer_t *timer)
{
    struct halo_engine *engine = timer->data;
    struct halo_engine_run *run = engine->run;
    if (!run || run->cut)
        return;
    if (!run->exited)
        halo_engine_fail(engine, "closed its socket");
    else if (run->exit_signal != 0)
        halo_engine_fail(engine, "was killed by signal %d (%s)", run->exit_signal, strsignal(run->exit_signal));
    else
        halo_engine_fail(engine, "exited with status %lld", (long long)run->exit_status);
}

/* End of file or exit, whichever comes first. What it wrote before it died is still read: the time is for that. */
void halo_engine_run_ended(struct halo_engine_run *run)
{
    struct halo_engine *engine = run->engine;
    if (run->cut)
        return;
    if (run->exited && run->link_ended)
        grace_over(&engine->timer);
    else
        uv_timer_start(&engine->timer, grace_over, GRACE_MS, 0);
}

static void breaker_over(uv_timer_t *timer)
{
    halo_breaker_close(timer->data, "the time is over");
}

static uint64_t backoff_ms(const struct halo_engine *engine)
{
    const struct halo_config *config = engine->daemon->config;
    int64_t ms = config->restart_min_ms;
    for (unsigned i = 1; i < engine->n_futile && ms < config->restart_max_ms; i++)
        ms *= 2;
    return (uint64_t)(ms < config->restart_max_ms ? ms : config->restart_max_ms);
}

void halo_engine_run_gone(struct halo_engine *engine)
{
    struct halo_daemon *daemon = engine->daemon;
    halo_engine_move(engine, HALO_ENGINE_DOWN);
    if (daemon->state == HALO_DAEMON_SAVING)
        halo_shutdown_saved(daemon, NULL, 0);
    if (daemon->state >= HALO_DAEMON_SAVING) {
        halo_shutdown_check(daemon);
        return;
    }
    engine->n_restarts++;
    if (engine->broken)
        uv_timer_start(&engine->timer, breaker_over, halo_breaker_left_ms(engine), 0);
    else
        uv_timer_start(&engine->timer, start_later, backoff_ms(engine), 0);
}

/* End of file is the engine's order to go. */
void halo_engine_stop(struct halo_engine *engine)
{
    struct halo_engine_run *run = engine->run;
    uv_timer_stop(&engine->timer);
    uv_timer_stop(&engine->watch);
    if (engine->state != HALO_ENGINE_DYING && engine->state != HALO_ENGINE_DOWN)
        halo_engine_move(engine, HALO_ENGINE_DYING);
    if (run)
        halo_engine_run_cut(run);
}

void halo_engine_close(struct halo_engine *engine)
{
    halo_spare_drop(engine);
    uv_close((uv_handle_t *)&engine->timer, NULL);
    uv_close((uv_handle_t *)&engine->watch, NULL);
}
