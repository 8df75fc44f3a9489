/* gpu.c: which of the machine's GPUs is meant. */
#include "gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"
#define VENDOR_AMD 0x1002
#define DEVICE_STRIX_HALO 0x1586
#define MAX_NODES 64

void halo_doctor_gpu_name(uint64_t gfx, char *ret, size_t room)
{
    unsigned major = (unsigned)(gfx / 10000 % 1000), minor = (unsigned)(gfx / 100 % 100), step = (unsigned)(gfx % 100);
    snprintf(ret, room, "gfx%u%x%x", major, minor, step);
}

/* The device folder of a node. Its render node names it, whatever number the card has. */
static void find_dir(struct halo_doctor_probe *probe, struct halo_doctor_gpu *gpu)
{
    struct stat st;
    uint64_t minor;
    if (!halo_doctor_number_of(gpu->properties, "drm_render_minor", &minor) || minor == 0 || minor > 1u << 20)
        return;
    gpu->minor = (int)minor;
    if (halo_doctor_probe_stat(probe, &st, "/sys/class/drm/renderD%d/device", gpu->minor) == 0)
        snprintf(gpu->dir, sizeof gpu->dir, "/sys/class/drm/renderD%d/device", gpu->minor);
}

static bool find_node(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret)
{
    char names[MAX_NODES][HALO_DOCTOR_NAME_BYTES], text[sizeof ret->properties];
    long n = halo_doctor_probe_list(probe, names, MAX_NODES, NODES);
    for (long i = 0; i < n; i++) {
        uint64_t gfx = 0;
        if (halo_doctor_probe_head(probe, text, sizeof text, NODES "/%s/properties", names[i]) <= 0 ||
            !halo_doctor_number_of(text, "gfx_target_version", &gfx) || gfx == 0)
            continue; /* a CPU has a node too */
        ret->n_gpus++;
        if (ret->node >= 0 && (gfx != HALO_DOCTOR_GFX1151 || ret->gfx == HALO_DOCTOR_GFX1151))
            continue;
        ret->node = atoi(names[i]);
        ret->gfx = gfx;
        memcpy(ret->properties, text, sizeof text);
    }
    if (ret->node < 0)
        return false;
    halo_doctor_gpu_name(ret->gfx, ret->name, sizeof ret->name);
    find_dir(probe, ret);
    return true;
}

static uint64_t number_at(struct halo_doctor_probe *probe, const char *card, const char *file)
{
    char text[32];
    if (halo_doctor_probe_bytes(probe, text, sizeof text, "/sys/class/drm/%s/device/%s", card, file) <= 0)
        return 0;
    return strtoull(text, NULL, 16);
}

/* A card that the compute driver has no node for. */
static bool find_card(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret)
{
    char names[MAX_NODES][HALO_DOCTOR_NAME_BYTES];
    long n = halo_doctor_probe_list(probe, names, MAX_NODES, "/sys/class/drm");
    for (long i = 0; i < n; i++) {
        if (strncmp(names[i], "card", 4) != 0 || names[i][4 + strspn(names[i] + 4, "0123456789")] != '\0' ||
            strlen(names[i]) > 12 || number_at(probe, names[i], "vendor") != VENDOR_AMD)
            continue; /* "card1-DP-1" is a plug */
        bool is_strix = number_at(probe, names[i], "device") == DEVICE_STRIX_HALO;
        if (ret->dir[0] && !is_strix)
            continue;
        snprintf(ret->dir, sizeof ret->dir, "/sys/class/drm/%.12s/device", names[i]);
        ret->gfx = is_strix ? HALO_DOCTOR_GFX1151 : 0;
        if (is_strix) {
            halo_doctor_gpu_name(ret->gfx, ret->name, sizeof ret->name);
            break;
        }
    }
    return ret->dir[0] != '\0';
}

bool halo_doctor_gpu_find(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->node = ret->minor = -1;
    return find_node(probe, ret) || find_card(probe, ret);
}

bool halo_doctor_gpu_need(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret)
{
    if (halo_doctor_gpu_find(probe, ret))
        return true;
    halo_doctor_finding_say(probe->finding, HALO_DOCTOR_SKIP, "There is no AMD GPU.");
    return false;
}

bool halo_doctor_gpu_need_strix(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret)
{
    if (!halo_doctor_gpu_need(probe, ret))
        return false;
    if (ret->gfx == HALO_DOCTOR_GFX1151)
        return true;
    halo_doctor_finding_say(probe->finding, HALO_DOCTOR_SKIP, "Applies to a Strix Halo (gfx1151) alone; this is %s.",
                            ret->name[0] ? ret->name : "another AMD card");
    return false;
}
