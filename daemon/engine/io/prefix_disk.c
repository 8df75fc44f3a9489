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

#include "io/state_file_priv.h"

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

int halo_prefix_disk_take(const char *path, const struct halo_prefix_key *key, uint64_t most_bytes, uint8_t **ret_image,
                          uint32_t *ret_n_records, struct halo_fault *fault)
{
    uint64_t n = 0;
    uint8_t *image = NULL;
    int r = halo_state_file_read(path, most_bytes, &image, &n, fault);
    if (r == HALO_STATE_FILE_E_NONE)
        return HALO_PREFIX_DISK_E_NONE;
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

int halo_prefix_writer_append(struct halo_prefix_writer *writer, const uint8_t *records, size_t n)
{
    int r = halo_state_file_write_at(writer->fd, records, n, writer->n_bytes);
    writer->n_bytes += n;
    return r;
}

int halo_prefix_writer_finish(struct halo_prefix_writer *writer, const uint8_t header[HALO_PREFIX_HEADER_BYTES])
{
    int r = halo_state_file_write_at(writer->fd, header, HALO_PREFIX_HEADER_BYTES, 0);
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
