/* fetch_file.c: the files of a halo_fetch: the caller's descriptor for buffered reads, one of its own for direct reads.
 * The table is guarded by the lock of the fetch; descriptors stay open until the file is removed, so that reads in
 * flight keep theirs when a file changes from direct to buffered.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "direct_priv.h"
#include "fetch_priv.h"

/* With the lock held. */
static void buffered_notice(struct halo_fetch *f, const char *name, int error)
{
    if (!f->buffered_told)
        halo_remarks_add(&f->notices,
                         "%s cannot be read with O_DIRECT (%s): reading through the page cache, which is told to drop "
                         "what was read",
                         name, strerror(error));
    f->buffered_told = true;
}

void fetch_file_buffered(struct halo_fetch *f, struct fetch_file *file, int error)
{
    if (!file->direct)
        return;
    file->direct = false;
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    buffered_notice(f, file->name, error);
}

/* The fault when fd is not open on the file that `id` describes. */
static int check_id(int fd, const struct halo_file_id *id, const char *name, struct halo_fault *fault)
{
    struct stat facts;
    if (fstat(fd, &facts) < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "%s cannot be examined", name);
    struct halo_file_id opened = halo_file_id_of(&facts);
    if (halo_file_id_is_unwritten(&opened, id))
        return 0;
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                          "%s has changed since its header was read (%llu bytes then, %llu now); load it again", name,
                          (unsigned long long)id->bytes, (unsigned long long)opened.bytes);
}

/* With the lock held. NULL: all are used. */
static struct fetch_file *unused_file(struct halo_fetch *f)
{
    for (uint32_t i = 0; i < HALO_FETCH_FILES_MAX; i++)
        if (!f->files[i].used)
            return &f->files[i];
    return NULL;
}

int halo_fetch_add_file(struct halo_fetch *f, int fd, const struct halo_file_id *id, const char *name,
                        uint32_t *ret_file, struct halo_fault *fault)
{
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    int r = check_id(fd, id, name, fault);
    if (r < 0)
        return r;
    int fd_direct = f->options.no_direct ? -1 : direct_open(fd, id);
    pthread_mutex_lock(&f->lock);
    struct fetch_file *file = unused_file(f);
    if (file) {
        *file = (struct fetch_file){
            .used = true, .direct = fd_direct >= 0, .fd = fd, .fd_direct = fd_direct >= 0 ? fd_direct : -1};
        snprintf(file->name, sizeof(file->name), "%s", name);
        *ret_file = (uint32_t)(file - f->files);
        if (fd_direct < 0) /* no read-ahead into the page cache */
            posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        if (fd_direct < 0 && !f->options.no_direct)
            buffered_notice(f, name, -fd_direct);
    }
    pthread_mutex_unlock(&f->lock);
    if (file)
        return 0;
    if (fd_direct >= 0)
        close(fd_direct);
    return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%d files are open for streaming, %s would be one more",
                          HALO_FETCH_FILES_MAX, name);
}

int halo_fetch_remove_file(struct halo_fetch *f, uint32_t number)
{
    int fd_direct = -1, r = -EBUSY;
    pthread_mutex_lock(&f->lock);
    struct fetch_file *file = &f->files[number];
    if (file->n_reads == 0) {
        r = 0;
        if (!file->direct)
            posix_fadvise(file->fd, 0, 0, POSIX_FADV_NORMAL);
        fd_direct = file->fd_direct;
        *file = (struct fetch_file){.fd = -1, .fd_direct = -1};
    }
    pthread_mutex_unlock(&f->lock);
    if (fd_direct >= 0)
        close(fd_direct);
    return r;
}

bool halo_fetch_is_direct(struct halo_fetch *f, uint32_t number)
{
    pthread_mutex_lock(&f->lock);
    bool direct = f->files[number].used && f->files[number].direct;
    pthread_mutex_unlock(&f->lock);
    return direct;
}

int halo_fetch_fault(struct halo_fetch *f, const struct halo_fetch_done *done, struct halo_fault *fault)
{
    char name[FETCH_NAME_BYTES];
    unsigned long long offset = done->offset, n = done->n_bytes;
    if (done->error == 0)
        return 0;
    pthread_mutex_lock(&f->lock);
    memcpy(name, f->files[done->file].name, sizeof(name));
    pthread_mutex_unlock(&f->lock);
    if (done->error == -ECANCELED)
        halo_fault_set(fault, HALO_FAULT_CANCELLED, "reading %llu bytes at %llu of %s was cancelled", n, offset, name);
    else if (done->error == -ENODATA)
        halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                       "%s was cut while its model is loaded: it ends at byte %llu, %llu bytes at %llu are needed; "
                       "restore the file and load the model again",
                       name, (unsigned long long)done->file_bytes, n, offset);
    else
        halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, done->error, "reading %s at byte %llu, for %llu bytes at %llu",
                         name, (unsigned long long)done->failed_at, n, offset);
    return done->error;
}
