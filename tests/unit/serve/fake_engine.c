/* fake_engine.c: an engine without a model, which does what requests and environment tell it to, bad things too.
 *
 * Speaks the real protocol on --fd N through the real codec. A generate's prompt is its script, words NAME=NUMBER:
 *   n=20       tokens
 *   us=500     pause before each event
 *   size=4     bytes of text per token
 *   die=K      SIGKILL to itself after the K-th event of this request (started is 1)
 *   exit=K     exit(3) instead
 *   noise=N    writes so many warnings first
 *   hang=K     everything stops, heartbeats too
 *   stuck=K    no more events; heartbeats say that one step has been lasting for a minute
 *   as=N       ... and that it is work of this kind (enum halo_wire_activity), on the thread that does such work
 *   garbage=K  writes a line that is no JSON
 *   wrong=K    writes an event that generate cannot have
 *   early=K    writes an event for an id that was never given
 *   twice=1    a second done
 *   never=1    no done at all
 *   poison=1   SIGKILL to itself, in each engine again, once all other requests have begun
 *   each=1     SIGKILL to itself after each committed token
 *   from=N     in engines before the N-th start: eight events of this request, then none
 *   loop=K     the notice of a loop from the K-th event on, unless halod says that it was told
 * The moments count from the beginning of the reply: one that goes on after a death does not die of the same again. The
 * text of a token is its letter, `size` times. A score is scripted in the same way by its text: n rows, each an event.
 * load: "slow-MS" takes so long, "first-MS" only in the first engine, "stall" makes no progress in the first engine,
 * "die" kills, "dieagain" kills when it is loaded into any engine but the first, "fail" fails, "brief" is given up by
 * the engine itself at once, "changes" has other files each time, "crowd" makes all other models go, of which is told
 * 200 ms later and requests for them are answered then; everything else works. generate with a model that is not loaded
 * is not_found. Environment:
 *   FAKE_DIR          a directory in which starts are counted
 *   FAKE_FAIL_STARTS  N: the first N starts exit at once
 *   FAKE_ONCE         1: every start but the first exits at once
 *   FAKE_GPU          1: its device is not batch-invariant, as a GPU is not
 *   FAKE_MUTE         1: never answers hello
 *   FAKE_STUBBORN     1: ignores SIGTERM and the end of its socket
 *   FAKE_SAVE         die: SIGKILL to itself when it is to save prefixes; never: no answer to that
 *   FAKE_QUIET        1: no heartbeats and no answers once a generate has ended, first start only
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <protocol/line.h>
#include <protocol/message.h>

#define MAX_RUNNING 512
#define MAX_MODELS 16
#define BEAT_US 100000

struct job {
    int64_t id;
    bool used, paused, started, loop_told;
    enum halo_msg_type type;
    long n, us, size, die, exit, hang, garbage, wrong, early, twice, never, stuck, as, poison, each, loop, from;
    long events, done, begun_at; /* begun_at: events that were there when it came */
    double nll;
    bool pin, keeps;
    int64_t keep_alive_s;
    int64_t seed;
    uint64_t due_us;
    char model[64];
};

static int fd = -1;
static struct halo_json out;
static struct job jobs[MAX_RUNNING];
static char models[MAX_MODELS][64];
static int n_starts;
static bool is_stuck, is_stalled, has_ended;
static char going[MAX_MODELS][64];
static int64_t late[MAX_MODELS]; /* requests for those that go */
static int n_going, n_late;
static uint64_t gone_us;
static enum halo_wire_activity activity;

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void flush_out(void)
{
    size_t at = 0;
    while (at < out.len) {
        ssize_t n = write(fd, out.at + at, out.len - at);
        if (n < 0 && errno != EINTR)
            exit(0);
        at += n > 0 ? (size_t)n : 0;
    }
    halo_json_reset(&out);
}

static void emit(const struct halo_ev *ev)
{
    if (halo_ev_encode(&out, ev) < 0)
        abort();
}

static void emit_error(int64_t id, enum halo_error code, const char *text)
{
    struct halo_id event_id = halo_id_of(id);
    struct halo_ev ev;
    halo_ev_init_error(&ev, &event_id, code, text);
    emit(&ev);
}

