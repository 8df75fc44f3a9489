/* storage.c: on what the models lie: a network, a turning disk, memory.
 *
 * All from text: the list of mounts names a folder's device, the device's own folder says whether it turns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "mounts.h"

#define MOUNTS_BYTES (1 << 18)
#define TEXT_BYTES (1 << 17)

/* 1: it turns, 0: it does not, -1: not told. Behind a mapper's name stands the device's own. */
static int turns(struct halo_doctor_probe *probe, const char *device)
{
    char link[256], text[16];
    const char *name = strrchr(device, '/');
    if (!name || strncmp(device, "/dev/", 5) != 0)
        return -1;
    name++;
    if (halo_doctor_probe_link(probe, link, sizeof link, "%s", device) == 0)
        name = strrchr(link, '/') ? strrchr(link, '/') + 1 : link;
    /* A partition's queue is that of the disk that it lies in. */
    if (halo_doctor_probe_bytes(probe, text, sizeof text, "/sys/class/block/%s/queue/rotational", name) <= 0 &&
        halo_doctor_probe_bytes(probe, text, sizeof text, "/sys/class/block/%s/../queue/rotational", name) <= 0)
        return -1;
    return text[0] == '1';
}

static bool is_network(const char *type)
{
    static const char *const types[] = {"nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return true;
    return false;
}

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

void halo_doctor_look_storage(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    char dir[HALO_DOCTOR_PATH_BYTES], type[32] = "", device[256] = "";
    char *mounts = malloc(MOUNTS_BYTES);
    bool has_dir = mounts && model_dir(probe, dir, sizeof dir);
    bool has_mount = has_dir && halo_doctor_probe_head(probe, mounts, MOUNTS_BYTES, "/proc/self/mountinfo") > 0 &&
                     halo_doctor_mount_of(mounts, dir, type, sizeof type, device, sizeof device);
    free(mounts);
    if (!has_mount) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP,
                                has_dir ? "Could not read the list of mounts."
                                        : "No folder of models: neither in /etc/halod/halod.conf nor the user's nor "
                                          "/var/lib/halod/models.");
        return;
    }
    int rotational = turns(probe, device);
    halo_doctor_finding_read(finding, "%s lies on %s (%s%s)", dir, device, type,
                             rotational > 0    ? ", rotational"
                             : rotational == 0 ? ", not rotational"
                                               : "");
    if (is_network(type))
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "The models are on a network file system (%s): a load is as slow as the network, and a server that "
            "does not answer looks like a hang. Keep them on a local SSD.",
            type);
    else if (rotational > 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The models are on a hard disk: 60 GiB take about six minutes. Keep them on an SSD.");
    else if (strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The model files are in memory (tmpfs): a loaded model then takes its size twice, and "
                                "the GPU has that much "
                                "less. Move them to a disk.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The models are on a local file system.");
}
