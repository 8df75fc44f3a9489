/* engine.c: the life of the scripted engine: it starts, reads, hangs, dies. What it says of its work is in work.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "sim.h"
#include "table_priv.h"

#define START_MS 20
#define REAP_MS 5
#define WATCH_PARTS 4 /* looks per heartbeat time, as child/engine.c */
#define MOST_EVENT_BYTES 2048

/* ---- life and death ---- */

void sim_engine_start(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    if (sim->requests.breaker.open)
        sim_fail(sim, "breaker", "an engine is started while the breaker is open");
    sim->restart_ns = UINT64_MAX;
    (void)halo_requests_next_id(&sim->requests); /* of its hello */
    engine->state = HALO_ENGINE_STARTING;
    engine->at_ns = sim->now_ns + START_MS * SIM_MS;
    engine->spawned_ns = engine->heard_ns = sim->now_ns;
    engine->watch_ns = sim->now_ns + (uint64_t)sim->config.heartbeat_ms * SIM_MS / WATCH_PARTS;
    engine->silent_until_ns = engine->stuck_since_ns = 0;
    engine->up_ns = 0;
    engine->has_spoken = false;
}

/* What its death means for those that it had, queries left out. */
static void charge_stories(struct sim *sim)
{
    bool alone = sim->engine.n_in == 1;
    for (size_t i = 0; i < sim->n_stories && sim->engine.n_in > 0; i++) {
        struct sim_story *story = &sim->stories[i];
        if (!story->in_engine)
            continue;
        story->n_deaths = story->committed_here ? 0 : story->n_deaths + 1;
        story->died_alone = alone;
        story->in_engine = story->committed_here = false;
        sim->engine.n_in--;
    }
}

void sim_engine_dies(struct sim *sim, const char *reason)
{
    struct sim_engine *engine = &sim->engine;
    if (engine->state != HALO_ENGINE_STARTING && engine->state != HALO_ENGINE_UP)
        return;
    charge_stories(sim);
    engine->n_in = 0;
    engine->suspect = -1;
    engine->n_idle++;
    bool lasted = engine->up_ns > 0 && sim->now_ns - engine->up_ns >= (uint64_t)sim->config.breaker_ms * SIM_MS;
    engine->n_mute = engine->has_spoken || lasted ? 0 : engine->n_mute + 1;
    engine->state = HALO_ENGINE_DYING;
    engine->at_ns = sim->now_ns + REAP_MS * SIM_MS;
    engine->watch_ns = UINT64_MAX;
    engine->n_jobs = 0;
    engine->inbox_len = 0;
    for (int i = 0; i < SIM_MODELS; i++)
        engine->models[i].loaded = engine->models[i].pinned = false;
    sim->down_ns = sim->now_ns;
    sim->report->n_deaths++;
    halo_requests_engine_died(&sim->requests, reason, sim->now_ns);
    halo_json_reset(&engine->out);
    sim->report->n_breaks += sim->requests.breaker.open;
    if (sim->requests.breaker.open && (int64_t)engine->n_idle < sim->config.breaker_deaths && !engine->is_on_trial)
        sim_fail(sim, "breaker", "the breaker opened %u deaths after a token was committed", engine->n_idle);
    sim_settle(sim);
}

static void gone(struct sim *sim)
{
    const struct halo_breaker *breaker = &sim->requests.breaker;
    uint64_t ms =
        breaker->open ? halo_breaker_left_ms(breaker, sim->now_ns) : halo_breaker_backoff_ms(breaker, &sim->config);
    sim->engine.state = HALO_ENGINE_DOWN;
    sim->engine.at_ns = UINT64_MAX;
    sim->restart_ns = sim->now_ns + ms * SIM_MS;
}

static void look(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    struct halo_engine seen = {.config = &sim->config, .state = engine->state, .spawned_ns = engine->spawned_ns};
    struct halo_engine_thread *device = &seen.beat.threads[HALO_WIRE_THREAD_DEVICE];
    char reason[HALO_ENGINE_REASON_BYTES];
    engine->watch_ns += (uint64_t)sim->config.heartbeat_ms * SIM_MS / WATCH_PARTS;
    if (sim->now_ns >= engine->silent_until_ns)
        engine->heard_ns = sim->now_ns; /* a heartbeat */
    seen.heard_ns = engine->heard_ns;
    if (engine->stuck_since_ns > 0) {
        device->activity = HALO_WIRE_ACTIVITY_STEP;
        device->ms = (int64_t)((sim->now_ns - engine->stuck_since_ns) / SIM_MS);
    }
    if (halo_engine_is_hung(&seen, sim->now_ns, reason))
        sim_engine_dies(sim, reason);
    else if (sim->now_ns > engine->heard_ns + 2 * (uint64_t)sim->config.heartbeat_ms * SIM_MS)
        sim_fail(sim, "watch", "an engine has been silent for twice its heartbeat time");
    else if (device->ms > 2 * sim->config.step_ms + sim->config.heartbeat_ms)
        sim_fail(sim, "watch", "a step of the engine has taken twice its time");
}

