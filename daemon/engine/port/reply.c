/* reply.c: from the records of a sequence's ring to the lines of its request.
 *
 * Port thread. When the output is full the records stay in the ring; the ring fills, and the sequence leaves the batch
 * by itself.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port_priv.h"

static bool wants_ids(const struct halo_request *request)
{
    return request->msg.generate.emit_token_ids || request->msg.generate.logprobs > 0;
}

void halo_port_submit(struct halo_port *port, struct halo_request *request)
{
    struct halo_sequence *sequence = request->sequence;
    sequence->request = request;
    sequence->model = request->model;
    atomic_store(&sequence->hold, atomic_load(&request->hold));
    if (request->msg.type == HALO_MSG_GENERATE && request->msg.generate.has_resume)
        request->started = request->msg.generate.resume.started;
    halo_request_move(request, HALO_REQUEST_DEVICE);
    halo_note_post(&port->device.box, &sequence->note, HALO_NOTE_SEQUENCE, sequence);
}

/* ---- events ---- */

static void put_started(struct halo_port *port, struct halo_request *request, int64_t n_cached)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_STARTED, &request->msg.id);
    ev.started.model = halo_str_of(request->model->name);
    ev.started.prompt_tokens = request->sequence->n_prompt;
    ev.started.cached_tokens = n_cached;
    ev.started.prompt_md5 = halo_str_of(request->prompt_md5);
    ev.started.effective_md5 = halo_str_of(request->effective_md5);
    ev.started.newline_runs = (int64_t)request->newline_runs;
    ev.started.seed = (int64_t)request->seed;
    ev.started.context = request->model->context;
    ev.started.changes.at = request->changes;
    ev.started.changes.n = request->n_changes;
    halo_port_put(port, &ev);
}

static bool keep_text(struct halo_request *request, const char *bytes, size_t n)
{
    if (request->n_text + n > request->text_capacity) {
        size_t capacity = 2 * (request->n_text + n) + 256;
        char *text = realloc(request->text, capacity);
        if (!text)
            return false;
        request->text = text;
        request->text_capacity = capacity;
    }
    memcpy(request->text + request->n_text, bytes, n);
    request->n_text += n;
    return true;
}

static void put_text(struct halo_port *port, struct halo_request *request, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    if (!request->msg.generate.stream) {
        if (!keep_text(request, bytes, n) && request->fault.code == HALO_FAULT_NONE) {
            halo_fault_set(&request->fault, HALO_FAULT_OUT_OF_MEMORY,
                           "no memory for a reply of %zu bytes; ask for it with `stream`", request->n_text + n);
            atomic_store(&request->sequence->cancel, true);
            halo_device_thread_kick(&port->device);
        }
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_TOKEN, &request->msg.id);
    ev.token.text = (struct halo_str){bytes, n};
    halo_port_put(port, &ev);
}

/* `started`, and the text that was lost on the way before a resume. */
static void begin(struct halo_port *port, struct halo_request *request, int64_t n_cached)
{
    const struct halo_sequence *sequence = request->sequence;
    if (request->msg.type != HALO_MSG_GENERATE)
        return;
    if (!request->started)
        put_started(port, request, n_cached < sequence->n_prompt ? n_cached : sequence->n_prompt);
    request->started = true;
    if (!request->replayed)
        put_text(port, request, sequence->replay, sequence->n_replay);
    request->replayed = true;
}

static void put_progress(struct halo_port *port, struct halo_request *request, const struct halo_event *event)
{
    if (request->msg.type != HALO_MSG_GENERATE)
        return; /* a score shows its rows */
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PROGRESS, &request->msg.id);
    ev.progress.phase = event->kind == HALO_EVENT_QUEUE ? HALO_WIRE_PHASE_QUEUE : HALO_WIRE_PHASE_PREFILL;
    ev.progress.done = event->a;
    ev.progress.total = event->b;
    halo_port_put(port, &ev);
}

static struct halo_top_list tops_of(const struct halo_event *event, struct halo_top *out)
{
    for (uint32_t i = 0; i < event->n_top; i++)
        out[i] = (struct halo_top){halo_event_tops(event)[i].tok_id, halo_event_tops(event)[i].logprob};
    return (struct halo_top_list){out, event->n_top};
}

