/* retry_priv.h: what becomes of a request whose engine died. Pure functions of the record. */
#ifndef HALO_SERVE_REQUEST_RETRY_PRIV_H
#define HALO_SERVE_REQUEST_RETRY_PRIV_H

#include <serve/request/request.h>

enum halo_retry {
    HALO_RETRY_AGAIN,     /* waits for the next engine, to continue or to run again */
    HALO_RETRY_OWN,       /* the daemon's: a query, answered without the engine; a load, which is asked for again */
    HALO_RETRY_CANCELLED, /* ends as its client wanted */
    HALO_RETRY_SCORED,    /* all rows are there */
    HALO_RETRY_GUILTY,    /* ends with engine_lost */
};

/* After its death was noted. `most_deaths`: of engines in a row without a committed token of it. */
enum halo_retry halo_retry_verdict(const struct halo_request *request, int64_t most_deaths);

/* Whether the next engine must have it alone. */
bool halo_retry_is_suspect(const struct halo_request *request, int64_t most_deaths);

#endif
