/* dispatch_priv.h: requests on their way to the engine. */
#ifndef HALO_SERVE_REQUEST_DISPATCH_PRIV_H
#define HALO_SERVE_REQUEST_DISPATCH_PRIV_H

#include <serve/request/requests.h>

/* A new WAITING request: sent now, or when an engine is ready. */
void halo_dispatch(struct halo_requests *requests, struct halo_request *request);
/* All that may be sent. */
void halo_dispatch_waiting(struct halo_requests *requests);
/* The engine did not have the model of this one any more: true when it waits to be sent anew. */
bool halo_dispatch_again(struct halo_requests *requests, struct halo_request *request);

#endif
