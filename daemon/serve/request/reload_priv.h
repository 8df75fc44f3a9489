/* reload_priv.h: models come back after a restart, before waiting requests run. */
#ifndef HALO_SERVE_REQUEST_RELOAD_PRIV_H
#define HALO_SERVE_REQUEST_RELOAD_PRIV_H

#include <serve/request/requests.h>

/* Sends a load for each model that was in memory, one after the other; then the engine is READY. */
void halo_reload_begin(struct halo_requests *requests);
/* One of these loads ended. On failure the model is forgotten, with a line in the log. */
void halo_reload_ended(struct halo_requests *requests, struct halo_request *request, bool loaded, const char *reason);
/* The engine died: a model that was coming back is charged with it, and given up after request_deaths of them. */
void halo_reload_died(struct halo_requests *requests);

#endif
