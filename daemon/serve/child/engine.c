/* engine.c: the child that has the device: started, heard, given up, reaped. Every step is a callback. */
#include <serve/child/engine.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/state.h>
#include <base/utf8.h>

#include "engine_priv.h"

#define MS 1000000ull
#define EXIT_NO_WORKER 4 /* of halod-engine; its last words say why */
#define GRACE_MS 100     /* between end of file and exit status: the second one tells why */
#define WATCH_PARTS 4    /* looks per heartbeat time */
#define READ_BYTES (64 << 10)
#define WORDS_MS 2000       /* older words have nothing to do with a death */
#define WORDS_ROOM 32       /* with less room they are left out */
#define ERR_LINES_PER_S 200 /* of the engine's stderr, in the log */

#define BIT(state) HALO_STATE_BIT(HALO_ENGINE_##state)

static const unsigned moves[HALO_N_ENGINE_STATES] = {
    [HALO_ENGINE_DOWN] = BIT(STARTING),
    [HALO_ENGINE_STARTING] = BIT(UP) | BIT(DYING),
    [HALO_ENGINE_UP] = BIT(DYING),
    [HALO_ENGINE_DYING] = BIT(DOWN),
};

bool halo_engine_may_move(enum halo_engine_state from, enum halo_engine_state to)
{
    return halo_state_may_move(moves, from, to);
}

static void move(struct halo_engine *engine, enum halo_engine_state to)
{
    engine->state = halo_state_move(moves, engine->state, to);
}

/* ---- the end ---- */

static void gone(struct halo_engine *engine)
{
    engine->child = NULL;
    move(engine, HALO_ENGINE_DOWN);
    engine->ops->gone(engine);
}

/* "REASON (last words: ...)": the last thing that went wrong just before, as its stderr has it. */
__attribute__((format(printf, 3, 0))) static void write_reason(const struct halo_engine *engine,
                                                               char reason[static HALO_ENGINE_REASON_BYTES],
                                                               const char *format, va_list args)
{
    int n = vsnprintf(reason, HALO_ENGINE_REASON_BYTES, format, args);
    if (n < 0 || engine->last_words[0] == '\0' || n + WORDS_ROOM > HALO_ENGINE_REASON_BYTES ||
        engine->died_ns - engine->last_words_ns > WORDS_MS * MS)
        return;
    size_t room = HALO_ENGINE_REASON_BYTES - (size_t)n - 18, len = strlen(engine->last_words);
    snprintf(reason + n, HALO_ENGINE_REASON_BYTES - (size_t)n, " (last words: %.*s)",
             (int)halo_utf8_valid_run(engine->last_words, len < room ? len : room), engine->last_words);
}

__attribute__((format(printf, 2, 3))) static void fail(struct halo_engine *engine, const char *format, ...)
{
    struct halo_child *child = engine->child;
    char reason[HALO_ENGINE_REASON_BYTES];
    va_list args;
    if (engine->state == HALO_ENGINE_DYING || engine->state == HALO_ENGINE_DOWN)
        return;
    engine->died_ns = halo_clock_ns();
    va_start(args, format);
    write_reason(engine, reason, format, args);
    va_end(args);
    engine->died_in = engine->state;
    halo_log(HALO_LOG_WARN, "the engine %s", reason);
    move(engine, HALO_ENGINE_DYING);
    uv_timer_stop(&engine->watch);
    uv_timer_stop(&engine->grace);
    if (child) {
        halo_child_kill(child);
        halo_child_cut(child);
    }
    engine->ops->died(engine, reason); /* clients learn of it now, not when the process can be reaped */
    if (!child)
        gone(engine);
}

static void grace_over(uv_timer_t *timer)
{
    struct halo_engine *engine = timer->data;
    const struct halo_child *child = engine->child;
    if (!child || child->cut)
        return;
    if (!child->exited)
        fail(engine, "closed its socket");
    else if (child->exit_signal != 0)
        fail(engine, "was killed by signal %d (%s)", child->exit_signal, strsignal(child->exit_signal));
    else if (child->exit_status == EXIT_NO_WORKER && engine->config->remote)
        fail(engine, "got no session with the worker %s", engine->config->remote);
    else
        fail(engine, "exited with status %lld", (long long)child->exit_status);
}

/* End of file or exit, whichever comes first. What it wrote before it died is still read: the time is for that. */
static void child_ended(struct halo_child *child)
{
    struct halo_engine *engine = child->ud;
    if (child->exited && child->link_ended)
        grace_over(&engine->grace);
    else
        uv_timer_start(&engine->grace, grace_over, GRACE_MS, 0);
}

static void child_gone(struct halo_child *child)
{
    gone(child->ud);
}

void halo_engine_kill(struct halo_engine *engine)
{
    if (engine->child)
        halo_child_kill(engine->child);
}

