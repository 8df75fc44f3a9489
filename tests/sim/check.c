/* check.c: the state of halod against what the world knows, after each stimulus. */
#include <inttypes.h>
#include <stdlib.h>

#include "run.h"
#include "sim.h"
#include "table_priv.h"

#define MOST_USERS 6

/* By docs/CONFIG.md: one user may have half of what the others leave, one place in 16 is root's and the daemon's. */
bool sim_has_room(const struct sim *sim, const struct halo_client *client)
{
    const struct halo_quota_user *user = client->user;
    int64_t all = sim->config.queued_requests, own = user->used[HALO_QUOTA_QUEUED];
    int64_t left = all - (sim->quota.used[HALO_QUOTA_QUEUED] - own);
    if (user->privileged)
        return own < left;
    left -= all / 16;
    return left > 0 && own < (left + 1) / 2;
}

bool sim_is_suspect(const struct sim *sim, const struct sim_story *story)
{
    return story->n_deaths > 0 && (int64_t)story->n_deaths + 1 >= sim->config.request_deaths && !story->committed_here;
}

void sim_remember(struct sim *sim, const struct halo_request *request)
{
    struct sim_sent *sent = &sim->sent[request->id % SIM_SENT];
    int story = sim_story_of(sim, request);
    if (sent->id != (int64_t)request->id)
        *sent = (struct sim_sent){.id = (int64_t)request->id};
    sent->story = story;
}

int sim_story_of(struct sim *sim, const struct halo_request *request)
{
    const struct halo_id *id = &request->client_id;
    if (!request->client) {
        const struct sim_sent *sent = &sim->sent[request->id % SIM_SENT];
        return sent->id == (int64_t)request->id ? sent->story : -1;
    }
    const struct sim_conn *conn = HALO_LIST_ITEM(request->client, struct sim_conn, client);
    int64_t at = id->kind == HALO_ID_INT ? id->num : id->kind == HALO_ID_STR ? strtol(id->str.at + 1, NULL, 10) : -1;
    if (at < 0 || at >= SIM_IDS || conn->ids[at] < 0)
        sim_fail(sim, "one_end", "halod has a request open that its client has not");
    return conn->ids[at];
}

static void check_clients(struct sim *sim)
{
    size_t n_conns = 0, output = 0;
    for (int i = 0; i < SIM_CONNS; i++) {
        const struct sim_conn *conn = &sim->conns[i];
        size_t n_open = 0;
        if (!conn->open)
            continue;
        n_conns++;
        output += conn->client.output_bytes;
        for (int id = 0; id < SIM_IDS; id++)
            n_open += conn->ids[id] >= 0;
        if (n_open != conn->client.requests.n)
            sim_fail(sim, "one_end", "a client waits for %zu requests, halod has %zu of it", n_open,
                     conn->client.requests.n);
        if (conn->short_id >= 0 || conn->short_null || conn->repeated >= 0)
            sim_fail(sim, "one_end", "a line was not answered at once (id %" PRId64 ")", conn->short_id);
        if (conn->client.output_bytes != conn->unread)
            sim_fail(sim, "quota", "%zu bytes are unread, %zu are charged", conn->unread, conn->client.output_bytes);
    }
    if ((int64_t)output != sim->quota.used[HALO_QUOTA_OUTPUT])
        sim_fail(sim, "quota", "%zu bytes are unread, %" PRId64 " are charged", output,
                 sim->quota.used[HALO_QUOTA_OUTPUT]);
    if ((int64_t)n_conns != sim->quota.used[HALO_QUOTA_CONNECTIONS])
        sim_fail(sim, "quota", "%zu connections, %" PRId64 " are charged", n_conns,
                 sim->quota.used[HALO_QUOTA_CONNECTIONS]);
    if (output > sim->report->most_output_bytes)
        sim->report->most_output_bytes = output;
}

static bool is_suspect(struct sim *sim, const struct halo_request *request)
{
    int story = sim_story_of(sim, request);
    return story >= 0 && sim_is_suspect(sim, &sim->stories[story]);
}

static bool has_suspect_waiting(struct sim *sim)
{
    const struct halo_request *request = halo_request_first_waiting(&sim->requests);
    while (request && !is_suspect(sim, request))
        request = halo_request_next_waiting(request);
    return request;
}

