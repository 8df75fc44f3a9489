/* store.c: blobs as files. One thread; other processes use the same folder.
 *
 * The file `usage` holds the bytes of all blobs, and its lock is that of the folder. The number is set before a blob
 * appears and left alone when a damaged one goes: it may be too great, never too small, and is counted anew when it
 * reaches the limit. Nothing is synchronised to the disk: what a crash leaves is found when it is read.
 */
#include "store_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <base/folder.h>
#include <base/log.h>
#include <hip_tls/tls.h>

#define NAME_BYTES (2 * HALO_BLOB_HASH_BYTES + 1)
#define NEW_PREFIX ".new-" /* of a file that is being written */
#define NEW_AGE_S 3600     /* after this its session is no more */
#define ROOM_SHARE 8       /* an eighth of the folder is freed at once: counting it takes time */
#define LOCK_TRIES 50
#define LOCK_PAUSE_NS 2000000

static void name_of(const uint8_t sha256[static HALO_BLOB_HASH_BYTES], char ret[static NAME_BYTES])
{
    for (size_t i = 0; i < HALO_BLOB_HASH_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", sha256[i]);
}

/* ---- the folder ---- */

static int check_folder(const char *path, struct halo_fault *fault)
{
    struct stat facts;
    if (lstat(path, &facts) < 0)
        return halo_fault_errno(fault, HALO_FAULT_BAD_REQUEST, -errno, "cannot keep blobs in %s", path);
    if (S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && !(facts.st_mode & 077))
        return 0;
    halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                   "cannot keep blobs in %s: it must be a folder that belongs to this user and that nobody else may "
                   "enter (chmod 700)",
                   path);
    return -EPERM;
}

int halo_blob_folder_make(const char *dir, const char *name, char *ret_path, size_t size, struct halo_fault *fault)
{
    if (snprintf(ret_path, size, "%s/%s", dir, name) >= (int)size)
        return halo_fault_errno(fault, HALO_FAULT_BAD_REQUEST, -ENAMETOOLONG, "cannot keep blobs in %s", dir);
    int r = halo_folder_make(ret_path, 0700);
    if (r < 0)
        return halo_fault_errno(fault, HALO_FAULT_BAD_REQUEST, r, "cannot make the folder %s", ret_path);
    r = check_folder(dir, fault);
    return r < 0 ? r : check_folder(ret_path, fault);
}

int halo_blob_store_open(struct halo_blob_store *ret, const char *path, uint64_t max_bytes, struct halo_fault *fault)
{
    *ret = (struct halo_blob_store){.usage_fd = -1, .max_bytes = max_bytes};
    ret->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->folder_fd >= 0)
        ret->usage_fd = openat(ret->folder_fd, "usage", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (ret->usage_fd >= 0)
        return 0;
    int r = halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot keep blobs in %s", path);
    halo_blob_store_close(ret);
    return r;
}

void halo_blob_store_close(struct halo_blob_store *store)
{
    if (store->usage_fd >= 0)
        close(store->usage_fd);
    if (store->folder_fd >= 0)
        close(store->folder_fd);
    store->usage_fd = store->folder_fd = -1;
}

/* ---- the limit ---- */

/* A session that was stopped while it held the lock must not stop the others. */
static int lock(const struct halo_blob_store *store)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(store->usage_fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return -EAGAIN;
}

static void unlock(const struct halo_blob_store *store)
{
    (void)flock(store->usage_fd, LOCK_UN);
}

struct kept {
    char name[NAME_BYTES];
    struct timespec used;
    uint64_t n_bytes;
};

struct listing {
    struct kept *entries; /* [n] */
    size_t n, cap;
    uint64_t n_bytes;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct kept *)a)->used, *y = &((const struct kept *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static int list_one(const struct halo_blob_store *store, struct listing *l, const char *name)
{
    struct stat facts;
    if (fstatat(store->folder_fd, name, &facts, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(facts.st_mode))
        return 0;
    if (strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX)) == 0 && time(NULL) - facts.st_mtime > NEW_AGE_S)
        (void)unlinkat(store->folder_fd, name, 0);
    if (strlen(name) != NAME_BYTES - 1)
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct kept *entries = realloc(l->entries, cap * sizeof(*entries));
        if (!entries)
            return -ENOMEM;
        l->entries = entries;
        l->cap = cap;
    }
    struct kept *kept = &l->entries[l->n++];
    *kept = (struct kept){.used = facts.st_mtim, .n_bytes = (uint64_t)facts.st_size};
    memcpy(kept->name, name, NAME_BYTES);
    l->n_bytes += kept->n_bytes;
    return 0;
}

static int list(const struct halo_blob_store *store, struct listing *ret)
{
    *ret = (struct listing){0};
    int fd = openat(store->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));)
        r = list_one(store, ret, entry->d_name);
    closedir(stream);
    return r;
}

