/* query_priv.h: hello, status, stats: answered by the daemon, with the engine's part when it comes within status_ms. */
#ifndef HALO_SERVE_REQUEST_QUERY_PRIV_H
#define HALO_SERVE_REQUEST_QUERY_PRIV_H

#include <serve/request/requests.h>

void halo_query_begin(struct halo_requests *requests, struct halo_client *client, enum halo_msg_type type,
                      const struct halo_id *id);
/* `line`: the engine's answer; NULL: there is none. Ends the request. */
void halo_query_answer(struct halo_requests *requests, struct halo_request *request, const char *line, size_t len);
/* An engine answered its hello: so can those of clients be answered that wait for it. */
void halo_query_engine_known(struct halo_requests *requests);

#endif
