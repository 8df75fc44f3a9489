/* fuzz_engine.c: halod's requests under an engine that says anything.
 *
 * The input drives clients, time, and an engine. It answers as one should, or an event that the request cannot have,
 * or under another id, or a line with bytes changed, or no JSON at all; it dies when it wants, and when halod refuses
 * what it said. Whatever it says:
 *   - each request of a client gets one terminal event, and nothing after it; its tokens and rows come without gap or
 *     repeat, whichever engine they come from;
 *   - what a client reads is JSON, one event a line, under an id of its own;
 *   - what the engine reads is a request that its decoder takes;
 *   - an engine whose line was refused is replaced, and those after it are served.
 * In process: the object is pure (serve/request), and this is the program around it.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/log.h>
#include <protocol/envelope.h>
#include <protocol/message.h>
#include <serve/request/requests.h>

#include "owner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_CLIENTS 3
#define MAX_IDS 256 /* requests of one client */
#define MAX_OPEN 64 /* of the engine */
#define MAX_STEPS 400
#define LINE_BYTES 1024
#define MS 1000000ull

/* What the engine has been asked. */
struct work {
    int64_t id;
    enum halo_msg_type type;
    bool started;
    int64_t n; /* tokens or rows so far */
};

struct person {
    struct halo_client client;
    struct halo_json out;
    int n_sent;
    bool open[MAX_IDS];    /* by id: its terminal event is due */
    int64_t next[MAX_IDS]; /* by id: the position that comes next; -1: any */
};

struct world {
    const uint8_t *data;
    size_t size, at;
    uint64_t now_ns;
    struct halo_config config;
    struct halo_quota quota;
    struct halo_counters counters;
    struct halo_requests requests;
    struct person people[N_CLIENTS];
    struct halo_json out; /* to the engine */
    bool up;
    struct work work[MAX_OPEN];
    size_t n_work;
    uint64_t seed;
    unsigned n_replaced;
};

static unsigned choose(struct world *w, unsigned n)
{
    unsigned byte = w->at < w->size ? w->data[w->at++] : 0;
    return byte % n;
}

/* ---- what halod asks of its owner ---- */

static const char *engine_state(void *ud)
{
    return "mad";
}

static const char *death_note(void *ud, bool advise)
{
    return "";
}

static void breaker_closed(void *ud)
{
}

static void status(void *ud, const char *text)
{
}

static int draw_seed(void *ud, int64_t *ret_seed)
{
    struct world *w = ud;
    *ret_seed = (int64_t)w->seed++;
    return 0;
}

static int64_t wall_s(void *ud)
{
    return 1700000000;
}

static const struct halo_requests_ops ops = {
    .query = owner_query,
    .engine_state = engine_state,
    .death_note = death_note,
    .breaker_closed = breaker_closed,
    .status = status,
    .draw_seed = draw_seed,
    .wall_s = wall_s,
};

/* ---- what comes out ---- */

/* One event to a person: its id is open, and over when the event is terminal. Ids are numbers and "s<number>". */
static void heard(struct person *person, const char *line, size_t len)
{
    struct halo_envelope_field pos = {.key = "pos"};
    char buf[HALO_ID_BUF_BYTES];
    struct halo_envelope env;
    int64_t at;
    if (halo_envelope_scan_fields(line, len, &env, &pos, 1) != 0)
        abort();
    int type = halo_ev_type_from_name(line + env.type.at, env.type.len);
    struct halo_id id = halo_envelope_id(line, &env, buf);
    assert(type >= 0 && id.kind != HALO_ID_NONE);
    int64_t n = id.kind == HALO_ID_INT ? id.num : atoi(id.str.at + 1);
    assert(n >= 0 && n < person->n_sent && person->open[n]);
    if (type == HALO_EV_COMMITTED || type == HALO_EV_SCORE_ROW) {
        if (!halo_envelope_i64(line, pos.value, &at))
            abort();
        assert(person->next[n] < 0 || at == person->next[n]);
        person->next[n] = at + 1;
    }
    if (halo_ev_is_terminal((enum halo_ev_type)type))
        person->open[n] = false;
}

static void asked(struct world *w, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0) {
        fprintf(stderr, "the engine would refuse: %s: %.*s\n", refusal.message, (int)len, line);
        abort();
    }
    if (msg.id.kind == HALO_ID_INT && w->n_work < MAX_OPEN)
        w->work[w->n_work++] = (struct work){.id = msg.id.num,
                                             .type = msg.type,
                                             .started = msg.type == HALO_MSG_GENERATE && msg.generate.has_resume,
                                             .n = msg.type == HALO_MSG_GENERATE && msg.generate.has_resume
                                                      ? (int64_t)msg.generate.resume.tokens.n
                                                  : msg.type == HALO_MSG_SCORE ? msg.score.from
                                                                               : 0};
    halo_msg_finish(&msg);
}

