/* run.h: lives in child processes, so that an assertion of halod's is a finding like any other.
 *
 * The child tells through shared memory how far it is; the parent hears of its end. One at a time.
 */
#ifndef HALO_TEST_SIM_RUN_H
#define HALO_TEST_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <serve/counters.h>

#include "event.h"

#define SIM_TEXT_BYTES 1024

struct sim;

struct sim_report {
    size_t at;          /* the event under way */
    uint64_t n_stimuli; /* lines, deaths, timers, reads: each followed by the checks */
    uint64_t n_requests, n_ended, n_deaths, n_resumed;
    uint64_t n_breaks; /* how often the breaker opened */
    struct halo_counters counters;
    size_t most_records, most_inbox_bytes, most_output_bytes, most_waiting;
    bool failed;
    char rule[32]; /* which invariant; of a signal: its number */
    char text[SIM_TEXT_BYTES];
};

/* A rule of the simulation is broken: ends the child. */
__attribute__((noreturn, format(printf, 3, 4))) void sim_fail(struct sim *sim, const char *rule, const char *format,
                                                              ...);

/* Lives through `life`; what happened is in *ret_report. What the child writes is shown if it fails and is
 * not `quiet`. 0, or a negative
 * errno: no child could be made. */
int sim_run(const struct sim_life *life, bool quiet, struct sim_report *ret_report);

/* Leaves out events as long as the same rule breaks. `report`: of the life as it is; becomes that of the short one. */
int sim_minimise(struct sim_life *life, struct sim_report *report);

#endif
