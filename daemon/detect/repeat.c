/* repeat.c: detectors of ids that repeat. An end token does not count. Any thread; memory only within a call.
 *
 * The thresholds of the windows (share of the commonest id, share of different ids) are those that the field's gates
 * have used on broken quantizations; every count that is too small to judge is a SKIP.
 */
#include <stdlib.h>
#include <string.h>

#include "detect_priv.h"

#define WINDOW 128
#define LEAST 16 /* ids */
#define GUARD 256

/* How often the commonest of `n` <= GUARD ids stands there, and how many different ones there are. */
static size_t count_ids(const int32_t *ids, size_t n, size_t *ret_n_unique)
{
    size_t most = 0;
    *ret_n_unique = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        bool seen = false;
        for (size_t j = 0; j < n; j++) {
            same += ids[j] == ids[i];
            seen |= j < i && ids[j] == ids[i];
        }
        most = same > most ? same : most;
        *ret_n_unique += !seen;
    }
    return most;
}

struct marks {
    double hard_most, hard_unique, soft_most, soft_unique;
};

static void judge(const int32_t *ids, size_t n, const struct marks *marks, struct halo_finding *ret)
{
    size_t n_unique, most;
    if (n < LEAST) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu ids, %d are needed", n, LEAST);
        return;
    }
    most = count_ids(ids, n, &n_unique);
    double share = (double)most / (double)n, unique = (double)n_unique / (double)n;
    bool hard = share > marks->hard_most || unique < marks->hard_unique;
    if (hard || share > marks->soft_most || unique < marks->soft_unique)
        halo_find(ret, hard ? HALO_VERDICT_FAIL : HALO_VERDICT_WARN,
                  "of %zu ids the most frequent is %.0f %%, %.0f %% are distinct", n, 100 * share, 100 * unique);
}

void halo_look_attractor_first(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    static const struct marks marks = {0.50, 0.15, 0.40, 0.30};
    size_t n = halo_detect_n_body(reply);
    judge(reply->ids, n < WINDOW ? n : WINDOW, &marks, ret);
}

void halo_look_attractor_last(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    static const struct marks marks = {0.50, 0.30, 0.40, 0.40};
    size_t n = halo_detect_n_body(reply), from = n > WINDOW ? n - WINDOW : 0;
    judge(from > 0 ? reply->ids + from : reply->ids, n - from, &marks, ret); /* no ids may be no address */
}

void halo_look_collapse(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = halo_detect_n_body(reply), n_unique;
    if (n < WINDOW) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu ids, %d are needed", n, WINDOW);
        return;
    }
    for (size_t at = 0; at + WINDOW <= n; at += 16) {
        size_t most = count_ids(reply->ids + at, WINDOW, &n_unique);
        if (most * 2 <= WINDOW && n_unique * 10 >= WINDOW * 3)
            continue;
        halo_find(ret, at < WINDOW / 2 ? HALO_VERDICT_FAIL : HALO_VERDICT_WARN,
                  "from id %zu, %d ids: the most frequent %zu times, %zu distinct", at, WINDOW, most, n_unique);
        return;
    }
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void halo_look_unique(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = halo_detect_n_body(reply), n_unique = 0;
    int32_t *sorted = n >= WINDOW ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted) {
        halo_find(ret, HALO_VERDICT_SKIP, n < WINDOW ? "%zu ids, %d are needed" : "no memory for %zu ids", n, WINDOW);
        return;
    }
    memcpy(sorted, reply->ids, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 0; i < n; i++)
        n_unique += i == 0 || sorted[i] != sorted[i - 1];
    free(sorted);
    if (n_unique * 10 < n)
        halo_find(ret, HALO_VERDICT_WARN, "%zu different ids of %zu", n_unique, n);
}

static bool same(const int32_t *ids, size_t a, size_t b, size_t n)
{
    return memcmp(ids + a, ids + b, n * sizeof *ids) == 0;
}

void halo_look_ngram(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = halo_detect_n_body(reply), from = n / 2, most = 0, n_groups;
    if (n < 32) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu ids, 32 are needed", n);
        return;
    }
    if (n - from > 4096)
        from = n - 4096; /* the end says it as well */
    n_groups = n - from - 2;
    for (size_t i = from; i + 3 <= n; i++) {
        size_t count = 0;
        for (size_t j = from; j + 3 <= n; j++)
            count += same(reply->ids, i, j, 3);
        most = count > most ? count : most;
        if (most * 2 > n_groups)
            break;
    }
    if (most * 2 > n_groups)
        halo_find(ret, HALO_VERDICT_WARN, "one group of three is more than half of the last %zu", n_groups);
}

/* The longest end of the ids that goes round with this period. */
static size_t tail_of(const int32_t *ids, size_t n, size_t period)
{
    size_t length = period;
    while (length < n && ids[n - 1 - length] == ids[n - 1 - length + period])
        length++;
    return length;
}

bool halo_detect_cycle(const int32_t *ids, size_t n, size_t max_period, struct halo_cycle *ret)
{
    struct halo_cycle best = {0, 0};
    for (size_t period = 1; period <= max_period && period * 3 <= n; period++) {
        size_t length = tail_of(ids, n, period);
        if (length >= 3 * period && length >= 24 && length > best.n_ids + period)
            best = (struct halo_cycle){period, length};
    }
    *ret = best;
    return best.period > 0;
}

void halo_look_period(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = halo_detect_n_body(reply);
    struct halo_cycle cycle;
    if (n < 24) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu ids, 24 are needed", n);
        return;
    }
    if (!halo_detect_cycle(reply->ids, n, n, &cycle))
        return;
    halo_find(ret, halo_cycle_is_hard(&cycle) ? HALO_VERDICT_FAIL : HALO_VERDICT_WARN,
              "from id %zu on a cycle of %zu ids, %zu.%zu times to the end", n - cycle.n_ids, cycle.period,
              cycle.n_ids / cycle.period, cycle.n_ids % cycle.period * 10 / cycle.period);
}

void halo_look_loop_guard(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = halo_detect_n_body(reply), from = n > GUARD ? n - GUARD : 0;
    if (n < 32) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu ids, 32 are needed", n);
        return;
    }
    for (size_t i = from; i + 4 <= n; i++) {
        size_t count = 1, last = i;
        for (size_t j = i + 1; j + 4 <= n; j++)
            if (j >= last + 4 && same(reply->ids, i, j, 4)) {
                count++;
                last = j;
            }
        if (count >= 8) {
            halo_find(ret, HALO_VERDICT_WARN, "the four ids from %zu occur %zu times", i, count);
            return;
        }
    }
}
