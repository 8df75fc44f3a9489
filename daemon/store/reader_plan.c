/* reader_plan.c: what to read next, and what to make of the result.
 *
 * A cursor walks the jobs in file order and cuts them into pieces: a large congruent range of a direct file is read in
 * place with its aligned hull, a large range of a buffered file in place exactly, everything else through a bounce
 * buffer, neighbours together. Results are judged here for every method: short reads, refusals, the end of the file.
 * Thread: reader_priv.h.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "direct_priv.h"
#include "reader_priv.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static const struct halo_reader_job *job_at(const struct reader *reader, size_t place)
{
    return &reader->jobs[reader->order[place]];
}

static int order_compare(const void *a, const void *b, void *ud)
{
    const struct halo_reader_job *jobs = ud, *x = &jobs[*(const uint32_t *)a], *y = &jobs[*(const uint32_t *)b];
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

int reader_plan_init(struct reader *reader)
{
    if (reader->n_jobs >= UINT32_MAX)
        return halo_fault_set(reader->fault, HALO_FAULT_LOAD_FAILED, "%zu ranges are more than one run can read",
                              reader->n_jobs);
    reader->order = calloc(reader->n_jobs + 1, sizeof(*reader->order));
    reader->left = calloc(reader->n_jobs + 1, sizeof(*reader->left));
    reader->targets = calloc(reader->n_jobs + 1, sizeof(*reader->targets));
    reader->retry = calloc(reader->queue_depth, sizeof(*reader->retry));
    if (!reader->order || !reader->left || !reader->targets || !reader->retry)
        return halo_fault_set(reader->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to plan the reading of %zu ranges",
                              reader->n_jobs);
    bool sorted = true;
    for (size_t i = 0; i < reader->n_jobs; i++) {
        const struct halo_reader_job *job = &reader->jobs[i];
        assert(job->part < reader->n_files);
        const struct reader_file *file = &reader->files[job->part];
        if (job->offset > file->size || job->n_bytes > file->size - job->offset)
            return halo_fault_set(reader->fault, HALO_FAULT_LOAD_FAILED,
                                  "%s ends at byte %llu, %s needs %llu bytes at %llu", file->name,
                                  (unsigned long long)file->size, job->name ? job->name : "a range",
                                  (unsigned long long)job->n_bytes, (unsigned long long)job->offset);
        reader->order[i] = (uint32_t)i;
        reader->left[i] = job->n_bytes;
        reader->targets[i] = (struct reader_target){job->dest, job->slack, job->dest || job->n_bytes == 0};
        assert(reader->targets[i].known || reader->options->place);
        reader->bytes_total += job->n_bytes;
        if (i > 0)
            sorted = sorted && order_compare(&reader->order[i - 1], &reader->order[i], (void *)reader->jobs) <= 0;
    }
    if (!sorted)
        qsort_r(reader->order, reader->n_jobs, sizeof(*reader->order), order_compare, (void *)reader->jobs);
    return 0;
}

void reader_plan_finish(struct reader *reader)
{
    free(reader->order);
    free(reader->left);
    free(reader->targets);
    free(reader->retry);
}

bool reader_cancelled(const struct reader *reader)
{
    return reader->options->cancel && atomic_load_explicit(reader->options->cancel, memory_order_relaxed);
}

void reader_notice(struct reader *reader, const char *format, ...)
{
    char *notice = reader->report->notice;
    size_t size = sizeof(reader->report->notice), n = strlen(notice);
    if (n > 0)
        n += (size_t)snprintf(notice + n, size - n, "; ");
    if (n >= size)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(notice + n, size - n, format, args);
    va_end(args);
}

static bool job_is_small(const struct halo_reader_job *job)
{
    return job->n_bytes < HALO_READER_DIRECT_MIN;
}

static struct reader_target *target_at(const struct reader *reader, size_t place)
{
    return &reader->targets[reader->order[place]];
}

/* Its destination is known. */
static bool job_bounces(const struct reader *reader, size_t place)
{
    const struct halo_reader_job *job = job_at(reader, place);
    const struct reader_target *target = target_at(reader, place);
    if (job_is_small(job))
        return true;
    return reader->files[job->part].direct && !(target->slack && halo_hull_fits(target->dest, job->offset));
}