static long word(const char *script, const char *name, long otherwise)
{
    char key[32];
    snprintf(key, sizeof(key), "%s=", name);
    for (const char *at = script; (at = strstr(at, key)); at += strlen(key))
        if (at == script || at[-1] == ' ')
            return strtol(at + strlen(key), NULL, 10);
    return otherwise;
}

static bool is_loaded(const char *name)
{
    for (int i = 0; i < MAX_MODELS; i++)
        if (strcmp(models[i], name) == 0)
            return true;
    return false;
}

static void set_loaded(const char *name, bool loaded)
{
    for (int i = 0; i < MAX_MODELS; i++)
        if (strcmp(models[i], loaded && !is_loaded(name) ? "" : name) == 0) {
            snprintf(models[i], sizeof(models[i]), "%s", loaded ? name : "");
            return;
        }
}

static struct job *add_job(const struct halo_msg *msg)
{
    for (int i = 0; i < MAX_RUNNING; i++)
        if (!jobs[i].used) {
            jobs[i] = (struct job){.used = true, .id = msg->id.num, .type = msg->type, .due_us = now_us()};
            return &jobs[i];
        }
    emit_error(msg->id.num, HALO_ERROR_INTERNAL, "the fake engine is full");
    return NULL;
}

static struct job *find_job(int64_t id)
{
    for (int i = 0; i < MAX_RUNNING; i++)
        if (jobs[i].used && jobs[i].id == id)
            return &jobs[i];
    return NULL;
}

static void read_script(struct job *job, const char *script)
{
    job->n = word(script, "n", 5);
    job->us = word(script, "us", 0);
    job->size = word(script, "size", 4);
    job->die = word(script, "die", 0);
    job->exit = word(script, "exit", 0);
    for (int64_t i = 0; i < word(script, "noise", 0); i++)
        fprintf(stderr, "<4>noise\n");
    job->hang = word(script, "hang", 0);
    job->garbage = word(script, "garbage", 0);
    job->wrong = word(script, "wrong", 0);
    job->early = word(script, "early", 0);
    job->twice = word(script, "twice", 0);
    job->never = word(script, "never", 0);
    job->stuck = word(script, "stuck", 0);
    job->as = word(script, "as", HALO_WIRE_ACTIVITY_DECODE);
    job->poison = word(script, "poison", 0);
    job->each = word(script, "each", 0);
    job->loop = word(script, "loop", 0);
    job->from = word(script, "from", 0);
}

/* Goes on where the client is. What does not fit together is a defect of halod. */
static void go_on(struct job *job, const struct halo_part_resume *resume)
{
    for (size_t i = 0; i < resume->tokens.n; i++)
        if (resume->tokens.at[i] != (int32_t)i)
            exit(9);
    long committed = (long)resume->tokens.n;
    long texts = job->size > 0 ? (long)resume->bytes_sent / job->size : committed;
    if (resume->seed != job->seed || !resume->started || !resume->has_effective_md5 ||
        !halo_str_is(resume->effective_md5, "0") || texts > committed || committed > texts + 1)
        exit(9);
    job->started = true;
    job->done = texts;
    job->events = job->begun_at = 1 + texts + committed;
    job->loop_told = resume->loop_told;
}

static void begin_score(const struct halo_msg *msg)
{
    struct job *job = add_job(msg);
    if (!job)
        return;
    read_script(job, msg->score.has_text ? msg->score.text.at : "");
    job->done = job->events = job->begun_at = (long)msg->score.from;
}

static bool is_loading(const char *name)
{
    for (int i = 0; i < MAX_RUNNING; i++)
        if (jobs[i].used && jobs[i].type == HALO_MSG_LOAD && strcmp(jobs[i].model, name) == 0)
            return true;
    return false;
}

static bool is_going(const char *name)
{
    for (int i = 0; i < n_going; i++)
        if (strcmp(going[i], name) == 0)
            return true;
    return false;
}

static void make_room(void)
{
    for (int i = 0; i < MAX_MODELS; i++)
        if (models[i][0] != '\0') {
            memcpy(going[n_going++], models[i], sizeof(going[0]));
            models[i][0] = '\0';
        }
    gone_us = now_us() + 200000;
}

