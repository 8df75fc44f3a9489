/* bench_load.c: how fast a model comes into memory, beside a bare io_uring O_DIRECT reader of the same file.
 *
 *   bench_load [--fresh] FILE.gguf [ROUNDS]        (5 rounds)
 *
 * Each round runs, one after the other:
 *
 * - bare: a queue of 32 reads of 1 MiB into the same 32 registered buffers again and again; nothing but the disk
 *
 * - bare, region: the same reads into one region as large as the file, as a load needs it (on a virtual machine the 32
 *   buffers stay in the host's cache, and a large region does not)
 *
 * - reader: halo_reader_run with the ranges of a model load, each tensor at a place of its own, congruent to its
 *   offset, in memory that is there already (as pinned memory of a GPU is); once more with that memory registered
 *
 * With --fresh also both into memory mapped a moment ago, which the kernel has yet to find and clear, their order
 * changing from round to round: on a virtual machine this mostly measures how fast the host gives memory back that was
 * free for a while (seen: from 0.5 to 14 GB/s within a minute).
 *
 * With --bare only the first, as the yardstick of a load by an engine in the same minute.
 *
 * Prints medians, spread and the median of each round's ratio to the bare reader. The page cache plays no part: all
 * reads of size are direct. Fails only when reading fails, never on a speed.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/clock.h>
#include <store/gguf.h>
#include <store/reader.h>

#include "bench_rates.h"

#define BARE_DEPTH 32
#define BARE_BYTES ((size_t)1 << 20)

enum { BARE, BARE_REGION, READER, READER_FIXED, BARE_FRESH, READER_FRESH, WAYS };
static const struct {
    const char *name;
    int yardstick, second; /* what it is compared with */
} ways[WAYS] = {
    [BARE] = {"bare", BARE, BARE},
    [BARE_REGION] = {"bare, region", BARE, BARE_REGION},
    [READER] = {"reader", BARE, BARE_REGION},
    [READER_FIXED] = {"reader, registered", BARE, BARE_REGION},
    [BARE_FRESH] = {"bare, fresh memory", BARE, BARE_FRESH},
    [READER_FRESH] = {"reader, fresh memory", BARE, BARE_FRESH},
};

struct layout {
    struct halo_reader_job *jobs; /* destinations are filled in for each run */
    uint64_t *places;             /* of each job in the region */
    size_t n_jobs;
    uint64_t bytes, region_bytes; /* at least as large as any part, and a bare read more */
};

static void *map_fresh(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "bench_load: mapping %zu bytes: %s\n", bytes, strerror(errno));
        exit(1);
    }
    madvise(map, bytes, MADV_HUGEPAGE);
    return map;
}

struct bare {
    struct io_uring ring;
    int fd;
    uint8_t *memory;
    bool large; /* memory is as large as the file, and not registered */
};

static void bare_submit(struct bare *b, unsigned slot, uint64_t offset)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&b->ring);
    if (b->large)
        io_uring_prep_read(sqe, b->fd, b->memory + offset, BARE_BYTES, offset);
    else
        io_uring_prep_read_fixed(sqe, b->fd, b->memory + slot * BARE_BYTES, BARE_BYTES, offset, 0);
    io_uring_sqe_set_data64(sqe, slot);
}

static void bare_open(struct bare *b, const char *path, uint64_t *ret_size)
{
    struct stat st;
    b->fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (b->fd < 0 || fstat(b->fd, &st) < 0 || io_uring_queue_init(BARE_DEPTH, &b->ring, 0) < 0) {
        fprintf(stderr, "bench_load: %s: no direct io_uring read here\n", path);
        exit(1);
    }
    *ret_size = (uint64_t)st.st_size;
    if (!b->memory)
        b->memory = map_fresh(b->large ? *ret_size + BARE_BYTES : BARE_DEPTH * BARE_BYTES);
    struct iovec iov = {b->memory, BARE_DEPTH * BARE_BYTES};
    if (!b->large && io_uring_register_buffers(&b->ring, &iov, 1) < 0) {
        fprintf(stderr, "bench_load: the bare reader cannot register its buffers\n");
        exit(1);
    }
}

