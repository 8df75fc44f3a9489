/* speed_compare.c: measurements of two sides from standard input, the comparison as Markdown. The statistics: ratio.h.
 *
 *   speed_compare NAME_A NAME_B < LINES      each line: a|b METRIC VALUE, higher is better
 *
 * Exit status: 0 no difference is shown, 1 a loss of 5 % or more, 2 the input is not a comparison, 4 a gain and no
 * loss, 5 a loss under 5 %.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ratio.h"

#define MOST_METRICS 8
#define LEVEL 0.95

enum { EXIT_LOSS = 1, EXIT_NOTHING = 2, EXIT_GAIN = 4, EXIT_LOSS_SMALL = 5 };

struct metric {
    char name[32];
    double values[2][HALO_RATIO_MOST];
    size_t n[2];
};

static struct metric *metric_of(struct metric *metrics, const char *name)
{
    for (size_t i = 0; i < MOST_METRICS; i++) {
        if (!metrics[i].name[0])
            snprintf(metrics[i].name, sizeof(metrics[i].name), "%s", name);
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    }
    return NULL;
}

static bool measurements_read(struct metric *metrics)
{
    char line[256], side[2], name[32], rest[2];
    double value;
    while (fgets(line, sizeof(line), stdin)) {
        bool good = sscanf(line, "%1s %31s %lf %1s", side, name, &value, rest) == 3 && (*side == 'a' || *side == 'b');
        struct metric *metric = good ? metric_of(metrics, name) : NULL;
        if (!metric || metric->n[*side - 'a'] == HALO_RATIO_MOST) {
            fprintf(stderr, "speed_compare: not a measurement, or one too many: %s", line);
            return false;
        }
        metric->values[*side - 'a'][metric->n[*side - 'a']++] = value;
    }
    return true;
}

static const char *words_of(enum halo_ratio_verdict verdict)
{
    switch (verdict) {
    case HALO_RATIO_SAME: return "no difference shown";
    case HALO_RATIO_GAIN: return "gain";
    case HALO_RATIO_LOSS_SMALL: return "loss, under 5 %";
    case HALO_RATIO_LOSS: return "**loss**";
    }
    return "?";
}

static void side_print(double *values, size_t n)
{
    double median = halo_median(values, n);
    printf(" %.1f (%.1f to %.1f, %.1f %%) |", median, values[0], values[n - 1],
           100 * (values[n - 1] - values[0]) / median);
}

/* False: it cannot be compared. */
static bool metric_compare(struct metric *metric, enum halo_ratio_verdict *ret)
{
    struct halo_ratio ratio;
    if (!halo_ratio_of(metric->values[0], metric->n[0], metric->values[1], metric->n[1], LEVEL, &ratio)) {
        fprintf(stderr, "speed_compare: %s: %zu and %zu measurements; each side needs %d to %d positive numbers\n",
                metric->name, metric->n[0], metric->n[1], HALO_RATIO_LEAST, HALO_RATIO_MOST);
        return false;
    }
    *ret = halo_ratio_judge(&ratio);
    printf("| %s |", metric->name);
    side_print(metric->values[0], metric->n[0]);
    side_print(metric->values[1], metric->n[1]);
    printf(" %.3f | %.3f to %.3f (%.1f %%) | %s |\n", ratio.ratio, ratio.low, ratio.high, 100 * ratio.coverage,
           words_of(*ret));
    return true;
}

int main(int argc, char **argv)
{
    static struct metric metrics[MOST_METRICS];
    static const int statuses[] = {[HALO_RATIO_SAME] = EXIT_SUCCESS,
                                   [HALO_RATIO_GAIN] = EXIT_GAIN,
                                   [HALO_RATIO_LOSS_SMALL] = EXIT_LOSS_SMALL,
                                   [HALO_RATIO_LOSS] = EXIT_LOSS};
    enum halo_ratio_verdict worst = HALO_RATIO_SAME, verdict;
    if (argc != 3 || !measurements_read(metrics) || !metrics[0].name[0]) {
        fprintf(stderr, "usage: speed_compare NAME_A NAME_B < LINES (a|b METRIC VALUE)\n");
        return EXIT_NOTHING;
    }
    printf("| tok/s | %s, median (lowest to highest, spread) | %s | %s / %s | interval |  |\n", argv[1], argv[2],
           argv[2], argv[1]);
    printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < MOST_METRICS && metrics[i].name[0]; i++) {
        if (!metric_compare(&metrics[i], &verdict))
            return EXIT_NOTHING;
        worst = verdict > worst ? verdict : worst; /* in the order of the enum a loss is above a gain */
    }
    return statuses[worst];
}
