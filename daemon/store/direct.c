/* direct.c: see direct_priv.h. Keeps nothing. */
#include "direct_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_DIRECT)

int direct_open(int fd, const struct halo_file_id *id)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int direct = open(path, OPEN_FLAGS);
    if (direct < 0)
        return -errno;
    struct halo_file_id opened = fstat(direct, &facts) == 0 ? halo_file_id_of(&facts) : (struct halo_file_id){0};
    if (halo_file_id_is_same(&opened, id))
        return direct;
    close(direct);
    return -ESTALE;
}
