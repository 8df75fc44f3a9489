/* place.c: finds the folder of models, its mount and its drives.
 *
 * The list of mounts names a folder's device. A mapping or an array lists what it lies on in `slaves`; a partition's
 * link in /sys/class/block leads through the folder of its drive.
 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#define MOUNTS_BYTES (1 << 18)
#define TEXT_BYTES (1 << 17)
#define LAYERS_MAX 4 /* of mappings on each other */

/* ---- the folder ---- */

static bool is_there(struct halo_doctor_probe *probe, const char *dir)
{
    struct stat st;
    return dir[0] == '/' && halo_doctor_probe_stat(probe, &st, "%s", dir) == 0 && S_ISDIR(st.st_mode);
}

/* A `dir` of the section [models]; the first that is there. Taken apart. */
static bool dir_of_config(struct halo_doctor_probe *probe, char *text, char *ret, size_t room)
{
    bool is_models = false;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '='), *remark = strstr(line, " ;");
        line += strspn(line, " \t");
        if (line[0] == '[')
            is_models = strncmp(line, "[models]", 8) == 0;
        if (!is_models || !value || strncmp(line, "dir", 3) != 0 || line + 3 + strspn(line + 3, " \t") != value)
            continue;
        if (remark && remark > value)
            *remark = '\0';
        value += 1 + strspn(value + 1, " \t");
        for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
            value[n - 1] = '\0';
        snprintf(ret, room, "%s", value);
        if (is_there(probe, ret))
            return true;
    }
    return false;
}

/* The first of the folders that halod looks for models in which is there. */
static bool model_dir(struct halo_doctor_probe *probe, char *ret, size_t room)
{
    static const char *const variables[] = {"XDG_DATA_HOME", "HOME"};
    char *text = malloc(TEXT_BYTES);
    bool found = text && halo_doctor_probe_head(probe, text, TEXT_BYTES, "/etc/halod/halod.conf") > 0 &&
                 dir_of_config(probe, text, ret, room);
    long n = text ? halo_doctor_probe_head(probe, text, TEXT_BYTES, "/proc/self/environ") : -1;
    for (int i = 0; i < 2 && !found; i++) {
        size_t n_name = strlen(variables[i]);
        ret[0] = '\0';
        for (long at = 0; at < n; at += (long)strlen(text + at) + 1)
            if (strncmp(text + at, variables[i], n_name) == 0 && text[at + (long)n_name] == '=')
                snprintf(ret, room, "%s%s/halod/models", text + at + n_name + 1, i == 1 ? "/.local/share" : "");
        found = is_there(probe, ret);
    }
    free(text);
    if (!found)
        snprintf(ret, room, "/var/lib/halod/models");
    return found || is_there(probe, ret);
}

/* ---- the drives ---- */

static void add_drive(struct halo_doctor_place *place, const char *name)
{
    for (size_t i = 0; i < place->n_drives; i++)
        if (strcmp(place->drives[i], name) == 0)
            return;
    if (place->n_drives < HALO_DOCTOR_DRIVES)
        snprintf(place->drives[place->n_drives++], HALO_DOCTOR_NAME_BYTES, "%s", name);
}

/* The drive that a partition is part of: "../../devices/.../nvme0n1/nvme0n1p2". In place. */
static void to_whole(struct halo_doctor_probe *probe, char name[HALO_DOCTOR_NAME_BYTES])
{
    char link[HALO_DOCTOR_PATH_BYTES];
    struct stat st;
    if (halo_doctor_probe_stat(probe, &st, "/sys/class/block/%s/partition", name) < 0 ||
        halo_doctor_probe_link(probe, link, sizeof link, "/sys/class/block/%s", name) < 0)
        return;
    char *own = strrchr(link, '/');
    if (!own)
        return;
    *own = '\0';
    const char *above = strrchr(link, '/');
    if (above && strlen(above + 1) < HALO_DOCTOR_NAME_BYTES)
        strcpy(name, above + 1);
}

static void expand(struct halo_doctor_probe *probe, struct halo_doctor_place *place, char name[HALO_DOCTOR_NAME_BYTES],
                   int depth)
{
    char slaves[HALO_DOCTOR_DRIVES][HALO_DOCTOR_NAME_BYTES], uuid[128];
    if (halo_doctor_probe_head(probe, uuid, sizeof uuid, "/sys/class/block/%s/dm/uuid", name) > 0 &&
        strncmp(uuid, "CRYPT-", 6) == 0) {
        if (halo_doctor_probe_head(probe, place->crypt, sizeof place->crypt, "/sys/class/block/%s/dm/name", name) <= 0)
            snprintf(place->crypt, sizeof place->crypt, "%s", name);
        place->crypt[strcspn(place->crypt, "\n")] = '\0';
    }
    long n = depth < LAYERS_MAX
                 ? halo_doctor_probe_list(probe, slaves, HALO_DOCTOR_DRIVES, "/sys/class/block/%s/slaves", name)
                 : 0;
    for (long i = 0; i < n; i++)
        expand(probe, place, slaves[i], depth + 1);
    if (n > 0)
        return;
    to_whole(probe, name);
    add_drive(place, name);
}

/* Behind a mapper's name stands the device's own. */
static void find_drives(struct halo_doctor_probe *probe, struct halo_doctor_place *place)
{
    char link[HALO_DOCTOR_PATH_BYTES], name[HALO_DOCTOR_NAME_BYTES];
    const char *path = place->mount.device;
    if (strncmp(path, "/dev/", 5) != 0)
        return;
    if (halo_doctor_probe_link(probe, link, sizeof link, "%s", path) == 0)
        path = link;
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%.*s", HALO_DOCTOR_NAME_BYTES - 1, slash ? slash + 1 : path);
    expand(probe, place, name, 0);
}

bool halo_doctor_place_find(struct halo_doctor_probe *probe, struct halo_doctor_place *ret)
{
    *ret = (struct halo_doctor_place){0};
    char *mounts = malloc(MOUNTS_BYTES);
    bool has_dir = mounts && model_dir(probe, ret->dir, sizeof ret->dir);
    bool has_mount = has_dir && halo_doctor_probe_head(probe, mounts, MOUNTS_BYTES, "/proc/self/mountinfo") > 0 &&
                     halo_doctor_mount_of(mounts, ret->dir, &ret->mount);
    free(mounts);
    if (has_mount)
        find_drives(probe, ret);
    else
        halo_doctor_finding_say(probe->finding, HALO_DOCTOR_SKIP,
                                has_dir ? "Could not read the list of mounts."
                                        : "No folder of models: neither in /etc/halod/halod.conf nor the user's nor "
                                          "/var/lib/halod/models.");
    return has_mount;
}
