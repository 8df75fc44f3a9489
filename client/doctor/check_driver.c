/* check_driver.c: the kernel module: is it there, whose is it. */
#include "check_priv.h"

#include <string.h>

void halo_doctor_look_driver(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct stat st;
    int module = halo_doctor_probe_stat(probe, &st, "/sys/module/amdgpu");
    int node = halo_doctor_probe_stat(probe, &st, "/dev/kfd");
    halo_doctor_finding_read(finding, "/sys/module/amdgpu: %s", module ? strerror(-module) : "there");
    halo_doctor_finding_read(finding, "/dev/kfd: %s", node ? strerror(-node) : "there");
    if (module)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "The amdgpu module is not loaded: there is no AMD GPU, it is given to a virtual "
                                "machine, or the module is missing or blacklisted (`modprobe amdgpu` says why). halod "
                                "runs on the CPU meanwhile (device = cpu).");
    else if (node)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "amdgpu is loaded without /dev/kfd: a kernel without CONFIG_HSA_AMD, or a container "
                                "that was not given the device (--device /dev/kfd --device /dev/dri).");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "amdgpu is loaded and has its compute node.");
}
