/* tell.c: what goes on with a load, to the request that it is for and to each that waits for it. Port thread. */
#include <base/log.h>

#include "port/port_priv.h"

static void put_to_all(struct halo_port *port, const struct halo_load *load, struct halo_ev *ev)
{
    ev->id = load->job->msg.id;
    halo_port_put(port, ev);
    for (const struct halo_job *waiting = load->instance->waiting; waiting; waiting = waiting->wait_next) {
        if (ev->type == HALO_EV_PROGRESS && waiting->msg.type != HALO_MSG_LOAD &&
            waiting->msg.type != HALO_MSG_GENERATE)
            continue; /* the short ones have no progress */
        ev->id = waiting->msg.id;
        halo_port_put(port, ev);
    }
}

void halo_port_tell_progress(struct halo_port *port, const struct halo_load *load, enum halo_wire_phase phase,
                             uint64_t done, uint64_t total, const char *step)
{
    static const struct halo_id nobody = {0};
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PROGRESS, &nobody);
    ev.progress.phase = phase;
    ev.progress.done = (int64_t)done;
    ev.progress.total = (int64_t)total;
    ev.progress.has_step = true;
    ev.progress.step = halo_str_of(step);
    put_to_all(port, load, &ev);
}

void halo_port_tell_notice(struct halo_port *port, const struct halo_load *load, enum halo_notice code,
                           const char *text)
{
    struct halo_ev ev;
    halo_ev_init_notice(&ev, NULL, code, text);
    put_to_all(port, load, &ev);
    if (!port->config.link) /* halod logs what it passes on */
        halo_log(halo_notice_warns(code) ? HALO_LOG_WARN : HALO_LOG_INFO, "load of %s: %s: %s", load->instance->name,
                 halo_notice_name(code), text);
}
