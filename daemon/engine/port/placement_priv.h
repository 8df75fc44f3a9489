/* placement_priv.h: the placement of an answer to `plan`. Port thread. */
#ifndef HALO_ENGINE_PORT_PLACEMENT_PRIV_H
#define HALO_ENGINE_PORT_PLACEMENT_PRIV_H

#include <model/placement.h>
#include <protocol/message.h>

#include "device/device_thread_priv.h"

/* What the event points to, until halo_port_placement_finish. */
struct halo_port_placement {
    struct halo_placement placement;
    struct halo_placement other; /* scratch: of the curve's budgets */
    struct halo_fault fault;     /* why there is no placement */
    struct halo_json parts, layers, curve;
    struct halo_str reasons[HALO_PLACEMENT_REASONS];
    struct halo_part_hint hints[HALO_PLACEMENT_HINTS];
};

/* Makes the placement that the request asks for with a KV pool of kv_bytes, and fills the event's part. *ret is NULL
 * when there is none (ev->has_placement is false; with a placement that cannot be, *ret has the fault). -ENOMEM: no
 * memory for the answer. The caller finishes *ret after the event is written. */
int halo_port_placement_fill(const struct halo_forecast *f, const struct halo_msg_plan *msg, uint64_t kv_bytes,
                             struct halo_ev_plan *ev, struct halo_port_placement **ret);
void halo_port_placement_finish(struct halo_port_placement *p); /* takes NULL */

#endif
