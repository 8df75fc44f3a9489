/* crowd.c: clients: they come, ask, read or do not, and go. What peer.c does around halo_flow_*() is done here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer_priv.h"
#include "flow_priv.h"
#include "run.h"
#include "sim.h"
#include "table_priv.h"

#define MAX_LINE 2048

static const uid_t uids[] = {0, 999, 1000, 1001, 1002, 1003};
#define ADMIN_UID 1003

/* ---- connections ---- */

void sim_connect(struct sim *sim, int slot, uid_t which)
{
    struct sim_conn *conn = &sim->conns[slot];
    if (conn->open)
        return;
    uid_t uid = uids[which % (sizeof(uids) / sizeof(uids[0]))];
    struct halo_quota_user *user = halo_quota_acquire(&sim->quota, uid);
    if (!user)
        abort();
    if (halo_quota_charge(&sim->quota, user, HALO_QUOTA_CONNECTIONS, 1) != 0) {
        halo_quota_release(&sim->quota, user);
        return;
    }
    *conn = (struct sim_conn){.open = true, .reads = true, .repeated = -1, .short_id = -1};
    for (int i = 0; i < SIM_IDS; i++)
        conn->ids[i] = -1;
    halo_json_init(&conn->out);
    halo_client_init(&conn->client, &sim->quota, user, &conn->out, &sim->requests.touched);
    conn->client.admin = user->privileged || uid == ADMIN_UID;
}

static void close_conn(struct sim *sim, struct sim_conn *conn)
{
    struct halo_quota_user *user = conn->client.user;
    if (!conn->open)
        return;
    halo_flow_move(&conn->flow, HALO_PEER_CLOSED);
    conn->open = false;
    conn->client.closed = true;
    for (int i = 0; i < SIM_IDS; i++)
        if (conn->ids[i] >= 0)
            sim->stories[conn->ids[i]].open = false;
    halo_requests_client_gone(&sim->requests, &conn->client, sim->now_ns);
    halo_list_remove(&conn->client.touch);
    halo_client_settle(&conn->client, 0);
    halo_quota_give_back(&sim->quota, user, HALO_QUOTA_CONNECTIONS, 1);
    halo_json_finish(&conn->out);
    halo_quota_release(&sim->quota, user);
}

void sim_leave(struct sim *sim, int slot)
{
    close_conn(sim, &sim->conns[slot]);
    sim_settle(sim);
}

void sim_half(struct sim *sim, int slot)
{
    struct sim_conn *conn = &sim->conns[slot];
    if (!conn->open || conn->flow.state != HALO_PEER_OPEN)
        return;
    conn->flow.input_over = true;
    halo_flow_move(&conn->flow, HALO_PEER_HALF);
    halo_client_touch(&conn->client);
    sim_settle(sim);
}

static void take_step(struct sim *sim, struct sim_conn *conn, enum halo_flow_step step)
{
    switch (step) {
    case HALO_FLOW_STAYS: return;
    case HALO_FLOW_SLOW:
        halo_flow_move(&conn->flow, HALO_PEER_SLOW);
        sim->counters.pauses++;
        conn->flow.since_ns = sim->now_ns;
        conn->flow.stalled = false;
        halo_requests_client_slow(&sim->requests, &conn->client, true, sim->now_ns);
        return;
    case HALO_FLOW_QUICK:
        halo_flow_move(&conn->flow, conn->flow.input_over ? HALO_PEER_HALF : HALO_PEER_OPEN);
        halo_requests_client_slow(&sim->requests, &conn->client, false, sim->now_ns);
        return;
    case HALO_FLOW_STALLED:
        sim->counters.stalls++;
        conn->flow.stalled = true;
        conn->flow.since_ns = sim->now_ns;
        halo_requests_client_stalled(&sim->requests, &conn->client, sim->now_ns);
        return;
    case HALO_FLOW_OVERFLOW:
    case HALO_FLOW_GIVE_UP:
    case HALO_FLOW_CLOSE: close_conn(sim, conn); return;
    }
}

