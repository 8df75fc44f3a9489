/* launch.c: what a launch costs that waits for the one before: a step of many ops that do next to nothing, less a step
 * of one, replayed as a graph and launched kernel by kernel. The shortest of many steps: others can only delay one.
 */
#include <stdlib.h>

#include <client/clock.h>

#include "trial.h"

#define LAUNCHES 200
#define WIDTH 32
#define ENOUGH_S 0.1 /* of steps */

static double some_number(uint32_t row, uint32_t column)
{
    return row + column;
}

/* Seconds of a step of n additions, each to what the one before left. */
static enum halo_doctor_failure measure_step(struct halo_doctor_tier *tier, struct halo_doctor_trial *trial, uint32_t n,
                                             double *ret_s)
{
    float out[WIDTH];
    halo_doctor_trial_init(trial, tier, 1, 1);
    const uint16_t add = halo_doctor_trial_input(trial, WIDTH, some_number),
                   x = halo_doctor_trial_input(trial, WIDTH, some_number);
    for (uint32_t i = 0; i < n; i++)
        halo_doctor_trial_op(trial, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {x, add}});
    enum halo_doctor_failure failure = halo_doctor_trial_open(trial);
    const double begin = halo_client_now_s();
    *ret_s = 0;
    for (int i = 0; !failure && (i < 3 || halo_client_now_s() - begin < ENOUGH_S); i++) {
        const double start = halo_client_now_s();
        failure = halo_doctor_trial_run(trial, 1, 0, NULL);
        if (!failure)
            failure = halo_doctor_trial_peek(trial, x, 0, out);
        const double took = halo_client_now_s() - start;
        if (i > 1 && (*ret_s == 0 || took < *ret_s)) /* the first ones launch kernels for the first time */
            *ret_s = took;
    }
    return failure;
}

enum halo_doctor_failure halo_doctor_launch_measure(struct halo_doctor_tier *tier)
{
    static const char *const ways[2] = {"launch in a graph", "launch in a stream"};
    static struct halo_doctor_trial trials[2][2];
    for (int i = 0; i < 2; i++) {
        double few = 0, many = 0;
        if (i == 1)
            setenv("HALO_HIP_GRAPHS", "0", 1); /* the process ends with the tier */
        enum halo_doctor_failure failure = measure_step(tier, &trials[i][0], 1, &few);
        if (!failure)
            failure = measure_step(tier, &trials[i][1], 1 + LAUNCHES, &many);
        if (failure)
            return failure;
        halo_doctor_finding_read(tier->finding, "%s = %.2f us", ways[i], 1e6 * (many - few) / LAUNCHES);
    }
    unsetenv("HALO_HIP_GRAPHS");
    return HALO_DOCTOR_FINE;
}
