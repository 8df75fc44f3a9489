/* listen.c: lock, connect-test, bind. */
#include <listen/listen.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int refuse_live(struct halo_fault *fault, const char *path, long pid)
{
    if (pid > 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "a daemon (pid %ld) already serves %s", pid, path);
    return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "a daemon already serves %s", path);
}

static int take_lock(struct halo_listen *listen, struct halo_fault *fault)
{
    char lock_path[sizeof(listen->path) + 8], text[32];
    snprintf(lock_path, sizeof(lock_path), "%s.lock", listen->path);
    listen->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (listen->lock_fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot open %s", lock_path);
    if (flock(listen->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot lock %s", lock_path);
        long pid = 0;
        ssize_t n = pread(listen->lock_fd, text, sizeof(text) - 1, 0);
        if (n > 0) {
            text[n] = '\0';
            if (sscanf(text, "%ld", &pid) != 1)
                pid = 0;
        }
        return refuse_live(fault, listen->path, pid);
    }
    int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(listen->lock_fd, 0) != 0 || pwrite(listen->lock_fd, text, (size_t)n, 0) != n)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot write %s", lock_path);
    return 0;
}

/* A file at the path is removed only if it is a socket that nobody answers at. */
static int clear_stale(const struct sockaddr_un *address, struct halo_fault *fault)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0) {
        if (errno == ENOENT)
            return 0;
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot examine %s", address->sun_path);
    }
    if (!S_ISSOCK(st.st_mode))
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "%s exists and is not a socket: move it away or choose another path", address->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot make a socket");
    int r = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : -errno;
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        peer.pid = 0;
    close(fd);
    if (r == 0 || r == -EAGAIN) /* EAGAIN: alive, with a full backlog */
        return refuse_live(fault, address->sun_path, (long)peer.pid);
    if (r != -ECONNREFUSED)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "cannot tell whether a daemon serves %s",
                                address->sun_path);
    if (unlink(address->sun_path) != 0 && errno != ENOENT)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot remove the stale socket %s",
                                address->sun_path);
    return 0;
}

static int bind_and_listen(struct halo_listen *self, const struct sockaddr_un *address, mode_t mode,
                           struct halo_fault *fault)
{
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot make a socket");
    mode_t before = umask(0777 & ~mode); /* the file never exists with wider rights */
    int r = bind(self->fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : -errno;
    umask(before);
    if (r < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "cannot bind %s", self->path);
    if (listen(self->fd, SOMAXCONN) != 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot listen on %s", self->path);
    return 0;
}

int halo_listen_open(struct halo_listen *ret_listen, const char *path, mode_t mode, struct halo_fault *fault)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *ret_listen = (struct halo_listen){.fd = -1, .lock_fd = -1};
    size_t len = strlen(path);
    if (len == 0 || len > HALO_LISTEN_PATH_BYTES)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "the socket path has %zu bytes; 1 to %d are allowed", len,
                              HALO_LISTEN_PATH_BYTES);
    memcpy(ret_listen->path, path, len + 1);
    memcpy(address.sun_path, path, len + 1);
    int r = take_lock(ret_listen, fault);
    if (r == 0)
        r = clear_stale(&address, fault);
    if (r == 0)
        r = bind_and_listen(ret_listen, &address, mode, fault);
    if (r < 0) {
        /* A failed bind() has no file to remove, and a file that stopped us is not ours. */
        if (ret_listen->fd >= 0)
            close(ret_listen->fd);
        ret_listen->fd = -1;
        halo_listen_finish(ret_listen);
    }
    return r;
}

int halo_listen_adopt(struct halo_listen *ret_listen, int fd, struct halo_fault *fault)
{
    struct sockaddr_un address;
    socklen_t len = sizeof(address);
    int type = 0, listening = 0;
    socklen_t n = sizeof(int);
    *ret_listen = (struct halo_listen){.fd = -1, .lock_fd = -1, .passed = true};
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 || address.sun_family != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || !listening)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "descriptor %d, passed by the service manager, is not a listening "
                              "Unix stream socket",
                              fd);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot make descriptor %d non-blocking", fd);
    size_t path_len = len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
    if (path_len > HALO_LISTEN_PATH_BYTES)
        path_len = HALO_LISTEN_PATH_BYTES;
    memcpy(ret_listen->path, address.sun_path, path_len);
    ret_listen->fd = fd;
    return 0;
}

void halo_listen_close(struct halo_listen *self)
{
    if (self->fd < 0)
        return;
    if (!self->passed)
        unlink(self->path);
    close(self->fd);
    self->fd = -1;
}

void halo_listen_finish(struct halo_listen *self)
{
    halo_listen_close(self);
    if (self->lock_fd >= 0)
        close(self->lock_fd);
    self->lock_fd = -1;
}
