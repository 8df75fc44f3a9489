/* table_priv.h: records: made, found, moved, charged, freed. */
#ifndef HALO_SERVE_REQUEST_TABLE_PRIV_H
#define HALO_SERVE_REQUEST_TABLE_PRIV_H

#include <serve/request/requests.h>

/* A new WAITING record with a fresh id, of the client or, at NULL, of the daemon's own. `client_id` is copied; NULL:
 * none. Returns NULL when out of memory. */
struct halo_request *halo_request_create(struct halo_requests *requests, struct halo_client *client,
                                         enum halo_msg_type type, const struct halo_id *client_id);
/* Takes it out of every list and frees it. It must be detached from its client. */
void halo_request_destroy(struct halo_requests *requests, struct halo_request *request);
struct halo_request *halo_request_find(const struct halo_requests *requests, uint64_t id);

/* The first record, the one after `request`, the first WAITING one, the WAITING one after: by age. NULL: no more. */
struct halo_request *halo_request_first(const struct halo_requests *requests);
struct halo_request *halo_request_next(const struct halo_request *request);
struct halo_request *halo_request_first_waiting(const struct halo_requests *requests);
struct halo_request *halo_request_next_waiting(const struct halo_request *request);

/* Aborts on a move that the table of moves lacks. */
void halo_request_move(struct halo_requests *requests, struct halo_request *request, enum halo_request_state to);

/* Its client gets no more of it. Does nothing when that is so already. */
void halo_request_detach(struct halo_request *request);

/* Keeps the line and charges the user. 0, a HALO_QUOTA_E, -ENOMEM. */
int halo_request_keep_line(struct halo_requests *requests, struct halo_request *request, struct halo_quota_user *user,
                           const char *line, size_t len);

/* Its engine died. */
void halo_request_note_death(struct halo_request *request);

/* Notes a committed token: charged like the line; when that fails the record is only marked as not resumable. */
void halo_request_note_token(struct halo_requests *requests, struct halo_request *request, int32_t tok_id);

/* Both sides are over: frees it. Others may be sent now. */
void halo_request_end(struct halo_requests *requests, struct halo_request *request);

#endif
