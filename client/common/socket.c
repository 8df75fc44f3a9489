/* socket.c: see socket.h. */
#include <client/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <protocol/limits.h>

int halo_client_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) > HALO_LIMIT_SOCKET_PATH_BYTES)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

/* The folder on the way to `path` that this user may not enter, or `path` itself. */
static void find_barrier(const char *path, char ret[PATH_MAX])
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(ret, PATH_MAX, "%.*s", (int)(slash - path), path);
        if (faccessat(AT_FDCWD, ret, X_OK, AT_EACCESS) != 0 && errno == EACCES)
            return;
    }
    snprintf(ret, PATH_MAX, "%s", path);
}

static void permission_reason(const char *path, char *buf, size_t n_bytes)
{
    char barrier[PATH_MAX], number[24];
    struct stat st;
    find_barrier(path, barrier);
    if (stat(barrier, &st) != 0) {
        snprintf(buf, n_bytes, "permission denied");
        return;
    }
    /* Nobody should join the group of root for this. */
    bool by_group = st.st_gid != 0 && st.st_mode & (S_ISDIR(st.st_mode) ? S_IXGRP : S_IWGRP);
    if (by_group) {
        const struct group *group = getgrgid(st.st_gid);
        snprintf(number, sizeof(number), "%u", st.st_gid);
        const char *name = group ? group->gr_name : number;
        snprintf(buf, n_bytes,
                 "permission denied: %s is open to the group '%s'; join it (sudo usermod -aG %s USER) and log in again",
                 barrier, name, name);
    } else {
        const struct passwd *user = getpwuid(st.st_uid);
        snprintf(number, sizeof(number), "%u", st.st_uid);
        snprintf(buf, n_bytes, "permission denied: %s is open to the user '%s' alone", barrier,
                 user ? user->pw_name : number);
    }
}

const char *halo_client_connect_reason(const char *path, int error, char *buf, size_t n_bytes)
{
    if (error == -EACCES)
        permission_reason(path, buf, n_bytes);
    else if (error == -ECONNREFUSED)
        snprintf(buf, n_bytes, "connection refused: the file is there, but no daemon listens");
    else
        snprintf(buf, n_bytes, "%s", strerror(-error));
    return buf;
}
