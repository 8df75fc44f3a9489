/* reply.c: from the records of a sequence's ring to the lines of its request.
 *
 * Port thread. When the output is full the records stay in the ring; the ring fills, and the sequence leaves the batch
 * by itself.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port_priv.h"

static bool wants_ids(const struct halo_job *job)
{
    return job->msg.generate.emit_token_ids || job->msg.generate.logprobs > 0;
}

void halo_port_submit(struct halo_port *port, struct halo_job *job)
{
    struct halo_sequence *sequence = job->sequence;
    sequence->job = job;
    sequence->model = job->model;
    atomic_store(&sequence->hold, atomic_load(&job->hold));
    if (job->msg.type == HALO_MSG_GENERATE && job->msg.generate.has_resume)
        job->started = job->msg.generate.resume.started;
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->device.box, &sequence->note, HALO_NOTE_SEQUENCE);
}

/* ---- events ---- */

static void put_started(struct halo_port *port, struct halo_job *job, int64_t n_cached)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_STARTED, &job->msg.id);
    ev.started.model = halo_str_of(job->model->name);
    ev.started.prompt_tokens = job->sequence->n_prompt;
    ev.started.cached_tokens = n_cached;
    ev.started.prompt_md5 = halo_str_of(job->prompt_md5);
    ev.started.effective_md5 = halo_str_of(job->effective_md5);
    ev.started.newline_runs = (int64_t)job->newline_runs;
    ev.started.seed = (int64_t)job->seed;
    ev.started.context = job->model->context;
    ev.started.changes.at = job->changes;
    ev.started.changes.n = job->n_changes;
    halo_port_put(port, &ev);
}

static bool keep_text(struct halo_job *job, const char *bytes, size_t n)
{
    if (job->n_text + n > job->text_capacity) {
        size_t capacity = 2 * (job->n_text + n) + 256;
        char *text = realloc(job->text, capacity);
        if (!text)
            return false;
        job->text = text;
        job->text_capacity = capacity;
    }
    memcpy(job->text + job->n_text, bytes, n);
    job->n_text += n;
    return true;
}

/* The text of a reply that is not streamed; a reply that becomes too long for one answer ends here. */
static void gather_text(struct halo_port *port, struct halo_job *job, const char *bytes, size_t n)
{
    struct halo_fault *fault = &job->fault;
    if (fault->code != HALO_FAULT_NONE)
        return;
    if (job->n_text + n > HALO_LIMIT_ANSWER_BYTES) {
        halo_fault_set(
            fault, HALO_FAULT_UNSUPPORTED,
            "the reply has %zu bytes and is not finished; an answer has at most %u: ask for it with `stream`",
            job->n_text + n, HALO_LIMIT_ANSWER_BYTES);
        halo_fault_number(fault, "bytes", job->n_text + n);
        halo_fault_number(fault, "limit_bytes", HALO_LIMIT_ANSWER_BYTES);
    } else if (!keep_text(job, bytes, n)) {
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a reply of %zu bytes; ask for it with `stream`",
                       job->n_text + n);
        halo_fault_number(fault, "bytes", job->n_text + n);
    } else {
        return;
    }
    atomic_store(&job->sequence->cancel, true);
    halo_device_thread_kick(&port->device);
}

static void put_text(struct halo_port *port, struct halo_job *job, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    if (!job->msg.generate.stream) {
        gather_text(port, job, bytes, n);
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_TOKEN, &job->msg.id);
    ev.token.text = (struct halo_str){bytes, n};
    halo_port_put(port, &ev);
}

/* `started`, and the text that was lost on the way before a resume. */
static void begin(struct halo_port *port, struct halo_job *job, int64_t n_cached)
{
    const struct halo_sequence *sequence = job->sequence;
    if (job->msg.type != HALO_MSG_GENERATE)
        return;
    if (!job->started)
        put_started(port, job, n_cached < sequence->n_prompt ? n_cached : sequence->n_prompt);
    job->started = true;
    if (!job->replayed)
        put_text(port, job, sequence->replay, sequence->n_replay);
    job->replayed = true;
}

static void put_progress(struct halo_port *port, struct halo_job *job, const struct halo_ring_event *event)
{
    if (job->msg.type != HALO_MSG_GENERATE)
        return; /* a score shows its rows */
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PROGRESS, &job->msg.id);
    ev.progress.phase = event->kind == HALO_RING_QUEUE ? HALO_WIRE_PHASE_QUEUE : HALO_WIRE_PHASE_PREFILL;
    ev.progress.done = event->a;
    ev.progress.total = event->b;
    halo_port_put(port, &ev);
}

static struct halo_top_list tops_of(const struct halo_ring_event *event, struct halo_top *out)
{
    for (uint32_t i = 0; i < event->n_top; i++)
        out[i] = (struct halo_top){halo_ring_tops(event)[i].tok_id, halo_ring_tops(event)[i].logprob};
    return (struct halo_top_list){out, event->n_top};
}

static void put_committed(struct halo_port *port, struct halo_job *job, const struct halo_ring_event *event)
{
    if (!wants_ids(job))
        return;
    struct halo_top tops[HALO_LIMIT_LOGPROBS];
    const struct halo_sequence *sequence = job->sequence;
    struct halo_ev ev;
    assert(event->n_top <= HALO_LIMIT_LOGPROBS);
    halo_ev_init(&ev, HALO_EV_COMMITTED, &job->msg.id);
    ev.committed.tok_id = event->tok_id;
    ev.committed.pos = event->a;
    ev.committed.t_ms = (double)(event->t_ns - sequence->started_ns + sequence->elapsed_ns) / 1e6;
    ev.committed.has_logprob = event->has_logprob != 0;
    ev.committed.logprob = event->logprob;
    ev.committed.top = tops_of(event, tops);
    halo_port_put(port, &ev);
}

