/* standard_fds.c: see standard_fds.h. */
#include <protocol/standard_fds.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int halo_standard_fds_open(void)
{
    int closed = 0;
    /* open() gives the lowest free number, which is the one that was found closed. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", O_RDONLY) < 0)
            return -errno;
        closed |= 1 << fd;
    }
    return closed;
}