static void put_committed(struct halo_port *port, struct halo_request *request, const struct halo_event *event)
{
    if (!wants_ids(request))
        return;
    struct halo_top tops[HALO_LIMIT_LOGPROBS];
    const struct halo_sequence *sequence = request->sequence;
    struct halo_ev ev;
    assert(event->n_top <= HALO_LIMIT_LOGPROBS);
    halo_ev_init(&ev, HALO_EV_COMMITTED, &request->msg.id);
    ev.committed.tok_id = event->tok_id;
    ev.committed.pos = event->a;
    ev.committed.t_ms = (double)(event->t_ns - sequence->started_ns + sequence->elapsed_ns) / 1e6;
    ev.committed.has_logprob = event->has_logprob != 0;
    ev.committed.logprob = event->logprob;
    ev.committed.top = tops_of(event, tops);
    halo_port_put(port, &ev);
}

static void put_loop(struct halo_port *port, struct halo_request *request, const struct halo_event *event)
{
    const struct halo_cycle *loop = &request->sequence->loop;
    struct halo_ev ev;
    char message[128];
    halo_ev_init(&ev, HALO_EV_NOTICE, &request->msg.id);
    ev.notice.has_start = ev.notice.has_period = ev.notice.has_repeats = true;
    ev.notice.start = event->a;
    ev.notice.period = (int64_t)loop->period;
    ev.notice.repeats = (int64_t)(loop->n_ids / loop->period);
    snprintf(message, sizeof(message),
             "from token %lld on the reply goes round in a cycle of %zu tokens, %zu times so far", (long long)event->a,
             loop->period, loop->n_ids / loop->period);
    ev.notice.code = halo_str_of("loop_detected");
    ev.notice.message = halo_str_of(message);
    halo_port_put(port, &ev);
}

static void put_row(struct halo_port *port, struct halo_request *request, const struct halo_event *event)
{
    struct halo_top tops[HALO_LIMIT_SCORE_TOP];
    struct halo_ev ev;
    assert(event->n_top <= HALO_LIMIT_SCORE_TOP);
    halo_ev_init(&ev, HALO_EV_SCORE_ROW, &request->msg.id);
    ev.score_row.pos = event->a;
    ev.score_row.tok_id = event->tok_id;
    ev.score_row.has_logprob = event->has_logprob != 0;
    ev.score_row.logprob = event->logprob;
    ev.score_row.top = tops_of(event, tops);
    halo_port_put(port, &ev);
}

static void put_event(struct halo_port *port, struct halo_request *request, const struct halo_event *event)
{
    switch (event->kind) {
    case HALO_EVENT_STARTED: begin(port, request, event->a); break;
    case HALO_EVENT_QUEUE:
    case HALO_EVENT_PREFILL: put_progress(port, request, event); break;
    case HALO_EVENT_COMMITTED: put_committed(port, request, event); break;
    case HALO_EVENT_TEXT: put_text(port, request, halo_event_text(event), event->n_text); break;
    case HALO_EVENT_ROW: put_row(port, request, event); break;
    case HALO_EVENT_LOOP: put_loop(port, request, event); break;
    case HALO_EVENT_SKIP: assert(!"the ring keeps these to itself");
    }
}

/* ---- the end ---- */

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

#define SET_NUL(part, name, condition, value)                                                                          \
    do {                                                                                                               \
        (part).has_##name = (condition);                                                                               \
        (part).name = (part).has_##name ? (value) : 0;                                                                 \
    } while (0)

static void fill_rates(struct halo_ev_done *done, const struct halo_sequence *s)
{
    uint32_t n_reply = s->n_ids - s->n_prompt, n_here = n_reply - s->n_resumed;
    uint32_t n_cached = s->n_cached < s->n_prompt ? s->n_cached : s->n_prompt;
    double prefill_ms = ms_between(s->started_ns, s->prefilled_ns),
           decode_ms = ms_between(s->first_token_ns, s->last_token_ns);
    double total_ms = ms_between(s->arrived_ns, s->ended_ns);
    bool prefilled = s->prefilled_ns > 0;
    SET_NUL(*done, prefill_ms, prefilled, prefill_ms);
    SET_NUL(*done, prefill_tok_s, prefilled && prefill_ms > 0,
            (s->n_prompt + s->n_resumed - s->n_cached) * 1e3 / prefill_ms);
    SET_NUL(*done, ttft_ms, s->first_token_ns > 0, ms_between(s->arrived_ns, s->first_token_ns));
    SET_NUL(*done, decode_tok_s, n_here > 1 && decode_ms > 0, (n_here - 1) * 1e3 / decode_ms);
    SET_NUL(*done, tok_s, n_here > 0 && total_ms > 0, n_here * 1e3 / total_ms);
    SET_NUL(*done, queue_ms, s->started_ns > 0, ms_between(s->arrived_ns, s->started_ns));
    done->tokens = n_reply;
    done->prefill_tokens = (prefilled ? s->n_prompt : s->n_filled > n_cached ? s->n_filled : n_cached) - n_cached;
    done->cached_tokens = n_cached;
}

