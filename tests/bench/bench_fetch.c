/* bench_fetch.c: random experts of a model file through a halo_fetch, beside a bare io_uring loop of the same blocks
 * and depth.
 *
 *   bench_fetch FILE [EXPERT_BYTES [BLOCK_BYTES [DEPTH [EXPERTS [ROUNDS]]]]]
 *   (3800000 1048576 32 1000 5; FILE should be larger than the memory of the host, or the host caches it)
 *
 * Each round draws offsets, as GGUF has them at multiples of 32, and reads the same ranges four times, into the same
 * slots of the same slabs:
 *
 * - bare: a loop that cuts the hulls into blocks and keeps DEPTH of them in flight; nothing but the disk
 *
 * - bare, registered: the same into registered buffers, one for each slab
 *
 * - fetch: halo_fetch, with as many reads submitted as there are slots
 *
 * - fetch, threads: the same with its pool of threads
 *
 * The order changes from round to round. Prints medians, spread, the median of each round's ratio to the bare loop, and
 * the CPU time of the process for each GB. Fails only when reading fails, never on a speed.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/clock.h>
#include <store/fetch.h>
#include <store/slab.h>

#include "bench_rates.h"

#define SLOTS 64

enum { BARE, BARE_FIXED, FETCH, FETCH_THREADS, WAYS };
static const char *const names[WAYS] = {"bare", "bare, registered", "fetch", "fetch, threads"};

struct bench {
    const char *path;
    int fd; /* buffered; fd_direct for the bare loop */
    int fd_direct;
    struct halo_file_id id;
    uint64_t expert_bytes;
    uint32_t block_bytes, depth, n_experts;
    uint64_t *offsets; /* of this round */
    struct halo_slabs *slabs;
    struct halo_fetch *fetches[WAYS];
    uint32_t files[WAYS];
    double rates[WAYS][BENCH_ROUNDS_MAX], cpu[WAYS][BENCH_ROUNDS_MAX]; /* GB/s; CPU s for each GB */
};

static void fail(const struct bench *b, const char *what, int error)
{
    fprintf(stderr, "bench_fetch: %s: %s: %s\n", b->path, what, strerror(error));
    exit(1);
}

/* Where the first byte at `offset` goes in this slot. */
static uint8_t *place(const struct bench *b, uint32_t slot, uint64_t offset)
{
    return (uint8_t *)halo_slabs_slot(b->slabs, slot) + offset % HALO_HULL_ALIGN;
}

/* The state of the bare loop: which block of which expert is next. */
struct bare {
    struct io_uring ring;
    uint32_t expert;
    uint64_t at; /* in the hull of that expert */
    uint32_t in_flight;
    bool fixed;
};

/* A slot's memory is used again while its last blocks may be in flight; nobody looks at it. False at the end. */
static bool bare_submit(struct bare *bare, const struct bench *b)
{
    if (bare->expert == b->n_experts)
        return false;
    uint64_t offset = b->offsets[bare->expert], hull = halo_hull_bytes(offset, b->expert_bytes);
    uint64_t left = hull - bare->at;
    unsigned n = (unsigned)(left < b->block_bytes ? left : b->block_bytes);
    uint32_t slot = bare->expert % SLOTS;
    uint8_t *dest = (uint8_t *)halo_slabs_slot(b->slabs, slot) + bare->at;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&bare->ring);
    if (bare->fixed)
        io_uring_prep_read_fixed(sqe, b->fd_direct, dest, n, halo_hull_begin(offset) + bare->at,
                                 (int)halo_slabs_slab_of(b->slabs, slot));
    else
        io_uring_prep_read(sqe, b->fd_direct, dest, n, halo_hull_begin(offset) + bare->at);
    io_uring_sqe_set_data64(sqe, n);
    bare->in_flight++;
    bare->at += n;
    if (bare->at == hull) {
        bare->at = 0;
        bare->expert++;
    }
    return true;
}

