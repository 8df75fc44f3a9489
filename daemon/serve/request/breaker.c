/* breaker.c: engines that die in vain are counted here, and what follows from it. */
#include <serve/request/breaker.h>

#define MS 1000000ull

void halo_breaker_engine_ready(struct halo_breaker *breaker, uint64_t now_ns)
{
    breaker->ready_ns = now_ns;
}

void halo_breaker_engine_progressed(struct halo_breaker *breaker)
{
    breaker->progressed = true;
    breaker->n_vain = 0;
}

bool halo_breaker_engine_died(struct halo_breaker *breaker, const struct halo_config *config, uint64_t now_ns)
{
    uint64_t period_ns = (uint64_t)config->breaker_ms * MS;
    bool lasted = breaker->ready_ns != 0 && now_ns - breaker->ready_ns >= period_ns;
    breaker->n_vain = breaker->progressed || lasted ? 0 : breaker->n_vain + 1;
    breaker->progressed = false; /* the next one begins anew */
    breaker->ready_ns = 0;
    if ((int64_t)breaker->n_vain < config->breaker_deaths)
        return false;
    breaker->open = true;
    breaker->until_ns = now_ns + period_ns;
    return true;
}

void halo_breaker_close(struct halo_breaker *breaker, const struct halo_config *config)
{
    if (!breaker->open)
        return;
    breaker->open = false;
    breaker->n_vain = (unsigned)config->breaker_deaths - 1; /* one more opens it again */
}

uint64_t halo_breaker_left_ms(const struct halo_breaker *breaker, uint64_t now_ns)
{
    return breaker->open && breaker->until_ns > now_ns ? (breaker->until_ns - now_ns + MS - 1) / MS : 0;
}

uint64_t halo_breaker_backoff_ms(const struct halo_breaker *breaker, const struct halo_config *config)
{
    int64_t ms = config->restart_min_ms;
    for (unsigned i = 1; i < breaker->n_vain && ms < config->restart_max_ms; i++)
        ms *= 2;
    return (uint64_t)(ms < config->restart_max_ms ? ms : config->restart_max_ms);
}
