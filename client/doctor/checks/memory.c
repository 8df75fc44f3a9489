/* memory.c: how much the GPU may use, what is carved out of it, whether the counters can be believed, and what
 * the machine does when memory is short.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

#define GIB (1024.0 * 1024 * 1024)
#define PAGES_PER_GIB 262144
#define LEFT_TO_OTHERS_GIB 8 /* of a machine whose GPU may use the rest */

static bool meminfo(struct halo_doctor_probe *probe, const char *key, double *ret_bytes)
{
    char text[8192];
    uint64_t kib = 0;
    if (halo_doctor_probe_head(probe, text, sizeof text, "/proc/meminfo") <= 0 ||
        !halo_doctor_number_of(text, key, &kib))
        return false;
    *ret_bytes = (double)kib * 1024;
    halo_doctor_finding_read(probe->finding, "/proc/meminfo: %s %llu kB", key, (unsigned long long)kib);
    return true;
}

/* The largest memory bank that the compute driver gives the node, which is what the runtime goes by; 0: not told. */
static uint64_t largest_bank(struct halo_doctor_probe *probe, int node)
{
    char names[16][HALO_DOCTOR_NAME_BYTES], dir[96], text[1024];
    uint64_t largest = 0, bytes;
    snprintf(dir, sizeof dir, "/sys/class/kfd/kfd/topology/nodes/%d/mem_banks", node);
    long n = node < 0 ? 0 : halo_doctor_probe_list(probe, names, 16, "%s", dir);
    for (long i = 0; i < n; i++)
        if (halo_doctor_probe_head(probe, text, sizeof text, "%s/%s/properties", dir, names[i]) > 0 &&
            halo_doctor_number_of(text, "size_in_bytes", &bytes)) {
            halo_doctor_finding_read(probe->finding, "%s/%s/properties: size_in_bytes %llu", dir, names[i],
                                     (unsigned long long)bytes);
            largest = bytes > largest ? bytes : largest;
        }
    return largest;
}

void halo_doctor_look_memory(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    uint64_t gtt = 0, vram = 0, pages = 0;
    double ram = 0;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    bool has_gtt = gpu.dir[0] && halo_doctor_probe_number(probe, &gtt, "%s/mem_info_gtt_total", gpu.dir) == 0;
    if (gpu.dir[0])
        halo_doctor_probe_number(probe, &vram, "%s/mem_info_vram_total", gpu.dir);
    bool has_limit = halo_doctor_probe_number(probe, &pages, "/sys/module/ttm/parameters/pages_limit") == 0;
    bool has_ram = meminfo(probe, "MemTotal", &ram);
    if (!has_gtt || !has_ram || ram <= 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read the sizes.");
        return;
    }
    double usable = (double)gtt, limit = (double)pages * 4096;
    if (has_limit && limit < usable)
        usable = limit;
    double bank = (double)largest_bank(probe, gpu.node);
    if (bank > 0 && bank < usable)
        usable = bank;
    unsigned want = ram / GIB > 2 * LEFT_TO_OTHERS_GIB ? (unsigned)(ram / GIB) - LEFT_TO_OTHERS_GIB : 0;
    if ((double)vram > usable)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "The GPU uses the %.1f GiB that the firmware sets aside, the larger of its two kinds "
                                "of memory (see carveout).",
                                (double)vram / GIB);
    else if (usable < 16 * GIB && ram >= 32 * GIB)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "The GPU may use %.1f GiB of this machine's %.1f: an old kernel (before 6.16.9) or a "
                                "limit set too low. Boot with ttm.pages_limit=%u (%u GiB).",
                                usable / GIB, ram / GIB, want * PAGES_PER_GIB, want);
    else if (usable > ram)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The GPU may use %.1f GiB, more than the %.1f GiB there are: the machine freezes "
                                "when it does, since this memory cannot be swapped and no limit of a service covers "
                                "it. Boot with ttm.pages_limit=%u (%u GiB).",
                                usable / GIB, ram / GIB, want * PAGES_PER_GIB, want);
    else if (usable < 0.7 * ram && want > 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The GPU may use %.1f GiB of this machine's %.1f (half is the kernel's default). For "
                                "larger models boot with ttm.pages_limit=%u (%u GiB).",
                                usable / GIB, ram / GIB, want * PAGES_PER_GIB, want);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The GPU may use %.1f GiB of this machine's %.1f.",
                                usable / GIB, ram / GIB);
}