static void bare_register(struct bare *bare, const struct bench *b)
{
    struct iovec iov[SLOTS];
    uint32_t n = halo_slabs_n(b->slabs), first, n_slots;
    for (uint32_t slab = 0; slab < n; slab++) {
        uint64_t bytes;
        iov[slab].iov_base = halo_slabs_base(b->slabs, slab, &bytes, &first, &n_slots);
        iov[slab].iov_len = bytes;
    }
    int r = io_uring_register_buffers(&bare->ring, iov, n);
    if (r < 0)
        fail(b, "registering the slabs", -r);
}

/* Time runs from the first submission: rings are made and buffers registered once in the life of a daemon. */
static void bare_read(const struct bench *b, bool fixed, uint64_t *ret_begin_ns)
{
    struct bare bare = {.fixed = fixed};
    int r = io_uring_queue_init(b->depth, &bare.ring, IORING_SETUP_COOP_TASKRUN);
    if (r < 0)
        fail(b, "io_uring", -r);
    if (fixed)
        bare_register(&bare, b);
    *ret_begin_ns = halo_clock_ns();
    while (bare.in_flight < b->depth && bare_submit(&bare, b))
        ;
    while (bare.in_flight > 0) {
        struct io_uring_cqe *cqe;
        io_uring_submit_and_wait(&bare.ring, 1);
        while (io_uring_peek_cqe(&bare.ring, &cqe) == 0) {
            if (cqe->res < 0 || (uint64_t)cqe->res != cqe->user_data)
                fail(b, "a read of the bare loop", cqe->res < 0 ? -cqe->res : EIO);
            io_uring_cqe_seen(&bare.ring, cqe);
            bare.in_flight--;
            bare_submit(&bare, b);
        }
    }
    io_uring_queue_exit(&bare.ring);
}

static void fetch_submit(const struct bench *b, int way, uint32_t expert, uint32_t slot)
{
    struct halo_fetch_read read = {.file = b->files[way],
                                   .offset = b->offsets[expert],
                                   .n_bytes = b->expert_bytes,
                                   .dest = place(b, slot, b->offsets[expert]),
                                   .slot = slot,
                                   .generation = expert};
    int r = halo_fetch_submit(b->fetches[way], &read, 1);
    if (r < 0)
        fail(b, "submitting a read", -r);
}

