/* resume_priv.h: a request on its way to an engine, so that nothing is sent twice to its client and nothing is lost. */
#ifndef HALO_SERVE_REQUEST_RESUME_PRIV_H
#define HALO_SERVE_REQUEST_RESUME_PRIV_H

#include <serve/request/requests.h>

/* Appends the request's line: with `left_ms` where it has a deadline, `from` of a score, `resume` of a reply that has
 * begun. A negative errno; then nothing was appended. */
int halo_resume_append(struct halo_json *out, const struct halo_request *request, int64_t left_ms, uint64_t now_ns);

/* Whether another engine can continue it; else the reason, in words. */
bool halo_resume_possible(const struct halo_known_models *models, const struct halo_request *request, char *ret_reason,
                          size_t room);

/* The one `engine_restarted` notice for a death, if the client has something of the reply. `note`: more about the
 * reason, or "". */
void halo_resume_notify(struct halo_request *request, const char *reason, const char *note);

/* `done` of a score whose rows came from more than one engine. Terminal. */
void halo_resume_score_done(struct halo_request *request);

#endif