uint64_t sim_engine_due(const struct sim *sim)
{
    uint64_t at_ns = sim->engine.at_ns < sim->engine.watch_ns ? sim->engine.at_ns : sim->engine.watch_ns;
    return sim->restart_ns < at_ns ? sim->restart_ns : at_ns;
}

void sim_engine_tick(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    if (sim->now_ns >= sim->restart_ns) {
        sim->restart_ns = UINT64_MAX;
        if (sim->requests.breaker.open)
            halo_requests_close_breaker(&sim->requests, "its time is over");
        else
            sim_engine_start(sim);
    } else if (sim->now_ns >= engine->at_ns && engine->state == HALO_ENGINE_DYING) {
        gone(sim);
    } else if (sim->now_ns >= engine->at_ns) {
        engine->at_ns = UINT64_MAX;
        engine->state = HALO_ENGINE_UP;
        engine->up_ns = sim->now_ns;
        halo_requests_engine_up(&sim->requests, &engine->out, sim->now_ns);
    } else {
        look(sim);
        return;
    }
    sim_settle(sim);
}

bool sim_engine_works(const struct sim *sim)
{
    const struct sim_engine *engine = &sim->engine;
    return engine->state == HALO_ENGINE_UP && sim->now_ns >= engine->silent_until_ns && engine->stuck_since_ns == 0;
}

/* ---- what it is sent ---- */

/* A request on its way: it must be wanted still, in its turn, and beside no suspect. */
static void note_sent(struct sim *sim, int64_t id)
{
    struct sim_engine *engine = &sim->engine;
    const struct halo_request *request = halo_request_find(&sim->requests, (uint64_t)id);
    int number = request ? sim_story_of(sim, request) : -1;
    if (sim->sent[id % SIM_SENT].id == id && number < 0)
        number = sim->sent[id % SIM_SENT].story; /* it has ended since */
    sim->sent[id % SIM_SENT] = (struct sim_sent){.id = id, .story = number, .at_ns = sim->now_ns};
    if (number < 0 || !request || halo_request_is_query(request->type))
        return;
    struct sim_story *story = &sim->stories[number];
    if (story->in_engine)
        sim_fail(sim, "twice", "a %s was sent twice to one engine", halo_msg_type_name(story->type));
    if (story->cancelled && story->n_deaths > 0 && request->dispatched_ns == sim->now_ns &&
        request->state != HALO_REQUEST_CANCELLING)
        sim_fail(sim, "retry", "a cancelled %s was sent to another engine", halo_msg_type_name(story->type));
    if ((int64_t)story->n_deaths >= sim->config.request_deaths)
        sim_fail(sim, "retry", "a %s was sent again after %u deaths", halo_msg_type_name(story->type), story->n_deaths);
    bool suspect = sim_is_suspect(sim, story);
    if (engine->suspect >= 0 || (suspect && engine->n_in > 0))
        sim_fail(sim, "alone", "a suspect is not alone in its engine: %u others", engine->n_in);
    if (!suspect && id < engine->last_sent)
        sim_fail(sim, "starved", "request %" PRId64 " was sent behind the younger %" PRId64, id, engine->last_sent);
    engine->last_sent = suspect ? engine->last_sent : id;
    story->in_engine = true;
    engine->n_in++;
    if (suspect)
        engine->suspect = number;
    if (story->n_deaths > 0)
        sim->report->n_resumed++;
}

void sim_engine_lets_go(struct sim *sim, int64_t id)
{
    const struct sim_sent *sent = &sim->sent[id % SIM_SENT];
    if (sent->id != id || sent->story < 0 || !sim->stories[sent->story].in_engine)
        return;
    sim->stories[sent->story].in_engine = sim->stories[sent->story].committed_here = false;
    sim->engine.n_in--;
    if (sim->engine.suspect == sent->story)
        sim->engine.suspect = -1;
}

static bool is_order(enum halo_msg_type type)
{
    return type == HALO_MSG_CANCEL || type == HALO_MSG_PAUSE || type == HALO_MSG_UNPAUSE;
}