static void fetch_read(const struct bench *b, int way)
{
    uint32_t next = 0, n_done = 0;
    for (; next < SLOTS && next < b->n_experts; next++)
        fetch_submit(b, way, next, next);
    while (n_done < b->n_experts) {
        struct halo_fetch_done done[SLOTS];
        uint32_t n = halo_fetch_reap(b->fetches[way], done, SLOTS, UINT64_MAX);
        for (uint32_t i = 0; i < n; i++) {
            if (done[i].error)
                fail(b, "a read of the fetch", -done[i].error);
            if (next < b->n_experts)
                fetch_submit(b, way, next++, done[i].slot);
        }
        n_done += n;
    }
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void run_way(struct bench *b, int way, int round)
{
    double cpu = cpu_seconds();
    uint64_t begin_ns = halo_clock_ns();
    if (way == BARE || way == BARE_FIXED)
        bare_read(b, way == BARE_FIXED, &begin_ns);
    else
        fetch_read(b, way);
    double gb = (double)b->n_experts * (double)b->expert_bytes * 1e-9;
    b->rates[way][round] = gb / ((double)(halo_clock_ns() - begin_ns) * 1e-9);
    b->cpu[way][round] = (cpu_seconds() - cpu) / gb;
}

static void offsets_draw(struct bench *b, uint64_t *seed)
{
    for (uint32_t i = 0; i < b->n_experts; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        b->offsets[i] = (*seed >> 16) % ((b->id.bytes - b->expert_bytes) / 32) * 32;
    }
}

static void bench_open(struct bench *b)
{
    struct halo_fault fault = {0};
    struct stat facts;
    b->fd = open(b->path, O_RDONLY | O_CLOEXEC);
    b->fd_direct = open(b->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (b->fd < 0 || b->fd_direct < 0 || fstat(b->fd, &facts) < 0)
        fail(b, "open with O_DIRECT", errno);
    b->id = halo_file_id_of(&facts);
    if (b->id.bytes <= b->expert_bytes)
        fail(b, "it is smaller than an expert", EINVAL);
    b->offsets = calloc(b->n_experts, sizeof(*b->offsets));
    const struct halo_slabs_options slots = {.slot_bytes = b->expert_bytes, .n_slots = SLOTS};
    int r = b->offsets ? halo_slabs_create(&slots, &b->slabs, &fault) : -ENOMEM;
    for (uint32_t slab = 0; r == 0 && slab < halo_slabs_n(b->slabs); slab++)
        r = halo_slabs_take(b->slabs, slab, &fault);
    for (int way = FETCH; r == 0 && way < WAYS; way++) {
        const struct halo_fetch_options options = {
            .block_bytes = b->block_bytes, .depth = b->depth, .no_uring = way == FETCH_THREADS};
        r = halo_fetch_create(&options, &b->fetches[way], &fault);
        if (r == 0)
            r = halo_fetch_add_file(b->fetches[way], b->fd, &b->id, b->path, &b->files[way], &fault);
    }
    if (r < 0)
        fail(b, fault.text, -r);
}

static void bench_close(struct bench *b)
{
    for (int way = FETCH; way < WAYS; way++) {
        struct halo_remarks notices;
        halo_fetch_notices(b->fetches[way], &notices);
        for (uint32_t i = 0; i < notices.n; i++)
            printf("%s: %s\n", names[way], notices.text[i]);
        halo_fetch_destroy(b->fetches[way]);
    }
    halo_slabs_destroy(b->slabs);
    free(b->offsets);
    close(b->fd_direct);
    close(b->fd);
}

int main(int argc, char **argv)
{
    uint64_t numbers[] = {3800000, 1048576, 32, 1000, 5}, seed = 1;
    for (int i = 2; i < argc && i < 7; i++)
        numbers[i - 2] = strtoull(argv[i], NULL, 10);
    int rounds = (int)numbers[4];
    if (argc < 2 || !numbers[0] || !numbers[1] || !numbers[2] || !numbers[3] || rounds < 1 ||
        rounds > BENCH_ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_fetch FILE [EXPERT_BYTES [BLOCK_BYTES [DEPTH [EXPERTS [ROUNDS]]]]]\n");
        return 2;
    }
    static struct bench b;
    b.path = argv[1];
    b.expert_bytes = numbers[0];
    b.block_bytes = (uint32_t)numbers[1];
    b.depth = (uint32_t)numbers[2];
    b.n_experts = (uint32_t)numbers[3];
    bench_open(&b);
    for (int round = 0; round < rounds; round++) {
        offsets_draw(&b, &seed);
        for (int i = 0; i < WAYS; i++)
            run_way(&b, (i + round) % WAYS, round);
    }
    printf("%s: %.2f GiB, %u experts of %llu bytes a round, blocks of %u bytes, %u in flight, %d rounds\n", b.path,
           (double)b.id.bytes / (1 << 30), b.n_experts, (unsigned long long)b.expert_bytes, b.block_bytes, b.depth,
           rounds);
    printf("%-22s %7s  %-18s %s\n", "", "GB/s", "(lowest, highest)", "of bare, CPU ms for each GB");
    for (int way = 0; way < WAYS; way++) {
        bench_rates_row(names[way], b.rates[way], rounds);
        printf("     %.3f  %.0f\n", bench_median_ratio(b.rates[way], b.rates[BARE], rounds),
               bench_median(b.cpu[way], rounds) * 1e3);
    }
    bench_close(&b);
    return 0;
}
