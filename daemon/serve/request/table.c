/* table.c: request records: lists, states, what is kept for a restart. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/state.h>

#include "table_priv.h"

#define BIT(state) HALO_STATE_BIT(HALO_REQUEST_##state)

/* Back to WAITING: the engine died and the request is to run again. */
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

bool halo_request_may_move(enum halo_request_state from, enum halo_request_state to)
{
    return halo_state_may_move(moves, from, to);
}

bool halo_request_has_begun(const struct halo_request *request)
{
    return request->started_ns != 0 || request->score.next > request->score.from;
}

bool halo_request_awaits_output(const struct halo_request *request)
{
    bool in_engine = request->state == HALO_REQUEST_SENT || request->state == HALO_REQUEST_RUNNING;
    return in_engine && !halo_request_has_begun(request);
}

uint64_t halo_requests_next_id(struct halo_requests *requests)
{
    return ++requests->last_id;
}

/* ---- lists ---- */

struct halo_request *halo_request_first(const struct halo_requests *requests)
{
    return HALO_LIST_ITEM(requests->all.first, struct halo_request, all);
}

struct halo_request *halo_request_next(const struct halo_request *request)
{
    return HALO_LIST_ITEM(request->all.next, struct halo_request, all);
}

struct halo_request *halo_request_first_waiting(const struct halo_requests *requests)
{
    return HALO_LIST_ITEM(requests->waiting.first, struct halo_request, waiting);
}

struct halo_request *halo_request_next_waiting(const struct halo_request *request)
{
    return HALO_LIST_ITEM(request->waiting.next, struct halo_request, waiting);
}

/* By age: those that come back after a death stand before younger ones. */
static void wait(struct halo_requests *requests, struct halo_request *request)
{
    struct halo_request *at = request->id == requests->last_id ? NULL : halo_request_first_waiting(requests);
    while (at && at->id < request->id)
        at = halo_request_next_waiting(at);
    halo_list_insert(&requests->waiting, &request->waiting, at ? &at->waiting : NULL);
}

static void count(struct halo_requests *requests, const struct halo_request *request, int by)
{
    if (!halo_request_is_query(request->type))
        requests->n_states[request->state] += (size_t)by;
}

/* Its place in the queue is charged until the engine works on it. */
static void charge_place(struct halo_requests *requests, struct halo_request *request, bool queued)
{
    if (!request->user || request->has_place == queued)
        return;
    request->has_place = queued;
    if (queued)
        halo_quota_add(requests->quota, request->user, HALO_QUOTA_QUEUED, 1);
    else
        halo_quota_give_back(requests->quota, request->user, HALO_QUOTA_QUEUED, 1);
}

void halo_request_move(struct halo_requests *requests, struct halo_request *request, enum halo_request_state to)
{
    halo_list_remove(&request->waiting);
    count(requests, request, -1);
    request->state = halo_state_move(moves, request->state, to);
    count(requests, request, 1);
    charge_place(requests, request, to == HALO_REQUEST_WAITING || to == HALO_REQUEST_SENT);
    if (to == HALO_REQUEST_WAITING)
        wait(requests, request);
}

struct halo_request *halo_request_find(const struct halo_requests *requests, uint64_t id)
{
    struct halo_request *request = requests->buckets[id % HALO_REQUEST_BUCKETS];
    while (request && request->id != id)
        request = request->bucket_next;
    return request;
}

/* ---- lifetime ---- */

struct halo_request *halo_request_create(struct halo_requests *requests, struct halo_client *client,
                                         enum halo_msg_type type, const struct halo_id *client_id)
{
    struct halo_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    *request = (struct halo_request){.id = halo_requests_next_id(requests),
                                     .type = type,
                                     .phase = "queued",
                                     .client = client,
                                     .arrived_ns = requests->now_ns,
                                     .expires_ns = UINT64_MAX};
    if (client)
        request->owner = client->user->uid;
    if (client_id)
        request->client_id = *client_id;
    if (request->client_id.kind == HALO_ID_STR) {
        assert(client_id->str.len <= HALO_LIMIT_ID_BYTES);
        memcpy(request->client_id_text, client_id->str.at, client_id->str.len);
        request->client_id.str.at = request->client_id_text;
    }
    struct halo_request **bucket = &requests->buckets[request->id % HALO_REQUEST_BUCKETS];
    request->bucket_next = *bucket;
    *bucket = request;
    halo_list_append(&requests->all, &request->all);
    if (client)
        halo_list_prepend(&client->requests, &request->open);
    count(requests, request, 1);
    wait(requests, request);
    return request;
}