/* Asks where the job's bytes go, if nobody has said so yet. */
static bool job_has_place(const struct reader *reader, size_t place)
{
    struct reader_target *target = target_at(reader, place);
    void *dest = NULL;
    if (!target->known) {
        target->known = reader->options->place(reader->options->ud, reader->order[place], &dest, &target->slack);
        target->dest = dest;
    }
    return target->known;
}

void reader_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Sets the hull that a read of [use_begin, use_end) takes. */
static void piece_hull(const struct reader *reader, struct reader_piece *p)
{
    bool direct = reader->files[p->file].direct;
    p->offset = direct ? halo_hull_begin(p->use_begin) : p->use_begin;
    p->n = (uint32_t)((direct ? halo_hull_end(p->use_end) : p->use_end) - p->offset);
    p->need = (uint32_t)(p->use_end - p->offset);
}

/* In place, from the cursor on. */
static void piece_in_place(struct reader *reader, struct reader_piece *p)
{
    const struct halo_reader_job *job = job_at(reader, reader->next);
    uint64_t begin = job->offset + reader->at, end = job->offset + job->n_bytes;
    uint8_t *dest = target_at(reader, reader->next)->dest + reader->at;
    bool direct = reader->files[p->file].direct;
    uint64_t reach = (direct ? halo_hull_begin(begin) : begin) + reader->chunk_bytes;
    if (reader->window_base && dest >= reader->window_base) {
        uint64_t into = (uint64_t)(dest - reader->window_base);
        reach = min_u64(reach, begin + (reader->window_bytes - into % reader->window_bytes));
    }
    p->use_begin = begin;
    p->use_end = min_u64(reach, end);
    piece_hull(reader, p);
    p->at = dest - (begin - p->offset);
    reader->at += p->use_end - begin;
}

/* Through the bounce buffer: this job and the small ones that follow closely. */
static void piece_bounced(struct reader *reader, struct reader_piece *p, uint8_t *bounce)
{
    const struct halo_reader_job *job = job_at(reader, reader->next);
    p->bounce = true;
    p->at = bounce;
    p->use_begin = job->offset + reader->at;
    uint64_t reach = halo_hull_begin(p->use_begin) + READER_BOUNCE_BYTES;
    p->use_end = min_u64(job->offset + job->n_bytes, reach);
    reader->at = p->use_end - job->offset;
    while (reader->at == job->n_bytes && reader->next + 1 < reader->n_jobs) {
        const struct halo_reader_job *follower = job_at(reader, reader->next + 1);
        if (follower->part != job->part || follower->offset < p->use_begin || follower->offset >= reach ||
            follower->offset > p->use_end + READER_HOLE_BYTES || !job_has_place(reader, reader->next + 1) ||
            !job_bounces(reader, reader->next + 1))
            break;
        /* Jobs may overlap (a tied weight wanted twice): the follower may even end first. */
        uint64_t end = min_u64(follower->offset + follower->n_bytes, reach);
        p->use_end = max_u64(p->use_end, end);
        p->last = ++reader->next;
        reader->at = end - follower->offset;
        job = follower;
    }
    piece_hull(reader, p);
    assert(p->n <= READER_BOUNCE_BYTES);
}

bool reader_piece_next(struct reader *reader, uint8_t *bounce, struct reader_piece *ret)
{
    reader->starved = false;
    if (reader->error || reader_cancelled(reader))
        return false;
    if (reader->n_retry > 0) {
        *ret = reader->retry[--reader->n_retry];
        if (ret->bounce)
            ret->at = bounce;
        return true;
    }
    while (reader->next < reader->n_jobs && reader->at == job_at(reader, reader->next)->n_bytes) {
        reader->next++;
        reader->at = 0;
    }
    atomic_store_explicit(&reader->next_shared, reader->next, memory_order_relaxed);
    if (reader->next == reader->n_jobs)
        return false;
    if (!job_has_place(reader, reader->next)) {
        reader->starved = true;
        return false;
    }
    *ret =
        (struct reader_piece){.first = reader->next, .last = reader->next, .file = job_at(reader, reader->next)->part};
    if (job_bounces(reader, reader->next))
        piece_bounced(reader, ret, bounce);
    else
        piece_in_place(reader, ret);
    return true;
}

void reader_piece_return(struct reader *reader, const struct reader_piece *piece)
{
    assert(reader->n_retry < reader->queue_depth);
    reader->retry[reader->n_retry] = *piece;
    if (piece->bounce)
        reader->retry[reader->n_retry].got = 0;
    reader->n_retry++;
}

