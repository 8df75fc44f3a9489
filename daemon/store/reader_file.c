/* reader_file.c: the files of a run, each open for direct and for buffered reads. Caller's thread; with the pread
 * threads under the lock of reader_threads.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader_priv.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* Said once, for the first file: the parts of a set lie in one folder. */
static void direct_lost(struct reader *r, int error)
{
    if (r->report->direct)
        reader_notice(r, "direct reads are refused (%s), reading through the page cache", strerror(error));
    r->report->direct = false;
}

int reader_file_open(struct reader *r, struct reader_file *file, const char *path)
{
    const char *slash = strrchr(path, '/');
    *file = (struct reader_file){.name = slash ? slash + 1 : path, .fd = -1, .fd_other = -1};
    file->fd = open(path, OPEN_FLAGS);
    struct stat st;
    if (file->fd < 0 || fstat(file->fd, &st) < 0)
        return halo_fault_errno(r->fault, HALO_FAULT_LOAD_FAILED, -errno, "%s cannot be opened", file->name);
    if (!S_ISREG(st.st_mode))
        return halo_fault_set(r->fault, HALO_FAULT_LOAD_FAILED, "%s is not a regular file", file->name);
    file->size = (uint64_t)st.st_size;
    if (r->options->no_direct)
        return 0;
    int direct = open(path, OPEN_FLAGS | O_DIRECT);
    if (direct < 0) {
        direct_lost(r, errno);
        return 0;
    }
    file->fd_other = file->fd;
    file->fd = direct;
    file->direct = true;
    return 0;
}

void reader_file_buffered(struct reader *r, struct reader_file *file, int error)
{
    if (!file->direct)
        return; /* another read came to the same end before */
    int direct = file->fd;
    file->fd = file->fd_other;
    file->fd_other = direct;
    file->direct = false;
    direct_lost(r, error);
}

void reader_file_close(struct reader_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    if (file->fd_other >= 0)
        close(file->fd_other);
}
