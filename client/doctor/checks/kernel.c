/* kernel.c: the kernel's version, whose driver it runs, and what is left over of old advice in its parameters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

/* "6.17.0-19-generic": 6, 17, 0 and the distribution's 19. */
struct version {
    unsigned major, minor, patch, build;
};

static bool parse_version(const char *text, struct version *ret)
{
    *ret = (struct version){0};
    int n = sscanf(text, "%u.%u.%u-%u", &ret->major, &ret->minor, &ret->patch, &ret->build);
    return n >= 2 && ret->major < 1000 && ret->minor < 1000;
}

static bool is_before(const struct version *v, unsigned major, unsigned minor, unsigned patch)
{
    if (v->major != major)
        return v->major < major;
    return v->minor != minor ? v->minor < minor : v->patch < patch;
}

/* Versions of distributions that have the fixes under an older number. */
static bool is_backport(const struct version *v, const char *release)
{
    bool is_ubuntu = strstr(release, "-generic") || strstr(release, "-oem");
    return is_ubuntu && ((v->major == 6 && v->minor == 17 && v->build >= 19 && v->build < 1000) ||
                         (v->major == 6 && v->minor == 14 && v->build >= 1018));
}

/* Kernel 7.0 builds in which each upload waits a second. */
static bool is_slow_upload(const struct version *v, const char *release)
{
    if (v->major != 7 || v->minor != 0)
        return false;
    if (strstr(release, "-generic"))
        return v->patch == 0 && (v->build == 28 || v->build == 29);
    return strstr(release, ".fc") && v->patch == 12;
}

static void judge_kernel(struct halo_doctor_finding *finding, const struct version *v, const char *release,
                         bool has_cwsr)
{
    if (is_slow_upload(v, release))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "In kernel %s each copy to the GPU may wait a second: 27 MB/s instead of 28 GB/s, a "
                                "load seems to hang. Ubuntu fixed it in 7.0.0-30; use that, or a 6.18 or 6.19 kernel.",
                                release);
    else if (is_before(v, 6, 16, 9) && !is_backport(v, release))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "Kernel %s is too old for this chip: ROCm sees 15.5 GB of memory before 6.16.9, and "
                                "%s. Use 6.18.4 or later.",
                                release,
                                has_cwsr ? "much else was fixed since" : "the register save area is too small");
    else if (!is_before(v, 6, 18, 4) || is_backport(v, release))
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "Kernel %s has what this chip needs.", release);
    else if (has_cwsr)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "Kernel %s is older than 6.18.4 and has the register save area fix from its "
                                "distribution.",
                                release);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Kernel %s is older than 6.18.4, the first that AMD calls stable on this chip: upgrade "
                                "it (Ubuntu 24.04: 6.17.0-19 HWE or 6.14.0-1018 OEM; Fedora 43, Ubuntu 26.04 and Arch "
                                "have one).",
                                release);
}

void halo_doctor_look_kernel(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    struct version v;
    char release[128];
    uint64_t area = 0;
    int r = halo_doctor_probe_word(probe, release, sizeof release, "/proc/sys/kernel/osrelease");
    bool is_strix = halo_doctor_gpu_find(probe, &gpu) && gpu.gfx == HALO_DOCTOR_GFX1151;
    if (r < 0 || !parse_version(release, &v))
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read the kernel's version.");
    else if (!is_strix)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Applies to a Strix Halo (gfx1151) alone.");
    else
        judge_kernel(finding, &v, release, halo_doctor_number_of(gpu.properties, "cwsr_size", &area));
}

/* ---- whose driver ---- */

static bool find_dkms(struct halo_doctor_probe *probe, const char *release, char *ret, size_t room)
{
    static const char *const endings[] = {"", ".xz", ".zst", ".gz"};
    struct stat st;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(ret, room, "/lib/modules/%s/updates/dkms/amdgpu.ko%s", release, endings[i]);
        if (halo_doctor_probe_stat(probe, &st, "%s", ret) == 0)
            return true;
    }
    return false;
}

