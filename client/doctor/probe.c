/* probe.c: bounded reads below a sysroot. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lines.h"

#define MAX_ENTRIES 8192      /* of a folder that are looked at */
#define MAX_RECORDS (1 << 20) /* of the kernel's log */
#define RECORD_BYTES 8192     /* the longest record */

/* ---- opening ---- */

/* A recorded tree may hold absolute links: they mean the tree. Kernels before 5.6 follow them out of it. */
static int open_below(const struct halo_doctor_probe *probe, const char *path, int flags)
{
    char whole[2 * HALO_DOCTOR_PATH_BYTES + 8];
    flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (!*probe->sysroot) {
        int fd = open(path, flags);
        return fd < 0 ? -errno : fd;
    }
    int root = open(probe->sysroot, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_IN_ROOT};
    if (flags & O_PATH)
        how.flags &= O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY;
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    int r = fd < 0 ? errno : 0;
    close(root);
    if (r == ENOSYS || r == EPERM || r == E2BIG) {
        if ((size_t)snprintf(whole, sizeof whole, "%s%s", probe->sysroot, path) >= sizeof whole)
            return -ENAMETOOLONG;
        fd = open(whole, flags);
        r = fd < 0 ? errno : 0;
    }
    return r ? -r : (int)fd;
}

/* The path in the parent's sight, for as long as the read takes. */
__attribute__((format(printf, 2, 0))) static int path_begin(struct halo_doctor_probe *probe, const char *format,
                                                            va_list args)
{
    int n = vsnprintf(probe->at, HALO_DOCTOR_PATH_BYTES, format, args);
    return n < 0 || n >= HALO_DOCTOR_PATH_BYTES ? -ENAMETOOLONG : 0;
}

static void path_end(struct halo_doctor_probe *probe, char path[HALO_DOCTOR_PATH_BYTES])
{
    if (path)
        memcpy(path, probe->at, HALO_DOCTOR_PATH_BYTES);
    probe->at[0] = '\0';
}

static long read_all(struct halo_doctor_probe *probe, char *buf, size_t room, bool head)
{
    struct stat st;
    size_t n = 0;
    int fd = open_below(probe, probe->at, O_RDONLY), error = 0;
    buf[0] = '\0';
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) != 0)
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    while (!error && n < room) {
        ssize_t got = read(fd, buf + n, room - n);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            error = errno;
        else
            n += (size_t)got;
    }
    close(fd);
    if (!error && n == room) {
        error = head ? 0 : EFBIG;
        n--;
    }
    buf[error ? 0 : n] = '\0';
    return error ? -error : (long)n;
}

/* ---- files ---- */

__attribute__((format(printf, 5, 0))) static long read_path(struct halo_doctor_probe *probe, char *buf, size_t room,
                                                            bool head, const char *format, va_list args)
{
    long n = path_begin(probe, format, args);
    n = n < 0 ? n : read_all(probe, buf, room, head);
    path_end(probe, NULL);
    return n;
}

long halo_doctor_probe_bytes(struct halo_doctor_probe *probe, char *buf, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    long n = read_path(probe, buf, room, false, format, args);
    va_end(args);
    return n;
}

long halo_doctor_probe_head(struct halo_doctor_probe *probe, char *buf, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    long n = read_path(probe, buf, room, true, format, args);
    va_end(args);
    return n;
}

/* Records until there are no more; when they are more than fit, the older half goes. */
static long read_records(int fd, char *buf, size_t room)
{
    size_t n = 0;
    for (int turns = 0; turns < MAX_RECORDS; turns++) {
        if (room - n < RECORD_BYTES) {
            memmove(buf, buf + n / 2, n - n / 2);
            n -= n / 2;
        }
        ssize_t got = read(fd, buf + n, room - n);
        if (got == 0 || (got < 0 && errno == EAGAIN))
            break;
        if (got < 0 && errno != EPIPE && errno != EINTR) /* EPIPE: it was overwritten before we came */
            return n > 0 ? (long)n : -errno;
        n += got > 0 ? (size_t)got : 0;
    }
    return (long)n;
}

static long read_end(int fd, off_t size, char *buf, size_t room)
{
    off_t from = size > (off_t)room ? size - (off_t)room : 0;
    size_t n = 0;
    while (n < room) {
        ssize_t got = pread(fd, buf + n, room - n, from + (off_t)n);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    return (long)n;
}

long halo_doctor_probe_log(struct halo_doctor_probe *probe, char *buf, size_t room, const char *format, ...)
{
    struct stat st;
    va_list args;
    va_start(args, format);
    long n = path_begin(probe, format, args);
    va_end(args);
    int fd = n < 0 ? (int)n : open_below(probe, probe->at, O_RDONLY);
    if (fd < 0)
        n = fd;
    else if (fstat(fd, &st) != 0)
        n = -errno;
    else if (S_ISREG(st.st_mode))
        n = read_end(fd, st.st_size, buf, room);
    else
        n = S_ISCHR(st.st_mode) ? read_records(fd, buf, room) : -EINVAL;
    if (fd >= 0)
        close(fd);
    path_end(probe, NULL);
    return n;
}

/* The line of the path that is begun; ends it and notes it. */
static int read_word(struct halo_doctor_probe *probe, char *buf, size_t room)
{
    char path[HALO_DOCTOR_PATH_BYTES];
    long n = read_all(probe, buf, room, false);
    path_end(probe, path);
    while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == ' ' || buf[n - 1] == '\t'))
        buf[--n] = '\0';
    for (long i = 0; i < n; i++)
        if ((unsigned char)buf[i] < 0x20 && buf[i] != '\t')
            n = -EINVAL;
    if (n < 0) {
        buf[0] = '\0';
        halo_doctor_finding_read(probe->finding, "%s: %s", path,
                                 n == -EINVAL || n == -EFBIG ? "is not a line of text" : strerror((int)-n));
        return (int)n;
    }
    halo_doctor_finding_read(probe->finding, "%s = %s", path, n ? buf : "(empty)");
    return 0;
}

