/* bench_mapped.c: the speed at which the tokens of a mixture can be read through a mapping of its file, when the page
 * cache decides which experts stay in memory.
 *
 *   bench_mapped FILE uniform|zipf THREADS WARM TOKENS [asked]
 *
 * For each token every byte is read that a token needs: all matrices but the embedding, and of each layer's experts
 * those that a router of this law chooses, for all layers at once, on all threads. Nothing is computed but a sum, so
 * no program over the same mapping is faster. Pages come as the kernel reads ahead; "asked": instead, each thread asks
 * for what it takes next (MADV_WILLNEED, 256 KiB), and the kernel reads nothing else. Run it under a limit of memory (a
 * control group): without one the page cache holds the whole file. Prints tok/s over TOKENS tokens after WARM, either
 * of which ends after 6 s too. Exits 0, 1 when the file cannot be read, 2 for wrong arguments.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <base/clock.h>
#include <base/rng.h>
#include <model/placement.h>
#include <store/gguf.h>

#define MAX_THREADS 256
#define PIECE ((uint64_t)256 << 10) /* that a thread takes at a time */
#define PAGE 4096
#define MOST_NS 6000000000u

struct piece {
    const uint8_t *at;
    uint64_t n;
};

struct bench {
    struct halo_gguf *gguf;
    const uint8_t *parts[64];
    double weights[HALO_MODEL_MAX_EXPERTS]; /* of the expert of each rank */
    uint32_t n_used, n_threads;
    struct piece *pieces; /* of the token under way */
    uint64_t n_pieces, cap;
    pthread_barrier_t barrier;
    _Atomic uint64_t next, sum;
    bool is_over, is_asked;
};

static void add(struct bench *b, const uint8_t *at, uint64_t n)
{
    for (uint64_t done = 0; done < n; done += PIECE) {
        if (b->n_pieces == b->cap) {
            b->cap = b->cap > 0 ? 2 * b->cap : 4096;
            b->pieces = reallocarray(b->pieces, b->cap, sizeof(*b->pieces));
            if (!b->pieces)
                abort();
        }
        b->pieces[b->n_pieces++] = (struct piece){at + done, n - done < PIECE ? n - done : PIECE};
    }
}

/* The layer's expert of each draw: without replacement, by weight; which experts are popular depends on the layer. */
static void choose(const struct bench *b, uint32_t layer, uint32_t n_expert, uint32_t token, uint32_t *ret)
{
    double weights[HALO_MODEL_MAX_EXPERTS], all = 0;
    for (uint32_t e = 0; e < n_expert; e++)
        all += weights[e] = b->weights[(e * 37 + layer * 11) % n_expert];
    for (uint32_t k = 0; k < b->n_used; k++) {
        double at = halo_rng_uniform(layer, token, k) * all;
        uint32_t e = 0;
        while (e + 1 < n_expert && (at -= weights[e]) >= 0)
            e++;
        while (weights[e] <= 0) /* rounding at the end */
            e--;
        all -= weights[e];
        weights[e] = 0;
        ret[k] = e;
    }
}

static void plan_token(struct bench *b, uint32_t token)
{
    uint32_t ids[HALO_MODEL_MAX_EXPERTS], layer;
    b->n_pieces = 0;
    for (uint64_t i = 0; i < halo_gguf_n_tensors(b->gguf); i++) {
        const struct halo_gguf_tensor *t = halo_gguf_tensor(b->gguf, i);
        const uint8_t *at = b->parts[t->part] + t->offset;
        if (strcmp(t->name, "token_embd.weight") == 0)
            continue;
        if (t->n_dims < 3 || !strstr(t->name, "_exps.") || sscanf(t->name, "blk.%u.", &layer) != 1) {
            add(b, at, t->n_bytes);
            continue;
        }
        choose(b, layer, (uint32_t)t->dims[2], token, ids);
        for (uint32_t k = 0; k < b->n_used; k++)
            add(b, at + t->n_bytes / t->dims[2] * ids[k], t->n_bytes / t->dims[2]);
    }
    b->next = 0;
}

static void ask_for(const struct piece *piece)
{
    uintptr_t begin = (uintptr_t)piece->at / PAGE * PAGE;
    madvise((void *)begin, (uintptr_t)piece->at + piece->n - begin, MADV_WILLNEED);
}