void halo_doctor_look_origin(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    char version[64], release[128], file[256];
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    bool has_version = halo_doctor_probe_word(probe, version, sizeof version, "/sys/module/amdgpu/version") == 0;
    bool has_file = halo_doctor_probe_word(probe, release, sizeof release, "/proc/sys/kernel/osrelease") == 0 &&
                    !strchr(release, '/') && find_dkms(probe, release, file, sizeof file);
    if (has_file)
        halo_doctor_finding_read(finding, "%s: there", file);
    if (has_version && (strncmp(version, "6.16.13", 7) == 0 || strncmp(version, "6.19.0", 6) == 0))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "amdgpu-dkms %s hides the kernel's own, fixed driver, and its firmware package "
                                "brings MES 0x83: remove amdgpu-dkms and amdgpu-dkms-firmware, rebuild the "
                                "initramfs, restart.",
                                version);
    else if (has_version)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "amdgpu %s is not the kernel's own driver: with a kernel of 6.18.4 or later remove "
                                "amdgpu-dkms, whose releases lag behind the fixes for this chip.",
                                version);
    else if (has_file)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The kernel's own driver runs, but amdgpu-dkms is installed and may be loaded at the "
                                "next start: remove it.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The kernel's own driver.");
}

/* ---- parameters ---- */

struct leftover {
    const char *name, *usual, *advice; /* usual: the value that nobody needs to set; "" also counts as it */
};

/* cwsr_enable has a check of its own. */
static const struct leftover leftovers[] = {
    {"gttsize", "-1", "amdgpu.gttsize is deprecated: ttm.pages_limit alone sets what the GPU may use"},
    {"noretry", "-1", "amdgpu.noretry changes how page faults are handled and fixes no known fault"},
    {"ppfeaturemask", "0xfff7bfff", "amdgpu.ppfeaturemask worked around GFXOFF resets, which kernel 6.18.4 fixes"},
    {"sched_policy", "0", "amdgpu.sched_policy did not help against lost completions"},
    {"uni_mes", "1", "amdgpu.uni_mes did not help against lost completions"},
    {"no_system_mem_limit", "N", "amdgpu.no_system_mem_limit removes the limit that keeps the machine from freezing"},
    {"vm_fragment_size", "-1", "amdgpu.vm_fragment_size overrides the driver's choice of page sizes"},
};

static bool is_usual(const char *value, const struct leftover *l)
{
    if (!*value || strcmp(value, l->usual) == 0)
        return true;
    /* Numbers may be written in either base. */
    char *end, *usual_end;
    unsigned long long a = strtoull(value, &end, 0), b = strtoull(l->usual, &usual_end, 0);
    return end != value && !*end && !*usual_end && usual_end != l->usual && (uint32_t)a == (uint32_t)b;
}

void halo_doctor_look_params(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char value[64], line[8192], advice[sizeof finding->advice] = "";
    struct halo_doctor_gpu gpu;
    struct stat st;
    size_t n = 0;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    if (halo_doctor_probe_stat(probe, &st, "/sys/module/amdgpu/parameters") != 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The amdgpu module is not loaded.");
        return;
    }
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        const struct leftover *l = &leftovers[i];
        if (halo_doctor_probe_stat(probe, &st, "/sys/module/amdgpu/parameters/%s", l->name) == -ENOENT)
            continue; /* not every kernel has every one */
        if (halo_doctor_probe_word(probe, value, sizeof value, "/sys/module/amdgpu/parameters/%s", l->name) < 0 ||
            is_usual(value, l))
            continue;
        n += (size_t)snprintf(advice + n, sizeof advice - n, "%s%s", n ? "; " : "", l->advice);
        n = n < sizeof advice ? n : sizeof advice - 1;
    }
    if (halo_doctor_probe_head(probe, line, sizeof line, "/proc/cmdline") > 0 &&
        halo_doctor_option_of(line, "amdgpu.gtt_size", value, sizeof value)) {
        halo_doctor_finding_read(finding, "/proc/cmdline: amdgpu.gtt_size=%s", value);
        snprintf(advice + n, sizeof advice - n,
                 "%samdgpu.gtt_size is not a parameter and is ignored: use ttm.pages_limit", n ? "; " : "");
    }
    if (advice[0])
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN, "Left over from old advice; remove: %s.", advice);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "No parameter is set that hides or breaks something.");
}
