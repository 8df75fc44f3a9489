/* prefix_disk.c: files of saved prefixes. The io thread. */
#include <engine/prefix_disk.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/folder.h>

#define FOLDER "prefixes"
#define END ".prefixes"
#define PART_END ".part"

static bool fits(int n, size_t room)
{
    return n > 0 && (size_t)n < room;
}

void halo_prefix_disk_name(const char *fingerprint, char ret[HALO_PREFIX_NAME_BYTES])
{
    snprintf(ret, HALO_PREFIX_NAME_BYTES, "%.32s" END, fingerprint);
}

int halo_prefix_disk_path(const char *state_dir, const char *fingerprint, char ret[HALO_PREFIX_PATH_BYTES])
{
    if (strlen(state_dir) > 4000)
        return -ENAMETOOLONG;
    char name[HALO_PREFIX_NAME_BYTES];
    halo_prefix_disk_name(fingerprint, name);
    int n = snprintf(ret, HALO_PREFIX_PATH_BYTES, "%s/" FOLDER "/%s", state_dir, name);
    return fits(n, HALO_PREFIX_PATH_BYTES) ? 0 : -ENAMETOOLONG;
}

/* ---- reading ---- */

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

int halo_prefix_disk_take(const char *path, const struct halo_prefix_key *key, uint64_t most_bytes, uint8_t **ret_image,
                          uint32_t *ret_n_records, struct halo_fault *fault)
{
    uint64_t n = 0;
    uint8_t *image = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return HALO_PREFIX_DISK_E_NONE;
    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "it cannot be opened");
    int r = check_file(fd, most_bytes, &n, fault);
    if (r == 0) {
        image = malloc(n ? n : 1);
        r = image ? read_all(fd, image, n) : -ENOMEM;
        if (r < 0)
            halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, r, "its %llu bytes cannot be read", (unsigned long long)n);
    }
    close(fd);
    if (r == 0)
        r = halo_prefix_image_check(image, n, key, ret_n_records, fault);
    if (r < 0) {
        free(image);
        return r;
    }
    unlink(path);
    *ret_image = image;
    return 0;
}

/* ---- writing ---- */

int halo_prefix_writer_open(struct halo_prefix_writer *writer, const char *state_dir, const char *fingerprint)
{
    char folder[HALO_PREFIX_PATH_BYTES];
    writer->fd = -1;
    writer->n_bytes = HALO_PREFIX_HEADER_BYTES;
    int r = halo_prefix_disk_path(state_dir, fingerprint, writer->path);
    snprintf(writer->part, sizeof(writer->part), "%s" PART_END, writer->path); /* what a fault names */
    snprintf(folder, sizeof(folder), "%.4000s/" FOLDER, state_dir);
    if (r == 0)
        r = halo_folder_make(folder, 0700);
    if (r < 0)
        return r;
    unlink(writer->part);
    writer->fd = open(writer->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return writer->fd < 0 ? -errno : 0;
}

static int write_at(int fd, const uint8_t *bytes, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

int halo_prefix_writer_append(struct halo_prefix_writer *writer, const uint8_t *records, size_t n)
{
    int r = write_at(writer->fd, records, n, writer->n_bytes);
    writer->n_bytes += n;
    return r;
}

int halo_prefix_writer_finish(struct halo_prefix_writer *writer, const uint8_t header[HALO_PREFIX_HEADER_BYTES])
{
    int r = write_at(writer->fd, header, HALO_PREFIX_HEADER_BYTES, 0);
    if (close(writer->fd) < 0 && r == 0)
        r = -errno;
    writer->fd = -1;
    if (r == 0 && rename(writer->part, writer->path) < 0)
        r = -errno;
    if (r < 0)
        unlink(writer->part);
    return r;
}

void halo_prefix_writer_abort(struct halo_prefix_writer *writer)
{
    if (writer->fd < 0)
        return;
    close(writer->fd);
    writer->fd = -1;
    unlink(writer->part);
}

/* ---- the folder ---- */

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

/* Adds up, and finds the oldest. */
static uint64_t survey(int folder_fd, DIR *folder, const char *coming, char ret_oldest[256])
{
    uint64_t all = 0;
    struct timespec oldest = {0};
    ret_oldest[0] = '\0';
    rewinddir(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat facts;
        if (ends_in(entry->d_name, PART_END))
            unlinkat(folder_fd, entry->d_name, 0);
        if (!ends_in(entry->d_name, END) || strcmp(entry->d_name, coming) == 0 ||
            fstatat(folder_fd, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        all += (uint64_t)facts.st_size;
        if (ret_oldest[0] && (facts.st_mtim.tv_sec > oldest.tv_sec ||
                              (facts.st_mtim.tv_sec == oldest.tv_sec && facts.st_mtim.tv_nsec > oldest.tv_nsec)))
            continue;
        oldest = facts.st_mtim;
        snprintf(ret_oldest, 256, "%s", entry->d_name);
    }
    return all;
}

void halo_prefix_disk_trim(const char *state_dir, uint64_t most_bytes, const char *coming)
{
    char path[HALO_PREFIX_PATH_BYTES], oldest[256];
    snprintf(path, sizeof(path), "%.4000s/" FOLDER, state_dir);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    while (survey(dirfd(folder), folder, coming, oldest) > most_bytes && unlinkat(dirfd(folder), oldest, 0) == 0)
        ;
    closedir(folder);
}