static void tell_gone(uint64_t now)
{
    struct halo_id nobody = {HALO_ID_NONE, 0, {NULL, 0}};
    struct halo_ev ev;
    if (n_going == 0 || now < gone_us)
        return;
    for (; n_going > 0; n_going--) {
        halo_ev_init(&ev, HALO_EV_UNLOADED, &nobody);
        ev.unloaded.model = halo_str_of(going[n_going - 1]);
        ev.unloaded.reason = HALO_WIRE_UNLOAD_ROOM;
        emit(&ev);
    }
    for (; n_late > 0; n_late--)
        emit_error(late[n_late - 1], HALO_ERROR_NOT_FOUND, "this model is not loaded any more");
}

static void begin_generate(const struct halo_msg *msg)
{
    const char *script = msg->generate.has_prompt ? msg->generate.prompt.at : "";
    struct job *job;
    if (msg->generate.has_model && is_going(msg->generate.model.at)) {
        late[n_late++] = msg->id.num;
        assert(n_late < MAX_MODELS);
        fprintf(stderr, "too late for %s\n", msg->generate.model.at);
        return;
    }
    if (msg->generate.has_model && !is_loaded(msg->generate.model.at) && !is_loading(msg->generate.model.at)) {
        emit_error(msg->id.num, HALO_ERROR_NOT_FOUND, "this model is not loaded");
        return;
    }
    if (!(job = add_job(msg)))
        return;
    read_script(job, script);
    job->seed = msg->generate.seed;
    assert(msg->generate.has_user && /* who shares prefixes with whom */
           (msg->generate.user == (int64_t)geteuid() || getenv("HALO_INJECT_UIDS")));
    if (msg->generate.has_model)
        snprintf(job->model, sizeof(job->model), "%s", msg->generate.model.at);
    if (msg->generate.has_resume)
        go_on(job, &msg->generate.resume);
}

static void begin_load(const struct halo_msg *msg)
{
    const char *name = msg->load.model.at;
    struct job *job;
    fprintf(stderr, "loading %s, keep_alive_s %lld%s, kv_tokens %lld\n", name,
            msg->load.params.has_keep_alive_s ? (long long)msg->load.params.keep_alive_s : -1ll,
            msg->load.params.has_pin && msg->load.params.pin ? ", pinned" : "",
            msg->load.params.has_kv_tokens ? (long long)msg->load.params.kv_tokens : -1ll);
    if (strcmp(name, "die") == 0 || (strcmp(name, "dieagain") == 0 && n_starts > 1)) {
        flush_out();
        kill(getpid(), SIGKILL);
    }
    if (strcmp(name, "fail") == 0) {
        emit_error(msg->id.num, HALO_ERROR_LOAD_FAILED, "told to fail");
        return;
    }
    if (!(job = add_job(msg)))
        return;
    snprintf(job->model, sizeof(job->model), "%s", name);
    job->pin = msg->load.params.pin;
    job->keeps = msg->load.params.has_keep_alive_s;
    job->keep_alive_s = msg->load.params.keep_alive_s;
    if (strcmp(name, "stall") == 0 && n_starts == 1)
        is_stalled = job->paused = true;
    if (strncmp(name, "slow-", 5) == 0)
        job->due_us += (uint64_t)atol(name + 5) * 1000;
    if (strncmp(name, "first-", 6) == 0 && n_starts == 1)
        job->due_us += (uint64_t)atol(name + 6) * 1000;
}

static void end_done(struct job *job, enum halo_wire_finish reason)
{
    struct halo_id id = halo_id_of(job->id);
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &id);
    ev.done.finish_reason = reason;
    ev.done.tokens = job->done;
    emit(&ev);
    job->used = false;
}

