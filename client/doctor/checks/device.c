/* device.c: is there a GPU, may we use it, which one is it? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

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

/* ---- access ---- */

/* The name of a group, from the tree's own list: "render"; its number when it has none there. */
static void group_name(struct halo_doctor_probe *probe, unsigned long gid, char *ret, size_t room)
{
    char *text = malloc(1 << 16);
    snprintf(ret, room, "%lu", gid);
    if (text && halo_doctor_probe_head(probe, text, 1 << 16, "/etc/group") > 0)
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
            char *name = strsep(&line, ":"), *number = NULL;
            if (line && strsep(&line, ":"))
                number = line ? strsep(&line, ":") : NULL;
            if (number && *number && strtoul(number, NULL, 10) == gid) {
                snprintf(ret, room, "%s", name);
                break;
            }
        }
    free(text);
}

/* Notes what keeps us out of a device file. */
static void note_owner(struct halo_doctor_probe *probe, const char *path, char *ret_group, size_t room)
{
    struct stat st;
    char status[8192], groups[256];
    if (halo_doctor_probe_stat(probe, &st, "%s", path) != 0)
        return;
    group_name(probe, st.st_gid, ret_group, room);
    halo_doctor_finding_read(probe->finding, "%s has mode %04o, group %s", path, (unsigned)(st.st_mode & 07777),
                             ret_group);
    if (halo_doctor_probe_head(probe, status, sizeof status, "/proc/self/status") > 0 &&
        halo_doctor_line_of(status, "Groups", groups, sizeof groups))
        halo_doctor_finding_read(probe->finding, "own groups: %s", groups[0] ? groups : "none");
}

void halo_doctor_look_access(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    struct stat st;
    char paths[2][64] = {"/dev/kfd", ""}, group[64] = "render";
    if (halo_doctor_probe_stat(probe, &st, "/dev/kfd") == -ENOENT) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "There is no /dev/kfd to open.");
        return;
    }
    if (halo_doctor_gpu_find(probe, &gpu) && gpu.minor >= 0)
        snprintf(paths[1], sizeof paths[1], "/dev/dri/renderD%d", gpu.minor);
    for (int i = 0; i < 2 && paths[i][0]; i++) {
        int r = halo_doctor_probe_open(probe, "%s", paths[i]);
        halo_doctor_finding_read(finding, "%s: %s", paths[i], r ? strerror(-r) : "opens");
        if (r == 0)
            continue;
        note_owner(probe, paths[i], group, sizeof group);
        if (r == -EACCES)
            halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                    "This user may not open %s, which belongs to the group %s: `usermod -aG %s USER` "
                                    "and log in again; a service gets SupplementaryGroups=%s.",
                                    paths[i], group, group, group);
        else if (r == -EPERM)
            halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                    "%s is forbidden by a container or a unit: give the container --device, the unit "
                                    "DeviceAllow=char-kfd rw and DeviceAllow=char-drm rw, and not PrivateDevices=yes.",
                                    paths[i]);
        else
            halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                    "%s cannot be opened: %s. A driver that lost its GPU says so in `journalctl -k`; a "
                                    "container needs --device /dev/kfd and --device /dev/dri.",
                                    paths[i], strerror(-r));
        return;
    }
    halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The device files open for reading and writing.");
}

/* ---- the chip ---- */

void halo_doctor_look_chip(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    struct stat st;
    uint64_t simds = 0, per_cu = 2, device = 0;
    bool found = halo_doctor_gpu_find(probe, &gpu);
    if (!found && halo_doctor_probe_stat(probe, &st, "/sys/class/kfd/kfd/topology/nodes") != 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The compute driver lists no nodes: see driver.");
        return;
    }
    if (gpu.node < 0) {
        halo_doctor_finding_read(finding, "/sys/class/kfd/kfd/topology/nodes: no GPU%s%s", found ? "; " : "", gpu.dir);
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                found
                                    ? "There is an AMD card that the compute driver does not support: a kernel too old "
                                      "for it, or a device that it was not given."
                                    : "The compute driver is loaded and has no GPU: `journalctl -k` says why amdgpu "
                                      "did not take it.");
        return;
    }
    halo_doctor_number_of(gpu.properties, "simd_count", &simds);
    halo_doctor_number_of(gpu.properties, "simd_per_cu", &per_cu);
    halo_doctor_number_of(gpu.properties, "device_id", &device);
    unsigned n_cus = (unsigned)(simds / (per_cu ? per_cu : 2));
    halo_doctor_finding_read(finding,
                             "/sys/class/kfd/kfd/topology/nodes/%d/properties: gfx_target_version %llu, simd_count "
                             "%llu, device_id 0x%04llx",
                             gpu.node, (unsigned long long)gpu.gfx, (unsigned long long)simds,
                             (unsigned long long)device);
    if (gpu.n_gpus > 1)
        halo_doctor_finding_read(finding, "%u GPUs in all", gpu.n_gpus);
    if (gpu.gfx != HALO_DOCTOR_GFX1151)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "This is %s with %u compute units, not a Strix Halo (gfx1151): halod is made for that "
                                "chip, and its known faults may not apply here.",
                                gpu.name, n_cus);
    else if (n_cus != 40 && n_cus != 32)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "A Strix Halo with %u compute units instead of 40 (Radeon 8060S) or 32 (8050S): the "
                                "driver masks some, or does not know the chip.",
                                n_cus);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "A Strix Halo (gfx1151) with %u compute units%s.", n_cus,
                                gpu.n_gpus > 1 ? ", beside another GPU" : "");
}
