/* demand_priv.h: a request that names a model which is not in memory has it loaded. */
#ifndef HALO_SERVE_REQUEST_DEMAND_PRIV_H
#define HALO_SERVE_REQUEST_DEMAND_PRIV_H

#include <serve/request/requests.h>

/* Sends the load of a model that the request needs and that is not there. 0 or -ENOMEM; then nothing was sent. */
int halo_demand(struct halo_requests *requests, const struct halo_request *request);
/* Configured defaults of a load. */
void halo_demand_complete(const struct halo_requests *requests, struct halo_msg_load *load);

#endif
