/* folder.h: a folder and all that it lies in. Any thread. */
#ifndef HALO_BASE_FOLDER_H
#define HALO_BASE_FOLDER_H

#include <sys/types.h>

/* Makes the folder `path` and those above it that are missing, with this mode; one that is there stays as it is. 0 or a
 * negative errno; those that could be made stay. */
int halo_folder_make(const char *path, mode_t mode);

#endif
