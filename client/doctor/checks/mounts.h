/* mounts.h: which file system a folder is on, from the kernel's list of mounts. Pure; any thread. */
#ifndef HALO_DOCTOR_MOUNTS_H
#define HALO_DOCTOR_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

struct halo_doctor_mount {
    char type[32];
    char device[256];
    char options[512]; /* of the mount and of the file system, separated by commas */
};

/* The mount with the longest mount point above `path`, from the text of /proc/self/mountinfo, which is modified. False:
 * none is above it. */
bool halo_doctor_mount_of(char *text, const char *path, struct halo_doctor_mount *ret);

#endif
