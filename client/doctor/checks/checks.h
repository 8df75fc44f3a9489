/* checks.h: the checks of check.def, each in a child of its own, all at once, under one deadline. */
#ifndef HALO_DOCTOR_CHECKS_H
#define HALO_DOCTOR_CHECKS_H

#include "options.h"
#include "probe.h"

struct halo_doctor_check {
    const char *id, *title, *source;
    unsigned stages, verdicts; /* verdicts: a bit for each that it can come to */
    /* Reads through the probe, says one verdict. Runs in a child: may block, must not write anywhere else. */
    void (*look)(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding);
};

extern const struct halo_doctor_check halo_doctor_checks[];
extern const size_t halo_doctor_n_checks;

/* Runs all checks, for little more than options->wait_ms. */
void halo_doctor_checks_run(const struct halo_doctor_options *options, struct halo_doctor_report *report);
/* The same for another list. */
void halo_doctor_checks_run_list(const struct halo_doctor_check *checks, size_t n,
                                 const struct halo_doctor_options *options, struct halo_doctor_report *report);

#endif