static void apply_marks(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->open)
        return;
    halo_client_settle(&conn->client, conn->unread);
    take_step(sim, conn, halo_flow_output(&conn->flow, &sim->config, (int64_t)conn->unread, conn->client.requests.n));
}

void sim_conn_flush(struct sim *sim, struct sim_conn *conn)
{
    halo_list_remove(&conn->client.touch);
    if (!conn->open)
        return;
    if (conn->client.broken)
        sim_fail(sim, "broken", "a connection is broken though memory was never short");
    for (size_t at = 0; at < conn->out.len;) {
        const char *line = conn->out.at + at, *end = memchr(line, '\n', conn->out.len - at);
        if (!end)
            sim_fail(sim, "lines", "an event without a newline at its end");
        sim_hear(sim, conn, line, (size_t)(end - line));
        at = (size_t)(end - conn->out.at) + 1;
    }
    conn->unread = conn->reads ? 0 : conn->unread + conn->out.len;
    halo_json_reset(&conn->out);
    apply_marks(sim, conn);
}

void sim_read(struct sim *sim, int slot, size_t bytes)
{
    struct sim_conn *conn = &sim->conns[slot];
    if (!conn->open || conn->unread == 0)
        return;
    conn->unread -= bytes < conn->unread ? bytes : conn->unread;
    apply_marks(sim, conn);
    sim_settle(sim);
}

uint64_t sim_conn_due(const struct sim *sim, const struct sim_conn *conn)
{
    return conn->open && conn->flow.state == HALO_PEER_SLOW
               ? conn->flow.since_ns + (uint64_t)sim->config.stall_ms * SIM_MS
               : UINT64_MAX;
}

void sim_conn_tick(struct sim *sim, struct sim_conn *conn)
{
    take_step(sim, conn, halo_flow_time(&conn->flow, &sim->config, sim->now_ns));
    if (conn->open)
        halo_client_settle(&conn->client, conn->unread);
    sim_settle(sim);
}

/* ---- requests ---- */

static bool may_say(const struct sim_conn *conn)
{
    return conn->open && conn->flow.state == HALO_PEER_OPEN;
}

static int new_story(struct sim *sim, int slot, int id)
{
    if (sim->n_stories == sim->stories_cap) {
        size_t cap = sim->stories_cap > 0 ? sim->stories_cap * 2 : 256;
        sim->stories = realloc(sim->stories, cap * sizeof(*sim->stories));
        if (!sim->stories)
            abort();
        sim->stories_cap = cap;
    }
    sim->stories[sim->n_stories] = (struct sim_story){
        .conn = slot, .id = id, .model = -1, .began_with = -1, .poison = -1, .asked_ns = sim->now_ns, .open = true};
    return (int)sim->n_stories++;
}

/* How a reply or a score goes: short or endless, late or not, deadly or not. */
static void plan(const struct sim *sim, struct sim_story *story, uint32_t how)
{
    story->n = (how >> 13) % 4 == 0 ? 1 + how % 60 : 1 + how % 12;
    story->piece_bytes = 1u << (how >> 4) % 10;
    story->wants_ids = how & 1u << 9;
    story->endless = story->type == HALO_MSG_GENERATE && (how >> 10) % 32 == 0;
    if (story->endless)
        story->n = SIM_FOREVER;
    if (story->type == HALO_MSG_GENERATE && (how >> 15) % 6 == 0)
        story->deadline_ms = 1 + (how >> 18) % 2000;
    if ((how >> 20) % sim->poison_every == 0) {
        story->poison = (int)((how >> 25) % (story->n < 4 ? story->n : 4));
        story->antidote = 1 + (how >> 28) % 6;
    }
    if (story->type == HALO_MSG_SCORE)
        story->from = (how >> 30) % story->n;
}

static void write_named(char *line, const char *type, const char *id, const char *more, int model)
{
    snprintf(line, MAX_LINE, "{\"type\":\"%s\",\"id\":%s,\"model\":\"m%d\"%s}", type, id, model, more);
}

