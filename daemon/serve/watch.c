/* watch.c: is the engine making progress? And the service manager's watchdog, which is fed only if so.
 *
 * What its threads do is known from its heartbeats, each kind of work has its own deadline. The clocks are the
 * engine's: they begin anew with each op, step, piece of a file. Silence has a clock here. A death is handled in
 * supervise.c; here it is only called. Loop thread; nothing waits.
 */
#include <base/clock.h>
#include <base/log.h>

#include <serve/daemon.h>
#include <serve/notify.h>

#define MS 1000000ull
#define WATCH_PARTS 4     /* looks per heartbeat time */
#define UNREAPED_MS 10000 /* a killed process that is still there then is stuck in the kernel */

static int64_t limit_ms(const struct halo_config *config, enum halo_wire_activity activity)
{
    switch (activity) {
    case HALO_WIRE_ACTIVITY_MODEL: return config->load_ms;
    case HALO_WIRE_ACTIVITY_FIRST: return config->first_ms;
    case HALO_WIRE_ACTIVITY_PREFILL: return config->prefill_ms;
    case HALO_WIRE_ACTIVITY_DECODE:
    case HALO_WIRE_ACTIVITY_STEP: return config->step_ms;
    case HALO_WIRE_ACTIVITY_TEXT: return config->text_ms;
    case HALO_WIRE_ACTIVITY_FILE: return config->load_ms;
    default: return 0;
    }
}

static const char *kind_of(enum halo_wire_activity activity)
{
    static const char *const kinds[HALO_WIRE_ACTIVITY_FILE + 1] = {
        [HALO_WIRE_ACTIVITY_IDLE] = "nothing",
        [HALO_WIRE_ACTIVITY_MODEL] = "taking or giving back a model's memory",
        [HALO_WIRE_ACTIVITY_FIRST] = "the first step of a model",
        [HALO_WIRE_ACTIVITY_PREFILL] = "a prefill step",
        [HALO_WIRE_ACTIVITY_DECODE] = "a decode step",
        [HALO_WIRE_ACTIVITY_STEP] = "a step",
        [HALO_WIRE_ACTIVITY_TEXT] = "preparing or reading text",
        [HALO_WIRE_ACTIVITY_FILE] = "reading or writing files",
    };
    return kinds[activity];
}

/* The silence of one that was not listened to is no silence. */
static bool was_deaf(struct halo_engine *engine, uint64_t now, uint64_t interval_ns)
{
    bool slept = now - engine->watched_ns > 3 * interval_ns;
    engine->watched_ns = now;
    if (engine->run && engine->run->starved) {
        engine->run->starved = false;
        engine->heard_ns = now; /* no memory to read with */
        halo_engine_run_read(engine->run);
        halo_engine_run_read_stderr(engine->run);
    }
    if (slept)
        engine->heard_ns = now; /* the daemon itself was stopped: what the engine said meanwhile is not read yet */
    return slept;
}

/* The thread that has made no progress for longer than its work may take; NULL: none. */
static const struct halo_engine_thread *find_hung(const struct halo_engine *engine)
{
    for (size_t i = 0; i < HALO_ENGINE_THREADS; i++) {
        const struct halo_engine_thread *thread = &engine->threads[i];
        int64_t limit = limit_ms(engine->daemon->config, thread->activity);
        if (limit > 0 && thread->ms > limit)
            return thread;
    }
    return NULL;
}

static void look(uv_timer_t *timer)
{
    struct halo_engine *engine = timer->data;
    const struct halo_config *config = engine->daemon->config;
    uint64_t now = halo_clock_ns();
    halo_spare_fill(engine);
    if (was_deaf(engine, now, uv_timer_get_repeat(timer) * MS))
        return;
    uint64_t silent_ms = (now - engine->heard_ns) / MS, up_ms = (now - engine->spawned_ns) / MS;
    const struct halo_engine_thread *hung = find_hung(engine);
    if (engine->state == HALO_ENGINE_STARTING && up_ms > (uint64_t)config->ready_ms)
        halo_engine_fail(engine, "did not answer hello within %llu ms", (unsigned long long)up_ms);
    else if (silent_ms > (uint64_t)config->heartbeat_ms && engine->state != HALO_ENGINE_STARTING)
        halo_engine_fail(engine, "was silent for %llu ms%s%s", (unsigned long long)silent_ms,
                         halo_engine_phase(engine)[0] != '\0' ? ", last heard: " : "", halo_engine_phase(engine));
    else if (hung)
        halo_engine_fail(engine, "hung for %lld ms in %s: %s", (long long)hung->ms, kind_of(hung->activity),
                         hung->phase);
}

void halo_watch_start(struct halo_engine *engine)
{
    const struct halo_config *config = engine->daemon->config;
    int64_t shortest = config->heartbeat_ms < config->ready_ms ? config->heartbeat_ms : config->ready_ms;
    uint64_t every_ms = (uint64_t)shortest / WATCH_PARTS;
    uv_timer_start(&engine->watch, look, every_ms, every_ms);
}

/* Getting on, or being replaced. Not: killed and still there, or unheard beyond what look() would stand. */
static bool is_well(const struct halo_engine *engine, uint64_t now)
{
    const struct halo_config *config = engine->daemon->config;
    switch (engine->state) {
    case HALO_ENGINE_DYING: return now - engine->died_ns < UNREAPED_MS * MS;
    case HALO_ENGINE_STARTING: return now - engine->spawned_ns < 2 * (uint64_t)config->ready_ms * MS;
    case HALO_ENGINE_LOADING:
    case HALO_ENGINE_READY: return now - engine->heard_ns < 2 * (uint64_t)config->heartbeat_ms * MS;
    default:
        return true; /* down: a start is scheduled, or the breaker is open, which a restart of all would not cure */
    }
}

void halo_watch_feed(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    struct halo_engine *engine = &daemon->engine;
    bool well = is_well(engine, halo_clock_ns());
    if (well || daemon->state != HALO_DAEMON_SERVING) {
        halo_notify_watchdog();
        engine->unwell = false;
        return;
    }
    if (!engine->unwell) {
        halo_log(HALO_LOG_ERROR,
                 "the engine neither works nor ends; the service manager's watchdog is not fed any more");
        halo_notify_status("the engine (pid %ld) neither works nor ends: it is %s",
                           engine->run ? (long)engine->run->process.pid : 0, halo_engine_state_name(engine));
    }
    engine->unwell = true;
}
