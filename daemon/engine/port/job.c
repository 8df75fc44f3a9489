/* job.c: the life of a request: made from a message, moved through declared states, ended exactly once.
 *
 * Port thread. A request owns its message and what was made for it; ending writes the terminal event, gives the model
 * back and frees all.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/state.h>

#include "port/port_priv.h"

#define BIT(state) HALO_STATE_BIT(HALO_JOB_##state)
static const unsigned moves[HALO_N_JOB_STATES] = {
    [HALO_JOB_NEW] = BIT(PARKED) | BIT(TEXT) | BIT(IO) | BIT(DEVICE) | BIT(LOAD) | BIT(ENDED),
    [HALO_JOB_PARKED] = BIT(NEW) | BIT(ENDED),
    [HALO_JOB_TEXT] = BIT(DEVICE) | BIT(ENDED),
    [HALO_JOB_IO] = BIT(NEW) | BIT(ENDED),
    [HALO_JOB_DEVICE] = BIT(ENDED),
    [HALO_JOB_LOAD] = BIT(PARKED) | BIT(ENDED),
    [HALO_JOB_ENDED] = 0,
};

void halo_job_move(struct halo_job *job, enum halo_job_state to)
{
    assert(job->state < HALO_N_JOB_STATES && to < HALO_N_JOB_STATES);
    assert(halo_state_may_move(moves, job->state, to));
    job->state = to;
}

struct halo_job *halo_job_create(struct halo_port *port, struct halo_msg *msg)
{
    struct halo_job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->msg = *msg;
    *msg = (struct halo_msg){0};
    job->arrived_ns = halo_clock_ns();
    halo_arena_init(&job->arena, 0);
    job->next = port->jobs;
    port->jobs = job;
    port->n_jobs++;
    return job;
}

struct halo_job *halo_job_find(struct halo_port *port, const struct halo_id *id)
{
    for (struct halo_job *job = port->jobs; job; job = job->next)
        if (job->msg.id.kind != HALO_ID_NONE && halo_id_equal(&job->msg.id, id))
            return job;
    return NULL;
}

static void destroy_forecast(struct halo_forecast *forecast)
{
    if (!forecast)
        return;
    halo_model_destroy(forecast->model);
    free(forecast->file);
    free(forecast);
}

static void destroy(struct halo_port *port, struct halo_job *job)
{
    struct halo_job **at = &port->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    port->n_jobs--;
    halo_port_release_model(job);
    halo_sequence_destroy(job->sequence);
    halo_bench_destroy(job->bench);
    destroy_forecast(job->forecast);
    halo_catalog_destroy(job->catalog);
    free(job->saving);
    free(job->lookup);
    free(job->reset);
    free(job->text);
    halo_arena_finish(&job->arena);
    halo_msg_finish(&job->msg);
    free(job);
}

void halo_job_end(struct halo_port *port, struct halo_job *job, struct halo_ev *ev)
{
    assert(halo_ev_is_terminal(ev->type));
    halo_job_move(job, HALO_JOB_ENDED);
    ev->id = job->msg.id;
    halo_port_put(port, ev);
    destroy(port, job);
}

void halo_job_end_error(struct halo_port *port, struct halo_job *job, enum halo_error code, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct halo_ev ev;
    halo_ev_init_error(&ev, &job->msg.id, code, text);
    halo_job_end(port, job, &ev);
}

void halo_job_end_fault(struct halo_port *port, struct halo_job *job, const struct halo_fault *fault)
{
    const char *name = halo_fault_name(fault->code);
    enum halo_error code = halo_error_from_name(name, strlen(name));
    static_assert((int)HALO_FAULT_NUMBERS <= (int)HALO_DETAIL_NUMBERS, "a detail holds the numbers of a fault");
    bool device = fault->code == HALO_FAULT_DEVICE_FAULT || fault->code == HALO_FAULT_DEVICE_HANG;
    if (device && port->config.link && atomic_load(&port->device.lost)) {
        /* Not the request's end: it goes on in the engine that comes after this one. */
        if (!port->lost)
            halo_log(HALO_LOG_ERROR, "the device is lost: %s", fault->text);
        port->lost = true;
        return;
    }
    if (fault->code == HALO_FAULT_CANCELLED) {
        halo_job_end_cancelled(port, job);
        return;
    }
    struct halo_number numbers[HALO_FAULT_NUMBERS];
    char detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;
    for (uint32_t i = 0; i < fault->n_numbers; i++)
        numbers[i] = (struct halo_number){fault->numbers[i].name, fault->numbers[i].value};
    halo_ev_init_error(&ev, &job->msg.id, code == HALO_ERROR_UNKNOWN ? HALO_ERROR_INTERNAL : code, fault->text);
    halo_ev_set_detail(&ev, (struct halo_numbers){numbers, fault->n_numbers}, detail);
    halo_job_end(port, job, &ev);
}

