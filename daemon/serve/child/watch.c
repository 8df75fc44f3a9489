/* watch.c: does the engine make progress?
 *
 * What its threads do is known from its heartbeats; each kind of work has a deadline of its own. The clocks are the
 * engine's: they begin anew with each op, step, piece of a file. Silence has a clock here.
 */
#include <stdio.h>

#include <serve/child/engine.h>

#define MS 1000000ull
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

static const char *name_of(enum halo_wire_activity activity)
{
    static const char *const names[HALO_WIRE_ACTIVITY_FILE + 1] = {
        [HALO_WIRE_ACTIVITY_IDLE] = "nothing",
        [HALO_WIRE_ACTIVITY_MODEL] = "allocating or freeing a model's memory",
        [HALO_WIRE_ACTIVITY_FIRST] = "the first step of a model",
        [HALO_WIRE_ACTIVITY_PREFILL] = "a prefill step",
        [HALO_WIRE_ACTIVITY_DECODE] = "a decode step",
        [HALO_WIRE_ACTIVITY_STEP] = "a step",
        [HALO_WIRE_ACTIVITY_TEXT] = "preparing or reading text",
        [HALO_WIRE_ACTIVITY_FILE] = "reading or writing files",
    };
    return names[activity];
}

/* The thread that has made no progress for longer than its work may take; NULL: none. */
static const struct halo_engine_thread *find_hung(const struct halo_engine *engine)
{
    for (size_t i = 0; i < HALO_ENGINE_THREADS; i++) {
        const struct halo_engine_thread *thread = &engine->beat.threads[i];
        int64_t limit = limit_ms(engine->config, thread->activity);
        if (limit > 0 && thread->ms > limit)
            return thread;
    }
    return NULL;
}

bool halo_engine_is_hung(const struct halo_engine *engine, uint64_t now_ns,
                         char ret_reason[static HALO_ENGINE_REASON_BYTES])
{
    const struct halo_config *config = engine->config;
    const struct halo_engine_thread *hung = find_hung(engine);
    const char *phase = halo_engine_phase(engine);
    int64_t silent_ms = (int64_t)((now_ns - engine->heard_ns) / MS);
    int64_t up_ms = (int64_t)((now_ns - engine->spawned_ns) / MS);
    int n = 0;
    if (engine->state == HALO_ENGINE_STARTING && up_ms > config->ready_ms)
        n = snprintf(ret_reason, HALO_ENGINE_REASON_BYTES, "did not answer hello within %lld ms", (long long)up_ms);
    else if (engine->state == HALO_ENGINE_UP && silent_ms > config->heartbeat_ms)
        n = snprintf(ret_reason, HALO_ENGINE_REASON_BYTES, "was silent for %lld ms%s%s", (long long)silent_ms,
                     phase[0] != '\0' ? ", last heard: " : "", phase);
    else if (hung)
        n = snprintf(ret_reason, HALO_ENGINE_REASON_BYTES, "hung for %lld ms in %s: %s", (long long)hung->ms,
                     name_of(hung->activity), hung->phase);
    return n > 0;
}

bool halo_engine_is_well(const struct halo_engine *engine, uint64_t now_ns)
{
    const struct halo_config *config = engine->config;
    switch (engine->state) {
    case HALO_ENGINE_DYING: return now_ns - engine->died_ns < UNREAPED_MS * MS;
    case HALO_ENGINE_STARTING: return now_ns - engine->spawned_ns < 2 * (uint64_t)config->ready_ms * MS;
    case HALO_ENGINE_UP: return now_ns - engine->heard_ns < 2 * (uint64_t)config->heartbeat_ms * MS;
    default:
        return true; /* down: a start is scheduled, or the breaker is open, which a restart of all would not cure */
    }
}
