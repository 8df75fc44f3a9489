/* reader_file.c: the files of a run: the caller's descriptor for buffered reads, one of its own for direct reads.
 * Caller's thread; with the pread threads under the lock of reader_threads.c.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "direct_priv.h"
#include "reader_priv.h"

/* Said once, for the first file: the parts of a set lie in one folder. */
static void direct_lost(struct reader *reader, int error)
{
    if (reader->report->direct)
        reader_notice(reader, "direct reads are refused (%s), reading through the page cache", strerror(error));
    reader->report->direct = false;
}

int reader_file_check(struct reader *reader, const struct reader_file *file)
{
    struct stat facts;
    if (fstat(file->source->fd, &facts) < 0)
        return halo_fault_errno(reader->fault, HALO_FAULT_LOAD_FAILED, -errno, "%s cannot be examined", file->name);
    struct halo_file_id id = halo_file_id_of(&facts), was = file->source->id;
    if (halo_file_id_is_equal(&id, &was))
        return 0;
    if (id.bytes != was.bytes)
        return halo_fault_set(reader->fault, HALO_FAULT_LOAD_FAILED,
                              "%s was changed while it was read, from %llu bytes to %llu; load it again", file->name,
                              (unsigned long long)was.bytes, (unsigned long long)id.bytes);
    return halo_fault_set(reader->fault, HALO_FAULT_LOAD_FAILED, "%s was %s while it was read; load it again",
                          file->name,
                          id.modified_ns != was.modified_ns ? "written to" : "moved, linked or given another mode");
}

int reader_file_open(struct reader *reader, struct reader_file *file, const struct halo_reader_source *source)
{
    const char *slash = strrchr(source->name, '/');
    *file = (struct reader_file){
        .source = source, .name = slash ? slash + 1 : source->name, .fd = source->fd, .fd_other = -1};
    int changed = reader_file_check(reader, file);
    if (changed)
        return changed;
    file->size = source->id.bytes;
    if (reader->options->no_direct)
        return 0;
    int direct = direct_open(source->fd, &source->id);
    if (direct < 0) {
        direct_lost(reader, -direct);
        return 0;
    }
    file->fd_other = file->fd;
    file->fd = direct;
    file->direct = true;
    return 0;
}

void reader_file_buffered(struct reader *reader, struct reader_file *file, int error)
{
    if (!file->direct)
        return; /* another read came to the same end before */
    int direct = file->fd;
    file->fd = file->fd_other;
    file->fd_other = direct;
    file->direct = false;
    direct_lost(reader, error);
}

void reader_file_close(struct reader_file *file)
{
    int own = file->fd == file->source->fd ? file->fd_other : file->fd;
    if (own >= 0)
        close(own);
}
