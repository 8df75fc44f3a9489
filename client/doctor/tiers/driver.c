/* driver.c: tier 0: the kernel's driver has a GPU and the user may open its devices. Reads below the sysroot. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "probe.h"
#include "tier_priv.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

static enum halo_doctor_failure cannot_open(struct halo_doctor_tier *tier, struct halo_doctor_probe *probe,
                                            const char *path, int error)
{
    struct stat st;
    if (error == -ENOENT)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s is not there", path);
    if ((error == -EACCES || error == -EPERM) && halo_doctor_probe_stat(probe, &st, "%s", path) == 0) {
        const struct group *group = getgrgid(st.st_gid);
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR,
                                     "%s may not be opened by user %u: it belongs to group %s (%u), mode %o", path,
                                     (unsigned)geteuid(), group ? group->gr_name : "without a name",
                                     (unsigned)st.st_gid, (unsigned)st.st_mode & 0777);
    }
    return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s cannot be opened: %s", path, strerror(-error));
}

static enum halo_doctor_failure open_device(struct halo_doctor_tier *tier, struct halo_doctor_probe *probe,
                                            const char *path)
{
    halo_doctor_tier_phase(tier, "opening %s", path);
    int r = halo_doctor_probe_open(probe, "%s", path);
    if (r)
        return cannot_open(tier, probe, path, r);
    halo_doctor_finding_read(tier->finding, "%s = opened", path);
    return HALO_DOCTOR_FINE;
}

enum halo_doctor_failure halo_doctor_tier_driver(struct halo_doctor_tier *tier)
{
    char at[HALO_DOCTOR_PATH_BYTES] = "", path[64];
    struct halo_doctor_probe probe = {.sysroot = tier->options->sysroot, .finding = tier->finding, .at = at};
    static struct halo_doctor_gpu gpu;
    struct stat st;
    halo_doctor_tier_phase(tier, "looking for /sys/module/amdgpu");
    if (halo_doctor_probe_stat(&probe, &st, "/sys/module/amdgpu") != 0)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "/sys/module/amdgpu is not there");
    halo_doctor_finding_read(tier->finding, "/sys/module/amdgpu = there");
    enum halo_doctor_failure failure = open_device(tier, &probe, "/dev/kfd");
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "looking for the GPU in /sys/class/kfd");
    if (!halo_doctor_gpu_find(&probe, &gpu) || gpu.node < 0)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "no GPU is listed in " NODES);
    halo_doctor_finding_read(tier->finding, NODES "/%d = %s", gpu.node, gpu.name);
    if (gpu.minor < 0)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, NODES "/%d names no render device", gpu.node);
    snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpu.minor);
    failure = open_device(tier, &probe, path);
    if (!failure)
        halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "The driver has %s, and its devices open.", gpu.name);
    return failure;
}
