/* requests.c: the object, and what its owner tells it. */
#include <serve/request/requests.h>

#include <assert.h>
#include <stdio.h>

#include <base/log.h>

#include "answer_priv.h"
#include "dispatch_priv.h"
#include "link_priv.h"
#include "order_priv.h"
#include "query_priv.h"
#include "reload_priv.h"
#include "table_priv.h"

#define LOG_LINES_PER_S 50 /* that clients and the engine cause */

void halo_requests_init(struct halo_requests *requests, const struct halo_config *config, struct halo_quota *quota,
                        struct halo_counters *counters, const struct halo_requests_ops *ops, void *ud, uint64_t now_ns)
{
    *requests = (struct halo_requests){.config = config,
                                       .quota = quota,
                                       .counters = counters,
                                       .ops = ops,
                                       .ud = ud,
                                       .started_ns = now_ns,
                                       .now_ns = now_ns,
                                       .accepts = true,
                                       .next_ns = UINT64_MAX,
                                       .log_limit.n_per_s = LOG_LINES_PER_S};
    halo_list_init(&requests->all);
    halo_list_init(&requests->waiting);
    halo_list_init(&requests->touched);
    halo_json_init(&requests->scratch);
}

void halo_requests_finish(struct halo_requests *requests)
{
    assert(!requests->all.first && !requests->touched.first);
    halo_known_models_finish(&requests->models);
    halo_json_finish(&requests->scratch);
}

/* ---- clients ---- */

void halo_requests_client_slow(struct halo_requests *requests, struct halo_client *client, bool slow, uint64_t now_ns)
{
    requests->now_ns = now_ns;
    client->slow = slow;
    for (struct halo_list_node *node = client->requests.first; node; node = node->next)
        halo_request_pause(requests, HALO_LIST_ITEM(node, struct halo_request, open), slow);
}

void halo_requests_client_stalled(struct halo_requests *requests, struct halo_client *client, uint64_t now_ns)
{
    requests->now_ns = now_ns;
    while (client->requests.first) {
        struct halo_request *request = HALO_LIST_ITEM(client->requests.first, struct halo_request, open);
        /* The terminal event first, then the engine: abandon may free the record. */
        halo_answer_late(request, HALO_ERROR_CLIENT_STALLED, HALO_NUMBERS({"stall_ms", requests->config->stall_ms}),
                         "the client did not read its events for too long; read faster or ask for less");
        halo_request_abandon(requests, request);
    }
}

void halo_requests_client_gone(struct halo_requests *requests, struct halo_client *client, uint64_t now_ns)
{
    requests->now_ns = now_ns;
    assert(client->closed);
    if (client->requests.first)
        requests->counters->disconnects++;
    while (client->requests.first)
        halo_request_abandon(requests, HALO_LIST_ITEM(client->requests.first, struct halo_request, open));
}

/* ---- the engine ---- */

void halo_requests_engine_up(struct halo_requests *requests, struct halo_json *out, uint64_t now_ns)
{
    requests->now_ns = now_ns;
    halo_link_move(&requests->link, HALO_LINK_LOADING);
    requests->link.out = out;
    requests->link.known = true;
    halo_query_engine_known(requests);
    halo_reload_begin(requests);
}

void halo_requests_engine_left(struct halo_requests *requests)
{
    halo_link_move(&requests->link, HALO_LINK_DOWN);
    requests->link.out = NULL;
}

void halo_requests_close_breaker(struct halo_requests *requests, const char *why)
{
    char text[128];
    if (!requests->breaker.open)
        return;
    halo_log(HALO_LOG_INFO, "starting an engine again: %s", why);
    snprintf(text, sizeof(text), "starting an engine again after %u deaths in a row", requests->breaker.n_vain);
    requests->ops->status(requests->ud, text);
    halo_breaker_close(&requests->breaker, requests->config);
    requests->ops->breaker_closed(requests->ud);
}

/* ---- time ---- */

void halo_requests_dispatch(struct halo_requests *requests, uint64_t now_ns)
{
    requests->now_ns = now_ns;
    halo_dispatch_waiting(requests);
}

void halo_requests_end_all(struct halo_requests *requests, enum halo_error code, const char *message, uint64_t now_ns)
{
    struct halo_request *request;
    requests->now_ns = now_ns;
    while ((request = halo_request_first(requests))) {
        halo_answer_failed(request, code, "%s", message);
        halo_request_end(requests, request);
    }
}

/* ---- what others read ---- */

size_t halo_requests_n_queued(const struct halo_requests *requests)
{
    return requests->n_states[HALO_REQUEST_WAITING] + requests->n_states[HALO_REQUEST_SENT];
}

size_t halo_requests_n_running(const struct halo_requests *requests)
{
    return requests->n_states[HALO_REQUEST_RUNNING] + requests->n_states[HALO_REQUEST_CANCELLING];
}
