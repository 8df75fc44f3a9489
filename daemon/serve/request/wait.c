/* wait.c: time limits of requests that wait here. */
#include "wait_priv.h"

#include "answer_priv.h"

#define MS 1000000ull

void halo_request_expire_at(struct halo_requests *requests, struct halo_request *request, uint64_t at_ns)
{
    request->expires_ns = at_ns;
    if (at_ns < requests->next_ns)
        requests->next_ns = at_ns;
}

int64_t halo_request_left_ms(const struct halo_request *request, uint64_t now_ns)
{
    return request->deadline_ms == 0 ? INT64_MAX
                                     : request->deadline_ms - (int64_t)((now_ns - request->arrived_ns) / MS);
}

void halo_request_wait(struct halo_requests *requests, struct halo_request *request)
{
    int64_t left_ms = halo_request_left_ms(request, requests->now_ns), wait_ms = requests->config->wait_ms;
    if (left_ms < wait_ms)
        wait_ms = left_ms > 0 ? left_ms : 0;
    halo_request_expire_at(requests, request, requests->now_ns + (uint64_t)wait_ms * MS);
}

void halo_request_late(struct halo_request *request, uint64_t now_ns)
{
    if (request->n_tokens > 0)
        halo_answer_ended(request, HALO_WIRE_FINISH_DEADLINE, now_ns);
    else
        halo_answer_late(request, HALO_ERROR_DEADLINE, HALO_NUMBERS({"deadline_ms", request->deadline_ms}),
                         "the deadline of %lld ms passed while the request waited for the engine",
                         (long long)request->deadline_ms);
}