/* Counts the blobs and drops the oldest until they have at most `most` bytes. 0 and how many they have. */
static int count_and_drop(const struct halo_blob_store *store, uint64_t most, uint64_t *ret)
{
    struct listing l;
    int r = list(store, &l);
    if (r == 0 && l.n_bytes > most)
        qsort(l.entries, l.n, sizeof(*l.entries), by_use);
    for (size_t i = 0; r == 0 && l.n_bytes > most && i < l.n; i++)
        if (unlinkat(store->folder_fd, l.entries[i].name, 0) == 0 || errno == ENOENT)
            l.n_bytes -= l.entries[i].n_bytes;
    free(l.entries);
    *ret = l.n_bytes;
    return r;
}

/* With the lock. */
static int reserve(const struct halo_blob_store *store, uint64_t n)
{
    uint64_t used;
    bool is_known = pread(store->usage_fd, &used, sizeof(used), 0) == (ssize_t)sizeof(used);
    if (n > store->max_bytes)
        return -EFBIG;
    if (!is_known || used > store->max_bytes - n) {
        uint64_t room = n > store->max_bytes / ROOM_SHARE ? n : store->max_bytes / ROOM_SHARE;
        int r = count_and_drop(store, is_known ? store->max_bytes - room : store->max_bytes - n, &used);
        if (r < 0)
            return r;
        if (used > store->max_bytes - n)
            return -ENOSPC;
    }
    used += n;
    return pwrite(store->usage_fd, &used, sizeof(used), 0) == (ssize_t)sizeof(used) ? 0 : -EIO;
}

/* ---- blobs ---- */

bool halo_blob_store_has(const struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES],
                         size_t n)
{
    char name[NAME_BYTES];
    struct stat facts;
    name_of(sha256, name);
    return fstatat(store->folder_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode) &&
           (uint64_t)facts.st_size == n;
}

static int read_all(int fd, uint8_t *to, size_t n)
{
    while (n > 0) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EBADMSG;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

/* Writes a byte again as it is: the sandbox has no call that sets times. */
static void note_use(const struct halo_blob_store *store, const char *name, time_t noted, const uint8_t *first)
{
    if (time(NULL) - noted <= HALO_BLOB_TOUCH_S)
        return;
    int fd = openat(store->folder_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!pwrite(fd, first, 1, 0);
    close(fd);
}

int halo_blob_store_get(struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES], void *to,
                        size_t n)
{
    char name[NAME_BYTES];
    uint8_t is[HALO_BLOB_HASH_BYTES];
    struct stat facts;
    name_of(sha256, name);
    int fd = openat(store->folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fstat(fd, &facts) < 0 ? -errno : 0;
    if (r == 0 && S_ISREG(facts.st_mode) && (uint64_t)facts.st_size == n)
        r = read_all(fd, to, n);
    else if (r == 0)
        r = -EBADMSG;
    close(fd);
    if (r == 0 && !halo_remote_tls.sha256(to, n, is))
        return -ENOMEM;
    if (r == 0 && memcmp(is, sha256, sizeof(is)) == 0) {
        store->found_bytes += n;
        note_use(store, name, facts.st_mtime, to);
        return 0;
    }
    halo_log(HALO_LOG_WARN, "the stored blob %s is damaged and was deleted", name);
    (void)unlinkat(store->folder_fd, name, 0);
    return -EBADMSG;
}

static int write_new(const struct halo_blob_store *store, const char *name, const uint8_t *at, size_t n)
{
    (void)unlinkat(store->folder_fd, name, 0); /* of an earlier process with this number */
    int fd = openat(store->folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = 0;
    while (n > 0 && r == 0) {
        ssize_t written = write(fd, at, n);
        if (written > 0) {
            at += written;
            n -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            r = written < 0 ? -errno : -EIO;
        }
    }
    return close(fd) < 0 && r == 0 ? -errno : r;
}

/* With the lock. */
static int publish(struct halo_blob_store *store, const char *from, const char *name, size_t n)
{
    int r = reserve(store, n);
    if (r == 0 && renameat(store->folder_fd, from, store->folder_fd, name) < 0)
        r = -errno;
    if (r == 0)
        store->added_bytes += n;
    return r;
}

int halo_blob_store_put(struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES],
                        const void *at, size_t n)
{
    char name[NAME_BYTES], from[32];
    name_of(sha256, name);
    snprintf(from, sizeof(from), NEW_PREFIX "%d", (int)getpid());
    int r = write_new(store, from, at, n);
    if (r == 0)
        r = lock(store);
    if (r == 0) {
        r = halo_blob_store_has(store, sha256, n) ? -EEXIST : publish(store, from, name, n);
        unlock(store);
    }
    if (r < 0)
        (void)unlinkat(store->folder_fd, from, 0);
    if (r < 0 && r != -EEXIST && r != -EAGAIN && !store->has_told) {
        store->has_told = true;
        halo_log(HALO_LOG_WARN, "cannot store an upload: %s", strerror(-r));
    }
    return r == -EEXIST ? 0 : r; /* another session has the same bytes */
}
