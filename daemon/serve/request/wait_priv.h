/* wait_priv.h: requests that wait with a time limit: for an engine, for its part of an answer, or for memory. */
#ifndef HALO_SERVE_REQUEST_WAIT_PRIV_H
#define HALO_SERVE_REQUEST_WAIT_PRIV_H

#include <serve/request/requests.h>

/* halo_requests_expire() looks at the request then, or before. */
void halo_request_expire_at(struct halo_requests *requests, struct halo_request *request, uint64_t at_ns);
/* Waits (anew) for an engine: for wait_ms, or until its deadline. */
void halo_request_wait(struct halo_requests *requests, struct halo_request *request);
/* What is left of its deadline; INT64_MAX: it has none. */
int64_t halo_request_left_ms(const struct halo_request *request, uint64_t now_ns);
/* Terminal: its deadline passed here. */
void halo_request_late(struct halo_request *request, uint64_t now_ns);

#endif