static void append(struct sim_engine *engine, const char *at, size_t len)
{
    if (len == 0)
        return; /* nothing was ever sent: there is no buffer yet */
    if (engine->inbox_len + len > engine->inbox_cap) {
        engine->inbox_cap = 2 * (engine->inbox_len + len);
        engine->inbox = realloc(engine->inbox, engine->inbox_cap);
        if (!engine->inbox)
            abort();
    }
    memcpy(engine->inbox + engine->inbox_len, at, len);
    engine->inbox_len += len;
}

void sim_engine_flush(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    struct halo_json *out = &engine->out;
    engine->last_sent = 0; /* those of one turn are sent by age */
    for (size_t at = 0; at < out->len;) {
        const char *line = out->at + at, *end = memchr(line, '\n', out->len - at);
        struct halo_envelope env;
        if (!end || halo_envelope_scan(line, (size_t)(end - line), &env) != 0 || env.id_kind != HALO_ID_INT)
            env.id_num = -1; /* a pause */
        if (!end)
            sim_fail(sim, "lines", "the engine gets a line without its end");
        int type = halo_msg_type_from_name(line + env.type.at, env.type.len);
        if (type >= 0 && !is_order((enum halo_msg_type)type) && env.id_num > 0)
            note_sent(sim, env.id_num);
        at = (size_t)(end - out->at) + 1;
    }
    append(engine, out->at, out->len);
    halo_json_reset(out);
}

/* ---- what it reads ---- */

static struct sim_job *find_job(struct sim_engine *engine, const struct halo_id *target)
{
    for (size_t i = 0; i < engine->n_jobs; i++)
        if (target->kind == HALO_ID_INT && engine->jobs[i].id == target->num)
            return &engine->jobs[i];
    return NULL;
}

static void take_order(struct sim *sim, const struct halo_msg *msg)
{
    const struct halo_id *target = msg->type == HALO_MSG_CANCEL  ? &msg->cancel.target
                                   : msg->type == HALO_MSG_PAUSE ? &msg->pause.target
                                                                 : &msg->unpause.target;
    struct sim_job *job = find_job(&sim->engine, target);
    if (job && msg->type == HALO_MSG_CANCEL)
        job->cancelled = true;
    else if (job)
        job->paused = msg->type == HALO_MSG_PAUSE;
    if (msg->type == HALO_MSG_CANCEL)
        sim_engine_says(sim, false,
                        "{\"type\":\"cancelled\",\"id\":%" PRId64 ",\"target\":%" PRId64 ",\"was\":\"queued\"}",
                        msg->id.num, target->num);
}

/* What it is told of the reply so far is what was committed. */
static void check_resume(struct sim *sim, const struct sim_job *job, const struct halo_msg *msg)
{
    const struct halo_part_resume *resume = &msg->generate.resume;
    const struct sim_story *story = &sim->stories[job->story];
    unsigned n = msg->generate.has_resume ? (unsigned)resume->tokens.n : 0;
    int64_t bytes = msg->generate.has_resume ? resume->bytes_sent : 0;
    if (n != story->n_committed || bytes != (int64_t)story->n_texts * story->piece_bytes)
        sim_fail(sim, "resume", "a reply of %u tokens and %u texts continues at %u tokens and %" PRId64 " bytes",
                 story->n_committed, story->n_texts, n, bytes);
    if (msg->generate.has_resume != (story->began_with >= 0))
        sim_fail(sim, "resume", "a reply that has%s begun continues", story->began_with >= 0 ? "" : " not");
    for (unsigned pos = 0; pos < n; pos++)
        if (resume->tokens.at[pos] != sim_token(sim, job->story, pos))
            sim_fail(sim, "resume", "token %u of a reply that continues is another one", pos);
}

static void check_deadline(struct sim *sim, const struct sim_job *job, const struct halo_msg *msg)
{
    const struct sim_story *story = &sim->stories[job->story];
    uint64_t sent_ns = sim->sent[job->id % SIM_SENT].at_ns;
    int64_t left_ms = story->deadline_ms - (int64_t)((sent_ns - story->asked_ns) / SIM_MS);
    if (msg->generate.has_deadline_ms != (story->deadline_ms > 0) ||
        (story->deadline_ms > 0 && msg->generate.deadline_ms != (left_ms > 0 ? left_ms : 1)))
        sim_fail(sim, "deadline", "of a deadline of %" PRId64 " ms the engine gets %" PRId64, story->deadline_ms,
                 msg->generate.has_deadline_ms ? msg->generate.deadline_ms : 0);
}

