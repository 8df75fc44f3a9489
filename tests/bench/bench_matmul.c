/* bench_matmul.c: how fast the weight kernels are: bytes per second with one row, multiply-adds per second with many.
 *
 * usage: bench_matmul [threads [megabytes [type [isa]]]]
 *
 * For each type and instruction set one matrix of the given size (default 256 MB, far beyond the caches), 2048 columns:
 *
 *   decode   one activation row times the whole matrix, GB/s of packed weights, and its share of a plain read
 *   rows N   N activation rows times the matrix (beyond 8, a part of it), 10^9 multiply-adds per second
 *   pack     packing in place, GB/s, one thread
 *
 * Each figure is the best of several passes: other work on the machine only ever makes a pass slower. With one thread
 * the clock is the thread's processor time, for the same reason.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <matmul/matmul.h>

#define N_COLS 2048
#define MAX_ROWS 64
#define MAX_THREADS 64

struct bench {
    unsigned n_threads;
    enum halo_cpu_isa isa;
    struct halo_cpu_matrix w;
    uint8_t *memory;
    size_t memory_bytes;
    uint32_t n_groups, n_x; /* of the pass */
    const void *act[MAX_ROWS];
    float *out[MAX_ROWS];
    pthread_barrier_t start, end;
    void (*pass)(struct bench *bench, unsigned thread);
    volatile int64_t sink;
};

static double now_s(const struct bench *bench)
{
    struct timespec t;
    clock_gettime(bench->n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_pass(struct bench *bench, unsigned thread)
{
    typedef int64_t lanes __attribute__((vector_size(64)));
    size_t n = bench->memory_bytes / 256 / bench->n_threads;
    const lanes *p = (const lanes *)bench->memory + n * 4 * thread;
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < n; i++, p += 4) {
        a += p[0];
        b += p[1];
        c += p[2];
        d += p[3];
    }
    a += b + c + d;
    bench->sink += a[0] + a[7];
}

static void matmul_pass(struct bench *bench, unsigned thread)
{
    uint32_t first = (uint64_t)bench->n_groups * thread / bench->n_threads;
    uint32_t end = (uint64_t)bench->n_groups * (thread + 1) / bench->n_threads;
    for (uint32_t g = first, n; g < end; g += n) { /* pieces like those a device would claim */
        n = end - g < 8 ? end - g : 8;
        halo_cpu_matmul(bench->isa, &bench->w, g, n, bench->act, bench->n_x, bench->out, NULL);
    }
}

struct worker {
    struct bench *bench;
    unsigned index;
    pthread_t thread;
};

static void *worker_main(void *ud)
{
    struct worker *worker = ud;
    for (;;) {
        pthread_barrier_wait(&worker->bench->start);
        if (!worker->bench->pass)
            return NULL;
        worker->bench->pass(worker->bench, worker->index);
        pthread_barrier_wait(&worker->bench->end);
    }
}

/* Best seconds of `n` passes. */
static double best_of(struct bench *bench, unsigned n, void (*pass)(struct bench *bench, unsigned thread))
{
    double best = 1e9, all = 0;
    bench->pass = pass;
    for (unsigned i = 0; i < n || all < 0.1; i++) {
        pthread_barrier_wait(&bench->start);
        double from = now_s(bench);
        pass(bench, 0);
        pthread_barrier_wait(&bench->end);
        double took = now_s(bench) - from;
        all += took;
        best = took < best ? took : best;
    }
    return best;
}

static void fill(struct bench *bench, enum halo_type type, uint8_t *act)
{
    static float x[N_COLS];
    size_t act_bytes = halo_cpu_act_bytes(halo_cpu_act_kind(type), N_COLS);
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        for (unsigned k = 0; k < N_COLS; k++)
            x[k] = (float)((k * 37 + i * 11) % 255) / 127 - 1;
        halo_cpu_act_prepare(HALO_CPU_REFERENCE, halo_cpu_act_kind(type), N_COLS, x, act + i * act_bytes);
        bench->act[i] = act + i * act_bytes;
    }
    /* Small exponents everywhere, whatever the bytes mean: no NaN, no subnormal to slow an addition down. */
    for (size_t i = 0; i < bench->memory_bytes; i++)
        bench->memory[i] = (uint8_t)(0x20 + (i * 2654435761u >> 13) % 16);
}

