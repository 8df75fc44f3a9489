/* answer.c: events that the daemon itself writes. */
#include <serve/answer.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include <base/clock.h>

#define MESSAGE_BYTES 1024

void halo_answer(struct halo_peer *peer, const struct halo_ev *ev)
{
    if (peer->state == HALO_PEER_CLOSED)
        return;
    int r = halo_ev_encode(&peer->sink.pending, ev);
    if (r == -EMSGSIZE) { /* what the engine told about itself is in it */
        struct halo_ev error;
        halo_ev_init_error(&error, &ev->id, HALO_ERROR_UNSUPPORTED, "the answer is larger than an answer may be");
        r = halo_ev_encode(&peer->sink.pending, &error);
    }
    if (r < 0)
        halo_peer_break(peer);
    else
        halo_peer_mark(peer);
}

void halo_answer_error(struct halo_peer *peer, const struct halo_id *id, enum halo_error code, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    struct halo_ev ev;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    peer->daemon->counters.requests_refused++;
    halo_ev_init_error(&ev, id, code, message);
    halo_answer(peer, &ev);
}

void halo_answer_refusal(struct halo_peer *peer, const struct halo_refusal *refusal)
{
    peer->daemon->counters.requests_refused++;
    if (peer->state == HALO_PEER_CLOSED)
        return;
    if (halo_refusal_encode(&peer->sink.pending, refusal) < 0)
        halo_peer_break(peer);
    else
        halo_peer_mark(peer);
}

void halo_answer_terminal(struct halo_request *request, struct halo_ev *ev)
{
    struct halo_peer *peer = request->peer;
    assert(halo_ev_is_terminal(ev->type));
    if (!peer)
        return;
    ev->id = request->client_id;
    halo_peer_detach(request);
    halo_answer(peer, ev);
}

void halo_answer_failed(struct halo_request *request, enum halo_error code, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    struct halo_ev ev;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    halo_ev_init_error(&ev, &request->client_id, code, message);
    halo_answer_terminal(request, &ev);
}

void halo_answer_ended(struct halo_request *request, enum halo_wire_finish reason)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &request->client_id);
    ev.done.finish_reason = reason;
    ev.done.tokens = (int64_t)request->n_tokens;
    ev.done.has_queue_ms = request->dispatched_ns == 0;
    ev.done.queue_ms = (double)(halo_clock_ns() - request->arrived_ns) / 1e6;
    halo_answer_terminal(request, &ev);
}