static int model_of(const struct halo_str *name)
{
    return name->len == 2 && name->at[0] == 'm' ? name->at[1] - '0' : -1;
}

static struct halo_str name_in(const struct halo_msg *msg)
{
    switch (msg->type) {
    case HALO_MSG_LOAD: return msg->load.model;
    case HALO_MSG_UNLOAD: return msg->unload.model;
    case HALO_MSG_GENERATE: return msg->generate.has_model ? msg->generate.model : halo_str_of("");
    case HALO_MSG_TOKENIZE: return msg->tokenize.model;
    case HALO_MSG_DETOKENIZE: return msg->detokenize.model;
    case HALO_MSG_SCORE: return msg->score.model;
    case HALO_MSG_BENCH: return msg->bench.model;
    case HALO_MSG_RESET: return msg->reset.model;
    default: return halo_str_of("");
    }
}

static void take_job(struct sim *sim, const struct halo_msg *msg)
{
    struct sim_engine *engine = &sim->engine;
    const struct sim_sent *sent = &sim->sent[msg->id.num % SIM_SENT];
    struct halo_str name = name_in(msg);
    if (engine->n_jobs == SIM_JOBS || find_job(engine, &msg->id))
        sim_fail(sim, "memory", "the engine has %zu requests, or %" PRId64 " twice", engine->n_jobs, msg->id.num);
    struct sim_job *job = &engine->jobs[engine->n_jobs++];
    *job = (struct sim_job){.id = msg->id.num,
                            .type = msg->type,
                            .story = sent->id == msg->id.num ? sent->story : -1,
                            .model = model_of(&name),
                            .deadline_ns = UINT64_MAX};
    if (msg->type == HALO_MSG_LOAD)
        job->pin = msg->load.params.has_pin && msg->load.params.pin;
    if (job->story < 0)
        return;
    struct sim_story *story = &sim->stories[job->story];
    if (msg->type == HALO_MSG_GENERATE) {
        check_resume(sim, job, msg);
        check_deadline(sim, job, msg);
        job->done = story->n_committed;
        job->texts = story->n_texts;
        job->started = msg->generate.has_resume;
        if (msg->generate.has_deadline_ms)
            job->deadline_ns = sim->now_ns + (uint64_t)msg->generate.deadline_ms * SIM_MS;
    } else if (msg->type == HALO_MSG_SCORE) {
        job->done = story->from + story->n_scored;
        if (msg->score.from != (int64_t)job->done)
            sim_fail(sim, "resume", "a score that is at row %u continues at %" PRId64, job->done, msg->score.from);
    }
}

void sim_engine_hears(struct sim *sim, unsigned n)
{
    struct sim_engine *engine = &sim->engine;
    for (; n > 0 && engine->inbox_len > 0 && sim_engine_works(sim); n--) {
        char line[SIM_MOST_LINE];
        struct halo_refusal refusal;
        struct halo_msg msg;
        size_t len = (size_t)((const char *)memchr(engine->inbox, '\n', engine->inbox_len) - engine->inbox);
        if (len >= sizeof(line))
            sim_fail(sim, "memory", "a line of %zu bytes for the engine", len);
        memcpy(line, engine->inbox, len);
        engine->inbox_len -= len + 1;
        memmove(engine->inbox, engine->inbox + len + 1, engine->inbox_len);
        if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0)
            sim_fail(sim, "lines", "the engine would refuse %.*s: %s", (int)len, line, refusal.message);
        if (is_order(msg.type))
            take_order(sim, &msg);
        else
            take_job(sim, &msg);
        halo_msg_finish(&msg);
    }
}

/* ---- what it says ---- */

void sim_engine_says(struct sim *sim, bool mad, const char *format, ...)
{
    char text[MOST_EVENT_BYTES];
    struct halo_event_line line;
    struct halo_fault fault = {0};
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text))
        abort();
    sim->engine.has_spoken = true;
    sim->engine.n_mute = 0;
    sim->engine.heard_ns = sim->now_ns;
    int r = halo_event_line_scan(&line, text, (size_t)n, &fault);
    if (r == 0)
        r = halo_requests_engine_line(&sim->requests, &line, sim->now_ns, &fault);
    if (r < 0 && !mad)
        sim_fail(sim, "refused", "halod refuses what a sane engine says (%s): %s", fault.text, text);
    if (r == 0 && mad)
        sim_fail(sim, "mad", "halod takes what no engine may say: %s", text);
    if (mad)
        sim_engine_dies(sim, fault.text);
    else
        sim_settle(sim);
}
