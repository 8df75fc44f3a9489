/* storage.c: on what the models lie: a network, a turning disk, memory. */
#include <string.h>

#include "check_priv.h"
#include "place.h"

/* 1: one of the drives turns, 0: none does, -1: not told. */
static int turns(struct halo_doctor_probe *probe, const struct halo_doctor_place *place)
{
    char text[16];
    int answer = -1;
    for (size_t i = 0; i < place->n_drives; i++)
        if (halo_doctor_probe_bytes(probe, text, sizeof text, "/sys/class/block/%s/queue/rotational",
                                    place->drives[i]) > 0 &&
            answer < 1)
            answer = text[0] == '1';
    return answer;
}

static bool is_network(const char *type)
{
    static const char *const types[] = {"nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return true;
    return false;
}

void halo_doctor_look_storage(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_place place;
    if (!halo_doctor_place_find(probe, &place))
        return;
    int rotational = turns(probe, &place);
    halo_doctor_finding_read(finding, "%s lies on %s (%s%s)", place.dir, place.mount.device, place.mount.type,
                             rotational > 0    ? ", rotational"
                             : rotational == 0 ? ", not rotational"
                                               : "");
    if (is_network(place.mount.type))
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "The models are on a network file system (%s): a load is as slow as the network, and a server that "
            "does not answer looks like a hang. Keep them on a local SSD.",
            place.mount.type);
    else if (rotational > 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The models are on a hard disk: 60 GiB take about six minutes. Keep them on an SSD.");
    else if (strcmp(place.mount.type, "tmpfs") == 0 || strcmp(place.mount.type, "ramfs") == 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "The model files are in memory (tmpfs): a loaded model then takes its size twice, and "
                                "the GPU has that much "
                                "less. Move them to a disk.");
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The models are on a local file system.");
}
