/* main.c: many lives of halod's policies, each from a seed of its own, or one from a file.
 *
 *   sim [--seed N] [--seeds N] [--events M] [--seconds S]   lives from seeds N, N + 1, ...: so many, or for so long
 *   sim FILE...                                             lists of events, as a failing life prints them
 *
 * A life that fails is searched for its shortest list of events that still fails, which is printed. Exit status 0, 1: a
 * life failed, 2: wrong usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "run.h"

#define EVENTS 4000

struct totals {
    uint64_t n_lives, n_events, n_stimuli, n_requests, n_deaths, n_resumed, n_breaks;
    uint64_t cancels, disconnects, pauses, stalls, output_refused, requests_lost, models_evicted, events_late;
    size_t most_records, most_inbox_bytes, most_output_bytes, most_waiting;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void add(struct totals *totals, const struct sim_report *report, size_t n_events)
{
    totals->n_lives++;
    totals->n_events += n_events;
    totals->n_stimuli += report->n_stimuli;
    totals->n_requests += report->n_requests;
    totals->n_deaths += report->n_deaths;
    totals->n_resumed += report->n_resumed;
    totals->n_breaks += report->n_breaks;
    totals->cancels += report->counters.cancels;
    totals->disconnects += report->counters.disconnects;
    totals->pauses += report->counters.pauses;
    totals->stalls += report->counters.stalls;
    totals->output_refused += report->counters.output_refused;
    totals->requests_lost += report->counters.requests_lost;
    totals->models_evicted += report->counters.models_evicted;
    totals->events_late += report->counters.events_late;
    totals->most_records = larger(totals->most_records, report->most_records);
    totals->most_inbox_bytes = larger(totals->most_inbox_bytes, report->most_inbox_bytes);
    totals->most_output_bytes = larger(totals->most_output_bytes, report->most_output_bytes);
    totals->most_waiting = larger(totals->most_waiting, report->most_waiting);
}

static void print(const struct totals *totals, double seconds)
{
    printf("sim: %" PRIu64 " lives, %" PRIu64 " events, %" PRIu64
           " times something reached halod, in %.1f s: %.2f million "
           "a minute\n",
           totals->n_lives, totals->n_events, totals->n_stimuli, seconds, (double)totals->n_stimuli * 60e-6 / seconds);
    printf("sim: %" PRIu64 " requests, %" PRIu64 " deaths of engines, %" PRIu64
           " requests sent again; at most %zu records, "
           "%zu waiting, %zu bytes for the engine, %zu bytes unread\n",
           totals->n_requests, totals->n_deaths, totals->n_resumed, totals->most_records, totals->most_waiting,
           totals->most_inbox_bytes, totals->most_output_bytes);
    printf("sim: %" PRIu64 " cancels, %" PRIu64 " clients gone with requests open, %" PRIu64 " readers slow, %" PRIu64
           " stalled, %" PRIu64 " without room for output, %" PRIu64 " requests lost, the breaker opened %" PRIu64
           " times, %" PRIu64 " models evicted, %" PRIu64 " late events\n",
           totals->cancels, totals->disconnects, totals->pauses, totals->stalls, totals->output_refused,
           totals->requests_lost, totals->n_breaks, totals->models_evicted, totals->events_late);
}

/* Prints the failure with its shortest list of events. */
static void tell(struct sim_life *life, struct sim_report *report, const char *where)
{
    printf("sim: %s fails at event %zu of %zu: %s: %s\n", where, report->at, life->n, report->rule, report->text);
    if (sim_minimise(life, report) < 0)
        printf("sim: the search for a shorter list failed\n");
    printf("# %s\n# %s: %s\n", where, report->rule, report->text);
    sim_life_print(life);
}

/* 0, 1: it failed, or a negative errno. */
static int run(struct sim_life *life, struct totals *totals, const char *where)
{
    struct sim_report report;
    int r = sim_run(life, false, &report);
    if (r < 0)
        return r;
    add(totals, &report, life->n);
    if (report.failed)
        tell(life, &report, where);
    return report.failed;
}

static int run_files(int n, char **paths)
{
    struct totals totals = {0};
    uint64_t start_ns = halo_clock_ns();
    int bad = 0;
    for (int i = 0; i < n; i++) {
        struct sim_life life;
        size_t line;
        if (sim_life_read(&life, paths[i], &line) < 0) {
            fprintf(stderr, "sim: %s:%zu: cannot be read\n", paths[i], line);
            return 2;
        }
        bad |= run(&life, &totals, paths[i]) != 0;
        sim_life_finish(&life);
    }
    print(&totals, (double)(halo_clock_ns() - start_ns) / 1e9);
    return bad;
}

static int run_seeds(uint64_t seed, uint64_t n_seeds, size_t n_events, double seconds)
{
    struct totals totals = {0};
    uint64_t start_ns = halo_clock_ns();
    char where[64];
    int r = 0;
    for (uint64_t i = 0; r == 0 && (seconds > 0 ? (double)(halo_clock_ns() - start_ns) < seconds * 1e9 : i < n_seeds);
         i++) {
        struct sim_life life;
        r = sim_life_draw(&life, seed + i, n_events);
        if (r < 0)
            break;
        snprintf(where, sizeof(where), "seed %" PRIu64, seed + i);
        r = run(&life, &totals, where);
        sim_life_finish(&life);
    }
    if (r < 0)
        fprintf(stderr, "sim: %s\n", strerror(-r));
    print(&totals, (double)(halo_clock_ns() - start_ns) / 1e9);
    return r != 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim [--seed N] [--seeds N] [--events M] [--seconds S] | sim FILE...\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, n_seeds = 1, n_events = EVENTS, n_seconds = 0;
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0      ? &seed
                       : strcmp(argv[i], "--seeds") == 0   ? &n_seeds
                       : strcmp(argv[i], "--events") == 0  ? &n_events
                       : strcmp(argv[i], "--seconds") == 0 ? &n_seconds
                                                           : NULL;
        char *end = argv[i + 1];
        if (to)
            *to = strtoull(argv[i + 1], &end, 10);
        if (!to || *end != '\0' || end == argv[i + 1])
            return usage();
    }
    if (i < argc && argv[i][0] == '-')
        return usage();
    if (i < argc)
        return i == 1 ? run_files(argc - 1, argv + 1) : usage();
    return run_seeds(seed, n_seeds, n_events, (double)n_seconds);
}
