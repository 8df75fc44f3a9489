/* counters.c: counters and histograms as JSON. */
#include <serve/counters.h>

static const uint64_t bounds[HALO_HISTOGRAM_BOUNDS] = {1,   2,   5,    10,   20,   50,    100,
                                                       200, 500, 1000, 2000, 5000, 10000, 100000};

void halo_histogram_add(struct halo_histogram *histogram, uint64_t value, uint64_t n)
{
    size_t i = 0;
    while (i < HALO_HISTOGRAM_BOUNDS && value > bounds[i])
        i++;
    histogram->counts[i] += n;
    histogram->sum += value * n;
    histogram->n += n;
}

void halo_counters_write(const struct halo_counters *counters, struct halo_json *w)
{
    halo_json_object_begin(w);
#define X(name)                                                                                                        \
    halo_json_key(w, #name);                                                                                           \
    halo_json_u64(w, counters->name);
    HALO_COUNTER_LIST(X)
#undef X
    halo_json_object_end(w);
}

static void write_list(struct halo_json *w, const char *key, const uint64_t *values, size_t n)
{
    halo_json_key(w, key);
    halo_json_array_begin(w);
    for (size_t i = 0; i < n; i++)
        halo_json_u64(w, values[i]);
    halo_json_array_end(w);
}

void halo_counters_write_histograms(const struct halo_counters *counters, struct halo_json *w)
{
    const struct halo_histogram *h = &counters->forward_us;
    halo_json_object_begin(w);
    halo_json_key(w, "forward_us");
    halo_json_object_begin(w);
    write_list(w, "bounds", bounds, HALO_HISTOGRAM_BOUNDS);
    write_list(w, "counts", h->counts, HALO_HISTOGRAM_BOUNDS + 1);
    halo_json_key(w, "sum");
    halo_json_u64(w, h->sum);
    halo_json_key(w, "n");
    halo_json_u64(w, h->n);
    halo_json_object_end(w);
    halo_json_object_end(w);
}