void halo_engine_stop(struct halo_engine *engine)
{
    uv_timer_stop(&engine->grace);
    uv_timer_stop(&engine->watch);
    if (engine->state != HALO_ENGINE_DYING && engine->state != HALO_ENGINE_DOWN)
        move(engine, HALO_ENGINE_DYING);
    if (engine->child)
        halo_child_cut(engine->child);
}

void halo_engine_close(struct halo_engine *engine)
{
    halo_spare_drop(engine);
    uv_close((uv_handle_t *)&engine->grace, NULL);
    uv_close((uv_handle_t *)&engine->watch, NULL);
}

/* ---- its lines ---- */

static void take_heartbeat(struct halo_engine *engine, const struct halo_event_line *line)
{
    struct halo_engine_beat *beat = &engine->beat;
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (halo_ev_decode(&ev, line->at, line->len, 0, &refusal) != 0) {
        halo_log(HALO_LOG_WARN, "a heartbeat of the engine cannot be read: %s", refusal.message);
        return;
    }
    beat->steps = ev.heartbeat.steps;
    beat->running = ev.heartbeat.running;
    for (size_t i = 0; i < ev.heartbeat.threads.n; i++) {
        const struct halo_part_thread_phase *said = &ev.heartbeat.threads.at[i];
        if (said->thread == HALO_WIRE_THREAD_UNKNOWN)
            continue; /* a newer engine's */
        struct halo_engine_thread *thread = &beat->threads[said->thread];
        snprintf(thread->phase, sizeof(thread->phase), "%s", said->phase.at);
        thread->activity = said->activity;
        thread->ms = said->ms;
    }
    halo_ev_finish(&ev);
}

static int take_hello(struct halo_engine *engine, const struct halo_event_line *line, struct halo_fault *fault)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    int r = halo_ev_decode(&ev, line->at, line->len, 0, &refusal);
    if (r != 0)
        return halo_event_line_refuse(fault, "its hello cannot be read: %s", refusal.message);
    if (ev.type != HALO_EV_HELLO || engine->state != HALO_ENGINE_STARTING ||
        ev.hello.protocol != HALO_PROTOCOL_VERSION) {
        r = halo_event_line_refuse(fault, "it answered hello with '%.*s'", (int)(line->len > 120 ? 120 : line->len),
                                   line->at);
        halo_ev_finish(&ev);
        return r;
    }
    engine->n_features = 0;
    for (size_t i = 0; i < ev.hello.features.n && engine->n_features < HALO_ENGINE_FEATURES; i++) {
        struct halo_str feature = ev.hello.features.at[i];
        if (feature.len < HALO_ENGINE_FEATURE_BYTES)
            memcpy(engine->features[engine->n_features++], feature.at, feature.len + 1);
    }
    halo_log(HALO_LOG_INFO, "engine answers after %llu ms: %s",
             (unsigned long long)((halo_clock_ns() - engine->spawned_ns) / MS), ev.hello.server.at);
    halo_ev_finish(&ev);
    move(engine, HALO_ENGINE_UP);
    engine->ops->ready(engine);
    return 0;
}

static int take_line(struct halo_engine *engine, const char *text, size_t len, struct halo_fault *fault)
{
    struct halo_event_line line;
    int r = halo_event_line_scan(&line, text, len, fault);
    if (r < 0)
        return r;
    if (line.type == HALO_EV_HEARTBEAT) {
        take_heartbeat(engine, &line);
        return 0;
    }
    if (line.env.id_kind == HALO_ID_INT && line.env.id_num == (int64_t)engine->hello_id)
        return take_hello(engine, &line, fault);
    return engine->ops->line(engine, &line, fault);
}

static void child_line(struct halo_child *child, const char *line, size_t len, bool whole)
{
    struct halo_engine *engine = child->ud;
    struct halo_fault fault;
    if (!whole)
        fail(engine, "wrote a line of more than %u bytes", HALO_LIMIT_ANSWER_BYTES);
    else if (take_line(engine, line, len, &fault) < 0)
        fail(engine, "wrote garbage: %s", fault.text);
}

static void child_heard(struct halo_child *child, size_t n_bytes)
{
    struct halo_engine *engine = child->ud;
    engine->heard_ns = halo_clock_ns();
}

/* A line of its own log is "<6>text"; any other comes from a library or an assertion. What it logs as routine says
 * nothing about a death. */
static void child_err_line(struct halo_child *child, const char *line, size_t len)
{
    struct halo_engine *engine = child->ud;
    enum halo_log_level level = HALO_LOG_INFO;
    bool routine = false;
    if (len >= 3 && line[0] == '<' && line[2] == '>') {
        level = line[1] <= '3'   ? HALO_LOG_ERROR
                : line[1] == '4' ? HALO_LOG_WARN
                : line[1] == '7' ? HALO_LOG_DEBUG
                                 : HALO_LOG_INFO;
        routine = level > HALO_LOG_WARN;
        line += 3;
        len -= 3;
    }
    if (!routine) {
        snprintf(engine->last_words, sizeof(engine->last_words), "%.*s", (int)(len > 1024 ? 1024 : len), line);
        engine->last_words_ns = halo_clock_ns();
    }
    halo_log_limited(&engine->err_limit, level, "engine: %.*s", (int)len, line);
}

