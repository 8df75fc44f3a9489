/* log.c: signatures of this chip's faults in the kernel's log. */
#include "log.h"

#include <string.h>

#define ISSUE(n) "https://github.com/ROCm/ROCm/issues/" #n
#define LOAD HALO_DOCTOR_STAGE_LOAD
#define LAUNCH HALO_DOCTOR_STAGE_LAUNCH
#define STEP HALO_DOCTOR_STAGE_STEP

const struct halo_doctor_signature halo_doctor_signatures[HALO_DOCTOR_N_SIGNATURES] = {
    {{"MES might be in unrecoverable state", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH | STEP,
     "The GPU's scheduler is in a state that only a reboot ends. Then check cwsr, mes and kernel.",
     ISSUE(6598)},
    {{"failed to respond to msg=REMOVE_QUEUE", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH | STEP,
     "The GPU's scheduler did not answer when a queue was removed. If it happens again with a kernel and firmware "
     "that pass cwsr, mes and kernel, amd_iommu=off has helped.",
     ISSUE(6598)},
    {{"failed to respond to msg=SUSPEND", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH | STEP,
     "The GPU's scheduler did not answer when a queue was suspended. If it happens again with a kernel and firmware "
     "that pass cwsr, mes and kernel, amd_iommu=off has helped.",
     ISSUE(5665)},
    {{"MES failed to respond", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH | STEP,
     "The GPU's scheduler stopped answering: the hang of a register save area that is too small (see cwsr). "
     "Upgrade to kernel 6.18.4 and ROCm 7.2.1 or later, restart the machine.",
     ISSUE(5590)},
    {{"GCVM_L2_PROTECTION_FAULT_STATUS:0x00800932", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH,
     "The memory fault that MES firmware 0x83 causes: install linux-firmware 20260110 or later, remove "
     "amdgpu-dkms-firmware, rebuild the initramfs, restart the machine.",
     ISSUE(5724)},
    {{"Faulty UTCL2 client ID: CPF (0x4)", NULL},
     HALO_DOCTOR_FAIL,
     LAUNCH,
     "The memory fault that MES firmware 0x83 causes: install linux-firmware 20260110 or later, remove "
     "amdgpu-dkms-firmware, rebuild the initramfs, restart the machine.",
     ISSUE(5724)},
    {{"exceeds resident system memory limit", NULL},
     HALO_DOCTOR_WARN,
     LOAD,
     "A process pinned more of a file or of pageable memory than the driver allows, which looks like a hang on load: "
     "load without mmap there (halod always does), or load less.",
     ISSUE(6582)},
    {{"already allocated by SVM", NULL},
     HALO_DOCTOR_WARN,
     LOAD,
     "A process handed the GPU memory that is already mapped, which looks like a hang on load: load without mmap there "
     "(halod always does).",
     ISSUE(6582)},
    {{"svm_range_restore_work", "hogged CPU"},
     HALO_DOCTOR_WARN,
     LOAD,
     "The driver is busy tracking pageable memory that the GPU was given, which makes loads take hours: load "
     "without mmap there (halod always does).",
     ISSUE(6582)},
    {{"timeout, signaled seq=", NULL},
     HALO_DOCTOR_WARN,
     STEP,
     "Work on a ring did not end in time and the ring was reset: long kernels under a watchdog of 2 s, or a "
     "completion that was lost. Smaller batches of prefill help.",
     ISSUE(6165)},
    {{"[gfxhub] page fault", NULL},
     HALO_DOCTOR_WARN,
     LAUNCH | STEP,
     "A GPU kernel accessed memory that it does not own. If it was halod's, report it as a bug; with MES "
     "firmware 0x83 or HSA_OVERRIDE_GFX_VERSION, those are the cause.",
     ISSUE(5824)},
    {{"Freeing queue vital buffer", NULL},
     HALO_DOCTOR_WARN,
     LAUNCH | STEP,
     "A queue's memory was freed under it: seen on kernel 6.14 with many processes. A newer kernel, one process for "
     "the GPU.",
     ISSUE(5151)},
    {{"No more SDMA queue to allocate", NULL},
     HALO_DOCTOR_WARN,
     LOAD,
     "The copy queues are used up: seen on kernel 6.14 with many processes. A newer kernel, one process for the GPU.",
     ISSUE(5151)},
    {{"unknown parameter 'gtt_size' ignored", NULL},
     HALO_DOCTOR_WARN,
     LOAD,
     "amdgpu.gtt_size is not a parameter: use ttm.pages_limit (see memory).",
     ISSUE(5595)},
};

static bool has(const char *line, size_t n, const char *needle)
{
    return !needle || memmem(line, n, needle, strlen(needle));
}

void halo_doctor_log_scan(const char *text, size_t n, struct halo_doctor_log_hit hits[HALO_DOCTOR_N_SIGNATURES])
{
    memset(hits, 0, HALO_DOCTOR_N_SIGNATURES * sizeof *hits);
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t n_line = end ? (size_t)(end - line) : n - at;
        at += n_line + 1;
        for (size_t i = 0; i < HALO_DOCTOR_N_SIGNATURES; i++) {
            const struct halo_doctor_signature *s = &halo_doctor_signatures[i];
            if (!has(line, n_line, s->needles[0]) || !has(line, n_line, s->needles[1]))
                continue;
            size_t n_kept = n_line < sizeof hits[i].last ? n_line : sizeof hits[i].last - 1;
            memcpy(hits[i].last, line, n_kept);
            hits[i].last[n_kept] = '\0';
            hits[i].n++;
            break;
        }
    }
}
