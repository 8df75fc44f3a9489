/* output.c: events into the output. Port thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/log.h>

#include "port/port_priv.h"

size_t halo_port_unsent(const struct halo_port *port)
{
    return port->out.len - port->n_sent;
}

bool halo_port_is_full(const struct halo_port *port)
{
    return halo_port_unsent(port) >= HALO_LIMIT_OUTPUT_HIGH_BYTES;
}

/* The end of a request whose answer is larger than an answer may be. */
static int put_too_large(struct halo_port *port, const struct halo_ev *ev)
{
    char text[200], detail[HALO_DETAIL_BYTES];
    struct halo_ev error;
    snprintf(text, sizeof(text),
             "the answer (%s) is larger than %u bytes or %d JSON values, which is the limit; ask for less at once",
             halo_ev_type_name(ev->type), HALO_LIMIT_ANSWER_BYTES, HALO_LIMIT_ANSWER_VALUES);
    halo_ev_init_error(&error, &ev->id, HALO_ERROR_UNSUPPORTED, text);
    halo_ev_set_detail(
        &error, HALO_NUMBERS({"limit_bytes", HALO_LIMIT_ANSWER_BYTES}, {"limit_values", HALO_LIMIT_ANSWER_VALUES}),
        detail);
    return halo_ev_encode(&port->out, &error);
}

void halo_port_put(struct halo_port *port, const struct halo_ev *ev)
{
    int r = halo_ev_encode(&port->out, ev);
    if (r == -EMSGSIZE && halo_ev_is_terminal(ev->type))
        r = put_too_large(port, ev);
    if (r == 0)
        return;
    halo_log(HALO_LOG_ERROR, "a %s event could not be written: %s", halo_ev_type_name(ev->type), strerror(-r));
    _exit(EXIT_FAILURE);
}
