/* resubmit.h: what becomes of a request whose engine died. The one place for that policy. */
#ifndef HALO_SERVE_RESUBMIT_H
#define HALO_SERVE_RESUBMIT_H

#include <serve/daemon.h>

enum halo_resubmit {
    HALO_RESUBMIT_END, /* ends with engine_lost */
    HALO_RESUBMIT_AGAIN, /* runs again on the next engine */
};

enum halo_resubmit halo_resubmit_verdict(const struct halo_request *request);

/* The engine is gone: every request that it had ends or goes back to waiting. */
void halo_resubmit_all(struct halo_daemon *daemon, const char *reason);

#endif
