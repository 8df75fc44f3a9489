/* answer.h: events that the daemon itself writes to a client, and the one way by which a request ends for its client.
 *
 * Out of memory while writing closes the connection: a lost event must not go unnoticed. Loop thread.
 */
#ifndef HALO_SERVE_ANSWER_H
#define HALO_SERVE_ANSWER_H

#include <protocol/message.h>

#include <serve/daemon.h>

void halo_answer(struct halo_peer *peer, const struct halo_ev *ev);
__attribute__((format(printf, 4, 5))) void halo_answer_error(struct halo_peer *peer, const struct halo_id *id,
                                                             enum halo_error code, const char *format, ...);
void halo_answer_refusal(struct halo_peer *peer, const struct halo_refusal *refusal);

/* Terminal: writes the event with the request's id to its peer, if it still has one, and detaches it. */
void halo_answer_terminal(struct halo_request *request, struct halo_ev *ev);
__attribute__((format(printf, 3, 4))) void halo_answer_failed(struct halo_request *request, enum halo_error code,
                                                              const char *format, ...);
/* `done` with this finish_reason, for a request that the engine cannot end any more or never had. */
void halo_answer_ended(struct halo_request *request, enum halo_wire_finish reason);

#endif
