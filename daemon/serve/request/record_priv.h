/* record_priv.h: what an event of the engine means for the record of its request. */
#ifndef HALO_SERVE_REQUEST_RECORD_PRIV_H
#define HALO_SERVE_REQUEST_RECORD_PRIV_H

#include <serve/request/requests.h>

/* 0, or -EPROTO with the reason: the request cannot have this event now. */
int halo_record_event(struct halo_requests *requests, struct halo_request *request, const struct halo_event_line *line,
                      struct halo_fault *fault);
/* A load worked, or a model is gone: remembered for the next engine. `request`: NULL for a model that the engine
 * unloaded by itself. 0 or -EPROTO. */
int halo_record_model(struct halo_requests *requests, const struct halo_request *request,
                      const struct halo_event_line *line, struct halo_fault *fault);

#endif
