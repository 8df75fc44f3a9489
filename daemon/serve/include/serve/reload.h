/* reload.h: models come back after a restart, before waiting requests run. Loop thread. */
#ifndef HALO_SERVE_RELOAD_H
#define HALO_SERVE_RELOAD_H

#include <stdbool.h>

#include <serve/daemon.h>

/* Sends a load for each model that was in memory, one after the other; then the engine is READY. */
void halo_reload_begin(struct halo_daemon *daemon);
/* One of these loads ended. On failure the model is forgotten, aloud. */
void halo_reload_ended(struct halo_daemon *daemon, struct halo_request *request, bool loaded, const char *reason);
/* The engine died: if a model was coming back, it is charged with it, and given up the second time. */
void halo_reload_died(struct halo_daemon *daemon);

#endif
