/* dispatch.c: a line becomes a message, a message a request, and a request goes where it is served.
 *
 * Port thread. Nothing here waits. Orders about other requests (cancel, pause, continue) raise flags that the owner of
 * the work looks at.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>

#include "port/port_priv.h"

static void put_error(struct halo_port *port, const struct halo_id *id, enum halo_error code, const char *message)
{
    struct halo_ev ev;
    halo_ev_init_error(&ev, id, code, message);
    halo_port_put(port, &ev);
}

void halo_port_take_long_line(struct halo_port *port)
{
    char message[128], detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;
    snprintf(message, sizeof(message), "a line is at most %zu bytes; this one was dropped", port->lines.limit_bytes);
    HALO_COUNT(&port->stats, requests_refused, 1);
    halo_ev_init_error(&ev, NULL, HALO_ERROR_LINE_TOO_LONG, message);
    halo_ev_set_detail(&ev, HALO_NUMBERS({"limit_bytes", (int64_t)port->lines.limit_bytes}), detail);
    halo_port_put(port, &ev);
}

static const char *phase_of(const struct halo_job *job)
{
    switch (job->state) {
    case HALO_JOB_LOAD: return job->load ? "loading" : "draining";
    case HALO_JOB_IO: return job->profiling ? "profile" : "queued";
    case HALO_JOB_DEVICE:
        if (job->sequence)
            return halo_sequence_state_name(halo_sequence_state_of(job->sequence));
        return job->bench ? "bench" : job->forecast ? "plan" : job->saving ? "saving" : job->reset ? "reset" : "status";
    default: return "queued";
    }
}

static void cancel_target(struct halo_port *port, struct halo_job *target)
{
    atomic_store(&target->cancel, true);
    switch (target->state) {
    case HALO_JOB_PARKED:
        halo_job_unpark(port, target);
        halo_job_end_cancelled(port, target);
        return;
    case HALO_JOB_LOAD:
        if (target->load) {
            halo_port_load_cancel(port, target->load);
        } else { /* an unload goes on without the one who asked */
            target->model->unloader = NULL;
            halo_job_end_cancelled(port, target);
        }
        return;
    case HALO_JOB_IO:
        if (target->profiling)
            halo_port_profile_cancel(port, target);
        else if (target->catalog)
            atomic_store(&target->catalog->cancel, true);
        return; /* a lookup: looked at when it comes back */
    case HALO_JOB_DEVICE:
        if (target->sequence)
            atomic_store(&target->sequence->cancel, true);
        if (target->bench)
            atomic_store(&target->bench->cancel, true);
        if (target->forecast)
            atomic_store(&target->forecast->cancel, true);
        halo_device_thread_kick(&port->device);
        return;
    case HALO_JOB_TEXT: /* under way: its worker looks at the flag */
        if (halo_text_withdraw(&port->text, target))
            halo_job_end_cancelled(port, target);
        return;
    default: return;
    }
}

static void cancel(struct halo_port *port, struct halo_job *job)
{
    struct halo_job *target = halo_job_find(port, &job->msg.cancel.target);
    if (!target || target == job) {
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "no open request has the id that `target` names");
        return;
    }
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_CANCELLED, &job->msg.id);
    ev.cancelled.target = job->msg.cancel.target;
    ev.cancelled.was = halo_str_of(phase_of(target));
    halo_job_end(port, job, &ev); /* first: the target's end follows it */
    cancel_target(port, target);
}

/* pause and continue have no answer; one that names nobody is late news. */
static void hold(struct halo_port *port, const struct halo_id *id, bool value)
{
    struct halo_job *target = halo_job_find(port, id);
    if (!target)
        return;
    atomic_store(&target->hold, value);
    if (target->state == HALO_JOB_DEVICE && target->sequence) {
        atomic_store(&target->sequence->hold, value);
        halo_device_thread_kick(&port->device);
    }
}

static void with_model(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    if (halo_port_hold_model(port, job, name))
        halo_job_to_text(port, job);
}

