/* query.c: hello, status and stats on their way to the engine and back. */
#include "query_priv.h"

#include <base/log.h>
#include <protocol/message.h>

#include "answer_priv.h"
#include "table_priv.h"
#include "wait_priv.h"

#define MS 1000000ull

void halo_query_answer(struct halo_requests *requests, struct halo_request *request, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev said;
    bool heard = line && halo_ev_decode(&said, line, len, 0, &refusal) == 0;
    if (line && !heard)
        halo_log_limited(&requests->log_limit, HALO_LOG_WARN, "the engine's answer to %s cannot be used: %s",
                         halo_msg_type_name(request->type), refusal.message);
    if (request->client)
        requests->ops->query(requests->ud, request, heard ? &said : NULL);
    if (heard)
        halo_ev_finish(&said);
    halo_request_end(requests, request);
}

static int ask_engine(struct halo_requests *requests, struct halo_request *request)
{
    struct halo_msg msg;
    if (!requests->link.out)
        return -1;
    halo_msg_init(&msg, request->type);
    msg.id = halo_id_of((int64_t)request->id);
    if (halo_msg_encode(requests->link.out, &msg) < 0)
        return -1;
    halo_request_move(requests, request, HALO_REQUEST_SENT);
    return 0;
}

void halo_query_begin(struct halo_requests *requests, struct halo_client *client, enum halo_msg_type type,
                      const struct halo_id *id)
{
    struct halo_request *request = halo_request_create(requests, client, type, id);
    if (!request) {
        halo_answer_error(requests, client, id, HALO_ERROR_OUT_OF_MEMORY, "the daemon has no memory for this request");
        return;
    }
    /* The first hello may come before the engine's: it is worth a moment, the client wants to know the features. */
    bool waits =
        type == HALO_MSG_HELLO ? !requests->link.known && !requests->breaker.open : ask_engine(requests, request) == 0;
    if (waits)
        halo_request_expire_at(requests, request, requests->now_ns + (uint64_t)requests->config->status_ms * MS);
    else
        halo_query_answer(requests, request, NULL, 0);
}

void halo_query_engine_known(struct halo_requests *requests)
{
    struct halo_request *request = halo_request_first_waiting(requests), *next;
    for (; request; request = next) {
        next = halo_request_next_waiting(request);
        if (request->type == HALO_MSG_HELLO)
            halo_query_answer(requests, request, NULL, 0);
    }
}