static void put_loop(struct halo_port *port, struct halo_job *job, const struct halo_ring_event *event)
{
    const struct halo_cycle *loop = &job->sequence->loop;
    struct halo_ev ev;
    char message[128];
    snprintf(message, sizeof(message), "from token %lld on the reply repeats a cycle of %zu tokens, %zu times so far",
             (long long)event->a, loop->period, loop->n_ids / loop->period);
    halo_ev_init_notice(&ev, &job->msg.id, HALO_NOTICE_LOOP_DETECTED, message);
    ev.notice.has_start = ev.notice.has_period = ev.notice.has_repeats = true;
    ev.notice.start = event->a;
    ev.notice.period = (int64_t)loop->period;
    ev.notice.repeats = (int64_t)(loop->n_ids / loop->period);
    halo_port_put(port, &ev);
}

static void put_row(struct halo_port *port, struct halo_job *job, const struct halo_ring_event *event)
{
    struct halo_top tops[HALO_LIMIT_SCORE_TOP];
    struct halo_ev ev;
    assert(event->n_top <= HALO_LIMIT_SCORE_TOP);
    halo_ev_init(&ev, HALO_EV_SCORE_ROW, &job->msg.id);
    ev.score_row.pos = event->a;
    ev.score_row.tok_id = event->tok_id;
    ev.score_row.has_logprob = event->has_logprob != 0;
    ev.score_row.logprob = event->logprob;
    ev.score_row.top = tops_of(event, tops);
    halo_port_put(port, &ev);
}

static void put_event(struct halo_port *port, struct halo_job *job, const struct halo_ring_event *event)
{
    switch (event->kind) {
    case HALO_RING_STARTED: begin(port, job, event->a); break;
    case HALO_RING_QUEUE:
    case HALO_RING_PREFILL: put_progress(port, job, event); break;
    case HALO_RING_COMMITTED: put_committed(port, job, event); break;
    case HALO_RING_TEXT: put_text(port, job, halo_ring_text(event), event->n_text); break;
    case HALO_RING_ROW: put_row(port, job, event); break;
    case HALO_RING_LOOP: put_loop(port, job, event); break;
    case HALO_RING_SKIP: assert(!"the ring keeps these to itself");
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

static void end_generate(struct halo_port *port, struct halo_job *job)
{
    const struct halo_sequence *s = job->sequence;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &job->msg.id);
    fill_rates(&ev.done, s);
    switch (s->outcome) {
    case HALO_OUTCOME_STOP_TOKEN:
        ev.done.finish_reason = HALO_WIRE_FINISH_STOP;
        ev.done.stop = halo_id_of(s->stop_token);
        ev.done.has_stop = true;
        break;
    case HALO_OUTCOME_STOP_STRING:
        ev.done.finish_reason = HALO_WIRE_FINISH_STOP;
        assert(s->text.stopped_by >= 0 && (size_t)s->text.stopped_by < job->msg.generate.stop.n);
        ev.done.stop = halo_id_of_str(job->msg.generate.stop.at[s->text.stopped_by]);
        ev.done.has_stop = true;
        break;
    case HALO_OUTCOME_CANCELLED: ev.done.finish_reason = HALO_WIRE_FINISH_CANCELLED; break;
    case HALO_OUTCOME_DEADLINE: ev.done.finish_reason = HALO_WIRE_FINISH_DEADLINE; break;
    default: ev.done.finish_reason = HALO_WIRE_FINISH_LENGTH; break;
    }
    if (!job->msg.generate.stream) {
        ev.done.text = (struct halo_str){job->text ? job->text : "", job->n_text};
        ev.done.has_text = true;
    }
    halo_job_end(port, job, &ev);
}

static void end_score(struct halo_port *port, struct halo_job *job)
{
    const struct halo_sequence *s = job->sequence;
    if (s->outcome == HALO_OUTCOME_CANCELLED) {
        halo_job_end_cancelled(port, job);
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_SCORED, &job->msg.id);
    ev.scored.tokens = s->n_prompt;
    SET_NUL(ev.scored, nll, s->n_nll > 0, s->nll_sum / s->n_nll);
    halo_job_end(port, job, &ev);
}

static void end(struct halo_port *port, struct halo_job *job)
{
    struct halo_sequence *s = job->sequence;
    if (job->fault.code != HALO_FAULT_NONE)
        halo_job_end_fault(port, job, &job->fault);
    else if (s->outcome == HALO_OUTCOME_FAULT)
        halo_job_end_fault(port, job, &s->fault);
    else if (s->kind == HALO_SEQUENCE_SCORE)
        end_score(port, job);
    else
        end_generate(port, job);
}

void halo_port_take_events(struct halo_port *port, struct halo_job *job)
{
    struct halo_sequence *sequence = job->sequence;
    const struct halo_ring_event *event;
    job->blocked = false;
    while ((event = halo_ring_peek(&sequence->ring))) {
        if (halo_port_is_full(port)) {
            job->blocked = true;
            return;
        }
        put_event(port, job, event);
        halo_ring_pop(&sequence->ring);
    }
    if (job->finished) {
        if (sequence->n_resumed > 0 && sequence->outcome != HALO_OUTCOME_FAULT)
            begin(port, job, 0); /* complete before it was resumed: it never got as far as a batch */
        end(port, job);
        return;
    }
    if (atomic_exchange(&sequence->stalled, false))
        halo_device_thread_kick(&port->device);
}

void halo_port_resume_blocked(struct halo_port *port)
{
    for (struct halo_job *job = port->jobs, *next; job; job = next) {
        next = job->next;
        if (halo_port_is_full(port))
            return;
        if (job->blocked)
            halo_port_take_events(port, job);
    }
}
