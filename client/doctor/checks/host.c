/* host.c: the machine around the GPU: who else uses it, clocks and power, IOMMU, containers, where models lie. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

#define HARDWARE_QUEUES 8    /* that the chip maps at once, over all processes */
#define QUEUE_TYPE_COMPUTE 0 /* of enum kfd_queue_type in the kernel; the others copy */
#define PROCESSES_MAX 64
#define QUEUES_MAX 64 /* of a process */

void halo_doctor_look_iommu(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char names[8][HALO_DOCTOR_NAME_BYTES], line[8192], value[64];
    struct halo_doctor_gpu gpu;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    long n = halo_doctor_probe_list(probe, names, 8, "/sys/class/iommu");
    if (n < 0 && n != -ENOENT) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Could not read /sys/class/iommu.");
        return;
    }
    halo_doctor_finding_read(finding, "/sys/class/iommu: %s", n > 0 ? names[0] : "empty");
    if (halo_doctor_probe_head(probe, line, sizeof line, "/proc/cmdline") > 0)
        for (int i = 0; i < 2; i++)
            if (halo_doctor_option_of(line, i ? "iommu" : "amd_iommu", value, sizeof value))
                halo_doctor_finding_read(finding, "/proc/cmdline: %s=%s", i ? "iommu" : "amd_iommu", value);
    if (n <= 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The IOMMU is off, which is fastest.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "The IOMMU is on, as usual. Booting with amd_iommu=off gave 5 to 16 %% in prefill and "
                                "6 %% in reads of memory on this chip (iommu=pt does not), at the price of the NPU and "
                                "the isolation of devices.");
}

/* ---- clocks ---- */

/* A sensor of the first hwmon folder. */
static bool sensor(struct halo_doctor_probe *probe, const struct halo_doctor_gpu *gpu, const char *hwmon,
                   const char *file, uint64_t *ret)
{
    struct stat st;
    return halo_doctor_probe_stat(probe, &st, "%s/hwmon/%s/%s", gpu->dir, hwmon, file) == 0 &&
           halo_doctor_probe_number(probe, ret, "%s/hwmon/%s/%s", gpu->dir, hwmon, file) == 0;
}

void halo_doctor_look_clocks(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    char hwmon[1][HALO_DOCTOR_NAME_BYTES], level[64];
    uint64_t busy = 0, hz = 0, microwatt = 0, millicelsius = 0;
    if (!halo_doctor_gpu_need(probe, &gpu))
        return;
    int r = -ENOENT;
    if (gpu.dir[0])
        r = halo_doctor_probe_word(probe, level, sizeof level, "%s/power_dpm_force_performance_level", gpu.dir);
    if (r < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The driver does not report its clocks.");
        return;
    }
    bool has_busy = halo_doctor_probe_number(probe, &busy, "%s/gpu_busy_percent", gpu.dir) == 0, has_power = false;
    if (halo_doctor_probe_list(probe, hwmon, 1, "%s/hwmon", gpu.dir) == 1) {
        sensor(probe, &gpu, hwmon[0], "freq1_input", &hz);
        has_power = sensor(probe, &gpu, hwmon[0], "power1_average", &microwatt) ||
                    sensor(probe, &gpu, hwmon[0], "power1_input", &microwatt);
        sensor(probe, &gpu, hwmon[0], "temp1_input", &millicelsius);
    }
    if (strcmp(level, "auto") != 0 && strcmp(level, "high") != 0 && strcmp(level, "profile_peak") != 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The clocks are held at \"%s\": as root, write auto to "
                                "%s/power_dpm_force_performance_level.",
                                level, gpu.dir);
    else if (millicelsius >= 95000)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The GPU is at %.0f degrees and will lower its clocks: check fans and power "
                                "limit.",
                                (double)millicelsius / 1000);
    else if (has_busy && has_power && busy >= 95 && microwatt < 60000000)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The GPU reports busy at only %.0f W: two idle processes that hold it cause that "
                                "(see users), and so does work whose completion was lost. If a request hangs, it is "
                                "the latter, and halod replaces its engine.",
                                (double)microwatt / 1e6);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "The driver chooses the clocks. Tier 6 measures what they yield.");
}

