/* order_priv.h: what the engine is told about a request that it has: cancel, pause, continue. */
#ifndef HALO_SERVE_REQUEST_ORDER_PRIV_H
#define HALO_SERVE_REQUEST_ORDER_PRIV_H

#include <serve/request/requests.h>

void halo_request_cancel(struct halo_requests *requests, struct halo_request *request);
void halo_request_pause(struct halo_requests *requests, struct halo_request *request, bool pause);
/* An order that found no memory, once more. */
void halo_request_order_again(struct halo_requests *requests, struct halo_request *request);
/* The client is gone, or was told that it ended: the engine is told too, unless the request is the daemon's. Detaches;
 * may free. */
void halo_request_abandon(struct halo_requests *requests, struct halo_request *request);

#endif
