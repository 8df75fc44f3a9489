/* stats.h: what the engine counted since it started. The names are stable: they are the ones of the `stats` reply.
 *
 * Threads: any may add and read; every number is by itself (relaxed atomics), a snapshot is not a moment in time.
 */
#ifndef HALO_ENGINE_STATS_H
#define HALO_ENGINE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

/* X(identifier = name in the reply) */
#define HALO_COUNTER_LIST(X)                                                                                           \
    X(steps)           /* runs of the plan */                                                                          \
    X(rows)            /* rows computed */                                                                             \
    X(steps_8_or_more) /* steps that held 8 or more sequences */                                                       \
    X(step_us)         /* time in the device */                                                                        \
    X(prompt_tokens)   /* rows of prompts, recomputed ones included */                                                 \
    X(cached_tokens)   /* positions taken from the prefix index instead of being computed */                           \
    X(committed_tokens)                                                                                                \
    X(score_rows)                                                                                                      \
    X(sequences_submitted)                                                                                             \
    X(prefix_hits)      /* sequences that began with pages of another */                                               \
    X(prefix_copies)    /* pages of which a part was copied */                                                         \
    X(prefix_evictions) /* cached pages given up for new ones */                                                       \
    X(preemptions)                                                                                                     \
    X(ended_stop)                                                                                                      \
    X(ended_length)                                                                                                    \
    X(ended_scored)                                                                                                    \
    X(cancelled_queued)                                                                                                \
    X(cancelled_prefill)                                                                                               \
    X(cancelled_decode)                                                                                                \
    X(cancelled_paused)                                                                                                \
    X(ended_deadline)                                                                                                  \
    X(ended_fault)                                                                                                     \
    X(refused_queue_full)                                                                                              \
    X(requests)         /* lines that were requests */                                                                 \
    X(requests_refused) /* lines that were none */                                                                     \
    X(loads)                                                                                                           \
    X(loads_failed)                                                                                                    \
    X(unloads)                                                                                                         \
    X(models_evicted) /* of these, to make room for another model */                                                   \
    X(models_expired) /* ... and at the end of their keep-alive time */                                                \
    X(load_bytes)                                                                                                      \
    X(load_us)                                                                                                         \
    X(expert_hit_bytes)    /* of streamed experts that a step used: those that were in memory */                       \
    X(expert_miss_bytes)   /* ... and those that were read from disk for it, on a guess or not */                      \
    X(expert_guess_bytes)  /* ... and asked for on a guess, whether they were read to the end and used or not */       \
    X(expert_wait_us)      /* steps that waited for experts from the disk */                                           \
    X(expert_failures)     /* steps that ended because an expert could not be read */                                  \
    X(streamed_rows)       /* of rows: those of models whose experts or layers are read from disk */                   \
    X(layer_read_bytes)    /* of streamed layers, read from disk */                                                    \
    X(layer_wait_us)       /* steps that waited for layers from the disk */                                            \
    X(layer_failures)      /* steps that ended because a layer could not be read */                                    \
    X(expert_read_bytes)   /* of streamed experts, read from disk, whether a step waited for them or not */            \
    X(expert_given_bytes)  /* of slots of streamed experts: memory given back, under pressure or for another model */  \
    X(expert_taken_bytes)  /* ... and taken again */                                                                   \
    X(expert_purged_bytes) /* ... and memory that the kernel took by itself */                                         \
    X(disk_read_bytes)     /* all that was read from models' files: loads, streamed weights, profiles */

/* X(identifier, 8 upper bounds) the last bucket is open */
#define HALO_HISTOGRAM_LIST(X)                                                                                         \
    X(step_rows, 1, 2, 4, 8, 16, 32, 64, 128)                                                                          \
    X(step_sequences, 1, 2, 4, 8, 16, 32, 48, 64)                                                                      \
    X(step_ms, 1, 5, 10, 25, 50, 100, 250, 1000)                                                                       \
    X(ttft_ms, 5, 20, 50, 100, 250, 1000, 5000, 30000)                                                                 \
    X(inter_token_ms, 1, 5, 10, 25, 50, 100, 250, 1000)                                                                \
    X(queue_ms, 1, 5, 20, 100, 500, 2000, 10000, 60000)

#define HALO_HISTOGRAM_BOUNDS 8

struct halo_histogram {
    _Atomic uint64_t counts[HALO_HISTOGRAM_BOUNDS + 1];
    _Atomic uint64_t n, sum; /* sum is in the unit of the name */
};

enum halo_histogram_id {
#define X(name, ...) HALO_HISTOGRAM_##name,
    HALO_HISTOGRAM_LIST(X)
#undef X
        HALO_N_HISTOGRAMS
};

struct halo_stats {
#define X(name) _Atomic uint64_t name;
    HALO_COUNTER_LIST(X)
#undef X
    struct halo_histogram histograms[HALO_N_HISTOGRAMS];
    _Atomic uint32_t n_queued, n_running; /* now, all models */
    _Atomic uint32_t n_held;              /* KV pages that sequences (or a save) hold, all models */
};

#define HALO_COUNT(stats, name, n) ((void)atomic_fetch_add_explicit(&(stats)->name, (n), memory_order_relaxed))

/* Adds one observation. */
void halo_stats_observe(struct halo_stats *stats, enum halo_histogram_id id, uint64_t value);

const char *halo_histogram_name(enum halo_histogram_id id);
const uint32_t *halo_histogram_bounds(enum halo_histogram_id id); /* [HALO_HISTOGRAM_BOUNDS] */

/* Counters by index, for writing them all out. */
uint32_t halo_stats_n_counters(void);
const char *halo_stats_counter(struct halo_stats *stats, uint32_t index, uint64_t *ret_value);

#endif