static void write_generate(char *line, const char *id, const struct sim_story *story, int number)
{
    char model[32] = "", deadline[48] = "", padding[512];
    size_t n = (size_t)number * 7 % sizeof(padding);
    memset(padding, 'x', n);
    if (story->model >= 0)
        snprintf(model, sizeof(model), ",\"model\":\"m%d\"", story->model);
    if (story->deadline_ms > 0)
        snprintf(deadline, sizeof(deadline), ",\"deadline_ms\":%" PRId64, story->deadline_ms);
    snprintf(line, MAX_LINE, "{\"type\":\"generate\",\"id\":%s,\"prompt\":\"%.*s\"%s%s%s}", id, (int)n, padding, model,
             deadline, story->wants_ids ? ",\"emit_token_ids\":true" : "");
}

static const struct {
    enum halo_msg_type type;
    const char *name, *more;
    bool named, admin; /* admin: for administrators alone, whoever loaded the model */
} requests[] = {
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", true},
    {HALO_MSG_GENERATE, "generate", "", false},
    {HALO_MSG_GENERATE, "generate", "", false},
    {HALO_MSG_SCORE, "score", "", true},
    {HALO_MSG_SCORE, "score", "", true},
    {HALO_MSG_SCORE, "score", "", true},
    {HALO_MSG_LOAD, "load", "", true},
    {HALO_MSG_LOAD, "load", ",\"params\":{\"pin\":true}", true},
    {HALO_MSG_LOAD, "load", ",\"params\":{\"pin\":false}", true},
    {HALO_MSG_UNLOAD, "unload", "", true},
    {HALO_MSG_TOKENIZE, "tokenize", ",\"text\":\"x\"", true},
    {HALO_MSG_TOKENIZE, "tokenize", ",\"text\":\"x\"", true},
    {HALO_MSG_DETOKENIZE, "detokenize", ",\"tokens\":[1,2]", true},
    {HALO_MSG_RESET, "reset", "", true},
    {HALO_MSG_BENCH, "bench", "", true, true},
    {HALO_MSG_DIAG, "diag", NULL, false, true},
    {HALO_MSG_MODELS, "models", NULL, false},
    {HALO_MSG_STATUS, "status", NULL, false},
    {HALO_MSG_STATS, "stats", NULL, false},
    {HALO_MSG_HELLO, "hello", NULL, false},
};
#define N_REQUESTS (sizeof(requests) / sizeof(requests[0]))

static void say(struct sim *sim, struct sim_conn *conn, const char *line)
{
    size_t n_open = conn->client.requests.n;
    halo_requests_line(&sim->requests, &conn->client, line, strlen(line), sim->now_ns);
    if (conn->client.requests.n > n_open)
        sim_remember(sim, HALO_LIST_ITEM(conn->client.requests.first, struct halo_request, open));
    sim_settle(sim);
}

/* Answered at once, whatever the engine does. */
static void say_nonsense(struct sim *sim, struct sim_conn *conn, uint32_t how)
{
    static const char *const lines[] = {"", "{", "[]", "{\"type\":\"generate\"}", "{\"type\":\"save\"}", "\xff"};
    char line[64];
    if (how % 2 == 0) {
        conn->short_null = true;
        say(sim, conn, lines[how / 2 % (sizeof(lines) / sizeof(lines[0]))]);
        return;
    }
    conn->short_id = SIM_SHORT_ID + sim->next_short++;
    snprintf(line, sizeof(line), "{\"type\":\"ping\",\"id\":%" PRId64 "}", conn->short_id);
    say(sim, conn, line);
}

/* Places that root and the daemon's own user took beyond those that are reserved for them. */
static bool is_crowded_by_root(const struct sim *sim)
{
    int64_t n = 0;
    for (const struct halo_quota_user *user = sim->quota.users; user; user = user->next)
        if (user->privileged)
            n += user->used[HALO_QUOTA_QUEUED];
    return n > sim->config.queued_requests / 16;
}

/* Requests that ran when their engine died stand in the queue again, whatever its limits say. */
static bool is_crowded_by_death(struct sim *sim)
{
    const struct halo_request *request = halo_request_first(&sim->requests);
    while (request && !(request->has_place && (request->died || request->n_resumes > 0)))
        request = halo_request_next(request);
    return request;
}

