/* drive.c: the drive under the models: how it is connected, how the kernel cuts and sorts its requests. */
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "lines.h"
#include "place.h"

#define LEAST_REQUEST_KIB 256 /* the smallest block that reaches a drive's speed at a usual depth */

/* ---- the link ---- */

struct link {
    double gt_s; /* of one lane, 10^9 transfers per second; 0: not told */
    unsigned width;
};

static struct link read_link(struct halo_doctor_probe *probe, const char *dir, const char *which)
{
    char speed[64];
    uint64_t width = 0;
    struct link link = {0};
    if (halo_doctor_probe_word(probe, speed, sizeof speed, "%s/%s_link_speed", dir, which) < 0 ||
        halo_doctor_probe_number(probe, &width, "%s/%s_link_width", dir, which) < 0 || width == 0 || width > 32)
        return link;
    link.gt_s = strtod(speed, NULL); /* "16.0 GT/s PCIe" */
    link.width = (unsigned)width;
    return link.gt_s > 0 && link.gt_s < 1000 ? link : (struct link){0};
}

static int generation_of(const struct link *link)
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    int n = 0;
    while (n < 6 && speeds[n] <= link->gt_s)
        n++;
    return n;
}

/* Bytes that the link can carry, 10^9 per second: 8 of 10 bits are data up to the second generation, then 128 of 130.
 */
static double gb_s_of(const struct link *link)
{
    return link->gt_s * link->width / 8 * (link->gt_s < 8 ? 0.8 : 128.0 / 130);
}

static bool is_less(const struct link *a, const struct link *b)
{
    return a->gt_s < b->gt_s || a->width < b->width;
}

/* The controller's folder of "nvme0n1" is that of "nvme0". False: it is another kind of drive, or sysfs is silent. */
static bool judge_link(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding, const char *drive)
{
    char dir[HALO_DOCTOR_PATH_BYTES], above[HALO_DOCTOR_PATH_BYTES + 4];
    const char *n = strncmp(drive, "nvme", 4) == 0 ? strchr(drive + 4, 'n') : NULL;
    if (!n)
        return false;
    snprintf(dir, sizeof dir, "/sys/class/nvme/%.*s/device", (int)(n - drive), drive);
    snprintf(above, sizeof above, "%s/..", dir);
    struct link now = read_link(probe, dir, "current"), most = read_link(probe, dir, "max");
    if (now.gt_s == 0 || most.gt_s == 0)
        return false;
    struct link slot = read_link(probe, above, "max");
    if (!is_less(&now, &most)) {
        if (finding->verdict != HALO_DOCTOR_WARN)
            halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                    "%s runs at PCIe Gen%d x%u, %.1f GB/s at most: the fastest link that it supports.",
                                    drive, generation_of(&now), now.width, gb_s_of(&now));
        return true;
    }
    bool slot_limits = slot.gt_s > 0 && is_less(&slot, &most);
    halo_doctor_finding_say(
        finding, HALO_DOCTOR_WARN,
        "%s runs at PCIe Gen%d x%u, %.1f GB/s at most, but supports Gen%d x%u, %.1f GB/s: a model "
        "that streams from it is slower by as much. %s `lspci -vv | grep -A60 'Non-Volatile' | grep "
        "LnkSta` shows it again.",
        drive, generation_of(&now), now.width, gb_s_of(&now), generation_of(&most), most.width, gb_s_of(&most),
        slot_limits ? "The slot gives no more: move the drive to another one."
                    : "The slot gives more: reseat the drive, and look in the BIOS for a lower "
                      "speed of the slot or lanes shared with another one.");
    return true;
}

void halo_doctor_look_drive_link(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_place place;
    bool is_told = false;
    if (!halo_doctor_place_find(probe, &place))
        return;
    for (size_t i = 0; i < place.n_drives; i++)
        is_told |= judge_link(probe, finding, place.drives[i]);
    if (!is_told)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "%s (%s) is on no NVMe drive whose link sysfs describes.",
                                place.dir, place.mount.device);
}

/* ---- the queue ---- */

/* "none [mq-deadline] kyber": the one in brackets. */
static bool chosen(const char *list, char *ret, size_t room)
{
    const char *from = strchr(list, '['), *to = from ? strchr(from, ']') : NULL;
    if (to)
        snprintf(ret, room, "%.*s", (int)(to - from - 1), from + 1);
    return to != NULL;
}

static bool judge_queue(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding, const char *drive)
{
    char list[256], scheduler[64];
    uint64_t kib = 0, most_kib = 0, turns = 0;
    if (halo_doctor_probe_word(probe, list, sizeof list, "/sys/class/block/%s/queue/scheduler", drive) < 0 ||
        !chosen(list, scheduler, sizeof scheduler) ||
        halo_doctor_probe_number(probe, &kib, "/sys/class/block/%s/queue/max_sectors_kb", drive) < 0)
        return false;
    bool has_most =
        halo_doctor_probe_number(probe, &most_kib, "/sys/class/block/%s/queue/max_hw_sectors_kb", drive) == 0;
    bool rotates =
        halo_doctor_probe_number(probe, &turns, "/sys/class/block/%s/queue/rotational", drive) == 0 && turns == 1;
    if (kib < LEAST_REQUEST_KIB && has_most && most_kib > kib)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The kernel cuts reads from %s into requests of %llu KiB, the drive takes %llu: as "
                                "root, `echo %llu > /sys/block/%s/queue/max_sectors_kb`.",
                                drive, (unsigned long long)kib, (unsigned long long)most_kib,
                                (unsigned long long)(most_kib < 1280 ? most_kib : 1280), drive);
    else if (!rotates && strcmp(scheduler, "none") != 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Requests to %s pass the scheduler %s, which costs a fast drive some of its speed and "
                                "sorts nothing that it does not sort by itself: as root, `echo none > "
                                "/sys/block/%s/queue/scheduler` (until the next boot; a udev rule keeps it).",
                                drive, scheduler, drive);
    else if (finding->verdict != HALO_DOCTOR_WARN)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "%s has the scheduler %s and requests of up to %llu KiB.",
                                drive, scheduler, (unsigned long long)kib);
    return true;
}

void halo_doctor_look_drive_queue(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_place place;
    bool is_told = false;
    if (!halo_doctor_place_find(probe, &place))
        return;
    for (size_t i = 0; i < place.n_drives; i++)
        is_told |= judge_queue(probe, finding, place.drives[i]);
    if (!is_told)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "%s (%s) is on no drive whose queue sysfs describes.",
                                place.dir, place.mount.device);
}
