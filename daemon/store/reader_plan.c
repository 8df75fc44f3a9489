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

static const struct halo_reader_job *job_at(const struct reader *r, size_t place)
{
    return &r->jobs[r->order[place]];
}

static int order_compare(const void *a, const void *b, void *ud)
{
    const struct halo_reader_job *jobs = ud, *x = &jobs[*(const uint32_t *)a], *y = &jobs[*(const uint32_t *)b];
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

int reader_plan_init(struct reader *r)
{
    if (r->n_jobs >= UINT32_MAX)
        return halo_fault_set(r->fault, HALO_FAULT_LOAD_FAILED, "%zu ranges are more than one run can read", r->n_jobs);
    r->order = calloc(r->n_jobs + 1, sizeof(*r->order));
    r->left = calloc(r->n_jobs + 1, sizeof(*r->left));
    r->retry = calloc(r->queue_depth, sizeof(*r->retry));
    if (!r->order || !r->left || !r->retry)
        return halo_fault_set(r->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to plan the reading of %zu ranges",
                              r->n_jobs);
    bool sorted = true;
    for (size_t i = 0; i < r->n_jobs; i++) {
        const struct halo_reader_job *job = &r->jobs[i];
        assert(job->part < r->n_files);
        const struct reader_file *file = &r->files[job->part];
        if (job->offset > file->size || job->n_bytes > file->size - job->offset)
            return halo_fault_set(r->fault, HALO_FAULT_LOAD_FAILED, "%s ends at byte %llu, %s needs %llu bytes at %llu",
                                  file->name, (unsigned long long)file->size, job->name ? job->name : "a range",
                                  (unsigned long long)job->n_bytes, (unsigned long long)job->offset);
        r->order[i] = (uint32_t)i;
        r->left[i] = job->n_bytes;
        r->bytes_total += job->n_bytes;
        if (i > 0)
            sorted = sorted && order_compare(&r->order[i - 1], &r->order[i], (void *)r->jobs) <= 0;
    }
    if (!sorted)
        qsort_r(r->order, r->n_jobs, sizeof(*r->order), order_compare, (void *)r->jobs);
    return 0;
}

void reader_plan_finish(struct reader *r)
{
    free(r->order);
    free(r->left);
    free(r->retry);
}

bool reader_cancelled(const struct reader *r)
{
    return r->options->cancel && atomic_load_explicit(r->options->cancel, memory_order_relaxed);
}

void reader_notice(struct reader *r, const char *format, ...)
{
    char *notice = r->report->notice;
    size_t size = sizeof(r->report->notice), n = strlen(notice);
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

static bool job_bounces(const struct reader *r, const struct halo_reader_job *job)
{
    if (job_is_small(job))
        return true;
    return r->files[job->part].direct && !(job->slack && halo_hull_fits(job->dest, job->offset));
}

/* Sets the hull that a read of [use_begin, use_end) takes. */
static void piece_hull(const struct reader *r, struct reader_piece *p)
{
    bool direct = r->files[p->file].direct;
    p->offset = direct ? halo_hull_begin(p->use_begin) : p->use_begin;
    p->n = (uint32_t)((direct ? halo_hull_end(p->use_end) : p->use_end) - p->offset);
    p->need = (uint32_t)(p->use_end - p->offset);
}

/* In place, from the cursor on. */
static void piece_in_place(struct reader *r, struct reader_piece *p)
{
    const struct halo_reader_job *job = job_at(r, r->next);
    uint64_t begin = job->offset + r->at, end = job->offset + job->n_bytes;
    uint8_t *dest = (uint8_t *)job->dest + r->at;
    bool direct = r->files[p->file].direct;
    uint64_t reach = (direct ? halo_hull_begin(begin) : begin) + r->chunk_bytes;
    if (r->window_base && dest >= r->window_base) {
        uint64_t into = (uint64_t)(dest - r->window_base);
        reach = min_u64(reach, begin + (r->window_bytes - into % r->window_bytes));
    }
    p->use_begin = begin;
    p->use_end = min_u64(reach, end);
    piece_hull(r, p);
    p->at = dest - (begin - p->offset);
    r->at += p->use_end - begin;
}

/* Through the bounce buffer: this job and the small ones that follow closely. */
static void piece_bounced(struct reader *r, struct reader_piece *p, uint8_t *bounce)
{
    const struct halo_reader_job *job = job_at(r, r->next);
    p->bounce = true;
    p->at = bounce;
    p->use_begin = job->offset + r->at;
    uint64_t reach = halo_hull_begin(p->use_begin) + READER_BOUNCE_BYTES;
    p->use_end = min_u64(job->offset + job->n_bytes, reach);
    r->at = p->use_end - job->offset;
    while (r->at == job->n_bytes && r->next + 1 < r->n_jobs) {
        const struct halo_reader_job *follower = job_at(r, r->next + 1);
        if (follower->part != job->part || follower->offset < p->use_begin || follower->offset >= reach ||
            follower->offset > p->use_end + READER_HOLE_BYTES || !job_bounces(r, follower))
            break;
        /* Jobs may overlap (a tied weight wanted twice): the follower may even end first. */
        uint64_t end = min_u64(follower->offset + follower->n_bytes, reach);
        p->use_end = max_u64(p->use_end, end);
        p->last = ++r->next;
        r->at = end - follower->offset;
        job = follower;
    }
    piece_hull(r, p);
    assert(p->n <= READER_BOUNCE_BYTES);
}

bool reader_piece_next(struct reader *r, uint8_t *bounce, struct reader_piece *ret)
{
    if (r->error || reader_cancelled(r))
        return false;
    if (r->n_retry > 0) {
        *ret = r->retry[--r->n_retry];
        if (ret->bounce)
            ret->at = bounce;
        return true;
    }
    while (r->next < r->n_jobs && r->at == job_at(r, r->next)->n_bytes) {
        r->next++;
        r->at = 0;
    }
    if (r->next == r->n_jobs)
        return false;
    *ret = (struct reader_piece){.first = r->next, .last = r->next, .file = job_at(r, r->next)->part};
    if (job_bounces(r, job_at(r, r->next)))
        piece_bounced(r, ret, bounce);
    else
        piece_in_place(r, ret);
    return true;
}

void reader_piece_return(struct reader *r, const struct reader_piece *piece)
{
    assert(r->n_retry < r->queue_depth);
    r->retry[r->n_retry] = *piece;
    if (piece->bounce)
        r->retry[r->n_retry].got = 0;
    r->n_retry++;
}

/* The part of a job that a piece brings. False when there is none. */
static bool piece_share(const struct reader *r, const struct reader_piece *p, size_t place, uint64_t *ret_begin,
                        uint64_t *ret_end)
{
    const struct halo_reader_job *job = job_at(r, place);
    *ret_begin = max_u64(p->use_begin, job->offset);
    *ret_end = min_u64(p->use_end, job->offset + job->n_bytes);
    return *ret_begin < *ret_end;
}

static void piece_copy_out(const struct reader *r, const struct reader_piece *p)
{
    uint64_t begin, end;
    for (size_t place = p->first; place <= p->last; place++) {
        const struct halo_reader_job *job = job_at(r, place);
        if (piece_share(r, p, place, &begin, &end))
            memcpy((uint8_t *)job->dest + (begin - job->offset), p->at + (begin - p->offset), end - begin);
    }
}

void reader_piece_account(struct reader *r, const struct reader_piece *p)
{
    uint64_t begin, end;
    for (size_t place = p->first; place <= p->last; place++) {
        if (!piece_share(r, p, place, &begin, &end))
            continue;
        uint32_t number = r->order[place];
        assert(r->left[number] >= end - begin);
        r->left[number] -= end - begin;
        r->bytes_done += end - begin;
        if (r->left[number] == 0 && r->options->done)
            r->options->done(r->options->ud, number);
    }
    if (r->options->progress)
        r->options->progress(r->options->ud, r->bytes_done, r->bytes_total);
}

enum reader_verdict reader_piece_fail(struct reader *r, const struct reader_piece *p, int error)
{
    const struct halo_reader_job *job = job_at(r, p->first);
    if (!r->error)
        r->error = halo_fault_errno(r->fault, HALO_FAULT_LOAD_FAILED, error, "%s: reading %u bytes at %llu for %s",
                                    r->files[p->file].name, p->n - p->got, (unsigned long long)p->offset + p->got,
                                    job->name ? job->name : "a range");
    return READER_FAILED;
}

/* Fewer bytes came than needed: either the file ends there, or the kernel wants to be asked again. */
static enum reader_verdict piece_short(struct reader *r, struct reader_piece *p)
{
    struct reader_file *file = &r->files[p->file];
    struct stat st;
    if (fstat(file->fd, &st) < 0)
        return reader_piece_fail(r, p, -errno);
    if ((uint64_t)st.st_size < p->offset + p->need) {
        size_t place = p->first; /* the first job that the file no longer holds */
        while (place < p->last && job_at(r, place)->offset + job_at(r, place)->n_bytes <= (uint64_t)st.st_size)
            place++;
        const struct halo_reader_job *job = job_at(r, place);
        if (!r->error)
            r->error = halo_fault_set(r->fault, HALO_FAULT_LOAD_FAILED,
                                      "%s was cut while it was read: it ends at byte %llu, %s needs it up to %llu",
                                      file->name, (unsigned long long)st.st_size, job->name ? job->name : "a range",
                                      (unsigned long long)(job->offset + job->n_bytes));
        return READER_FAILED;
    }
    if (file->direct) /* the next direct read has to begin on a boundary again */
        p->got = (uint32_t)halo_hull_begin(p->got);
    if (++p->tries > DIRECT_TRIES)
        return reader_piece_fail(r, p, -EIO);
    return READER_AGAIN;
}

enum reader_verdict reader_piece_result(struct reader *r, struct reader_piece *p, int64_t result)
{
    if (result >= 0) {
        uint32_t before = p->got;
        assert((uint64_t)result <= p->n - p->got);
        p->got += (uint32_t)result;
        if (p->got >= p->need) {
            if (p->bounce)
                piece_copy_out(r, p);
            return READER_COMPLETE;
        }
        if (p->got > before + HALO_HULL_ALIGN)
            p->tries = 0;
        return piece_short(r, p);
    }
    switch (-result) {
    case EINTR:
    case EAGAIN: return ++p->tries > DIRECT_TRIES ? reader_piece_fail(r, p, (int)result) : READER_AGAIN;
    case EPERM:
    case ENOSYS:
    case ENOMEM:
    case EINVAL:
    case EOPNOTSUPP:
    case EFAULT: /* device memory may refuse to be pinned for a direct read, and yet take a copy */
        return READER_REFUSED;
    default: return reader_piece_fail(r, p, (int)result);
    }
}
