/* retry.c: which requests run again, which run alone, which end. */
#include "retry_priv.h"

bool halo_retry_is_suspect(const struct halo_request *request, int64_t most_deaths)
{
    return request->n_deaths > 0 && (int64_t)request->n_deaths + 1 >= most_deaths && !request->progressed &&
           !halo_request_is_query(request->type);
}

enum halo_retry halo_retry_verdict(const struct halo_request *request, int64_t most_deaths)
{
    if (request->state == HALO_REQUEST_WAITING)
        return HALO_RETRY_AGAIN;
    if (halo_request_is_query(request->type) || halo_request_is_own_load(request))
        return HALO_RETRY_OWN;
    if (request->state == HALO_REQUEST_CANCELLING)
        return HALO_RETRY_CANCELLED;
    if (request->score.over)
        return HALO_RETRY_SCORED;
    if ((int64_t)request->n_deaths >= most_deaths)
        return HALO_RETRY_GUILTY;
    return HALO_RETRY_AGAIN;
}
