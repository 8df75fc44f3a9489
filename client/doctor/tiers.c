/* tiers.c: what is tried rather than read. */
#include "tiers.h"

void halo_doctor_tiers_run(const struct halo_doctor_options *options, struct halo_doctor_report *report)
{
}
