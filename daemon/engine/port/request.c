/* request.c: the life of a request: made from a message, moved through declared states, ended exactly once.
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

#include "port_priv.h"

#define BIT(state) HALO_STATE_BIT(HALO_REQUEST_##state)
static const unsigned moves[HALO_N_REQUEST_STATES] = {
    [HALO_REQUEST_NEW] = BIT(PARKED) | BIT(TEXT) | BIT(DEVICE) | BIT(LOAD) | BIT(ENDED),
    [HALO_REQUEST_PARKED] = BIT(NEW) | BIT(ENDED),
    [HALO_REQUEST_TEXT] = BIT(DEVICE) | BIT(ENDED),
    [HALO_REQUEST_DEVICE] = BIT(ENDED),
    [HALO_REQUEST_LOAD] = BIT(ENDED),
    [HALO_REQUEST_ENDED] = 0,
};

void halo_request_move(struct halo_request *request, enum halo_request_state to)
{
    assert(request->state < HALO_N_REQUEST_STATES && to < HALO_N_REQUEST_STATES);
    assert(halo_state_may_move(moves, request->state, to));
    request->state = to;
}

struct halo_request *halo_request_create(struct halo_port *port, struct halo_msg *msg)
{
    struct halo_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->msg = *msg;
    *msg = (struct halo_msg){0};
    request->arrived_ns = halo_clock_ns();
    halo_arena_init(&request->arena, 0);
    request->next = port->requests;
    port->requests = request;
    port->n_requests++;
    return request;
}

struct halo_request *halo_request_find(struct halo_port *port, const struct halo_id *id)
{
    for (struct halo_request *request = port->requests; request; request = request->next)
        if (request->msg.id.kind != HALO_ID_NONE && halo_id_equal(&request->msg.id, id))
            return request;
    return NULL;
}

static void destroy_forecast(struct halo_forecast *forecast)
{
    if (!forecast)
        return;
    halo_model_destroy(forecast->model);
    free(forecast);
}

static void destroy(struct halo_port *port, struct halo_request *request)
{
    struct halo_request **at = &port->requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    port->n_requests--;
    halo_port_release_model(port, request);
    halo_sequence_destroy(request->sequence);
    halo_bench_destroy(request->bench);
    destroy_forecast(request->forecast);
    halo_port_saving_destroy(request->saving);
    free(request->reset);
    free(request->text);
    halo_arena_finish(&request->arena);
    halo_msg_finish(&request->msg);
    free(request);
}

void halo_request_end(struct halo_port *port, struct halo_request *request, struct halo_ev *ev)
{
    assert(halo_ev_is_terminal(ev->type));
    halo_request_move(request, HALO_REQUEST_ENDED);
    ev->id = request->msg.id;
    halo_port_put(port, ev);
    destroy(port, request);
}

void halo_request_end_error(struct halo_port *port, struct halo_request *request, enum halo_error code,
                            const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct halo_ev ev;
    halo_ev_init_error(&ev, &request->msg.id, code, text);
    halo_request_end(port, request, &ev);
}

void halo_request_end_fault(struct halo_port *port, struct halo_request *request, const struct halo_fault *fault)
{
    const char *name = halo_fault_name(fault->code);
    enum halo_error code = halo_error_from_name(name, strlen(name));
    bool device = fault->code == HALO_FAULT_DEVICE_FAULT || fault->code == HALO_FAULT_DEVICE_HANG;
    if (device && port->config.link && atomic_load(&port->device.lost)) {
        /* Not the request's end: it goes on in the engine that comes after this one. */
        if (!port->lost)
            halo_log(HALO_LOG_ERROR, "the device is lost: %s", fault->text);
        port->lost = true;
        return;
    }
    if (fault->code == HALO_FAULT_CANCELLED) {
        halo_request_end_cancelled(port, request);
        return;
    }
    halo_request_end_error(port, request, code == HALO_ERROR_UNKNOWN ? HALO_ERROR_INTERNAL : code, "%s", fault->text);
}

void halo_request_end_cancelled(struct halo_port *port, struct halo_request *request)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_DONE, &request->msg.id);
    ev.done.finish_reason = HALO_WIRE_FINISH_CANCELLED;
    if (request->msg.type == HALO_MSG_GENERATE && request->msg.generate.has_resume)
        ev.done.tokens = (int64_t)request->msg.generate.resume.tokens.n; /* of the engines before this one */
    halo_request_end(port, request, &ev);
}

void halo_request_to_text(struct halo_port *port, struct halo_request *request)
{
    halo_request_move(request, HALO_REQUEST_TEXT);
    halo_note_post(&port->text.box, &request->note, HALO_NOTE_TEXT, request);
}
