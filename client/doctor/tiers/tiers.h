/* tiers.h: tests that use the GPU, step by step; each tier needs the one before it. */
#ifndef HALO_DOCTOR_TIERS_H
#define HALO_DOCTOR_TIERS_H

#include "options.h"

/* Runs the tiers options->first_tier to options->last_tier, each a finding "tier0", "tier1"... in the report. */
void halo_doctor_tiers_run(const struct halo_doctor_options *options, struct halo_doctor_report *report);

#endif
