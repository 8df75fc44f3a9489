/* kernel_log.c: the kernel's log since the machine was started. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "log.h"

#define LOG_BYTES (4 << 20) /* the kernel's own buffer is smaller; of a file, its end */

static void judge_log(struct halo_doctor_finding *finding, const struct halo_doctor_log_hit *hits)
{
    int worst = -1;
    for (int i = 0; i < HALO_DOCTOR_N_SIGNATURES; i++) {
        if (hits[i].n == 0)
            continue;
        if (worst < 0)
            worst = i;
        halo_doctor_finding_read(finding, "%u line%s like \"%s\"", hits[i].n, hits[i].n > 1 ? "s" : "", hits[i].last);
    }
    if (worst < 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The kernel log shows no known GPU fault.");
        return;
    }
    const struct halo_doctor_signature *s = &halo_doctor_signatures[worst];
    finding->stages = s->stages;
    snprintf(finding->source, sizeof finding->source, "%s", s->source);
    halo_doctor_finding_say(finding, s->verdict, "%s", s->advice);
}

void halo_doctor_look_kernel_log(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    static const char *const paths[] = {"/dev/kmsg", "/var/log/kern.log", "/var/log/messages"};
    struct halo_doctor_log_hit hits[HALO_DOCTOR_N_SIGNATURES];
    char *text = malloc(LOG_BYTES);
    long n = -ENOMEM;
    for (size_t i = 0; text && n < 0 && i < sizeof paths / sizeof *paths; i++) {
        n = halo_doctor_probe_log(probe, text, LOG_BYTES, "%s", paths[i]);
        if (n == -EAGAIN)
            n = 0;
        if (n >= 0)
            halo_doctor_finding_read(finding, "%s: %ld bytes", paths[i], n);
        else
            halo_doctor_finding_read(finding, "%s: %s", paths[i], strerror((int)-n));
    }
    if (n >= 0) {
        halo_doctor_log_scan(text, (size_t)n, hits);
        judge_log(finding, hits);
    } else {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP,
                                "This user may not read the kernel's log: run halo-doctor once as root, or look for "
                                "\"amdgpu\" in `journalctl -k` (group systemd-journal or adm).");
    }
    free(text);
}
