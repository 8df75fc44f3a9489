/* counters.h: what `stats` reports of the daemon itself. Names are stable. One thread. */
#ifndef HALO_SERVE_COUNTERS_H
#define HALO_SERVE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include <protocol/json_write.h>

#define HALO_COUNTER_LIST(X)                                                                                           \
    X(connections)         /* accepted */                                                                              \
    X(connections_refused) /* over the limit */                                                                        \
    X(connections_shed)    /* silent ones, closed to make room */                                                      \
    X(accept_pauses)       /* accepting stopped for a moment: no descriptors or memory */                              \
    X(requests)            /* lines that were a request */                                                             \
    X(requests_refused)    /* lines answered with an error at once */                                                  \
    X(requests_done)       /* of them, those that the engine ended */                                                  \
    X(requests_resumed)    /* given to another engine after a death */                                                 \
    X(requests_lost)       /* ended by the engine's death */                                                           \
    X(cancels)             /* asked for by clients */                                                                  \
    X(disconnects)         /* connections that ended with requests open */                                             \
    X(pauses)              /* slow readers */                                                                          \
    X(stalls)              /* readers given up */                                                                      \
    X(output_refused)      /* events that did not fit what their user may leave unread */                              \
    X(bytes_in)            /* from clients */                                                                          \
    X(events)              /* lines of the engine passed on */                                                         \
    X(events_late)         /* lines for a request that is over */                                                      \
    X(models_evicted)      /* unloaded by the engine to make room for another one */                                   \
    X(engine_starts)                                                                                                   \
    X(engine_deaths)

#define HALO_HISTOGRAM_BOUNDS 14

struct halo_histogram {
    uint64_t counts[HALO_HISTOGRAM_BOUNDS + 1]; /* the last one: above every bound */
    uint64_t sum, n;
};

struct halo_counters {
#define X(name) uint64_t name;
    HALO_COUNTER_LIST(X)
#undef X
    struct halo_histogram forward_us; /* from a readable engine socket to the client's socket, for each event */
};

void halo_histogram_add(struct halo_histogram *histogram, uint64_t value, uint64_t n);
void halo_counters_write(const struct halo_counters *counters, struct halo_json *w);            /* an object */
void halo_counters_write_histograms(const struct halo_counters *counters, struct halo_json *w); /* an object */

#endif