/* Refused when and only when the queue has no room by the rule, and never while its user has nothing queued, whatever
 * the other users do; root may take everything. */
static void check_refusal(struct sim *sim, const struct sim_story *story, bool room, bool first)
{
    bool refused = story->ended == HALO_ERROR_QUEUE_FULL;
    if (refused && room)
        sim_fail(sim, "queue", "a %s was refused though the queue has room", halo_msg_type_name(story->type));
    if (refused && first && !is_crowded_by_root(sim) && !is_crowded_by_death(sim))
        sim_fail(sim, "starved", "a user with nothing in the queue was refused");
    if (!room && story->ended == HALO_ERROR_NONE && !halo_request_is_query(story->type))
        sim_fail(sim, "queue", "a %s was accepted beyond its user's share of the queue",
                 halo_msg_type_name(story->type));
}

void sim_ask(struct sim *sim, int slot, uint32_t what, uint32_t how)
{
    struct sim_conn *conn = &sim->conns[slot];
    char line[MAX_LINE], id_text[16];
    uint32_t which = what % (N_REQUESTS + 2);
    int id = (int)(how % SIM_IDS);
    if (!may_say(conn))
        return;
    if (which >= N_REQUESTS) {
        say_nonsense(sim, conn, how);
        return;
    }
    bool repeated = conn->ids[id] >= 0;
    int number = repeated ? -1 : new_story(sim, slot, id);
    struct sim_story scratch = {.model = -1, .poison = -1};
    struct sim_story *story = repeated ? &scratch : &sim->stories[number];
    story->type = requests[which].type;
    if (requests[which].named)
        story->model = (int)((what >> 8) % SIM_MODELS);
    story->privileged_only = requests[which].admin && !conn->client.admin;
    snprintf(id_text, sizeof(id_text), id % 5 == 3 ? "\"s%d\"" : "%d", id);
    if (story->type == HALO_MSG_GENERATE || story->type == HALO_MSG_SCORE)
        plan(sim, story, how);
    if (story->type == HALO_MSG_GENERATE)
        write_generate(line, id_text, story, (int)sim->n_stories);
    else if (story->type == HALO_MSG_SCORE)
        snprintf(line, sizeof(line), "{\"type\":\"score\",\"id\":%s,\"model\":\"m%d\",\"text\":\"x\",\"from\":%u}",
                 id_text, story->model, story->from);
    else if (requests[which].more)
        write_named(line, requests[which].name, id_text, requests[which].more, story->model);
    else
        snprintf(line, sizeof(line), "{\"type\":\"%s\",\"id\":%s}", requests[which].name, id_text);
    if (repeated)
        conn->repeated = id;
    else
        conn->ids[id] = number;
    bool room = sim_has_room(sim, &conn->client), first = conn->client.user->used[HALO_QUOTA_QUEUED] == 0;
    say(sim, conn, line);
    if (!repeated)
        check_refusal(sim, &sim->stories[number], room, first);
}

/* Mostly one that is open. */
static int choose_target(const struct sim_conn *conn, uint32_t which)
{
    int id = (int)(which % SIM_IDS);
    for (int n = 0; which / SIM_IDS % 8 != 0 && conn->ids[id] < 0 && n < SIM_IDS; n++)
        id = (id + 1) % SIM_IDS;
    return id;
}

void sim_cancel(struct sim *sim, int slot, uint32_t which)
{
    struct sim_conn *conn = &sim->conns[slot];
    char line[96];
    int id = choose_target(conn, which);
    if (!may_say(conn))
        return;
    conn->short_id = SIM_SHORT_ID + sim->next_short++;
    if (conn->ids[id] >= 0)
        sim->stories[conn->ids[id]].cancelled = true;
    snprintf(line, sizeof(line),
             id % 5 == 3 ? "{\"type\":\"cancel\",\"id\":%" PRId64 ",\"target\":\"s%d\"}"
                         : "{\"type\":\"cancel\",\"id\":%" PRId64 ",\"target\":%d}",
             conn->short_id, id);
    say(sim, conn, line);
}