void halo_job_end_cancelled(struct halo_port *port, struct halo_job *job)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &job->msg.id);
    ev.done.finish_reason = HALO_WIRE_FINISH_CANCELLED;
    if (job->msg.type == HALO_MSG_GENERATE && job->msg.generate.has_resume)
        ev.done.tokens = (int64_t)job->msg.generate.resume.tokens.n; /* of the engines before this one */
    halo_job_end(port, job, &ev);
}

/* Whom the work is charged to. */
static uint64_t user_of(const struct halo_msg *msg)
{
    switch (msg->type) {
    case HALO_MSG_GENERATE: return msg->generate.has_user ? (uint64_t)msg->generate.user : HALO_SEQUENCE_NOBODY;
    case HALO_MSG_SCORE: return msg->score.has_user ? (uint64_t)msg->score.user : HALO_SEQUENCE_NOBODY;
    case HALO_MSG_TOKENIZE: return msg->tokenize.has_user ? (uint64_t)msg->tokenize.user : HALO_SEQUENCE_NOBODY;
    case HALO_MSG_DETOKENIZE: return msg->detokenize.has_user ? (uint64_t)msg->detokenize.user : HALO_SEQUENCE_NOBODY;
    case HALO_MSG_TEMPLATE: return msg->template.has_user ? (uint64_t)msg->template.user : HALO_SEQUENCE_NOBODY;
    default: assert(!"a request of this type needs no text worker"); return HALO_SEQUENCE_NOBODY;
    }
}

void halo_job_to_text(struct halo_port *port, struct halo_job *job)
{
    halo_job_move(job, HALO_JOB_TEXT);
    halo_text_submit(&port->text, job, user_of(&job->msg));
}

/* ---- waiting ---- */

static void append(struct halo_job **at, struct halo_job *job)
{
    while (*at)
        at = &(*at)->wait_next;
    job->wait_next = NULL;
    *at = job;
}

void halo_job_park(struct halo_instance *instance, struct halo_job *job)
{
    append(&instance->waiting, job);
    job->model = instance;
    halo_job_move(job, HALO_JOB_PARKED);
}

static bool unpark_from(struct halo_job **at, struct halo_job *job)
{
    for (; *at; at = &(*at)->wait_next)
        if (*at == job) {
            *at = job->wait_next;
            return true;
        }
    return false;
}

void halo_job_unpark(struct halo_port *port, struct halo_job *job)
{
    assert(job->state == HALO_JOB_PARKED);
    if (unpark_from(&port->parked, job))
        return;
    bool found = unpark_from(&job->model->waiting, job);
    assert(found);
    job->model = NULL;
}

void halo_job_wake(struct halo_port *port, struct halo_job *waiting)
{
    while (waiting) {
        struct halo_job *job = waiting;
        waiting = job->wait_next;
        job->model = NULL;
        halo_job_move(job, HALO_JOB_NEW);
        append(&port->ready, job);
    }
}