static void misbehave(struct job *job)
{
    if (job->events == job->die) {
        flush_out();
        kill(getpid(), SIGKILL);
    }
    if (job->events == job->exit) {
        flush_out();
        fprintf(stderr, "told to exit\n<6>routine\n<7>routine\n"); /* the last words are those before */
        exit(3);
    }
    if (job->events == job->hang) {
        flush_out();
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    if (job->events == job->stuck) {
        is_stuck = job->paused = true;
        activity = (enum halo_wire_activity)job->as;
    }
    if (job->events == job->garbage) {
        flush_out();
        if (write(fd, "{\"type\":\"tok\n", 13) != 13)
            exit(0);
    }
    if (job->events == job->wrong || job->events == job->early) {
        struct halo_id id = halo_id_of(job->events == job->early ? 1ll << 60 : job->id);
        struct halo_ev ev;
        halo_ev_init(&ev, HALO_EV_PONG, &id);
        emit(&ev);
    }
}

static void tell_loop(struct job *job)
{
    struct halo_id id = halo_id_of(job->id);
    struct halo_ev ev;
    if (job->loop == 0 || job->events < job->loop || job->loop_told)
        return;
    job->loop_told = true;
    halo_ev_init(&ev, HALO_EV_NOTICE, &id);
    ev.notice.code = halo_str_of("loop_detected");
    ev.notice.message = halo_str_of("as told");
    ev.notice.has_period = true;
    ev.notice.period = 2;
    emit(&ev);
}

/* Nothing more comes of it by itself. */
static bool is_held(const struct job *job)
{
    return (job->never && job->done == job->n) || (n_starts < job->from && job->events >= job->begun_at + 8);
}

static void step_generate(struct job *job)
{
    static char text[1 << 16];
    struct halo_id id = halo_id_of(job->id);
    struct halo_ev ev;
    if (is_held(job))
        return;
    if (job->done == job->n) {
        if (job->twice) {
            struct job copy = *job;
            end_done(&copy, HALO_WIRE_FINISH_LENGTH);
        }
        end_done(job, HALO_WIRE_FINISH_LENGTH);
        has_ended = true;
        return;
    }
    if (!job->started) {
        job->started = true;
        halo_ev_init(&ev, HALO_EV_STARTED, &id);
        ev.started.model = halo_str_of(job->model[0] != '\0' ? job->model : "fake");
        ev.started.prompt_md5 = ev.started.effective_md5 = halo_str_of("0");
        ev.started.seed = job->seed;
        emit(&ev);
    } else if (job->events % 2 == 1) {
        halo_ev_init(&ev, HALO_EV_COMMITTED, &id);
        ev.committed.tok_id = job->done;
        ev.committed.pos = job->done;
        emit(&ev);
    } else {
        memset(text, 'a' + (int)(job->done % 26), sizeof(text));
        halo_ev_init(&ev, HALO_EV_TOKEN, &id);
        ev.token.text = (struct halo_str){text, (size_t)job->size % sizeof(text)};
        emit(&ev);
        job->done++;
    }
    job->events++;
    tell_loop(job);
    misbehave(job);
    if (job->each && job->events % 2 == 0) {
        flush_out();
        kill(getpid(), SIGKILL);
    }
    job->due_us = now_us() + (uint64_t)job->us;
}

/* Row i has the logarithm -(i + 1) / 8, the last one none. */
static void step_score(struct job *job)
{
    struct halo_id id = halo_id_of(job->id);
    struct halo_ev ev;
    if (job->done == job->n) {
        long n = job->n - 1;
        halo_ev_init(&ev, HALO_EV_SCORED, &id);
        ev.scored.tokens = job->n;
        ev.scored.has_nll = n > 0;
        ev.scored.nll = n > 0 ? job->nll / (double)n : 0;
        emit(&ev);
        job->used = false;
        return;
    }
    halo_ev_init(&ev, HALO_EV_SCORE_ROW, &id);
    ev.score_row.pos = job->done;
    ev.score_row.has_logprob = job->done + 1 < job->n;
    ev.score_row.logprob = ev.score_row.has_logprob ? -(double)(job->done + 1) / 8 : 0;
    job->nll -= ev.score_row.logprob;
    emit(&ev);
    job->done++;
    job->events++;
    misbehave(job);
    job->due_us = now_us() + (uint64_t)job->us;
}

/* Dies of this request, however often it gets it: says how many others it has at the moment. */
static bool poisons(struct job *job)
{
    int n_others = 0, n_fresh = 0;
    if (!job->poison)
        return false;
    for (int i = 0; i < MAX_RUNNING; i++)
        if (jobs[i].used && &jobs[i] != job) {
            n_others++;
            n_fresh += jobs[i].events == jobs[i].begun_at && !jobs[i].poison;
        }
    job->due_us = now_us() + 1000;
    if (n_fresh > 0)
        return true; /* not before the others have got something done */
    flush_out();
    fprintf(stderr, "poisoned beside %d others\n", n_others);
    kill(getpid(), SIGKILL);
    return true;
}

static void step_load(struct job *job)
{
    char stamp[16];
    struct halo_id id = halo_id_of(job->id);
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_LOADED, &id);
    ev.loaded.model = halo_str_of(job->model);
    ev.loaded.arch = ev.loaded.device = halo_str_of("fake");
    ev.loaded.tiers = halo_raw_of("{}");
    ev.loaded.pinned = job->pin;
    ev.loaded.has_keep_alive_s = job->keeps;
    ev.loaded.keep_alive_s = job->keep_alive_s;
    ev.loaded.has_kv_tokens = true;
    ev.loaded.kv_tokens = 7777;
    if (strcmp(job->model, "crowd") == 0)
        make_room();
    if (strcmp(job->model, "changes") == 0) {
        snprintf(stamp, sizeof(stamp), "%d", n_starts);
        ev.loaded.stamp = halo_str_of(stamp);
        ev.loaded.has_stamp = true;
    }
    emit(&ev);
    set_loaded(job->model, true);
    job->used = false;
    if (strcmp(job->model, "brief") == 0) {
        struct halo_id nobody = {HALO_ID_NONE, 0, {NULL, 0}};
        halo_ev_init(&ev, HALO_EV_UNLOADED, &nobody);
        ev.unloaded.model = halo_str_of(job->model);
        emit(&ev);
        set_loaded(job->model, false);
    }
}