static void end_generate(struct halo_port *port, struct halo_request *request)
{
    const struct halo_sequence *s = request->sequence;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &request->msg.id);
    fill_rates(&ev.done, s);
    switch (s->outcome) {
    case HALO_OUTCOME_STOP_TOKEN:
        ev.done.finish_reason = HALO_WIRE_FINISH_STOP;
        ev.done.stop = halo_id_of(s->stop_token);
        ev.done.has_stop = true;
        break;
    case HALO_OUTCOME_STOP_STRING:
        ev.done.finish_reason = HALO_WIRE_FINISH_STOP;
        assert(s->text.stopped_by >= 0 && (size_t)s->text.stopped_by < request->msg.generate.stop.n);
        ev.done.stop = halo_id_of_str(request->msg.generate.stop.at[s->text.stopped_by]);
        ev.done.has_stop = true;
        break;
    case HALO_OUTCOME_CANCELLED: ev.done.finish_reason = HALO_WIRE_FINISH_CANCELLED; break;
    case HALO_OUTCOME_DEADLINE: ev.done.finish_reason = HALO_WIRE_FINISH_DEADLINE; break;
    default: ev.done.finish_reason = HALO_WIRE_FINISH_LENGTH; break;
    }
    if (!request->msg.generate.stream) {
        ev.done.text = (struct halo_str){request->text ? request->text : "", request->n_text};
        ev.done.has_text = true;
    }
    halo_request_end(port, request, &ev);
}

static void end_score(struct halo_port *port, struct halo_request *request)
{
    const struct halo_sequence *s = request->sequence;
    if (s->outcome == HALO_OUTCOME_CANCELLED) {
        halo_request_end_cancelled(port, request);
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_SCORED, &request->msg.id);
    ev.scored.tokens = s->n_prompt;
    SET_NUL(ev.scored, nll, s->n_nll > 0, s->nll_sum / s->n_nll);
    halo_request_end(port, request, &ev);
}

static void end(struct halo_port *port, struct halo_request *request)
{
    struct halo_sequence *s = request->sequence;
    if (request->fault.code != HALO_FAULT_NONE)
        halo_request_end_fault(port, request, &request->fault);
    else if (s->outcome == HALO_OUTCOME_FAULT)
        halo_request_end_fault(port, request, &s->fault);
    else if (s->kind == HALO_SEQUENCE_SCORE)
        end_score(port, request);
    else
        end_generate(port, request);
}

void halo_port_take_events(struct halo_port *port, struct halo_request *request)
{
    struct halo_sequence *sequence = request->sequence;
    const struct halo_event *event;
    request->blocked = false;
    while ((event = halo_ring_peek(&sequence->ring))) {
        if (halo_port_is_full(port)) {
            request->blocked = true;
            return;
        }
        put_event(port, request, event);
        halo_ring_pop(&sequence->ring);
    }
    if (request->finished) {
        if (sequence->n_resumed > 0 && sequence->outcome != HALO_OUTCOME_FAULT)
            begin(port, request, 0); /* complete before it was resumed: it never got as far as a batch */
        end(port, request);
        return;
    }
    if (atomic_exchange(&sequence->stalled, false))
        halo_device_thread_kick(&port->device);
}

void halo_port_resume_blocked(struct halo_port *port)
{
    for (struct halo_request *request = port->requests, *next; request; request = next) {
        next = request->next;
        if (halo_port_is_full(port))
            return;
        if (request->blocked)
            halo_port_take_events(port, request);
    }
}