/* The part of a job that a piece brings. False when there is none. */
static bool piece_share(const struct reader *reader, const struct reader_piece *p, size_t place, uint64_t *ret_begin,
                        uint64_t *ret_end)
{
    const struct halo_reader_job *job = job_at(reader, place);
    *ret_begin = max_u64(p->use_begin, job->offset);
    *ret_end = min_u64(p->use_end, job->offset + job->n_bytes);
    return *ret_begin < *ret_end;
}

static void piece_copy_out(const struct reader *reader, const struct reader_piece *p)
{
    uint64_t begin, end;
    for (size_t place = p->first; place <= p->last; place++) {
        const struct halo_reader_job *job = job_at(reader, place);
        if (piece_share(reader, p, place, &begin, &end))
            memcpy(target_at(reader, place)->dest + (begin - job->offset), p->at + (begin - p->offset), end - begin);
    }
}

void reader_piece_account(struct reader *reader, const struct reader_piece *p)
{
    uint64_t begin, end;
    for (size_t place = p->first; place <= p->last; place++) {
        if (!piece_share(reader, p, place, &begin, &end))
            continue;
        uint32_t number = reader->order[place];
        assert(reader->left[number] >= end - begin);
        reader->left[number] -= end - begin;
        reader->bytes_done += end - begin;
        if (reader->left[number] == 0 && reader->options->done)
            reader->options->done(reader->options->ud, number);
    }
    if (reader->options->progress)
        reader->options->progress(reader->options->ud, reader->bytes_done, reader->bytes_total);
}

enum reader_verdict reader_piece_fail(struct reader *reader, const struct reader_piece *p, int error)
{
    const struct halo_reader_job *job = job_at(reader, p->first);
    if (!reader->error)
        reader->error =
            halo_fault_errno(reader->fault, HALO_FAULT_LOAD_FAILED, error, "%s: reading %u bytes at %llu for %s",
                             reader->files[p->file].name, p->n - p->got, (unsigned long long)p->offset + p->got,
                             job->name ? job->name : "a range");
    return READER_FAILED;
}

/* Fewer bytes came than needed: either the file ends there, or the kernel wants to be asked again. */
static enum reader_verdict piece_short(struct reader *reader, struct reader_piece *p)
{
    struct reader_file *file = &reader->files[p->file];
    struct stat st;
    if (fstat(file->fd, &st) < 0)
        return reader_piece_fail(reader, p, -errno);
    if ((uint64_t)st.st_size < p->offset + p->need) {
        size_t place = p->first; /* the first job that the file no longer holds */
        while (place < p->last &&
               job_at(reader, place)->offset + job_at(reader, place)->n_bytes <= (uint64_t)st.st_size)
            place++;
        const struct halo_reader_job *job = job_at(reader, place);
        if (!reader->error)
            reader->error =
                halo_fault_set(reader->fault, HALO_FAULT_LOAD_FAILED,
                               "%s was cut while it was read: it ends at byte %llu, %s needs it up to %llu", file->name,
                               (unsigned long long)st.st_size, job->name ? job->name : "a range",
                               (unsigned long long)(job->offset + job->n_bytes));
        return READER_FAILED;
    }
    if (file->direct) /* the next direct read has to begin on a boundary again */
        p->got = (uint32_t)halo_hull_begin(p->got);
    if (++p->tries > DIRECT_TRIES)
        return reader_piece_fail(reader, p, -EIO);
    return READER_AGAIN;
}

enum reader_verdict reader_piece_result(struct reader *reader, struct reader_piece *p, int64_t result)
{
    if (result >= 0) {
        uint32_t before = p->got;
        assert((uint64_t)result <= p->n - p->got);
        p->got += (uint32_t)result;
        if (p->got >= p->need) {
            if (p->bounce)
                piece_copy_out(reader, p);
            return READER_COMPLETE;
        }
        if (p->got > before + HALO_HULL_ALIGN)
            p->tries = 0;
        return piece_short(reader, p);
    }
    switch (-result) {
    case EINTR:
    case EAGAIN: return ++p->tries > DIRECT_TRIES ? reader_piece_fail(reader, p, (int)result) : READER_AGAIN;
    case EPERM:
    case ENOSYS:
    case ENOMEM:
    case EINVAL:
    case EOPNOTSUPP:
    case EFAULT: /* device memory may refuse to be pinned for a direct read, and yet take a copy */
        return READER_REFUSED;
    default: return reader_piece_fail(reader, p, (int)result);
    }
}