/* Reads the whole file, in the large form into `region` or, when that is NULL, into fresh memory. Returns the bytes
 * that came, or exits. */
static uint64_t bare_read(const char *path, bool large, uint8_t *region, uint64_t *ret_ns)
{
    struct bare b = {.large = large, .memory = region};
    uint64_t size, next = 0, got = 0;
    bare_open(&b, path, &size);
    uint64_t begin = halo_clock_ns();
    unsigned under_way = 0;
    for (; under_way < BARE_DEPTH && next < size; under_way++, next += BARE_BYTES)
        bare_submit(&b, under_way, next);
    while (under_way > 0) {
        struct io_uring_cqe *cqe;
        io_uring_submit_and_wait(&b.ring, 1);
        while (io_uring_peek_cqe(&b.ring, &cqe) == 0) {
            unsigned slot = (unsigned)io_uring_cqe_get_data64(cqe);
            if (cqe->res < 0) {
                fprintf(stderr, "bench_load: %s: %s\n", path, strerror(-cqe->res));
                exit(1);
            }
            got += (uint64_t)cqe->res;
            under_way--;
            io_uring_cqe_seen(&b.ring, cqe);
            if (next < size) {
                bare_submit(&b, slot, next);
                under_way++;
                next += BARE_BYTES;
            }
        }
    }
    *ret_ns = halo_clock_ns() - begin;
    io_uring_queue_exit(&b.ring);
    close(b.fd);
    if (!region)
        munmap(b.memory, large ? size + BARE_BYTES : BARE_DEPTH * BARE_BYTES);
    return got;
}

/* Every tensor in pages of its own, its first byte as far into the page as in the file. */
static struct layout layout_make(const struct halo_gguf *gguf)
{
    struct layout l = {.n_jobs = halo_gguf_n_tensors(gguf)};
    l.jobs = calloc(l.n_jobs + 1, sizeof *l.jobs);
    l.places = calloc(l.n_jobs + 1, sizeof *l.places);
    if (!l.jobs || !l.places)
        exit(1);
    for (size_t i = 0; i < l.n_jobs; i++) {
        const struct halo_gguf_tensor *t = halo_gguf_tensor(gguf, i);
        uint64_t at = l.region_bytes + t->offset % HALO_HULL_ALIGN;
        l.jobs[i] = (struct halo_reader_job){t->part, t->offset, t->n_bytes, NULL, true, t->name};
        l.places[i] = at;
        l.region_bytes = halo_hull_end(at + t->n_bytes);
        l.bytes += t->n_bytes;
    }
    for (uint32_t i = 0; i < halo_gguf_n_parts(gguf); i++) {
        uint64_t part_bytes = (halo_gguf_part_bytes(gguf, i) / BARE_BYTES + 2) * BARE_BYTES;
        l.region_bytes = l.region_bytes > part_bytes ? l.region_bytes : part_bytes;
    }
    return l;
}

/* Into `region`, or into a fresh one when it is NULL. */
static uint64_t model_read(const struct halo_gguf *gguf, const struct layout *l, uint8_t *region, bool pinned,
                           struct halo_reader_report *ret)
{
    uint32_t n_parts = halo_gguf_n_parts(gguf);
    struct halo_reader_source *sources = calloc(n_parts, sizeof *sources);
    struct halo_reader_job *jobs = calloc(l->n_jobs + 1, sizeof *jobs);
    struct halo_fault fault = {0};
    if (!sources || !jobs)
        exit(1);
    for (uint32_t i = 0; i < n_parts; i++)
        sources[i] = (struct halo_reader_source){halo_gguf_part_fd(gguf, i), *halo_gguf_part_id(gguf, i),
                                                 halo_gguf_part_path(gguf, i)};
    uint8_t *base = region ? region : map_fresh(l->region_bytes);
    for (size_t i = 0; i < l->n_jobs; i++) {
        jobs[i] = l->jobs[i];
        jobs[i].dest = base + l->places[i];
    }
    struct halo_reader_options options = {.pinned = pinned ? base : NULL, .pinned_bytes = pinned ? l->region_bytes : 0};
    if (halo_reader_run(sources, n_parts, jobs, l->n_jobs, &options, ret, &fault) != 0) {
        fprintf(stderr, "bench_load: %s\n", fault.text);
        exit(1);
    }
    if (!region)
        munmap(base, l->region_bytes);
    free(jobs);
    free(sources);
    return ret->bytes;
}