void halo_doctor_look_power(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    static const char *const fast[] = {"accelerator-performance", "throughput-performance", "latency-performance"};
    char profile[64] = "", tuned[64] = "";
    int r_profile = halo_doctor_probe_word(probe, profile, sizeof profile, "/sys/firmware/acpi/platform_profile");
    int r_tuned = halo_doctor_probe_word(probe, tuned, sizeof tuned, "/etc/tuned/active_profile");
    bool is_fast = strcmp(profile, "performance") == 0;
    for (size_t i = 0; i < sizeof fast / sizeof *fast; i++)
        is_fast = is_fast || strcmp(tuned, fast[i]) == 0;
    if (r_profile < 0 && r_tuned < 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Neither the firmware nor tuned reports a power profile.");
    else if (is_fast)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The machine is set for speed.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The machine is not set for speed: `tuned-adm profile accelerator-performance` gave "
                                "5 to 8 %% in prefill and 2 to 3 %% in decode; the BIOS has a power mode as well.");
}

/* ---- who else ---- */

static void process_name(struct halo_doctor_probe *probe, const char *pid, char *ret, size_t room)
{
    if (halo_doctor_probe_head(probe, ret, room, "/proc/%s/comm", pid) <= 0)
        snprintf(ret, room, "?");
    ret[strcspn(ret, "\n")] = '\0';
}

void halo_doctor_look_users(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char names[PROCESSES_MAX][HALO_DOCTOR_NAME_BYTES], comm[64];
    struct halo_doctor_gpu gpu;
    int n_users = 0;
    if (!halo_doctor_gpu_need(probe, &gpu))
        return;
    long n = halo_doctor_probe_list(probe, names, PROCESSES_MAX, "/sys/class/kfd/kfd/proc");
    if (n < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The driver does not report who uses the GPU.");
        return;
    }
    for (long i = 0; i < n; i++) {
        if (names[i][strspn(names[i], "0123456789")] != '\0')
            continue;
        process_name(probe, names[i], comm, sizeof comm);
        if (strcmp(comm, "halo-doctor") == 0)
            continue; /* ourselves: another check opens the device */
        halo_doctor_finding_read(finding, "/sys/class/kfd/kfd/proc/%s: %s", names[i], comm);
        n_users++;
    }
    finding->stages = n_users >= 4 ? HALO_DOCTOR_STAGE_STEP : 0; /* fewer cost power alone */
    if (n_users >= 4)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "%d processes hold the GPU: from four on they evict each other until the desktop dies. "
                                "Leave it to one.",
                                n_users);
    else if (n_users >= 2)
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "%d processes hold the GPU: even idle they keep it at full clock, which costs 25 W more than one "
            "alone. Serve all models from one halod.",
            n_users);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "%s holds the GPU.", n_users ? "One process" : "Nobody");
}

/* ---- queues ---- */

/* The compute queues of a process on the GPU with this id (0: on any). */
static unsigned count_queues(struct halo_doctor_probe *probe, const char *pid, uint64_t gpu_id)
{
    char names[QUEUES_MAX][HALO_DOCTOR_NAME_BYTES], text[32];
    unsigned n_compute = 0;
    long n = halo_doctor_probe_list(probe, names, QUEUES_MAX, "/sys/class/kfd/kfd/proc/%s/queues", pid);
    for (long i = 0; i < n; i++) {
        uint64_t type, gpu;
        const char *end;
        if (halo_doctor_probe_head(probe, text, sizeof text, "/sys/class/kfd/kfd/proc/%s/queues/%s/type", pid,
                                   names[i]) <= 0 ||
            !halo_doctor_number_parse(text, &type, &end) || type != QUEUE_TYPE_COMPUTE)
            continue;
        bool elsewhere = gpu_id != 0 &&
                         halo_doctor_probe_head(probe, text, sizeof text, "/sys/class/kfd/kfd/proc/%s/queues/%s/gpuid",
                                                pid, names[i]) > 0 &&
                         halo_doctor_number_parse(text, &gpu, &end) && gpu != gpu_id;
        n_compute += !elsewhere;
    }
    return n_compute;
}

