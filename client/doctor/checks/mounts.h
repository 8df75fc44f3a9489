/* mounts.h: which file system a folder is on, from the kernel's list of mounts. Pure; any thread. */
#ifndef HALO_DOCTOR_MOUNTS_H
#define HALO_DOCTOR_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

/* The type and the device of the mount with the longest mount point above `path`, from the text of
 * /proc/self/mountinfo, which is modified. False: none is above it. */
bool halo_doctor_mount_of(char *text, const char *path, char *ret_type, size_t type_room, char *ret_device,
                          size_t device_room);

#endif
