/* state_file.c: see state_file_priv.h. */
#include "io/state_file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4352

static int check_file(int fd, uint64_t most_bytes, uint64_t *ret_bytes, struct halo_fault *fault)
{
    struct stat facts;
    if (fstat(fd, &facts) < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "it cannot be examined");
    if (!S_ISREG(facts.st_mode))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "it is not a regular file");
    if (facts.st_uid != geteuid() || (facts.st_mode & 077) != 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "other users can access it (owner %u, mode %03o)",
                              (unsigned)facts.st_uid, (unsigned)facts.st_mode & 0777);
    if ((uint64_t)facts.st_size > most_bytes)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "it has %lld bytes, %llu are allowed",
                              (long long)facts.st_size, (unsigned long long)most_bytes);
    *ret_bytes = (uint64_t)facts.st_size;
    return 0;
}

static int read_all(int fd, uint8_t *image, uint64_t n)
{
    for (uint64_t at = 0; at < n;) {
        ssize_t done = read(fd, image + at, n - at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        at += (uint64_t)done;
    }
    return 0;
}

int halo_state_file_read(const char *path, uint64_t most_bytes, uint8_t **ret, uint64_t *ret_n,
                         struct halo_fault *fault)
{
    uint64_t n = 0;
    uint8_t *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return HALO_STATE_FILE_E_NONE;
    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "it cannot be opened");
    int r = check_file(fd, most_bytes, &n, fault);
    if (r == 0) {
        bytes = malloc(n + 1);
        r = bytes ? read_all(fd, bytes, n) : -ENOMEM;
        if (r < 0)
            halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, r, "its %llu bytes cannot be read", (unsigned long long)n);
    }
    close(fd);
    if (r < 0) {
        free(bytes);
        return r;
    }
    bytes[n] = '\0';
    *ret = bytes;
    *ret_n = n;
    return 0;
}

int halo_state_file_write_at(int fd, const void *from, uint64_t n, uint64_t at)
{
    const uint8_t *bytes = from;
    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        n -= (uint64_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

int halo_state_file_replace(const char *path, const void *bytes, uint64_t n)
{
    char part[PATH_BYTES];
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
        return -ENAMETOOLONG;
    unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int r = halo_state_file_write_at(fd, bytes, n, 0);
    if (r == 0 && fdatasync(fd) < 0)
        r = -errno;
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(part, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(part);
    return r;
}