void halo_doctor_look_carveout(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    uint64_t vram = 0;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    if (!gpu.dir[0] || halo_doctor_probe_number(probe, &vram, "%s/mem_info_vram_total", gpu.dir) < 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read the size.");
    else if ((double)vram > 1 * GIB)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The firmware sets %.1f GiB aside for the GPU, which nothing else can use and the GPU "
                                "does not need: set the UMA frame buffer to 512 MB in the BIOS (\"Auto\" may take "
                                "64 GiB), and let ttm.pages_limit say what the GPU may use.",
                                (double)vram / GIB);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The firmware sets %.1f GiB aside.", (double)vram / GIB);
}

void halo_doctor_look_overcount(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    uint64_t value[4] = {0};
    static const char *const files[4] = {"mem_info_vram_used", "mem_info_vram_total", "mem_info_gtt_used",
                                         "mem_info_gtt_total"};
    bool ok = true;
    if (!halo_doctor_gpu_need(probe, &gpu))
        return;
    for (int i = 0; i < 4; i++)
        ok = gpu.dir[0] && halo_doctor_probe_number(probe, &value[i], "%s/%s", gpu.dir, files[i]) == 0 && ok;
    if (!ok)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read the counters.");
    else if (value[0] > value[1] || value[2] > value[3])
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "The driver counts more memory used than there is: its counters went below zero. "
                                "Seen with clocks stuck at 900 MHz on old kernels; upgrade the kernel, restart the "
                                "machine.");
    else if ((double)value[2] > 0.9 * (double)value[3])
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "%.1f of %.1f GiB are in use already: a model is loaded, or allocations of a dead "
                                "process were not freed (see users; a reboot frees them).",
                                (double)value[2] / GIB, (double)value[3] / GIB);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "%.1f of %.1f GiB are in use.", (double)value[2] / GIB,
                                (double)value[3] / GIB);
}

/* ---- the host's ---- */

void halo_doctor_look_memlock(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char text[8192], line[128];
    const char *soft = NULL;
    struct halo_doctor_gpu gpu;
    if (!halo_doctor_gpu_need(probe, &gpu))
        return;
    if (halo_doctor_probe_head(probe, text, sizeof text, "/proc/self/limits") > 0)
        soft = halo_doctor_line_of(text, "Max locked memory", line, sizeof line);
    if (!soft || !*soft) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read the limit.");
        return;
    }
    line[strcspn(line, " ")] = '\0';
    halo_doctor_finding_read(finding, "/proc/self/limits: Max locked memory %s", line);
    if (strcmp(line, "unlimited") == 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "Locked memory is not limited.");
    else if (strtoull(line, NULL, 10) >= 1u << 30)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "Enough for staging buffers.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Only %.1f MiB of memory may be locked: reads into pinned buffers may be refused. A "
                                "service gets LimitMEMLOCK=infinity, a container --ulimit memlock=-1, a user `memlock "
                                "unlimited` in /etc/security/limits.d.",
                                (double)strtoull(line, NULL, 10) / (1 << 20));
}

void halo_doctor_look_swap(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char *text = malloc(1 << 15);
    char pages[128];
    double size = 0, used = 0;
    int n = -1;
    if (text && halo_doctor_probe_head(probe, text, 1 << 15, "/proc/swaps") > 0)
        for (char *rest = text, *line; (line = strsep(&rest, "\n")); n++) {
            unsigned long long kib, used_kib;
            if (n < 0 || sscanf(line, "%*s %*s %llu %llu", &kib, &used_kib) != 2) {
                n -= n >= 0; /* the heading, or no line of it */
                continue;
            }
            size += (double)kib * 1024;
            used += (double)used_kib * 1024;
        }
    free(text);
    if (n < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read /proc/swaps.");
        return;
    }
    halo_doctor_finding_read(finding, "/proc/swaps: %.1f GiB, %.1f used", size / GIB, used / GIB);
    bool is_never =
        halo_doctor_probe_word(probe, pages, sizeof pages, "/sys/kernel/mm/transparent_hugepage/enabled") == 0 &&
        strstr(pages, "[never]");
    if (used > 1 * GIB)
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "%.1f GiB are swapped out: this machine runs more than its memory holds, and MemAvailable "
            "does not count what the GPU holds. Load less, or a smaller context.",
            used / GIB);
    else if (is_never)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Huge pages are off: pinning a model takes longer. Write madvise (or always) to "
                                "/sys/kernel/mm/transparent_hugepage/enabled.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The machine does not swap.");
}