/* A request that waits here waits for a reason, and not beyond its time. */
static void check_waiting(struct sim *sim, const struct halo_request *request)
{
    const struct halo_requests *requests = &sim->requests;
    const char *type = halo_msg_type_name(request->type);
    uint64_t since_ns = request->arrived_ns > sim->down_ns ? request->arrived_ns : sim->down_ns;
    int story = sim_story_of(sim, request);
    int64_t deadline_ms = story >= 0 ? sim->stories[story].deadline_ms : 0;
    if (!request->client && request->type != HALO_MSG_LOAD) /* a load goes on without its client */
        sim_fail(sim, "leak", "a %s waits that nobody waits for", type);
    bool due = requests->next_ns <= sim->now_ns; /* the clock has more to say at this time */
    if (!due && deadline_ms > 0 && sim->now_ns > sim->stories[story].asked_ns + (uint64_t)deadline_ms * SIM_MS)
        sim_fail(sim, "deadline", "a %s waits beyond its deadline of %" PRId64 " ms", type, deadline_ms);
    if (!due && requests->link.state == HALO_LINK_DOWN &&
        sim->now_ns > since_ns + (uint64_t)sim->config.wait_ms * SIM_MS)
        sim_fail(sim, "deadline", "a %s waits for an engine for longer than wait_ms", type);
    if (requests->link.state == HALO_LINK_READY && sim->engine.suspect < 0 && !has_suspect_waiting(sim))
        sim_fail(sim, "starved",
                 "a %s waits though the engine is ready and has no suspect: %zu wait, it has %u, alone %" PRIu64, type,
                 requests->waiting.n, sim->engine.n_in, requests->alone);
}

static void check_records(struct sim *sim)
{
    struct halo_requests *requests = &sim->requests;
    size_t lines = 0, queued = 0, n_states[HALO_N_REQUEST_STATES] = {0}, n_waiting = 0;
    for (const struct halo_request *request = halo_request_first(requests); request;
         request = halo_request_next(request)) {
        bool query = halo_request_is_query(request->type);
        lines += request->charged_bytes;
        queued += request->has_place;
        if (query)
            continue;
        n_states[request->state]++;
        if (request->state == HALO_REQUEST_WAITING) {
            n_waiting++;
            check_waiting(sim, request);
        }
    }
    for (int state = 0; state < HALO_N_REQUEST_STATES; state++)
        if (n_states[state] != requests->n_states[state])
            sim_fail(sim, "count", "%zu requests in state %d, %zu counted", n_states[state], state,
                     requests->n_states[state]);
    if ((int64_t)lines != sim->quota.used[HALO_QUOTA_LINES])
        sim_fail(sim, "quota", "records hold %zu bytes, %" PRId64 " are charged", lines,
                 sim->quota.used[HALO_QUOTA_LINES]);
    if ((int64_t)queued != sim->quota.used[HALO_QUOTA_QUEUED])
        sim_fail(sim, "quota", "%zu requests are queued, %" PRId64 " are charged", queued,
                 sim->quota.used[HALO_QUOTA_QUEUED]);
    if (n_waiting > sim->report->most_waiting)
        sim->report->most_waiting = n_waiting;
}

/* What the accounts say in all is what they say one by one, and within the limits. */
static void check_accounts(struct sim *sim)
{
    int64_t sums[HALO_N_QUOTA_KINDS] = {0};
    size_t n_users = 0;
    for (const struct halo_quota_user *user = sim->quota.users; user; user = user->next, n_users++)
        for (int kind = 0; kind < HALO_N_QUOTA_KINDS; kind++)
            sums[kind] += user->used[kind];
    for (int kind = 0; kind < HALO_N_QUOTA_KINDS; kind++)
        if (sums[kind] != sim->quota.used[kind])
            sim_fail(sim, "quota", "the accounts of kind %d add up to %" PRId64 ", not %" PRId64, kind, sums[kind],
                     sim->quota.used[kind]);
    if (n_users > MOST_USERS)
        sim_fail(sim, "leak", "%zu accounts of %d users", n_users, MOST_USERS);
}

/* Records: each connection's open ones, and those that were given up by their clients and are ending in the engine,
 * which hold at least a line each. Output: what each user may leave, and what a connection may have above its mark. */
static void check_memory(struct sim *sim)
{
    const struct halo_config *config = &sim->config;
    size_t n = sim->requests.all.n, inbox = sim->engine.inbox_len + sim->engine.out.len;
    int64_t most = SIM_CONNS * config->open_requests + config->resume_bytes / SIM_LEAST_LINE + SIM_MODELS;
    int64_t most_output = config->output_bytes + SIM_CONNS * (config->output_high_bytes + SIM_MOST_EVENT);
    if (n > sim->report->most_records)
        sim->report->most_records = n;
    if (inbox > sim->report->most_inbox_bytes)
        sim->report->most_inbox_bytes = inbox;
    if ((int64_t)n > most)
        sim_fail(sim, "memory", "%zu records, at most %" PRId64 " are expected", n, most);
    if (sim->quota.used[HALO_QUOTA_OUTPUT] > most_output)
        sim_fail(sim, "memory", "%" PRId64 " bytes unread, at most %" PRId64 " are expected",
                 sim->quota.used[HALO_QUOTA_OUTPUT], most_output);
}

void sim_check(struct sim *sim)
{
    sim->report->n_stimuli++;
    check_clients(sim);
    check_records(sim);
    check_accounts(sim);
    check_memory(sim);
    const struct halo_breaker *breaker = &sim->requests.breaker;
    if ((int64_t)sim->engine.n_mute >= sim->config.breaker_deaths && !breaker->open)
        sim_fail(sim, "breaker", "%u engines died in a row without a word, and the breaker is closed",
                 sim->engine.n_mute);
}