void halo_doctor_look_queues(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char names[PROCESSES_MAX][HALO_DOCTOR_NAME_BYTES], comm[64], id[32], most_comm[96] = "";
    struct halo_doctor_gpu gpu;
    uint64_t gpu_id = 0;
    unsigned n_all = 0, most = 0;
    const char *end;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    long n = halo_doctor_probe_list(probe, names, PROCESSES_MAX, "/sys/class/kfd/kfd/proc");
    if (n < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The driver does not report the queues of processes.");
        return;
    }
    if (halo_doctor_probe_head(probe, id, sizeof id, "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", gpu.node) > 0)
        halo_doctor_number_parse(id, &gpu_id, &end);
    for (long i = 0; i < n; i++) {
        unsigned n_own = count_queues(probe, names[i], gpu_id);
        if (n_own == 0)
            continue;
        process_name(probe, names[i], comm, sizeof comm);
        halo_doctor_finding_read(finding, "/sys/class/kfd/kfd/proc/%s/queues: %u of %s", names[i], n_own, comm);
        n_all += n_own;
        if (n_own > most) {
            most = n_own;
            snprintf(most_comm, sizeof most_comm, "%s (pid %.20s)", comm, names[i]);
        }
    }
    if (n_all > HARDWARE_QUEUES)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "%u compute queues are in use and the chip maps %d: the driver rotates them, which "
                                "costs 26 W even when all are idle. %s has %u of them: end it, or start it with "
                                "GPU_MAX_HW_QUEUES=2, as halod starts its engine; a process gives its queues back only "
                                "when it ends.",
                                n_all, HARDWARE_QUEUES, most_comm, most);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "%u of the %d compute queues that the chip maps are in use.",
                                n_all, HARDWARE_QUEUES);
}

/* ---- containers ---- */

void halo_doctor_look_container(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct stat st;
    char status[8192], allowed[32] = "", word[32];
    uint64_t enforcing = 0, seccomp = 0;
    const char *engine = halo_doctor_probe_stat(probe, &st, "/run/.containerenv") == 0 ? "/run/.containerenv"
                         : halo_doctor_probe_stat(probe, &st, "/.dockerenv") == 0      ? "/.dockerenv"
                                                                                       : NULL;
    if (!engine) {
        halo_doctor_finding_read(finding, "/run/.containerenv, /.dockerenv: not there");
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "Not in a container.");
        return;
    }
    halo_doctor_finding_read(finding, "%s: there", engine);
    if (halo_doctor_probe_stat(probe, &st, "/sys/fs/selinux/enforce") == 0)
        halo_doctor_probe_number(probe, &enforcing, "/sys/fs/selinux/enforce");
    if (enforcing)
        halo_doctor_probe_word(probe, allowed, sizeof allowed, "/sys/fs/selinux/booleans/container_use_devices");
    if (halo_doctor_probe_head(probe, status, sizeof status, "/proc/self/status") > 0 &&
        halo_doctor_line_of(status, "Seccomp", word, sizeof word)) {
        halo_doctor_finding_read(finding, "/proc/self/status: Seccomp %s", word);
        seccomp = strtoull(word, NULL, 10);
    }
    if (enforcing && allowed[0] == '0')
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "SELinux keeps containers from mapping the GPU, which looks like \"Memory critical "
                                "error: Memory in use\": `setsebool -P container_use_devices 1` on the host.");
    else if (seccomp == 2)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The container filters system calls; the runtime needs mbind and set_mempolicy: run it "
                                "with --security-opt seccomp=unconfined, or a filter that lets them through.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "In a container that allows use of the GPU.");
}
