/* profile_disk.c: how fast a drive gives pieces of a model's file that lie anywhere in it.
 *
 * The prefetch thread. Each point of the grid keeps `depth` reads of `block` bytes in flight, at offsets spread over
 * all parts of the file, through the same reads that bring experts while a model runs (store/fetch.h), always O_DIRECT:
 * a file that would be read through the page cache is not measured. The first reads of a point are not counted, for the
 * drive comes from another point. Points that may be the knee are measured again, by turns, and their medians decide.
 * Between two points the thread can do something else, a load for example.
 */
#include <engine/profile.h>

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <base/clock.h>
#include <base/rng.h>
#include <store/fetch.h>
#include <store/gguf.h>
#include <store/hull.h>

#define BLOCK_MAX ((uint32_t)2 << 20)
#define DEPTH_MAX 64u
#define BUFFER_BYTES ((size_t)64 << 20) /* in flight, at most */
#define POINT_MAX_NS 2000000000ull      /* of a drive that gives fewer reads than a point needs */
#define KNEE_TIMES 6                    /* the knee is measured once more, for so many times a point's time */
#define CONFIRM_MAX 4u
#define SAMPLES 4096   /* latencies of a point that its median is made of */
#define WAIT_US 100000 /* until a cancel is seen */

static const uint32_t blocks[] = {128u << 10, 256u << 10, 512u << 10, 1u << 20, BLOCK_MAX};
static const uint32_t depths[] = {1, 4, 8, 16, 32, DEPTH_MAX};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the file ---- */

static uint64_t part_bytes(const struct halo_profiling *p, uint32_t part)
{
    return halo_gguf_part_bytes(p->gguf, part);
}

/* The largest block that lies in one of the parts. */
static uint64_t largest_part(const struct halo_profiling *p)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < halo_gguf_n_parts(p->gguf); i++)
        most = part_bytes(p, i) > most ? part_bytes(p, i) : most;
    return most;
}

/* The next place of a block: a part that holds one, by its size, and a multiple of 4096 in it. */
static void choose(const struct halo_profiling *p, uint32_t block, uint64_t draw, uint32_t *ret_part,
                   uint64_t *ret_offset)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < halo_gguf_n_parts(p->gguf); i++)
        all += part_bytes(p, i) >= block ? part_bytes(p, i) : 0;
    double at = halo_rng_uniform(p->seed, draw, 0) * (double)all;
    for (uint32_t i = 0; i < halo_gguf_n_parts(p->gguf); i++) {
        uint64_t n = part_bytes(p, i);
        if (n < block)
            continue;
        *ret_part = i;
        if (at < (double)n)
            break;
        at -= (double)n;
    }
    uint64_t places = (part_bytes(p, *ret_part) - block) / HALO_HULL_ALIGN + 1;
    uint64_t place = (uint64_t)(halo_rng_uniform(p->seed, draw, 1) * (double)places);
    *ret_offset = (place < places ? place : places - 1) * HALO_HULL_ALIGN;
}

/* ---- whether it can be measured ---- */

static bool lies_in_memory(int fd)
{
    struct statfs facts;
    if (fstatfs(fd, &facts) < 0)
        return false;
    return facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC || facts.f_type == HUGETLBFS_MAGIC;
}

/* Not measured, and why. */
__attribute__((format(printf, 2, 3))) static void refuse(struct halo_profiling *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->record.fault, sizeof(p->record.fault), format, args);
    va_end(args);
}

static bool is_measurable(struct halo_profiling *p)
{
    for (uint32_t i = 0; i < halo_gguf_n_parts(p->gguf); i++)
        if (lies_in_memory(halo_gguf_part_fd(p->gguf, i))) {
            refuse(p, "the file lies in memory (tmpfs): there is no drive to measure");
            return false;
        }
    if (largest_part(p) < blocks[0])
        refuse(p, "the file has %llu bytes, fewer than one read of %u", (unsigned long long)largest_part(p), blocks[0]);
    return largest_part(p) >= blocks[0];
}

/* ---- reads ---- */

static void tell_how(struct halo_profiling *p)
{
    struct halo_remarks notices = {0};
    halo_fetch_notices(p->fetch, &notices);
    snprintf(p->record.io, sizeof(p->record.io), "%s%s%.200s",
             halo_fetch_method(p->fetch) == HALO_FETCH_URING ? "io_uring, O_DIRECT" : "threads, O_DIRECT",
             notices.n > 0 ? "; " : "", notices.n > 0 ? notices.text[0] : "");
}

