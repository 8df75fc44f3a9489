/* no_device.c: instead of tiers and bringup where the HIP device is not part of the build. */
#include <stdio.h>

#include "bringup/bringup.h"
#include "tiers/tiers.h"

void halo_doctor_tiers_run(const struct halo_doctor_options *options, struct halo_doctor_report *report)
{
    struct halo_doctor_finding *finding = halo_doctor_report_begin(report, "tiers", "what is tried on the GPU");
    halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP,
                            "This halo-doctor was built without the HIP device: it runs the checks alone.");
    halo_doctor_report_end(report, finding);
}

int halo_doctor_bringup(int argc, char **argv)
{
    fputs("halo-doctor: bringup needs a build with the HIP device (-Dhip=enabled)\n", stderr);
    return 2;
}