static void pong(struct halo_port *port, struct halo_job *job)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PONG, &job->msg.id);
    ev.pong.uptime_ms = (int64_t)((halo_clock_ns() - port->born_ns) / 1000000);
    halo_job_end(port, job, &ev);
}

static void dispatch(struct halo_port *port, struct halo_job *job)
{
    struct halo_msg *msg = &job->msg;
    switch (msg->type) {
    case HALO_MSG_HELLO: halo_port_hello(port, job); break;
    case HALO_MSG_PING: pong(port, job); break;
    case HALO_MSG_STATUS: halo_port_status(port, job); break;
    case HALO_MSG_STATS: halo_port_stats(port, job); break;
    case HALO_MSG_DIAG: halo_port_diag(port, job); break;
    case HALO_MSG_LOAD: halo_port_load(port, job); break;
    case HALO_MSG_UNLOAD: halo_port_unload(port, job); break;
    case HALO_MSG_CANCEL: cancel(port, job); break;
    case HALO_MSG_SAVE: halo_port_save(port, job); break;
    case HALO_MSG_RESET: halo_port_reset(port, job); break;
    case HALO_MSG_BENCH: halo_port_bench(port, job); break;
    case HALO_MSG_MODELS: halo_port_models(port, job); break;
    case HALO_MSG_PLAN: halo_port_plan(port, job); break;
    case HALO_MSG_PROFILE: halo_port_profile(port, job); break;
    case HALO_MSG_TOKENIZE: with_model(port, job, msg->tokenize.model); break;
    case HALO_MSG_DETOKENIZE: with_model(port, job, msg->detokenize.model); break;
    case HALO_MSG_SCORE: with_model(port, job, msg->score.model); break;
    case HALO_MSG_GENERATE:
        with_model(port, job, msg->generate.has_model ? msg->generate.model : (struct halo_str){NULL, 0});
        break;
    case HALO_MSG_TEMPLATE: with_model(port, job, msg->template.model); break;
    default: assert(!"pause, continue and heartbeat are not requests");
    }
}

/* Those that are served without a request. */
static bool is_order(struct halo_port *port, const struct halo_msg *msg)
{
    switch (msg->type) {
    case HALO_MSG_PAUSE: hold(port, &msg->pause.target, true); return true;
    case HALO_MSG_UNPAUSE: hold(port, &msg->unpause.target, false); return true;
    case HALO_MSG_HEARTBEAT: halo_port_heartbeat(port, &msg->id, msg->heartbeat.beat); return true;
    default: return false;
    }
}

void halo_port_take_line(struct halo_port *port, const char *line, size_t len)
{
    struct halo_msg msg;
    struct halo_refusal refusal;
    if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0) {
        HALO_COUNT(&port->stats, requests_refused, 1);
        if (halo_refusal_encode(&port->out, &refusal) < 0)
            halo_log(HALO_LOG_ERROR, "no memory to answer a refused line");
        return;
    }
    HALO_COUNT(&port->stats, requests, 1);
    if (is_order(port, &msg)) {
        halo_msg_finish(&msg);
        return;
    }
    if (msg.id.kind != HALO_ID_NONE && halo_job_find(port, &msg.id)) {
        put_error(port, &msg.id, HALO_ERROR_DUPLICATE_ID,
                  "a request with this id is open; wait for its end or use another id");
        halo_msg_finish(&msg);
        return;
    }
    struct halo_job *job = halo_job_create(port, &msg);
    if (!job) {
        put_error(port, &msg.id, HALO_ERROR_OUT_OF_MEMORY, "no memory for a request");
        halo_msg_finish(&msg);
        return;
    }
    dispatch(port, job);
}

void halo_port_dispatch_ready(struct halo_port *port)
{
    while (port->ready) {
        struct halo_job *job = port->ready;
        port->ready = job->wait_next;
        if (atomic_load(&job->cancel))
            halo_job_end_cancelled(port, job);
        else
            dispatch(port, job);
    }
}
