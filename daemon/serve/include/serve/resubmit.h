/* resubmit.h: what becomes of a request whose engine died. The one place for that policy. Loop thread. */
#ifndef HALO_SERVE_RESUBMIT_H
#define HALO_SERVE_RESUBMIT_H

#include <serve/daemon.h>

enum halo_resubmit {
    HALO_RESUBMIT_AGAIN,     /* waits for the next engine, to go on or to run again */
    HALO_RESUBMIT_OWN,       /* the daemon's: a query, answered without the engine; a model on its way back */
    HALO_RESUBMIT_CANCELLED, /* ends as its client wanted */
    HALO_RESUBMIT_SCORED,    /* all rows are there */
    HALO_RESUBMIT_GUILTY,    /* ends with engine_lost */
};

/* After its death was noted. `most_deaths`: of engines in a row that committed nothing of it. */
enum halo_resubmit halo_resubmit_verdict(const struct halo_request *request, int64_t most_deaths);

/* Whether the next engine must have it alone. */
bool halo_resubmit_is_suspect(const struct halo_daemon *daemon, const struct halo_request *request);

/* The engine is gone: every request that it had ends or waits. */
void halo_resubmit_all(struct halo_daemon *daemon, const char *reason);

#endif