static const struct halo_child_ops child_ops = {
    .heard = child_heard,
    .line = child_line,
    .err_line = child_err_line,
    .ended = child_ended,
    .gone = child_gone,
};

/* ---- watch ---- */

/* The silence of one that was not listened to is no silence. */
static bool was_deaf(struct halo_engine *engine, uint64_t now_ns, uint64_t interval_ns)
{
    bool slept = now_ns - engine->watched_ns > 3 * interval_ns;
    engine->watched_ns = now_ns;
    if (engine->child && engine->child->starved) {
        engine->heard_ns = now_ns; /* no memory to read with */
        halo_child_read(engine->child);
    }
    if (slept)
        engine->heard_ns = now_ns; /* the daemon itself was stopped: what the engine said meanwhile is not read yet */
    return slept;
}

static void look(uv_timer_t *timer)
{
    struct halo_engine *engine = timer->data;
    char reason[HALO_ENGINE_REASON_BYTES];
    uint64_t now_ns = halo_clock_ns();
    halo_spare_fill(engine);
    if (!was_deaf(engine, now_ns, uv_timer_get_repeat(timer) * MS) && halo_engine_is_hung(engine, now_ns, reason))
        fail(engine, "%s", reason);
}

static void start_watch(struct halo_engine *engine)
{
    const struct halo_config *config = engine->config;
    int64_t shortest = config->heartbeat_ms < config->ready_ms ? config->heartbeat_ms : config->ready_ms;
    uint64_t every_ms = (uint64_t)shortest / WATCH_PARTS;
    uv_timer_start(&engine->watch, look, every_ms, every_ms);
}

/* ---- the beginning ---- */

void halo_engine_init(struct halo_engine *engine, uv_loop_t *loop, const struct halo_config *config,
                      const struct halo_engine_ops *ops, void *ud)
{
    *engine = (struct halo_engine){
        .loop = loop, .config = config, .ops = ops, .ud = ud, .err_limit.n_per_s = ERR_LINES_PER_S};
    uv_timer_init(loop, &engine->grace);
    uv_timer_init(loop, &engine->watch);
    engine->grace.data = engine->watch.data = engine;
}

static int say_hello(struct halo_engine *engine)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_HELLO);
    msg.id = halo_id_of((int64_t)engine->hello_id);
    return halo_msg_encode(halo_engine_out(engine), &msg);
}

static int spawn(struct halo_engine *engine)
{
    struct halo_engine_args args;
    halo_engine_args_init(&args, engine->config);
    const struct halo_child_spec spec = {
        .file = engine->config->engine_path,
        .args = args.args,
        .env = args.env,
        .fd = HALO_ENGINE_FD,
        .duplex = true,
        .line_bytes = HALO_LIMIT_ANSWER_BYTES,
        .read_bytes = READ_BYTES,
    };
    halo_spare_drop(engine);
    int r = halo_child_create(engine->loop, &spec, &child_ops, engine, &engine->child);
    halo_spare_fill(engine);
    halo_engine_args_finish(&args);
    return r;
}

void halo_engine_start(struct halo_engine *engine, uint64_t hello_id)
{
    assert(!engine->child);
    move(engine, HALO_ENGINE_STARTING);
    engine->spawned_ns = engine->heard_ns = engine->watched_ns = halo_clock_ns();
    engine->hello_id = hello_id;
    engine->beat = (struct halo_engine_beat){0};
    engine->last_words[0] = '\0';
    int r = spawn(engine);
    if (r == 0)
        r = say_hello(engine);
    if (r < 0) {
        fail(engine, "cannot be started (%s): %s", engine->config->engine_path, strerror(-r));
        return;
    }
    halo_log(HALO_LOG_DEBUG, "engine %s started, pid %ld", engine->config->engine_path, (long)halo_engine_pid(engine));
    start_watch(engine);
}

struct halo_json *halo_engine_out(struct halo_engine *engine)
{
    return engine->child ? halo_child_out(engine->child) : NULL;
}

void halo_engine_flush(struct halo_engine *engine)
{
    if (engine->child)
        halo_child_flush(engine->child);
}

pid_t halo_engine_pid(const struct halo_engine *engine)
{
    return engine->child && engine->child->spawned ? engine->child->process.pid : 0;
}

bool halo_engine_has_gpu(const struct halo_engine *engine)
{
    if (strcmp(engine->config->device, "cpu") == 0 || engine->config->remote)
        return false;
    for (size_t i = 0; i < engine->n_features; i++)
        if (strcmp(engine->features[i], "batch_invariant") == 0)
            return false; /* only the cpu device is */
    return true;
}
