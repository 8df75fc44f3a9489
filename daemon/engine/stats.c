/* stats.c: counters and histograms with stable names. Any thread. */
#include <engine/stats.h>

#include <assert.h>
#include <stddef.h>

static const struct histogram_row {
    const char *name;
    uint32_t bounds[HALO_HISTOGRAM_BOUNDS];
} histogram_rows[HALO_N_HISTOGRAMS] = {
#define X(name, ...) {#name, {__VA_ARGS__}},
    HALO_HISTOGRAM_LIST(X)
#undef X
};

static const struct counter_row {
    const char *name;
    size_t offset;
} counter_rows[] = {
#define X(name) {#name, offsetof(struct halo_stats, name)},
    HALO_COUNTER_LIST(X)
#undef X
};

void halo_stats_observe(struct halo_stats *stats, enum halo_histogram_id id, uint64_t value)
{
    struct halo_histogram *histogram = &stats->histograms[id];
    uint32_t bucket = 0;
    while (bucket < HALO_HISTOGRAM_BOUNDS && value > histogram_rows[id].bounds[bucket])
        bucket++;
    atomic_fetch_add_explicit(&histogram->counts[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
}

const char *halo_histogram_name(enum halo_histogram_id id)
{
    assert(id < HALO_N_HISTOGRAMS);
    return histogram_rows[id].name;
}

const uint32_t *halo_histogram_bounds(enum halo_histogram_id id)
{
    assert(id < HALO_N_HISTOGRAMS);
    return histogram_rows[id].bounds;
}

uint32_t halo_stats_n_counters(void)
{
    return sizeof(counter_rows) / sizeof(counter_rows[0]);
}

const char *halo_stats_counter(struct halo_stats *stats, uint32_t index, uint64_t *ret_value)
{
    assert(index < halo_stats_n_counters());
    _Atomic uint64_t *counter = (_Atomic uint64_t *)(void *)((char *)stats + counter_rows[index].offset);
    *ret_value = atomic_load_explicit(counter, memory_order_relaxed);
    return counter_rows[index].name;
}
