/* drive.h: what sysfs tells about this machine and about the drives that a file lies on.
 *
 * A partition counts as its drive, a mapping or an array as the drives below it. A file system whose device number is
 * its own (btrfs) is found through the list of mounts. What sysfs does not tell is empty. `root` is the folder that
 * holds sys, proc and dev: "" for this machine.
 *
 * The io thread: reading a sensor asks the drive, and a drive that hangs holds up the reader.
 */
#ifndef HALO_ENGINE_DRIVE_H
#define HALO_ENGINE_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HALO_DRIVES_MAX 8
#define HALO_DRIVE_NAME_BYTES 64

struct halo_drives {
    char names[HALO_DRIVES_MAX][HALO_DRIVE_NAME_BYTES]; /* "nvme0n1", in order */
    size_t n;
    char text[128];  /* model and serial number of each, for people and to tell drives apart; "" without a drive */
    char label[128]; /* their names: "nvme0n1, nvme1n1" */
};

/* The drives of a file: `device` is its st_dev, `path` absolute and without links. */
void halo_drives_of(const char *root, dev_t device, const char *path, struct halo_drives *ret);

/* The temperature of the hottest one, in degrees Celsius. False: no sensor tells it. */
bool halo_drives_celsius(const char *root, const struct halo_drives *drives, double *ret);

/* "BOARD, PROCESSOR". */
void halo_machine_text(const char *root, char *ret, size_t size);

#endif
