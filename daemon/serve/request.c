/* request.c: request records: lists, states, what is kept for a restart. */
#include <serve/request.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/state.h>

#define BIT(state) HALO_STATE_BIT(HALO_REQUEST_##state)

/* From each state, the states that may follow. Back to WAITING: the engine died and the request is to run again. */
static const unsigned moves[HALO_N_REQUEST_STATES] = {
    [HALO_REQUEST_WAITING] = BIT(SENT) | BIT(ENDED),
    [HALO_REQUEST_SENT] = BIT(RUNNING) | BIT(CANCELLING) | BIT(WAITING) | BIT(ENDED),
    [HALO_REQUEST_RUNNING] = BIT(CANCELLING) | BIT(WAITING) | BIT(ENDED),
    [HALO_REQUEST_CANCELLING] = BIT(ENDED),
    [HALO_REQUEST_ENDED] = 0,
};

bool halo_request_is_query(enum halo_msg_type type)
{
    return type == HALO_MSG_HELLO || type == HALO_MSG_STATUS || type == HALO_MSG_STATS;
}

static void count(struct halo_requests *table, const struct halo_request *request, int by)
{
    if (!halo_request_is_query(request->type))
        table->n_states[request->state] += (size_t)by;
}

void halo_requests_init(struct halo_requests *table, struct halo_quota *quota)
{
    *table = (struct halo_requests){.quota = quota};
    table->wait_last = &table->wait_first;
}

void halo_requests_finish(struct halo_requests *table)
{
    assert(table->n_open == 0 && !table->wait_first);
}

uint64_t halo_requests_next_id(struct halo_requests *table)
{
    return ++table->last_id;
}

/* By age: those that come back after a death stand before younger ones. */
static void wait_push(struct halo_requests *table, struct halo_request *request)
{
    struct halo_request **at = request->id == table->last_id ? table->wait_last : &table->wait_first;
    while (*at && (*at)->id < request->id)
        at = &(*at)->wait_next;
    request->wait_next = *at;
    request->wait_link = at;
    if (*at)
        (*at)->wait_link = &request->wait_next;
    else
        table->wait_last = &request->wait_next;
    *at = request;
}

static void wait_remove(struct halo_requests *table, struct halo_request *request)
{
    *request->wait_link = request->wait_next;
    if (request->wait_next)
        request->wait_next->wait_link = request->wait_link;
    else
        table->wait_last = request->wait_link;
    request->wait_link = NULL;
}

struct halo_request *halo_request_create(struct halo_requests *table, enum halo_msg_type type,
                                         const struct halo_id *client_id)
{
    struct halo_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->id = halo_requests_next_id(table);
    request->type = type;
    request->phase = "queued";
    request->client_id = *client_id;
    if (client_id->kind == HALO_ID_STR) {
        assert(client_id->str.len <= HALO_LIMIT_ID_BYTES);
        memcpy(request->client_id_text, client_id->str.at, client_id->str.len);
        request->client_id.str.at = request->client_id_text;
    }
    request->arrived_ns = halo_clock_ns();
    request->expires_ns = UINT64_MAX;
    struct halo_request **bucket = &table->buckets[request->id % HALO_REQUEST_BUCKETS];
    request->bucket_next = *bucket;
    *bucket = request;
    table->n_open++;
    count(table, request, 1);
    wait_push(table, request);
    return request;
}

void halo_request_destroy(struct halo_requests *table, struct halo_request *request)
{
    assert(!request->peer && !request->peer_link);
    if (request->wait_link)
        wait_remove(table, request);
    struct halo_request **at = &table->buckets[request->id % HALO_REQUEST_BUCKETS];
    while (*at != request)
        at = &(*at)->bucket_next;
    *at = request->bucket_next;
    table->n_open--;
    count(table, request, -1);
    if (request->user) {
        halo_quota_give_back(table->quota, request->user, request->charged_bytes);
        halo_quota_release(table->quota, request->user);
    }
    free(request->needs);
    free(request->reload_model);
    free(request->model);
    free(request->print);
    free(request->tokens);
    free(request->line);
    free(request);
}

struct halo_request *halo_request_find(const struct halo_requests *table, uint64_t id)
{
    struct halo_request *request = table->buckets[id % HALO_REQUEST_BUCKETS];
    while (request && request->id != id)
        request = request->bucket_next;
    return request;
}

bool halo_request_may_move(enum halo_request_state from, enum halo_request_state to)
{
    return halo_state_may_move(moves, from, to);
}

void halo_request_move(struct halo_requests *table, struct halo_request *request, enum halo_request_state to)
{
    assert(halo_request_may_move(request->state, to));
    if (request->wait_link)
        wait_remove(table, request);
    count(table, request, -1);
    request->state = to;
    count(table, request, 1);
    if (to == HALO_REQUEST_WAITING)
        wait_push(table, request);
}

int halo_request_keep_line(struct halo_requests *table, struct halo_request *request, struct halo_quota_user *user,
                           const char *line, size_t len)
{
    assert(!request->line && !request->user);
    int r = halo_quota_charge(table->quota, user, len);
    if (r != 0)
        return r;
    request->line = malloc(len + 1);
    if (!request->line) {
        halo_quota_give_back(table->quota, user, len);
        return -ENOMEM;
    }
    memcpy(request->line, line, len);
    request->line[len] = '\0';
    request->line_len = len;
    request->user = halo_quota_ref(user);
    request->charged_bytes = len;
    return 0;
}

static int grow_tokens(struct halo_requests *table, struct halo_request *request)
{
    size_t cap = request->tokens_cap > 0 ? request->tokens_cap * 2 : 64;
    size_t more_bytes = (cap - request->tokens_cap) * sizeof(*request->tokens);
    if (request->user && halo_quota_charge(table->quota, request->user, more_bytes) != 0)
        return -ENOMEM;
    int32_t *grown = realloc(request->tokens, cap * sizeof(*grown));
    if (!grown) {
        if (request->user)
            halo_quota_give_back(table->quota, request->user, more_bytes);
        return -ENOMEM;
    }
    request->tokens = grown;
    request->tokens_cap = cap;
    if (request->user)
        request->charged_bytes += more_bytes;
    return 0;
}

bool halo_request_has_begun(const struct halo_request *request)
{
    return request->started_ns != 0 || request->score.next > request->score.from;
}

void halo_request_note_death(struct halo_request *request)
{
    request->n_deaths = request->progressed ? 0 : request->n_deaths + 1;
    request->progressed = request->paused = request->order_due = false;
    request->died = true;
    request->phase = "queued";
}

void halo_request_note_token(struct halo_requests *table, struct halo_request *request, int32_t tok_id)
{
    request->progressed = true;
    if (!request->record_lost && request->n_tokens == request->tokens_cap && grow_tokens(table, request) < 0)
        request->record_lost = true;
    if (!request->record_lost)
        request->tokens[request->n_tokens] = tok_id;
    request->n_tokens++; /* counted even when the ids are not kept: `done` of a cancelled request reports it */
}

struct halo_request *halo_requests_next(const struct halo_requests *table, const struct halo_request *request)
{
    size_t i = 0;
    if (request) {
        if (request->bucket_next)
            return request->bucket_next;
        i = request->id % HALO_REQUEST_BUCKETS + 1;
    }
    for (; i < HALO_REQUEST_BUCKETS; i++)
        if (table->buckets[i])
            return table->buckets[i];
    return NULL;
}
