/* answer_priv.h: events that the daemon itself writes to a client, and the one way in which a request ends for its
 * client. Out of memory while writing breaks the client: a lost event must not go unnoticed. */
#ifndef HALO_SERVE_REQUEST_ANSWER_PRIV_H
#define HALO_SERVE_REQUEST_ANSWER_PRIV_H

#include <serve/request/requests.h>

void halo_answer(struct halo_client *client, const struct halo_ev *ev);
__attribute__((format(printf, 5, 6))) void halo_answer_error(struct halo_requests *requests, struct halo_client *client,
                                                             const struct halo_id *id, enum halo_error code,
                                                             const char *format, ...);
/* The same with the numbers of the message, for programs. */
__attribute__((format(printf, 6, 7))) void halo_answer_limit(struct halo_requests *requests, struct halo_client *client,
                                                             const struct halo_id *id, enum halo_error code,
                                                             struct halo_numbers numbers, const char *format, ...);
/* Terminal, with numbers: its time is over. */
__attribute__((format(printf, 4, 5))) void halo_answer_late(struct halo_request *request, enum halo_error code,
                                                            struct halo_numbers numbers, const char *format, ...);
void halo_answer_refusal(struct halo_requests *requests, struct halo_client *client,
                         const struct halo_refusal *refusal);

/* Terminal: `done`, for a request that the engine cannot end any more or never had. */
void halo_answer_ended(struct halo_request *request, enum halo_wire_finish reason, uint64_t now_ns);

#endif