int halo_doctor_probe_word(struct halo_doctor_probe *probe, char *buf, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int r = path_begin(probe, format, args);
    va_end(args);
    buf[0] = '\0';
    return r < 0 ? r : read_word(probe, buf, room);
}

int halo_doctor_probe_number(struct halo_doctor_probe *probe, uint64_t *ret, const char *format, ...)
{
    char word[128];
    const char *end;
    va_list args;
    va_start(args, format);
    int r = path_begin(probe, format, args);
    va_end(args);
    *ret = 0;
    r = r < 0 ? r : read_word(probe, word, sizeof word);
    if (r == 0 && (!halo_doctor_number_parse(word, ret, &end) || *end))
        r = -EINVAL;
    return r;
}

int halo_doctor_probe_stat(struct halo_doctor_probe *probe, struct stat *ret, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int fd = path_begin(probe, format, args), r = 0;
    va_end(args);
    fd = fd < 0 ? fd : open_below(probe, probe->at, O_PATH);
    if (fd >= 0 && fstat(fd, ret) != 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    path_end(probe, NULL);
    return fd < 0 ? fd : r;
}

int halo_doctor_probe_open(struct halo_doctor_probe *probe, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int fd = path_begin(probe, format, args);
    va_end(args);
    fd = fd < 0 ? fd : open_below(probe, probe->at, O_RDWR);
    if (fd >= 0)
        close(fd);
    path_end(probe, NULL);
    return fd < 0 ? fd : 0;
}

int halo_doctor_probe_ioctl(struct halo_doctor_probe *probe, unsigned long request, void *argument, const char *format,
                            ...)
{
    va_list args;
    va_start(args, format);
    int fd = path_begin(probe, format, args), r = 0;
    va_end(args);
    fd = fd < 0 ? fd : open_below(probe, probe->at, O_RDWR);
    if (fd >= 0 && ioctl(fd, request, argument) != 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    path_end(probe, NULL);
    return fd < 0 ? fd : r;
}

static int parse_extents(const char *text, struct halo_doctor_extents *ret)
{
    unsigned long long n_bytes, n;
    *ret = (struct halo_doctor_extents){0};
    if (sscanf(text, "%llu %llu", &n_bytes, &n) != 2)
        return -EINVAL;
    *ret = (struct halo_doctor_extents){.n_bytes = n_bytes,
                                        .n = n,
                                        .is_compressed = strstr(text, "compressed") != NULL,
                                        .is_encrypted = strstr(text, "encrypted") != NULL};
    return 0;
}

int halo_doctor_probe_extents(struct halo_doctor_probe *probe, struct halo_doctor_extents *ret, const char *format, ...)
{
    char path[HALO_DOCTOR_PATH_BYTES], text[128];
    va_list args;
    va_start(args, format);
    int r = path_begin(probe, format, args);
    va_end(args);
    if (r == 0 && !*probe->sysroot) {
        int fd = open_below(probe, probe->at, O_RDONLY);
        r = fd < 0 ? fd : halo_doctor_extents_of(fd, ret);
        if (fd >= 0)
            close(fd);
        path_end(probe, NULL);
        return r;
    }
    path_end(probe, path);
    if (r < 0)
        return r;
    long n = halo_doctor_probe_head(probe, text, sizeof text, "%s.extents", path);
    return n == -ENOENT ? -EOPNOTSUPP : n < 0 ? (int)n : parse_extents(text, ret);
}

int halo_doctor_probe_link(struct halo_doctor_probe *probe, char *buf, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int fd = path_begin(probe, format, args);
    va_end(args);
    buf[0] = '\0';
    fd = fd < 0 ? fd : open_below(probe, probe->at, O_PATH | O_NOFOLLOW);
    path_end(probe, NULL);
    if (fd < 0)
        return fd;
    ssize_t n = readlinkat(fd, "", buf, room - 1);
    int r = n < 0 ? errno : 0;
    close(fd);
    buf[n < 0 ? 0 : n] = '\0';
    return r == ENOENT ? -EINVAL : -r; /* ENOENT: it is no link */
}

/* ---- folders ---- */

static int by_name(const void *a, const void *b)
{
    return strverscmp(a, b);
}

long halo_doctor_probe_list(struct halo_doctor_probe *probe, char (*names)[HALO_DOCTOR_NAME_BYTES], size_t max,
                            const char *format, ...)
{
    size_t n = 0;
    struct dirent *entry;
    va_list args;
    va_start(args, format);
    int fd = path_begin(probe, format, args);
    va_end(args);
    fd = fd < 0 ? fd : open_below(probe, probe->at, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (size_t seen = 0; dir && n < max && seen < MAX_ENTRIES && (entry = readdir(dir)); seen++)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < HALO_DOCTOR_NAME_BYTES)
            strcpy(names[n++], entry->d_name);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    path_end(probe, NULL);
    qsort(names, n, sizeof *names, by_name);
    return fd < 0 ? fd : (long)n;
}