static void order(const struct halo_msg *msg)
{
    int64_t target = msg->type == HALO_MSG_CANCEL  ? msg->cancel.target.num
                     : msg->type == HALO_MSG_PAUSE ? msg->pause.target.num
                                                   : msg->unpause.target.num;
    struct job *job = find_job(target);
    struct halo_ev ev;
    if (msg->type != HALO_MSG_CANCEL) {
        if (job)
            job->paused = msg->type == HALO_MSG_PAUSE;
        return;
    }
    if (!job) {
        emit_error(msg->id.num, HALO_ERROR_NOT_FOUND, "no such request");
        return;
    }
    halo_ev_init(&ev, HALO_EV_CANCELLED, &msg->id);
    ev.cancelled.target = msg->cancel.target;
    ev.cancelled.was = halo_str_of("decode");
    emit(&ev);
    end_done(job, HALO_WIRE_FINISH_CANCELLED);
}

static void answer_status(const struct halo_msg *msg)
{
    struct halo_part_model_info list[MAX_MODELS] = {0};
    struct halo_ev ev;
    size_t n = 0;
    for (int i = 0; i < MAX_MODELS; i++)
        if (models[i][0] != '\0')
            list[n++] = (struct halo_part_model_info){
                .name = halo_str_of(models[i]), .path = halo_str_of("fake"), .loaded = true};
    halo_ev_init(&ev, msg->type == HALO_MSG_STATUS ? HALO_EV_STATUS : HALO_EV_MODELS, &msg->id);
    if (msg->type == HALO_MSG_MODELS) {
        ev.models.models = (struct halo_part_model_info_list){list, n};
    } else {
        ev.status.has_engine = true;
        ev.status.engine = (struct halo_part_engine_info){.state = halo_str_of("ready"),
                                                          .has_device = true,
                                                          .device = halo_str_of("fake device"),
                                                          .has_phase = true,
                                                          .phase = halo_str_of("answering")};
        ev.status.models = (struct halo_part_model_info_list){list, n};
        ev.status.has_more = true;
        ev.status.more = halo_raw_of("{\"fake\":true}");
    }
    emit(&ev);
}

