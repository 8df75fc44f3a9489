/* breaker.h: how long to wait before the next engine, and when to stop starting them.
 *
 * Each death in a row of an engine that made no progress doubles the wait. After breaker_deaths of them the breaker
 * opens: no engine is started and requests are refused at once, instead of waiting for engines that load models and
 * die. It closes after breaker_ms or when a client sends `load`; one more death without progress opens it again.
 * Pure: state, event and time. One thread.
 */
#ifndef HALO_SERVE_REQUEST_BREAKER_H
#define HALO_SERVE_REQUEST_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include <serve/config.h>

struct halo_breaker {
    unsigned n_vain; /* deaths without progress in a row */
    bool progressed; /* the engine that runs now has made progress */
    bool open;
    uint64_t until_ns; /* open: when it closes by itself */
    uint64_t ready_ns; /* since when the engine has been ready; 0: it is not */
};

void halo_breaker_engine_ready(struct halo_breaker *breaker, uint64_t now_ns);
void halo_breaker_engine_progressed(struct halo_breaker *breaker);
/* Returns whether this death opened it. */
bool halo_breaker_engine_died(struct halo_breaker *breaker, const struct halo_config *config, uint64_t now_ns);
/* Does nothing while it is closed. */
void halo_breaker_close(struct halo_breaker *breaker, const struct halo_config *config);

/* Until it closes by itself, rounded up; 0 while it is closed. */
uint64_t halo_breaker_left_ms(const struct halo_breaker *breaker, uint64_t now_ns);
/* How long to wait before the next engine is started, while it is closed. */
uint64_t halo_breaker_backoff_ms(const struct halo_breaker *breaker, const struct halo_config *config);

#endif