/* For one point: a process may have a single ring, and a model that is loaded between two points needs it. */
static int open_fetch(struct halo_profiling *p)
{
    struct halo_fetch_options options = {
        .block_bytes = BLOCK_MAX, .depth = DEPTH_MAX, .queue = DEPTH_MAX, .no_uring = p->no_uring};
    int r = halo_fetch_create(&options, &p->fetch, &p->fault);
    for (uint32_t i = 0; r == 0 && i < halo_gguf_n_parts(p->gguf); i++) {
        uint32_t index;
        r = halo_fetch_add_file(p->fetch, halo_gguf_part_fd(p->gguf, i), halo_gguf_part_id(p->gguf, i),
                                halo_gguf_part_path(p->gguf, i), &index, &p->fault);
        assert(r < 0 || index == i);
    }
    return r;
}

/* Negative as `r`, or 0 where every read was direct; 1: one was not, and nothing is measured. */
static int close_fetch(struct halo_profiling *p, int r)
{
    bool direct = true;
    for (uint32_t i = 0; r == 0 && i < halo_gguf_n_parts(p->gguf); i++)
        direct = direct && halo_fetch_is_direct(p->fetch, i);
    if (r == 0 && direct)
        tell_how(p);
    halo_fetch_destroy(p->fetch);
    p->fetch = NULL;
    if (!direct) {
        refuse(p, "the file system refuses direct reads (O_DIRECT) of this file, and what the page cache gives says "
                  "nothing about the drive");
        p->record.n_points = 0;
    }
    return r < 0 ? r : !direct;
}

/* A point under way. */
struct run {
    struct halo_profiling *p;
    struct halo_phase *phase;
    uint32_t block, depth;
    bool busy[DEPTH_MAX];
    uint64_t sent_ns[DEPTH_MAX]; /* by slot */
    uint32_t n_busy;
    uint64_t n_done;
    uint64_t begin_ns, end_ns; /* of what counts: after the first `depth` reads */
    uint64_t n_counted;
    bool over;         /* what comes now is not counted: a queue that runs empty is slower than a full one */
    double *latencies; /* [SAMPLES], the last ones */
};

static int send(struct run *run)
{
    struct halo_profiling *p = run->p;
    for (uint32_t slot = 0; slot < run->depth; slot++) {
        if (run->busy[slot])
            continue;
        uint32_t part = 0;
        uint64_t offset = 0;
        choose(p, run->block, p->n_draws++, &part, &offset);
        struct halo_fetch_read read = {.file = part,
                                       .offset = offset,
                                       .n_bytes = run->block,
                                       .dest = p->buffer + (size_t)slot * run->block,
                                       .slot = slot,
                                       .generation = p->at};
        run->sent_ns[slot] = halo_clock_ns();
        int r = halo_fetch_submit(p->fetch, &read, 1);
        if (r < 0)
            return halo_fault_errno(&p->fault, HALO_FAULT_INTERNAL, r, "a read of %u bytes was not accepted",
                                    run->block);
        run->busy[slot] = true;
        run->n_busy++;
    }
    return 0;
}

static int take(struct run *run, const struct halo_fetch_done *done)
{
    struct halo_profiling *p = run->p;
    uint64_t now_ns = halo_clock_ns();
    run->busy[done->slot] = false;
    run->n_busy--;
    if (done->error == -ECANCELED)
        return 0;
    if (done->error != 0)
        return p->fault.code == HALO_FAULT_NONE ? halo_fetch_fault(p->fetch, done, &p->fault) : done->error;
    p->record.read_bytes += run->block;
    run->n_done++;
    if (run->phase)
        halo_phase_tick(run->phase);
    if (run->over)
        return 0;
    if (run->n_done <= run->depth) {
        run->begin_ns = run->end_ns = now_ns;
        return 0;
    }
    run->end_ns = now_ns;
    run->latencies[run->n_counted++ % SAMPLES] = (double)(now_ns - run->sent_ns[done->slot]) / 1e9;
    return 0;
}

/* Takes what has arrived; waits a little for the first. */
static int reap(struct run *run)
{
    struct halo_fetch_done done[DEPTH_MAX];
    int r = 0;
    uint32_t n = halo_fetch_reap(run->p->fetch, done, DEPTH_MAX, WAIT_US);
    for (uint32_t i = 0; i < n; i++) {
        int error = take(run, &done[i]);
        r = error < 0 ? error : r;
    }
    return r;
}

