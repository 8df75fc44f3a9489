/* firmware.c: the two faults of this chip that hang it or make its memory fault: the save area that was sized too
 * small, and the scheduler's firmware.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

/* The kernel's interface (include/uapi/drm/amdgpu_drm.h); its header is not always installed. */
struct drm_info {
    uint64_t return_pointer;
    uint32_t return_size, query;
    uint32_t fw_type, ip_instance, index, pad;
};
struct drm_info_firmware {
    uint32_t version, feature;
};
#define DRM_IOCTL_INFO _IOW('d', 0x45, struct drm_info)
#define DRM_INFO_FW_VERSION 0x0e
#define DRM_FW_MES_KIQ 0x19
#define DRM_FW_MES 0x1a

#define MES_MASK 0xfffu /* the version proper */

void halo_doctor_look_cwsr(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    uint64_t area = 0, stack = 0, enabled = 1;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    if (gpu.node < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The compute driver has no node for the GPU: see chip.");
        return;
    }
    bool is_fixed = halo_doctor_number_of(gpu.properties, "cwsr_size", &area) &&
                    halo_doctor_number_of(gpu.properties, "ctl_stack_size", &stack);
    halo_doctor_finding_read(finding,
                             "/sys/class/kfd/kfd/topology/nodes/%d/properties: cwsr_size %s%.0llu, "
                             "ctl_stack_size %s%.0llu",
                             gpu.node, area ? "" : "missing", (unsigned long long)area, stack ? "" : "missing",
                             (unsigned long long)stack);
    bool is_off =
        halo_doctor_probe_number(probe, &enabled, "/sys/module/amdgpu/parameters/cwsr_enable") == 0 && enabled == 0;
    if (!is_fixed && is_off)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "This kernel sizes the GPU's register save area too small; amdgpu.cwsr_enable=0 "
                                "keeps it from being used. Upgrade to kernel 6.18.4 or later with ROCm 7.2.1 or "
                                "later, then remove the parameter.");
    else if (!is_fixed)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "This kernel sizes the GPU's register save area too small: a context switch under load "
                                "overwrites memory and hangs the GPU. Upgrade to kernel 6.18.4 or later (or a "
                                "distribution's kernel with the fix) and ROCm 7.2.1 or later; until then boot with "
                                "amdgpu.cwsr_enable=0.");
    else if (is_off)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The kernel has the fix, so amdgpu.cwsr_enable=0 is of no use any more: remove it from "
                                "the kernel's command line or /etc/modprobe.d.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The register save area has its full size.");
}

/* ---- the scheduler's firmware ---- */

/* From the driver's own interface, where the kernel has no files for it. */
static bool ask_driver(struct halo_doctor_probe *probe, int minor, unsigned type, uint64_t *ret)
{
    struct drm_info_firmware firmware = {0};
    struct drm_info request = {.return_pointer = (uintptr_t)&firmware,
                               .return_size = sizeof firmware,
                               .query = DRM_INFO_FW_VERSION,
                               .fw_type = type};
    if (minor < 0 || halo_doctor_probe_ioctl(probe, DRM_IOCTL_INFO, &request, "/dev/dri/renderD%d", minor))
        return false;
    *ret = firmware.version & MES_MASK;
    if (*ret == 0)
        return false;
    halo_doctor_finding_read(probe->finding, "/dev/dri/renderD%d: firmware type 0x%x = 0x%x", minor, type,
                             (unsigned)firmware.version);
    return true;
}

/* From root's own view: "MES feature version: 1, firmware version: 0x00000086". */
static bool ask_debugfs(struct halo_doctor_probe *probe, int minor, const char *which, uint64_t *ret)
{
    const int folders[] = {minor, 0, 1, 128};
    char *text = malloc(1 << 15), line[256];
    bool found = false;
    for (size_t i = 0; text && !found && i < sizeof folders / sizeof *folders; i++) {
        const char *version = NULL;
        if (folders[i] >= 0 &&
            halo_doctor_probe_head(probe, text, 1 << 15, "/sys/kernel/debug/dri/%d/amdgpu_firmware_info", folders[i]) >
                0 &&
            halo_doctor_line_of(text, which, line, sizeof line))
            version = strstr(line, "firmware version: ");
        if (!version)
            continue;
        *ret = strtoull(version + strlen("firmware version: "), NULL, 16) & MES_MASK;
        halo_doctor_finding_read(probe->finding, "/sys/kernel/debug/dri/%d/amdgpu_firmware_info: %s %s", folders[i],
                                 which, line);
        found = true;
    }
    free(text);
    return found;
}

static bool mes_version(struct halo_doctor_probe *probe, const struct halo_doctor_gpu *gpu, bool is_kiq, uint64_t *ret)
{
    const char *file = is_kiq ? "mes_kiq_fw_version" : "mes_fw_version";
    char text[64];
    char *end;
    if (gpu->dir[0] && halo_doctor_probe_word(probe, text, sizeof text, "%s/fw_version/%s", gpu->dir, file) == 0) {
        *ret = strtoull(text, &end, 16) & MES_MASK;
        return end != text && !*end && *ret != 0; /* 0: not loaded, or not told */
    }
    return ask_driver(probe, gpu->minor, is_kiq ? DRM_FW_MES_KIQ : DRM_FW_MES, ret) ||
           ask_debugfs(probe, gpu->minor, is_kiq ? "MES_KIQ" : "MES", ret);
}

void halo_doctor_look_mes(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    uint64_t mes = 0, kiq = 0;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    bool has_mes = mes_version(probe, &gpu, false, &mes), has_kiq = mes_version(probe, &gpu, true, &kiq);
    if (!has_mes && !has_kiq)
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_SKIP,
            "The kernel does not report the version of the scheduler's firmware to this user; try as root.");
    else if ((has_mes && mes == 0x83) || (has_kiq && kiq == 0x83))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "MES firmware 0x83 causes a GPU memory fault seconds after the first kernel. "
                                "Install linux-firmware 20260110 or later (or 20251111 or earlier), remove "
                                "amdgpu-dkms-firmware, rebuild the initramfs, restart. amdgpu.cwsr_enable=0 does not "
                                "help.");
    else if (has_mes && mes == 0x80)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "MES firmware 0x80 is good with a kernel that passes cwsr.");
    else if (has_mes && mes >= 0x86)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "MES firmware 0x%llx is good; completions lost in very long work were still "
                                "reported with 0x86; halod's deadlines catch those.",
                                (unsigned long long)mes);
    else
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "There are no reports on MES firmware 0x%llx: known to be good are 0x80 (linux-firmware "
            "20260110) and 0x86 or later (20260410).",
            (unsigned long long)(has_mes ? mes : kiq));
}