void halo_request_detach(struct halo_request *request)
{
    struct halo_client *client = request->client;
    if (!client)
        return;
    request->client = NULL;
    halo_list_remove(&request->open);
    halo_client_touch(client); /* a connection that only waits for this answer has nothing more to wait for */
}

void halo_request_destroy(struct halo_requests *requests, struct halo_request *request)
{
    assert(!request->client);
    struct halo_request **at = &requests->buckets[request->id % HALO_REQUEST_BUCKETS];
    while (*at != request)
        at = &(*at)->bucket_next;
    *at = request->bucket_next;
    halo_list_remove(&request->waiting);
    halo_list_remove(&request->all);
    count(requests, request, -1);
    if (request->user) {
        charge_place(requests, request, false);
        halo_quota_give_back(requests->quota, request->user, HALO_QUOTA_LINES, request->charged_bytes);
        halo_quota_release(requests->quota, request->user);
    }
    free(request->needs);
    free(request->reload_model);
    free(request->model);
    free(request->print);
    free(request->tokens);
    free(request->line);
    free(request);
}

void halo_request_end(struct halo_requests *requests, struct halo_request *request)
{
    if (requests->alone == request->id)
        requests->alone = 0;
    if (request->needs || request->model)
        halo_known_models_touch(&requests->models, halo_str_of(request->model ? request->model : request->needs));
    requests->dispatch_due = true; /* not now: the caller may be walking over the records */
    halo_request_move(requests, request, HALO_REQUEST_ENDED);
    halo_request_destroy(requests, request);
}

/* ---- what is kept ---- */

int halo_request_keep_line(struct halo_requests *requests, struct halo_request *request, struct halo_quota_user *user,
                           const char *line, size_t len)
{
    assert(!request->line && !request->user);
    int r = halo_quota_charge(requests->quota, user, HALO_QUOTA_LINES, len);
    if (r != 0)
        return r;
    request->line = strndup(line, len);
    if (!request->line) {
        halo_quota_give_back(requests->quota, user, HALO_QUOTA_LINES, len);
        return -ENOMEM;
    }
    request->line_len = len;
    request->user = halo_quota_ref(user);
    request->charged_bytes = len;
    charge_place(requests, request, true);
    return 0;
}

static int grow_tokens(struct halo_requests *requests, struct halo_request *request)
{
    size_t cap = request->tokens_cap > 0 ? request->tokens_cap * 2 : 64;
    size_t more_bytes = (cap - request->tokens_cap) * sizeof(*request->tokens);
    if (request->user && halo_quota_charge(requests->quota, request->user, HALO_QUOTA_LINES, more_bytes) != 0)
        return -ENOMEM;
    int32_t *grown = realloc(request->tokens, cap * sizeof(*grown));
    if (!grown) {
        if (request->user)
            halo_quota_give_back(requests->quota, request->user, HALO_QUOTA_LINES, more_bytes);
        return -ENOMEM;
    }
    request->tokens = grown;
    request->tokens_cap = cap;
    if (request->user)
        request->charged_bytes += more_bytes;
    return 0;
}

void halo_request_note_token(struct halo_requests *requests, struct halo_request *request, int32_t tok_id)
{
    request->progressed = true;
    if (!request->record_lost && request->n_tokens == request->tokens_cap && grow_tokens(requests, request) < 0)
        request->record_lost = true;
    if (!request->record_lost)
        request->tokens[request->n_tokens] = tok_id;
    request->n_tokens++; /* counted even when the ids are not kept: `done` of a cancelled request reports it */
}

void halo_request_note_death(struct halo_request *request)
{
    request->n_deaths = request->progressed ? 0 : request->n_deaths + 1;
    request->progressed = request->paused = request->order_due = false;
    request->died = true;
    request->phase = "queued";
}