/* Time, and each slot once more. */
static bool is_enough(const struct run *run, uint64_t began_ns, uint64_t least_ns)
{
    uint64_t now_ns = halo_clock_ns();
    return (run->n_counted >= run->depth && now_ns - run->begin_ns >= least_ns) ||
           (now_ns - began_ns >= POINT_MAX_NS && run->n_counted > 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void conclude(struct run *run, struct halo_profile_point *ret)
{
    size_t n = run->n_counted < SAMPLES ? (size_t)run->n_counted : SAMPLES;
    double seconds = (double)(run->end_ns - run->begin_ns) / 1e9;
    *ret = (struct halo_profile_point){.block_bytes = run->block, .depth = run->depth};
    if (n == 0 || seconds <= 0)
        return;
    qsort(run->latencies, n, sizeof(*run->latencies), by_value);
    ret->bytes_s = (double)run->n_counted * run->block / seconds;
    ret->latency_s = run->latencies[n / 2];
}

/* No read is in flight on return, whatever happens. */
static int run_point(struct halo_profiling *p, struct halo_phase *phase, uint32_t block, uint32_t depth,
                     uint64_t least_ns, struct halo_profile_point *ret)
{
    struct run run = {.p = p, .phase = phase, .block = block, .depth = depth};
    uint64_t began_ns = halo_clock_ns();
    int r = 0;
    atomic_store(&p->at_block, block);
    atomic_store(&p->at_depth, depth);
    run.latencies = calloc(SAMPLES, sizeof(*run.latencies));
    if (!run.latencies)
        return halo_fault_set(&p->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to measure reads");
    while (r == 0 && !atomic_load(&p->cancel) && !is_enough(&run, began_ns, least_ns)) {
        r = send(&run);
        if (r == 0)
            r = reap(&run);
    }
    run.over = true;
    for (uint32_t slot = 0; slot < depth && (r < 0 || atomic_load(&p->cancel)); slot++)
        if (run.busy[slot])
            halo_fetch_cancel(p->fetch, slot, p->at);
    while (run.n_busy > 0) {
        int error = reap(&run);
        r = r < 0 ? r : error;
    }
    if (r == 0 && atomic_load(&p->cancel))
        r = halo_fault_set(&p->fault, HALO_FAULT_CANCELLED, "cancelled");
    if (r == 0)
        conclude(&run, ret);
    free(run.latencies);
    return r;
}

/* ---- steps ---- */

static void list_points(struct halo_profiling *p)
{
    static_assert(LENGTH(depths) * LENGTH(blocks) <= HALO_PROFILE_POINTS_MAX, "a record holds the grid");
    struct halo_profile_record *record = &p->record;
    for (size_t d = 0; d < LENGTH(depths); d++)
        for (size_t b = 0; b < LENGTH(blocks); b++)
            if (blocks[b] <= largest_part(p) && (size_t)blocks[b] * depths[d] <= BUFFER_BYTES)
                record->points[record->n_points++] =
                    (struct halo_profile_point){.block_bytes = blocks[b], .depth = depths[d]};
}

/* As close_fetch(). */
static int measure(struct halo_profiling *p, struct halo_phase *phase, const struct halo_profile_point *point,
                   uint64_t least_ns, struct halo_profile_point *ret)
{
    int r = open_fetch(p);
    if (r == 0)
        r = run_point(p, phase, point->block_bytes, point->depth, least_ns, ret);
    return close_fetch(p, r);
}

/* Negative with the fault; else whether there is something to measure. */
static int begin(struct halo_profiling *p)
{
    void *map = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return halo_fault_set(&p->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for reads of %zu bytes", BUFFER_BYTES);
    p->buffer = map;
    p->seed = halo_clock_ns();
    p->begin_steps = atomic_load(&p->stats->steps);
    p->record.span_bytes = halo_gguf_total_bytes(p->gguf);
    if (!is_measurable(p))
        return 0;
    list_points(p);
    atomic_store(&p->n_total, p->record.n_points + 1);
    return 1;
}

static const struct halo_profile_point *point_at(const struct halo_profile_record *record, uint32_t block,
                                                 uint32_t depth)
{
    for (uint32_t i = 0; i < record->n_points; i++)
        if (record->points[i].block_bytes == block && record->points[i].depth == depth)
            return &record->points[i];
    return NULL;
}

/* Of measurement p->at, which is not the last one. */
static uint32_t point_index(const struct halo_profiling *p)
{
    uint32_t n = p->record.n_points;
    return p->at < n ? p->at : p->contenders[(p->at - n) % p->n_contenders];
}

/* All points have been measured once. */
static void choose_contenders(struct halo_profiling *p)
{
    struct halo_profile_record *record = &p->record;
    p->n_contenders = halo_profile_contenders(record->points, record->n_points, p->contenders);
    for (uint32_t i = 0; i < p->n_contenders; i++)
        p->rounds[i][0] = record->points[p->contenders[i]];
    atomic_store(&p->n_total, record->n_points + (HALO_PROFILE_ROUNDS - 1) * p->n_contenders + 1);
}

static void conclude_contenders(struct halo_profiling *p)
{
    for (uint32_t i = 0; i < p->n_contenders; i++)
        p->record.points[p->contenders[i]] = p->finalists[i] = halo_profile_median(p->rounds[i]);
}

static int measure_next(struct halo_profiling *p, struct halo_phase *phase)
{
    struct halo_profile_record *record = &p->record;
    uint32_t n = record->n_points, more = p->at < n ? 0 : p->at - n;
    struct halo_profile_point point = record->points[point_index(p)];
    int r = measure(p, phase, &point, p->point_ns, &point);
    if (r != 0)
        return r;
    if (p->at < n)
        record->points[p->at] = point;
    else
        p->rounds[more % p->n_contenders][1 + more / p->n_contenders] = point;
    return 0;
}

/* The knee once more, for longer. A point that was lucky the first times is none any more: then the next one is tried,
 * CONFIRM_MAX at most. Negative, 0: settled, or 1: again. */
static int settle(struct halo_profiling *p, struct halo_phase *phase)
{
    struct halo_profile_record *record = &p->record;
    struct halo_profile *profile = &record->profile;
    const struct halo_profile_point *knee = halo_profile_knee(p->finalists, p->n_contenders);
    struct halo_profile_point again;
    if (!knee)
        return halo_fault_set(&p->fault, HALO_FAULT_INTERNAL, "no read ended while the drive was measured");
    int r = measure(p, phase, knee, KNEE_TIMES * p->point_ns, &again);
    if (r != 0)
        return r < 0 ? r : 0;
    record->points[p->contenders[knee - p->finalists]] = p->finalists[knee - p->finalists] = again;
    const struct halo_profile_point *alone = point_at(record, knee->block_bytes, 1); /* a point of the grid */
    profile->disk_bytes_s = again.bytes_s;
    profile->disk_block_bytes = knee->block_bytes;
    profile->disk_depth = knee->depth;
    profile->disk_latency_s = alone ? alone->latency_s : 0;
    bool settled = ++p->n_confirmed == CONFIRM_MAX || halo_profile_knee(p->finalists, p->n_contenders) == knee;
    if (!settled)
        atomic_fetch_add(&p->n_total, 1);
    return !settled;
}

int halo_profiling_step(struct halo_profiling *p, struct halo_phase *phase)
{
    struct halo_profile_record *record = &p->record;
    if (atomic_load(&p->cancel))
        return halo_fault_set(&p->fault, HALO_FAULT_CANCELLED, "cancelled");
    if (!p->buffer)
        return begin(p);
    uint32_t n = record->n_points;
    if (p->at == n)
        choose_contenders(p);
    bool settling = p->at >= n && p->at - n >= (HALO_PROFILE_ROUNDS - 1) * p->n_contenders;
    if (settling && p->n_confirmed == 0)
        conclude_contenders(p);
    int r = settling ? settle(p, phase) : measure_next(p, phase);
    if (r < 0 || p->record.n_points == 0) /* failed, or found to be not measurable */
        return r < 0 ? r : 0;
    atomic_store(&p->n_done, ++p->at);
    return settling ? r : 1;
}

void halo_profiling_close(struct halo_profiling *p)
{
    if (p->begin_steps != atomic_load(&p->stats->steps))
        p->shared = true;
    HALO_COUNT(p->stats, disk_read_bytes, p->record.read_bytes);
    halo_fetch_destroy(p->fetch);
    if (p->buffer)
        munmap(p->buffer, BUFFER_BYTES);
    halo_gguf_close(p->gguf);
    p->fetch = NULL;
    p->buffer = NULL;
    p->gguf = NULL;
}

void halo_profiling_destroy(struct halo_profiling *p)
{
    if (!p)
        return;
    halo_gguf_close(p->gguf); /* opened, and never read */
    free(p->model);
    free(p->text);
    free(p);
}