static void read_lines(struct world *w, struct person *person, struct halo_json *from)
{
    for (size_t at = 0; at < from->len;) {
        const char *line = from->at + at, *end = memchr(line, '\n', from->len - at);
        assert(end);
        if (person)
            heard(person, line, (size_t)(end - line));
        else
            asked(w, line, (size_t)(end - line));
        at = (size_t)(end - from->at) + 1;
    }
    halo_json_reset(from);
}

static void flush(struct world *w)
{
    if (w->requests.dispatch_due)
        halo_requests_dispatch(&w->requests, w->now_ns);
    while (w->requests.touched.first)
        halo_list_remove(w->requests.touched.first);
    for (int i = 0; i < N_CLIENTS; i++) {
        assert(!w->people[i].client.broken);
        read_lines(w, &w->people[i], &w->people[i].out);
        halo_client_settle(&w->people[i].client, 0);
    }
    if (w->up)
        read_lines(w, NULL, &w->out);
}

/* ---- clients ---- */

static void enter(struct world *w, struct person *person)
{
    struct halo_quota_user *user = halo_quota_acquire(&w->quota, (uid_t)choose(w, 2));
    if (!user)
        abort();
    memset(person->open, 0, sizeof(person->open));
    person->n_sent = 0;
    halo_client_init(&person->client, &w->quota, user, &person->out, &w->requests.touched);
    person->client.admin = user->privileged;
}

static void leave(struct world *w, struct person *person)
{
    struct halo_quota_user *user = person->client.user;
    person->client.closed = true;
    halo_requests_client_gone(&w->requests, &person->client, w->now_ns);
    if (halo_list_is_linked(&person->client.touch))
        halo_list_remove(&person->client.touch);
    halo_json_reset(&person->out);
    halo_client_settle(&person->client, 0);
    halo_quota_release(&w->quota, user);
}

static void ask(struct world *w, struct person *person)
{
    static const char *const rest[] = {
        "generate\",\"prompt\":\"x\",\"emit_token_ids\":true",
        "generate\",\"prompt\":\"x\",\"model\":\"m\"",
        "generate\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"deadline_ms\":70,\"logprobs\":2",
        "generate\",\"tokens\":[1,2],\"stream\":false,\"model\":\"n\"",
        "score\",\"model\":\"m\",\"text\":\"x\",\"from\":3",
        "load\",\"model\":\"m\",\"params\":{\"keep_alive_s\":5}",
        "load\",\"model\":\"n\",\"params\":{\"pin\":true}",
        "unload\",\"model\":\"m\"",
        "tokenize\",\"model\":\"m\",\"text\":\"x\"",
        "template\",\"model\":\"n\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
        "status",
        "stats",
        "hello",
        "models",
        "bench\",\"model\":\"m\"",
        "reset\",\"model\":\"m\"",
    };
    char line[256];
    unsigned kind = choose(w, 18);
    if (person->n_sent == MAX_IDS)
        return;
    int id = person->n_sent++;
    person->open[id] = true;
    person->next[id] = -1;
    if (kind >= 16)
        snprintf(line, sizeof(line), "{\"type\":\"cancel\",\"id\":%d,\"target\":%u}", id, choose(w, (unsigned)id + 1));
    else
        snprintf(line, sizeof(line), id % 5 == 3 ? "{\"id\":\"s%d\",\"type\":\"%s}" : "{\"id\":%d,\"type\":\"%s}", id,
                 rest[kind]);
    /* The piece closes the quote of the type by itself only when fields follow. */
    if (kind >= 10 && kind < 14)
        snprintf(line, sizeof(line), id % 5 == 3 ? "{\"id\":\"s%d\",\"type\":\"%s\"}" : "{\"id\":%d,\"type\":\"%s\"}",
                 id, rest[kind]);
    halo_requests_line(&w->requests, &person->client, line, strlen(line), w->now_ns);
}

/* ---- the engine ---- */

static void die(struct world *w)
{
    halo_requests_engine_died(&w->requests, "went mad", w->now_ns);
    halo_json_reset(&w->out);
    w->up = false;
    w->n_work = 0;
}

static void rise(struct world *w)
{
    if (w->requests.breaker.open)
        halo_requests_close_breaker(&w->requests, "it is time");
    halo_json_reset(&w->out);
    w->up = true;
    halo_requests_engine_up(&w->requests, &w->out, w->now_ns);
}

static void forget(struct world *w, struct work *work)
{
    *work = w->work[--w->n_work];
}

