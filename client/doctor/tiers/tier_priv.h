/* tier_priv.h: what the tiers share.
 *
 * A tier is a function that runs in a child and reports how it went; the parent detects hangs and crashes. What it
 * found goes back through the child's result, its phase through the child's port.
 */
#ifndef HALO_DOCTOR_TIER_PRIV_H
#define HALO_DOCTOR_TIER_PRIV_H

#include <hip/api.h>

#include "child.h"
#include "options.h"

/* How something failed. Bits, so that a rule can name several. */
enum halo_doctor_failure {
    HALO_DOCTOR_FINE = 0,
    HALO_DOCTOR_HANG = 1,   /* did not end */
    HALO_DOCTOR_ERROR = 2,  /* was refused, or the GPU reported a fault */
    HALO_DOCTOR_WRONG = 4,  /* ended, with a wrong result */
    HALO_DOCTOR_CRASH = 8,  /* the process was killed by a signal: of the runtime, as a rule */
    HALO_DOCTOR_UNFIT = 16, /* cannot be tried here: a skip */
};

#define HALO_DOCTOR_WHAT_BYTES 400

struct halo_doctor_tier {
    const struct halo_doctor_options *options;
    struct halo_child_port *port;
    struct halo_doctor_finding *finding; /* its verdict counts only when nothing failed */
    char what[HALO_DOCTOR_WHAT_BYTES];   /* of a failure: what happened, without a full stop */
};

/* ---- failure.c ---- */
/* Says what happened and returns `failure`. */
__attribute__((format(printf, 3, 4))) enum halo_doctor_failure halo_doctor_tier_fail(struct halo_doctor_tier *tier,
                                                                                     enum halo_doctor_failure failure,
                                                                                     const char *format, ...);
/* Reports the phase. The text is a gerund: "uploading 256 MiB from pinned memory". */
#define halo_doctor_tier_phase(tier, ...) halo_child_phase((tier)->port, __VA_ARGS__)
/* FINE for 0, else an ERROR "what: name (number)". */
enum halo_doctor_failure halo_doctor_tier_hip(struct halo_doctor_tier *tier, int hip_error, const char *what);
/* From a device call's error and reason: -ETIME is a hang. */
enum halo_doctor_failure halo_doctor_tier_device(struct halo_doctor_tier *tier, int error, const char *reason);

/* ---- driver.c (0), runtime.c (1, 2), memory.c (3), compute.c (4, 5), speed.c (6), engine.c (7) ---- */
enum halo_doctor_failure halo_doctor_tier_driver(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_sees(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_initialises(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_memory(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_kernel(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_matmul(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_speed(struct halo_doctor_tier *tier);
enum halo_doctor_failure halo_doctor_tier_engine(struct halo_doctor_tier *tier);

/* ---- memory.c: a round trip through one kind of memory ---- */
enum halo_doctor_path { HALO_DOCTOR_PAGEABLE, HALO_DOCTOR_PINNED, HALO_DOCTOR_ZERO_COPY };
enum halo_doctor_failure halo_doctor_trip(struct halo_doctor_tier *tier, enum halo_doctor_path path);

/* ---- runtime.c: the runtime, opened, with the GPU chosen and a stream: for tiers that make calls one by one.
 * Ends with the process. ---- */
struct halo_doctor_runtime {
    struct halo_hip_api api;
    struct halo_hip_properties properties;
    void *stream, *event;
};
enum halo_doctor_failure halo_doctor_runtime_open(struct halo_doctor_tier *tier, struct halo_doctor_runtime *ret);
/* Waits for all work of the stream, for as long as it takes: the tier's deadline is the limit. */
enum halo_doctor_failure halo_doctor_runtime_drain(struct halo_doctor_tier *tier, struct halo_doctor_runtime *runtime,
                                                   const char *what);

/* ---- cause.c ---- */
struct halo_doctor_cause {
    unsigned tiers;     /* bits 1 << tier */
    unsigned failures;  /* enum halo_doctor_failure */
    const char *within; /* NULL, or a part of the phase or of what happened */
    const char *says;   /* the cause that fits, and what to do */
    const char *source;
};
/* The first row of the table that matches; never NULL. */
const struct halo_doctor_cause *halo_doctor_cause_find(unsigned tier, enum halo_doctor_failure failure,
                                                       const char *phase, const char *what);
size_t halo_doctor_cause_count(void);
const struct halo_doctor_cause *halo_doctor_cause_at(size_t index);

/* ---- launch.c: notes what a launch costs, in a graph and in a stream ---- */
enum halo_doctor_failure halo_doctor_launch_measure(struct halo_doctor_tier *tier);

/* ---- speed.c: the verdict on what was reached; `known`: by a chip whose peaks are known. Pure. ---- */
void halo_doctor_speed_judge(struct halo_doctor_finding *finding, double bytes_s, double flops, bool known);

/* ---- sensor.c: what the driver reports about the GPU while it works ---- */
struct halo_doctor_range {
    uint32_t n;
    double low, high; /* NAN-free; of n samples */
};
struct halo_doctor_sensor {
    char clock[512], power[512], busy[512]; /* paths; empty: there is none */
    struct halo_doctor_range clock_mhz, power_w, busy_percent;
    char level[32]; /* power_dpm_force_performance_level */
};
void halo_doctor_sensor_find(struct halo_doctor_sensor *sensor, const char *sysroot);
void halo_doctor_sensor_sample(struct halo_doctor_sensor *sensor);

#endif