static void bench_type(struct bench *bench, enum halo_type type, uint8_t *act, double read_gbps)
{
    static const uint32_t n_xs[] = {1, 2, 4, 8, 16, 64};
    uint64_t group_bytes = halo_cpu_matrix_bytes(type, N_COLS, HALO_CPU_GROUP);
    uint32_t n_groups = (uint32_t)(bench->memory_bytes / group_bytes);
    halo_cpu_matrix_init(&bench->w, type, N_COLS, n_groups * HALO_CPU_GROUP, bench->memory);
    fill(bench, type, act);
    bench->n_groups = n_groups;
    printf("%-8s %-9s", halo_type_info(type).name, halo_cpu_isa_name(bench->isa));
    for (unsigned i = 0; i < sizeof n_xs / sizeof *n_xs; i++) {
        uint32_t n_x = bench->n_x = n_xs[i];
        /* Decode needs all of the memory; with more rows about the same time is enough. */
        bench->n_groups = n_x <= 8 ? n_groups : n_groups * 8 / n_x;
        double took = best_of(bench, 5, matmul_pass), gbps = (double)(bench->n_groups * group_bytes) / took * 1e-9;
        if (n_x == 1)
            printf(" %6.1f GB/s %3.0f %%", gbps, 100 * gbps / read_gbps);
        else
            printf(" %6.1f", (double)bench->n_groups * HALO_CPU_GROUP * N_COLS * n_x / took * 1e-9);
    }
    void *scratch = malloc(halo_cpu_matrix_scratch_bytes(type, N_COLS));
    double from = now_s(bench);
    halo_cpu_matrix_pack(type, N_COLS, n_groups * HALO_CPU_GROUP / 4, bench->memory, bench->memory, scratch);
    printf(" %6.1f GB/s\n", (double)(n_groups * group_bytes / 4) / (now_s(bench) - from) * 1e-9);
    fflush(stdout);
    free(scratch);
}

static void *large_alloc(size_t n_bytes)
{
    void *p = aligned_alloc(2 << 20, (n_bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20));
    if (!p) {
        fprintf(stderr, "bench_matmul: no memory\n");
        exit(1);
    }
    madvise(p, n_bytes, MADV_HUGEPAGE); /* as the device has its weights */
    memset(p, 1, n_bytes);
    return p;
}

int main(int argc, char **argv)
{
    struct bench bench = {.n_threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1};
    bench.memory_bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 256) << 20;
    if (bench.n_threads < 1 || bench.n_threads > MAX_THREADS || bench.memory_bytes == 0) {
        fprintf(stderr, "usage: bench_matmul [threads [megabytes [type [isa]]]]\n");
        return 2;
    }
    bench.memory = large_alloc(bench.memory_bytes);
    uint8_t *act = large_alloc(halo_cpu_act_bytes(HALO_CPU_ACT_F32, N_COLS) * MAX_ROWS);
    for (unsigned i = 0; i < MAX_ROWS; i++)
        bench.out[i] = large_alloc(bench.memory_bytes / N_COLS * 4 + 4096);
    struct worker workers[MAX_THREADS];
    pthread_barrier_init(&bench.start, NULL, bench.n_threads);
    pthread_barrier_init(&bench.end, NULL, bench.n_threads);
    for (unsigned i = 1; i < bench.n_threads; i++) {
        workers[i] = (struct worker){.bench = &bench, .index = i};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            return 1;
    }
    double read_gbps = (double)bench.memory_bytes / best_of(&bench, 10, read_pass) * 1e-9;
    printf("%u threads, %zu MB, rows of %d; plain read %.1f GB/s\n", bench.n_threads, bench.memory_bytes >> 20, N_COLS,
           read_gbps);
    printf("type     isa       decode (of read)  rows: 2      4      8     16     64 GMAC/s   pack\n");
    for (unsigned type = 0; type < HALO_TYPE_END; type++) {
        if (!halo_type_info(type).name ||
            (argc > 3 && strcmp(argv[3], "all") && strcmp(argv[3], halo_type_info(type).name)))
            continue;
        /* The portable kernels only when asked for: they are slow. */
        for (bench.isa = argc > 4 ? HALO_CPU_REFERENCE : HALO_CPU_AVX2; bench.isa <= HALO_CPU_AVX512; bench.isa++)
            if (halo_cpu_isa_supported(bench.isa) && (argc <= 4 || !strcmp(argv[4], halo_cpu_isa_name(bench.isa))))
                bench_type(&bench, (enum halo_type)type, act, read_gbps);
    }
    bench.pass = NULL;
    pthread_barrier_wait(&bench.start);
    for (unsigned i = 1; i < bench.n_threads; i++)
        pthread_join(workers[i].thread, NULL);
    return 0;
}
