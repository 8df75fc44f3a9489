/* bench_upload.c: bytes to a GPU's memory per second, by hipMemcpyAsync from two pinned buffers in turn: as a loader
 * does, each waits for the event behind its last copy.
 *
 *   bench_upload LIBAMDHIP64 MIB [FRESH]
 *   bench_upload --socket MIB             a Unix socket from one thread to another: the bound of a link on this machine
 *   bench_upload --link MIB SINK LINK     a link (tests/bench/delayed_link) that leads to SINK, this program's
 *
 * FRESH: other bytes for each copy, so that a worker that keeps uploads has none of them; the same in each run.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench_socket.h"

#define COPY_BYTES (8u << 20) /* as the loader copies */
#define COPY_TO_DEVICE 1
#define NOT_READY 600

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(uint64_t *at, size_t n_bytes, uint64_t seed)
{
    for (size_t i = 0; i < n_bytes / sizeof(*at); i++)
        at[i] = (seed + i) * 0x9e3779b97f4a7c15u;
}

/* ---- a bare socket ---- */

static void *drain(void *ud)
{
    static char bytes[1 << 20];
    while (recv(*(int *)ud, bytes, sizeof(bytes), 0) > 0)
        ;
    return NULL;
}

/* Until the last byte has come out at the other end. */
static int bench_bare(const int ends[2], uint64_t n_bytes)
{
    pthread_t thread;
    int into = ends[0], out_of = ends[1];
    char *bytes = malloc(COPY_BYTES);
    if (!bytes || pthread_create(&thread, NULL, drain, &out_of))
        return 1;
    memset(bytes, 1, COPY_BYTES);
    double begin = now_s();
    for (uint64_t done = 0, step; done < n_bytes; done += step) {
        step = n_bytes - done < COPY_BYTES ? n_bytes - done : COPY_BYTES;
        ssize_t sent = send(into, bytes, step, MSG_NOSIGNAL);
        if (sent <= 0)
            return 1;
        step = (uint64_t)sent;
    }
    shutdown(into, SHUT_WR);
    pthread_join(thread, NULL);
    printf("%.4f GB/s\n", (double)n_bytes / (now_s() - begin) * 1e-9);
    free(bytes);
    return 0;
}

static int bench_socket(uint64_t n_bytes)
{
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ? 1 : bench_bare(ends, n_bytes);
}

static int bench_link(uint64_t n_bytes, const char *sink, const char *link)
{
    int listening = bench_socket_listen(sink, 0), into = bench_socket_connect(link, 0);
    int out_of = accept(listening, NULL, NULL);
    return out_of < 0 ? 1 : bench_bare((const int[2]){into, out_of}, n_bytes);
}

/* ---- HIP ---- */

struct hip {
    int (*host_malloc)(void **ret, size_t n, unsigned flags);
    int (*malloc)(void **ret, size_t n);
    int (*memcpy_async)(void *to, const void *from, size_t n, int kind, void *stream);
    int (*event_create)(void **ret, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
};

struct buffer {
    char *at;
    void *event;
    int is_busy;
};

/* For the event behind the last copy from it, as the engine does. */
static int wait_for(const struct hip *hip, struct buffer *b)
{
    int error = 0;
    while (b->is_busy && (error = hip->event_query(b->event)) == NOT_READY)
        sched_yield();
    b->is_busy = 0;
    return error;
}

static int copy(const struct hip *hip, struct buffer *b, char *to, const char *from)
{
    int error = wait_for(hip, b);
    if (!error)
        error = hip->memcpy_async(to, from, COPY_BYTES, COPY_TO_DEVICE, NULL);
    if (!error)
        error = hip->event_record(b->event, NULL);
    b->is_busy = !error;
    return error;
}

static int bench_hip(const struct hip *hip, uint64_t n_bytes, int is_fresh)
{
    struct buffer buffers[2] = {0};
    uint64_t n_copies = n_bytes / COPY_BYTES, n_source = is_fresh ? n_copies : 2;
    char *from, *to;
    int error = hip->host_malloc((void **)&from, n_source * COPY_BYTES, 0);
    if (!error)
        error = hip->malloc((void **)&to, n_copies * COPY_BYTES);
    for (int i = 0; i < 2 && !error; i++)
        error = hip->event_create(&buffers[i].event, 2);
    if (!error)
        fill((uint64_t *)(void *)from, n_source * COPY_BYTES, 1);
    double begin = now_s();
    for (uint64_t i = 0; i < n_copies && !error; i++)
        error = copy(hip, &buffers[i % 2], to + i * COPY_BYTES, from + i % n_source * COPY_BYTES);
    for (int i = 0; i < 2 && !error; i++)
        error = wait_for(hip, &buffers[i]);
    if (error) {
        fprintf(stderr, "bench_upload: HIP error %d\n", error);
        return 1;
    }
    printf("%.4f GB/s\n", (double)(n_copies * COPY_BYTES) / (now_s() - begin) * 1e-9);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_upload LIBAMDHIP64|--socket|--link MIB [FRESH|SINK LINK]\n");
        return 2;
    }
    uint64_t n_bytes = strtoull(argv[2], NULL, 10) << 20;
    if (strcmp(argv[1], "--socket") == 0)
        return bench_socket(n_bytes);
    if (strcmp(argv[1], "--link") == 0 && argc == 5)
        return bench_link(n_bytes, argv[3], argv[4]);
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "bench_upload: %s\n", dlerror());
        return 1;
    }
    struct hip hip;
    *(void **)&hip.host_malloc = dlsym(library, "hipHostMalloc");
    *(void **)&hip.malloc = dlsym(library, "hipMalloc");
    *(void **)&hip.memcpy_async = dlsym(library, "hipMemcpyAsync");
    *(void **)&hip.event_create = dlsym(library, "hipEventCreateWithFlags");
    *(void **)&hip.event_record = dlsym(library, "hipEventRecord");
    *(void **)&hip.event_query = dlsym(library, "hipEventQuery");
    int (*init)(unsigned);
    *(void **)&init = dlsym(library, "hipInit");
    if (!init || !hip.host_malloc || !hip.malloc || !hip.memcpy_async || !hip.event_create || !hip.event_record ||
        !hip.event_query) {
        fprintf(stderr, "bench_upload: %s lacks functions\n", argv[1]);
        return 1;
    }
    int (*set_device)(int);
    *(void **)&set_device = dlsym(library, "hipSetDevice");
    if (init(0) || !set_device || set_device(0)) {
        fprintf(stderr, "bench_upload: %s has no device\n", argv[1]);
        return 1;
    }
    return bench_hip(&hip, n_bytes, argc > 3);
}