/* The text of an event without its id: what a sane engine says next of this work, or `odd`: of any other. */
static void compose(struct world *w, struct work *work, bool odd, char text[LINE_BYTES])
{
    static const char *const ends[HALO_N_MSGS] = {
        [HALO_MSG_LOAD] =
            "\"loaded\",\"model\":\"m\",\"arch\":\"a\",\"device\":\"cpu\",\"context\":8,\"weights_bytes\":1,"
            "\"kv_bytes\":1,\"load_ms\":1.000,\"gb_s\":1.000,\"tiers\":{}",
        [HALO_MSG_UNLOAD] = "\"unloaded\",\"model\":\"m\",\"freed_bytes\":5",
        [HALO_MSG_TOKENIZE] = "\"tokens\",\"tokens\":[1],\"pieces\":[\"a\"]",
        [HALO_MSG_TEMPLATE] = "\"template\",\"text\":\"a\",\"tokens\":[1]",
        [HALO_MSG_STATUS] = "\"status\",\"models\":[],\"queue\":0,\"running\":0,\"more\":{\"a\":[[1]]}",
        [HALO_MSG_STATS] = "\"stats\",\"counters\":{},\"histograms\":{}",
        [HALO_MSG_MODELS] = "\"models\",\"models\":[]",
        [HALO_MSG_BENCH] = "\"bench\",\"model\":\"m\"",
        [HALO_MSG_PROFILE] = "\"profile\",\"model\":\"m\",\"grid\":[]",
        [HALO_MSG_RESET] = "\"reset\",\"freed_pages\":1",
        [HALO_MSG_GENERATE] = "\"done\",\"finish_reason\":\"length\",\"tokens\":1",
        [HALO_MSG_SCORE] = "\"done\",\"tokens\":3,\"nll\":1.5",
    };
    static const char *const others[] = {
        "\"progress\",\"phase\":\"queue\",\"done\":0,\"total\":5",
        "\"progress\",\"phase\":\"load\",\"done\":0,\"total\":5",
        "\"notice\",\"code\":\"loop_detected\",\"message\":\"m\"",
        "\"error\",\"code\":\"not_found\",\"message\":\"m\",\"retryable\":false",
        "\"error\",\"code\":\"internal\",\"message\":\"m\",\"retryable\":false,\"detail\":{\"n\":1}",
        "\"unloaded\",\"model\":\"m\",\"freed_bytes\":5,\"reason\":\"room\"",
        "\"done\",\"finish_reason\":\"cancelled\",\"tokens\":0",
        "\"pong\",\"uptime_ms\":1",
        "\"cancelled\",\"target\":1,\"was\":\"queued\"",
        "\"saved\",\"models\":0,\"pages\":0,\"bytes\":0",
        "\"heartbeat\",\"beat\":1",
        "\"token\",\"text\":5",
        "\"committed\",\"tok_id\":-1,\"pos\":0",
        "\"started\"",
        "\"loaded\"",
        "\"nonsense\"",
    };
    unsigned say = choose(w, 8);
    if (odd)
        snprintf(text, LINE_BYTES, "%s", others[choose(w, sizeof(others) / sizeof(others[0]))]);
    else if (work->type == HALO_MSG_GENERATE && !work->started)
        snprintf(text, LINE_BYTES,
                 "\"started\",\"model\":\"%s\",\"prompt_tokens\":2,\"cached_tokens\":0,\"prompt_md5\":\"0\","
                 "\"effective_md5\":"
                 "\"%u\",\"newline_runs\":0,\"seed\":1,\"context\":8,\"changes\":[]",
                 say & 1 ? "m" : "n", say / 4);
    else if (work->type == HALO_MSG_GENERATE && say < 4)
        snprintf(text, LINE_BYTES, "\"committed\",\"tok_id\":%u,\"pos\":%lld,\"t_ms\":1.000", say,
                 (long long)work->n++);
    else if (work->type == HALO_MSG_GENERATE && say < 6)
        snprintf(text, LINE_BYTES, "\"token\",\"text\":\"\\u00e9%u\"", say);
    else if (work->type == HALO_MSG_SCORE && say < 6)
        snprintf(text, LINE_BYTES, "\"score_row\",\"pos\":%lld,\"tok_id\":1,\"logprob\":%s", (long long)work->n++,
                 say ? "-1.5" : "null");
    else
        snprintf(text, LINE_BYTES, "%s", ends[work->type] ? ends[work->type] : others[4]);
    if (strncmp(text, "\"started\"", 9) == 0)
        work->started = true;
}

/* Changes, drops or doubles bytes; never in a way that makes two lines. */
static size_t mangle(struct world *w, char *line, size_t len)
{
    for (unsigned n = 1 + choose(w, 4); n > 0 && len > 1; n--) {
        size_t at = (choose(w, 256) * 7u + choose(w, 256)) % len;
        switch (choose(w, 3)) {
        case 0: line[at] = (char)choose(w, 256); break;
        case 1: memmove(line + at, line + at + 1, --len - at); break;
        default:
            if (len < 2 * LINE_BYTES - 1) {
                memmove(line + at + 1, line + at, len - at);
                len++;
            }
        }
        if (line[at] == '\n')
            line[at] = ' ';
    }
    return len;
}