static void answer_save(const struct halo_msg *msg)
{
    const char *how = getenv("FAKE_SAVE");
    struct halo_ev ev;
    fprintf(stderr, "asked to save within %lld ms\n", (long long)msg->save.deadline_ms);
    if (how && strcmp(how, "die") == 0)
        kill(getpid(), SIGKILL);
    if (how && strcmp(how, "never") == 0)
        return;
    halo_ev_init(&ev, HALO_EV_SAVED, &msg->id);
    ev.saved.models = 1;
    ev.saved.pages = 5;
    ev.saved.bytes = 4321;
    emit(&ev);
}

static void answer_small(const struct halo_msg *msg)
{
    static const struct halo_str features[] = {{"batch_invariant", 15}};
    int32_t tokens[] = {1, 2, 3};
    struct halo_ev ev;
    if (msg->type == HALO_MSG_HELLO) {
        halo_ev_init(&ev, HALO_EV_HELLO, &msg->id);
        ev.hello.protocol = HALO_PROTOCOL_VERSION;
        ev.hello.server = halo_str_of("fake-engine");
        ev.hello.features = (struct halo_str_list){features, !getenv("FAKE_GPU") ? 1 : 0};
    } else if (msg->type == HALO_MSG_UNLOAD) {
        set_loaded(msg->unload.model.at, false);
        halo_ev_init(&ev, HALO_EV_UNLOADED, &msg->id);
        ev.unloaded.model = msg->unload.model;
    } else if (msg->type == HALO_MSG_STATS) {
        halo_ev_init(&ev, HALO_EV_STATS, &msg->id);
        ev.stats.counters = halo_raw_of("{\"steps\":7}");
        ev.stats.histograms = halo_raw_of("{}");
    } else if (msg->type == HALO_MSG_TOKENIZE) {
        halo_ev_init(&ev, HALO_EV_TOKENS, &msg->id);
        ev.tokens.tokens = (struct halo_token_list){tokens, 3};
    } else {
        emit_error(msg->id.num, HALO_ERROR_UNSUPPORTED, "the fake engine cannot do this");
        return;
    }
    emit(&ev);
}

static void take_line(const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0) {
        fprintf(stderr, "halod sent a bad line: %s: %.*s\n", refusal.message, (int)(len > 200 ? 200 : len), line);
        exit(9);
    }
    switch (msg.type) {
    case HALO_MSG_GENERATE: begin_generate(&msg); break;
    case HALO_MSG_SCORE: begin_score(&msg); break;
    case HALO_MSG_LOAD: begin_load(&msg); break;
    case HALO_MSG_CANCEL:
    case HALO_MSG_PAUSE:
    case HALO_MSG_UNPAUSE: order(&msg); break;
    case HALO_MSG_SAVE: answer_save(&msg); break;
    case HALO_MSG_STATUS:
    case HALO_MSG_MODELS: answer_status(&msg); break;
    default: answer_small(&msg); break;
    }
    halo_msg_finish(&msg);
}

static const char *words_of(enum halo_wire_activity kind)
{
    return kind == HALO_WIRE_ACTIVITY_TEXT   ? "tokenizing for request 1"
           : kind == HALO_WIRE_ACTIVITY_FILE ? "reading folder /mnt/gone"
                                             : "step of 8 rows";
}

static void beat(uint64_t now)
{
    static uint64_t last;
    static int64_t n;
    struct halo_id nobody = {HALO_ID_NONE, 0, {NULL, 0}};
    struct halo_ev ev;
    if (now - last < BEAT_US)
        return;
    last = now;
    halo_ev_init(&ev, HALO_EV_HEARTBEAT, &nobody);
    ev.heartbeat.beat = n++;
    struct halo_part_thread_phase threads[HALO_WIRE_THREAD_PREFETCH + 1];
    for (int i = 0; i <= HALO_WIRE_THREAD_PREFETCH; i++)
        threads[i] = (struct halo_part_thread_phase){
            .thread = (enum halo_wire_thread)i,
            .phase = halo_str_of("idle"),
            .ms = 60000, /* idle for a minute is no fault */
            .activity = HALO_WIRE_ACTIVITY_IDLE,
        };
    struct halo_part_thread_phase *stuck = &threads[activity == HALO_WIRE_ACTIVITY_TEXT   ? HALO_WIRE_THREAD_TEXT
                                                    : activity == HALO_WIRE_ACTIVITY_FILE ? HALO_WIRE_THREAD_IO
                                                                                          : HALO_WIRE_THREAD_DEVICE];
    stuck->activity = activity;
    if (is_stuck)
        stuck->phase = halo_str_of(words_of(activity));
    if (is_stalled) {
        threads[HALO_WIRE_THREAD_PREFETCH].activity = HALO_WIRE_ACTIVITY_FILE;
        threads[HALO_WIRE_THREAD_PREFETCH].phase = halo_str_of("3 of 8 tensors");
    }
    ev.heartbeat.running = is_stuck;
    ev.heartbeat.threads.at = threads;
    ev.heartbeat.threads.n = HALO_WIRE_THREAD_PREFETCH + 1;
    emit(&ev);
}