static void report(double rates[WAYS][BENCH_ROUNDS_MAX], int rounds, int n_ways)
{
    printf("%-22s %7s  %-18s %s\n", "", "GB/s", "(lowest, highest)", "of bare, of bare into such memory");
    for (int way = 0; way < n_ways; way++) {
        bench_rates_row(ways[way].name, rates[way], rounds);
        printf("     %.3f  %.3f\n", bench_median_ratio(rates[way], rates[ways[way].yardstick], rounds),
               bench_median_ratio(rates[way], rates[ways[way].second], rounds));
    }
}

/* One run of one way; returns GB/s. */
static double run_way(int way, const struct halo_gguf *gguf, const struct layout *l, uint8_t *region, bool talk)
{
    static const char *const methods[] = {"io_uring, registered", "io_uring", "pread"};
    struct halo_reader_report r = {0};
    uint64_t ns, bytes = 0;
    if (way == BARE || way == BARE_REGION || way == BARE_FRESH) {
        for (uint32_t i = 0; i < halo_gguf_n_parts(gguf); i++) {
            bytes += bare_read(halo_gguf_part_path(gguf, i), way != BARE, way == BARE_REGION ? region : NULL, &ns);
            r.elapsed_ns += ns;
        }
    } else {
        bytes = model_read(gguf, l, way == READER_FRESH ? NULL : region, way == READER_FIXED, &r);
        if (talk)
            printf("%s: %s, %s%s%s\n", ways[way].name, methods[r.method], r.direct ? "direct" : "buffered",
                   r.notice[0] ? "; " : "", r.notice);
    }
    return (double)bytes / (double)r.elapsed_ns;
}

int main(int argc, char **argv)
{
    static double rates[WAYS][BENCH_ROUNDS_MAX];
    bool fresh = argc > 1 && strcmp(argv[1], "--fresh") == 0, bare = argc > 1 && strcmp(argv[1], "--bare") == 0;
    argv += fresh || bare, argc -= fresh || bare;
    int rounds = argc > 2 ? atoi(argv[2]) : 5, n_ways = fresh ? WAYS : bare ? BARE_REGION : BARE_FRESH;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    if (argc < 2 || rounds < 1 || rounds > BENCH_ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_load [--fresh | --bare] FILE.gguf [ROUNDS]\n");
        return 2;
    }
    if (halo_gguf_open(&gguf, argv[1], &fault) != 0) {
        fprintf(stderr, "bench_load: %s\n", fault.text);
        return 1;
    }
    struct layout l = layout_make(gguf);
    printf("%s: %zu tensors, %.2f GiB, %d rounds\n", argv[1], l.n_jobs, (double)l.bytes / (1 << 30), rounds);
    uint8_t *region = map_fresh(l.region_bytes);
    if (!bare)
        memset(region, 1, l.region_bytes);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < n_ways; i++) {
            int way = i >= BARE_FRESH && round % 2 ? BARE_FRESH + READER_FRESH - i : i;
            rates[way][round] = run_way(way, gguf, &l, region, round == 0);
        }
    report(rates, rounds, n_ways);
    munmap(region, l.region_bytes);
    free(l.jobs);
    free(l.places);
    halo_gguf_close(gguf);
    return 0;
}