static void *worker(void *ud)
{
    struct bench *b = ud;
    for (;;) {
        pthread_barrier_wait(&b->barrier);
        if (b->is_over)
            return NULL;
        uint64_t sum = 0, i;
        while ((i = b->next++) < b->n_pieces) {
            if (b->is_asked)
                ask_for(&b->pieces[i]);
            for (uint64_t at = 0; at + 8 <= b->pieces[i].n; at += 8) {
                uint64_t word;
                memcpy(&word, b->pieces[i].at + at, sizeof(word));
                sum += word;
            }
        }
        b->sum += sum;
        pthread_barrier_wait(&b->barrier);
    }
}

static int map_parts(struct bench *b)
{
    for (uint32_t part = 0; part < halo_gguf_n_parts(b->gguf); part++) {
        if (part == sizeof(b->parts) / sizeof(b->parts[0]))
            return -1;
        void *at =
            mmap(NULL, halo_gguf_part_bytes(b->gguf, part), PROT_READ, MAP_SHARED, halo_gguf_part_fd(b->gguf, part), 0);
        if (at == MAP_FAILED || (b->is_asked && madvise(at, halo_gguf_part_bytes(b->gguf, part), MADV_RANDOM) != 0))
            return -1;
        b->parts[part] = at;
    }
    return 0;
}

static int setup(struct bench *b, const char *path, bool zipf)
{
    struct halo_fault fault = {0};
    struct halo_span arch;
    uint64_t n_used = 0;
    char key[128];
    int r = halo_gguf_open(&b->gguf, path, &fault);
    if (r == 0)
        r = halo_gguf_get_string(b->gguf, "general.architecture", &arch, &fault);
    if (r == 0) {
        snprintf(key, sizeof(key), "%.*s.expert_used_count", (int)arch.n, (const char *)arch.bytes);
        r = halo_gguf_get_u64(b->gguf, key, &n_used, &fault);
    }
    if (r == 0 && map_parts(b) < 0)
        r = halo_fault_set(&fault, HALO_FAULT_LOAD_FAILED, "the file cannot be mapped");
    if (r < 0)
        fprintf(stderr, "bench_mapped: %s: %s\n", path, fault.text);
    b->n_used = (uint32_t)n_used;
    for (uint32_t rank = 0; rank < HALO_MODEL_MAX_EXPERTS; rank++)
        b->weights[rank] = zipf ? pow(rank + 1, -HALO_ROUTING_ZIPF_PUBLISHED) : 1;
    return r;
}

/* At most n tokens, from *token on. Returns how many there was time for. */
static uint32_t run_tokens(struct bench *b, uint32_t *token, uint32_t n, double *ret_seconds)
{
    uint64_t start_ns = halo_clock_ns(), now_ns = start_ns;
    uint32_t first = *token;
    while (*token < first + n && now_ns - start_ns < MOST_NS) {
        plan_token(b, (*token)++);
        pthread_barrier_wait(&b->barrier);
        pthread_barrier_wait(&b->barrier);
        now_ns = halo_clock_ns();
    }
    *ret_seconds = (double)(now_ns - start_ns) * 1e-9;
    return *token - first;
}

int main(int argc, char **argv)
{
    static struct bench b;
    pthread_t threads[MAX_THREADS];
    bool is_call = argc == 6 || (argc == 7 && strcmp(argv[6], "asked") == 0);
    int n_threads = is_call ? atoi(argv[3]) : 0, warm = is_call ? atoi(argv[4]) : -1, n = is_call ? atoi(argv[5]) : 0;
    if (n_threads < 1 || n_threads > MAX_THREADS || warm < 0 || n < 1) {
        fputs("usage: bench_mapped FILE uniform|zipf THREADS WARM TOKENS [asked]\n", stderr);
        return 2;
    }
    b.is_asked = argc == 7;
    if (setup(&b, argv[1], strcmp(argv[2], "zipf") == 0) < 0)
        return 1;
    pthread_barrier_init(&b.barrier, NULL, (unsigned)n_threads + 1);
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, worker, &b) != 0)
            return 1;
    double seconds;
    uint32_t token = 0;
    run_tokens(&b, &token, (uint32_t)warm, &seconds);
    uint32_t n_run = run_tokens(&b, &token, (uint32_t)n, &seconds);
    b.is_over = true;
    pthread_barrier_wait(&b.barrier);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    printf("%.3f tok/s over %u tokens (sum %llx)\n", n_run / seconds, n_run, (unsigned long long)b.sum);
    halo_gguf_close(b.gguf);
    return 0;
}