static int step_all(uint64_t now)
{
    int wait_ms = BEAT_US / 1000;
    tell_gone(now);
    for (int i = 0; i < MAX_RUNNING; i++) {
        struct job *job = &jobs[i];
        if (!job->used || job->paused)
            continue;
        if (job->type == HALO_MSG_GENERATE && job->model[0] != '\0' && is_loading(job->model))
            continue; /* waits for it */
        if (job->due_us <= now) {
            if (job->type == HALO_MSG_LOAD)
                step_load(job);
            else if (job->type == HALO_MSG_SCORE)
                step_score(job);
            else if (!poisons(job))
                step_generate(job);
        }
        if (job->used && !is_held(job)) {
            uint64_t after = now_us(); /* events without a pause follow each other at once */
            int left = job->due_us > after ? (int)((job->due_us - after + 999) / 1000) : 0;
            wait_ms = left < wait_ms ? left : wait_ms;
        }
    }
    return wait_ms;
}

static long env_number(const char *name)
{
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

static void count_start(void)
{
    const char *dir = getenv("FAKE_DIR");
    char path[512];
    if (!dir)
        return;
    snprintf(path, sizeof(path), "%s/starts", dir);
    FILE *file = fopen(path, "a+");
    if (!file || fprintf(file, "%ld\n", (long)getpid()) < 0 || fflush(file) != 0)
        exit(8);
    rewind(file);
    for (int c; (c = fgetc(file)) != EOF;)
        n_starts += c == '\n';
    fclose(file);
}

static void read_some(struct halo_line_reader *reader, bool mute)
{
    const char *line;
    size_t len, room;
    char *at;
    if (halo_line_reserve(reader, 1 << 16, &at, &room) < 0)
        abort();
    ssize_t n = read(fd, at, room);
    if (n <= 0) {
        if (!env_number("FAKE_STUBBORN"))
            exit(0);
        for (;;)
            pause();
    }
    halo_line_commit(reader, (size_t)n);
    while (halo_line_next(reader, &line, &len) == 0)
        if (!mute)
            take_line(line, len);
}

static bool is_over(void)
{
    return has_ended && n_starts < 2 && env_number("FAKE_QUIET");
}

int main(int argc, char **argv)
{
    struct halo_line_reader reader;
    bool mute = env_number("FAKE_MUTE") != 0;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--fd") == 0)
            fd = atoi(argv[i + 1]);
    if (fd < 0)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    if (env_number("FAKE_STUBBORN"))
        signal(SIGTERM, SIG_IGN);
    alarm(300); /* however stubborn, it does not stay behind for ever */
    count_start();
    if (n_starts <= env_number("FAKE_FAIL_STARTS") && env_number("FAKE_FAIL_STARTS") > 0)
        return 4;
    if (n_starts > 1 && env_number("FAKE_ONCE"))
        return 5;
    halo_json_init(&out);
    halo_line_init(&reader, 64u << 20);
    for (;;) {
        uint64_t now = now_us();
        bool quiet = mute || is_over();
        int wait_ms = quiet ? 50 : step_all(now);
        if (!quiet)
            beat(now);
        if (quiet)
            halo_json_reset(&out);
        else
            flush_out();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, wait_ms) > 0)
            read_some(&reader, mute || is_over());
    }
}