/* An id that is no work's: none, another type, never given, given long ago. */
static void write_wrong_id(struct world *w, char text[64])
{
    static const char *const ids[] = {"null", "0", "-1", "9223372036854775807", "\"a\"", "1.5", "99999999999999999999"};
    unsigned which = choose(w, 8);
    if (which == 7)
        snprintf(text, 64, "%u", 1 + choose(w, 200));
    else
        snprintf(text, 64, "%s", ids[which]);
}

static void say(struct world *w)
{
    struct work nobody = {.type = HALO_MSG_MODELS};
    struct work *work = w->n_work > 0 ? &w->work[choose(w, (unsigned)w->n_work)] : &nobody;
    unsigned mood = choose(w, 16);
    char text[LINE_BYTES], line[2 * LINE_BYTES], id[64];
    struct halo_event_line event;
    struct halo_fault fault = {0};
    compose(w, work, mood == 15 || work == &nobody, text);
    snprintf(id, sizeof(id), "%lld", (long long)work->id);
    if (mood == 14 || work == &nobody)
        write_wrong_id(w, id);
    size_t len = (size_t)snprintf(line, sizeof(line), "{\"type\":%.*s,\"id\":%s%s}", (int)strcspn(text, ","), text, id,
                                  text + strcspn(text, ","));
    if (mood == 13)
        len = mangle(w, line, len);
    int r = halo_event_line_scan(&event, line, len, &fault);
    /* Heartbeats and the hello are for the object that has the process (child/engine.c). */
    if (r == 0 && event.type != HALO_EV_HEARTBEAT && event.type != HALO_EV_HELLO) {
        bool ends = mood < 13 && work != &nobody && halo_ev_is_terminal(event.type);
        r = halo_requests_engine_line(&w->requests, &event, w->now_ns, &fault);
        if (r == 0 && ends)
            forget(w, work);
    }
    if (r < 0) {
        assert(fault.text[0] != '\0');
        die(w);
        rise(w);
        w->n_replaced++;
    }
}

/* ---- all of it ---- */

static void step(struct world *w)
{
    struct person *person = &w->people[choose(w, N_CLIENTS)];
    switch (choose(w, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: ask(w, person); break;
    case 4:
        if (w->up)
            die(w);
        break;
    case 5:
        if (!w->up)
            rise(w);
        break;
    case 6:
        w->now_ns += (1 + choose(w, 200)) * MS * 10;
        if (w->requests.next_ns <= w->now_ns)
            halo_requests_expire(&w->requests, w->now_ns);
        break;
    case 7: halo_requests_client_slow(&w->requests, &person->client, choose(w, 2), w->now_ns); break;
    case 8:
        if (choose(w, 8) == 0)
            halo_requests_client_stalled(&w->requests, &person->client, w->now_ns);
        break;
    case 9:
        if (choose(w, 8) == 0) {
            leave(w, person);
            enter(w, person);
        }
        break;
    default:
        if (w->up)
            say(w);
        else
            rise(w);
    }
    flush(w);
}

static void begin(struct world *w, const uint8_t *data, size_t size)
{
    *w = (struct world){.data = data, .size = size, .now_ns = 1000 * MS};
    if (halo_config_init(&w->config) < 0)
        abort();
    w->config.on_demand = choose(w, 2);
    halo_quota_init(&w->quota, &w->config, 7);
    halo_requests_init(&w->requests, &w->config, &w->quota, &w->counters, &ops, w, w->now_ns);
    halo_json_init(&w->out);
    for (int i = 0; i < N_CLIENTS; i++) {
        halo_json_init(&w->people[i].out);
        enter(w, &w->people[i]);
    }
}

/* Everything that is open ends, once. */
static void end(struct world *w)
{
    w->requests.accepts = false;
    halo_requests_end_all(&w->requests, HALO_ERROR_SHUTTING_DOWN, "the end", w->now_ns);
    flush(w);
    for (int i = 0; i < N_CLIENTS; i++) {
        for (int id = 0; id < w->people[i].n_sent; id++)
            assert(!w->people[i].open[id]);
        leave(w, &w->people[i]);
        halo_json_finish(&w->people[i].out);
    }
    halo_requests_finish(&w->requests);
    halo_quota_finish(&w->quota);
    halo_json_finish(&w->out);
    halo_config_finish(&w->config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    halo_log_set_level((enum halo_log_level) - 1); /* the deaths of thousands of engines are no news */
    begin(&world, data, size);
    for (int i = 0; i < MAX_STEPS && world.at < size; i++)
        step(&world);
    end(&world);
    return 0;
}
