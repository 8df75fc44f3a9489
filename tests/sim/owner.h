/* owner.h: the least that an owner of halod's requests answers to `hello`, `status` and `stats`, for the simulation and
 * the fuzzer of the engine's events.
 */
#ifndef HALO_SIM_OWNER_H
#define HALO_SIM_OWNER_H

#include <protocol/message.h>
#include <serve/request/requests.h>

static inline void owner_query(void *ud, struct halo_request *request, const struct halo_ev *said)
{
    static const enum halo_ev_type types[] = {
        [HALO_MSG_HELLO] = HALO_EV_HELLO, [HALO_MSG_STATUS] = HALO_EV_STATUS, [HALO_MSG_STATS] = HALO_EV_STATS};
    struct halo_ev ev;
    halo_ev_init(&ev, types[request->type], NULL);
    if (request->type == HALO_MSG_HELLO) {
        ev.hello.protocol = HALO_PROTOCOL_VERSION;
    } else if (request->type == HALO_MSG_STATUS && said) {
        ev.status = said->status;
    } else if (request->type == HALO_MSG_STATS) {
        ev.stats.counters = said ? said->stats.counters : halo_raw_of("{}");
        ev.stats.histograms = said ? said->stats.histograms : halo_raw_of("{}");
    }
    halo_answer_terminal(request, &ev);
}

#endif
