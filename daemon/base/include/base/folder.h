/* folder.h: a folder with its parents. Any thread. */
#ifndef HALO_BASE_FOLDER_H
#define HALO_BASE_FOLDER_H

#include <sys/types.h>

/* Makes the folder `path` and its missing parents with this mode (mkdir -p); a folder that exists stays as it is. 0 or
 * a negative errno; folders made before the error stay. */
int halo_folder_make(const char *path, mode_t mode);

#endif
