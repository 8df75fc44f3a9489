/* answer.c: events that the daemon itself writes to a client. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "answer_priv.h"
#include "table_priv.h"

#define MESSAGE_BYTES 1024

static void written(struct halo_client *client, int r)
{
    if (r < 0)
        halo_client_break(client);
    else
        halo_client_touch(client);
}

void halo_answer(struct halo_client *client, const struct halo_ev *ev)
{
    if (client->closed)
        return;
    int r = halo_ev_encode(client->out, ev);
    if (r == -EMSGSIZE) { /* what the engine told about itself is in it */
        struct halo_ev error;
        halo_ev_init_error(&error, &ev->id, HALO_ERROR_UNSUPPORTED, "the answer is larger than one event may be");
        r = halo_ev_encode(client->out, &error);
    }
    written(client, r);
}

__attribute__((format(printf, 6, 0))) static void answer_error(struct halo_requests *requests,
                                                               struct halo_client *client, const struct halo_id *id,
                                                               enum halo_error code, struct halo_numbers numbers,
                                                               const char *format, va_list args)
{
    char message[MESSAGE_BYTES], detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;
    vsnprintf(message, sizeof(message), format, args);
    requests->counters->requests_refused++;
    halo_ev_init_error(&ev, id, code, message);
    halo_ev_set_detail(&ev, numbers, detail);
    halo_answer(client, &ev);
}

void halo_answer_error(struct halo_requests *requests, struct halo_client *client, const struct halo_id *id,
                       enum halo_error code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer_error(requests, client, id, code, (struct halo_numbers){0}, format, args);
    va_end(args);
}

void halo_answer_limit(struct halo_requests *requests, struct halo_client *client, const struct halo_id *id,
                       enum halo_error code, struct halo_numbers numbers, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer_error(requests, client, id, code, numbers, format, args);
    va_end(args);
}

void halo_requests_refuse(struct halo_requests *requests, struct halo_client *client, enum halo_error code,
                          struct halo_numbers numbers, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer_error(requests, client, NULL, code, numbers, format, args);
    va_end(args);
}

void halo_answer_refusal(struct halo_requests *requests, struct halo_client *client, const struct halo_refusal *refusal)
{
    requests->counters->requests_refused++;
    if (!client->closed)
        written(client, halo_refusal_encode(client->out, refusal));
}

void halo_answer_terminal(struct halo_request *request, struct halo_ev *ev)
{
    struct halo_client *client = request->client;
    assert(halo_ev_is_terminal(ev->type));
    if (!client)
        return;
    ev->id = request->client_id;
    halo_request_detach(request);
    halo_answer(client, ev);
}

__attribute__((format(printf, 4, 0))) static void answer_failed(struct halo_request *request, enum halo_error code,
                                                                struct halo_numbers numbers, const char *format,
                                                                va_list args)
{
    char message[MESSAGE_BYTES], detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;
    vsnprintf(message, sizeof(message), format, args);
    halo_ev_init_error(&ev, &request->client_id, code, message);
    halo_ev_set_detail(&ev, numbers, detail);
    halo_answer_terminal(request, &ev);
}

void halo_answer_failed(struct halo_request *request, enum halo_error code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer_failed(request, code, (struct halo_numbers){0}, format, args);
    va_end(args);
}

void halo_answer_late(struct halo_request *request, enum halo_error code, struct halo_numbers numbers,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer_failed(request, code, numbers, format, args);
    va_end(args);
}

void halo_answer_ended(struct halo_request *request, enum halo_wire_finish reason, uint64_t now_ns)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &request->client_id);
    ev.done.finish_reason = reason;
    ev.done.tokens = (int64_t)request->n_tokens;
    ev.done.has_queue_ms = request->dispatched_ns == 0;
    ev.done.queue_ms = (double)(now_ns - request->arrived_ns) / 1e6;
    halo_answer_terminal(request, &ev);
}

void halo_requests_breaker_text(const struct halo_requests *requests, char *ret_text, size_t room)
{
    uint64_t left_ms = halo_breaker_left_ms(&requests->breaker, requests->now_ns);
    snprintf(ret_text, room,
             "the engine died %u times in a row without making progress, the last time it %.200s; requests are "
             "refused for %llu s more, `load` tries again at once%s",
             requests->breaker.n_vain, requests->link.reason, (unsigned long long)(left_ms + 999) / 1000,
             requests->ops->death_note(requests->ud, true));
}
