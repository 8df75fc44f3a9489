/* bench_upload.c: bytes to a GPU's memory per second, by hipMemcpyAsync from pinned memory, waited for at the end.
 *
 *   bench_upload LIBAMDHIP64 MIB [FRESH]
 *   bench_upload --socket MIB             a Unix socket from one thread to another: the bound of a link on this machine
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

static int bench_socket(uint64_t n_bytes)
{
    int ends[2];
    pthread_t thread;
    char *bytes = malloc(COPY_BYTES);
    if (!bytes || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || pthread_create(&thread, NULL, drain, &ends[1]))
        return 1;
    memset(bytes, 1, COPY_BYTES);
    double begin = now_s();
    for (uint64_t done = 0, step; done < n_bytes; done += step) {
        step = n_bytes - done < COPY_BYTES ? n_bytes - done : COPY_BYTES;
        ssize_t sent = send(ends[0], bytes, step, MSG_NOSIGNAL);
        if (sent <= 0)
            return 1;
        step = (uint64_t)sent;
    }
    shutdown(ends[0], SHUT_WR);
    pthread_join(thread, NULL);
    printf("%.2f GB/s\n", (double)n_bytes / (now_s() - begin) * 1e-9);
    free(bytes);
    return 0;
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

/* Waits for the null stream, as the engine does. */
static int synchronize(const struct hip *hip, void *event)
{
    int error = hip->event_record(event, NULL);
    while (!error && (error = hip->event_query(event)) == NOT_READY) {
        error = 0;
        sched_yield();
    }
    return error;
}

static int bench_hip(const struct hip *hip, uint64_t n_bytes, int is_fresh)
{
    uint64_t *from;
    char *to;
    void *event;
    double busy_s = 0;
    n_bytes = n_bytes / COPY_BYTES * COPY_BYTES;
    int error = hip->host_malloc((void **)&from, COPY_BYTES, 0);
    if (!error)
        error = hip->malloc((void **)&to, n_bytes);
    if (!error)
        error = hip->event_create(&event, 2);
    if (!error)
        fill(from, COPY_BYTES, 1);
    if (!error)
        error = synchronize(hip, event);
    for (uint64_t done = 0; done < n_bytes && !error; done += COPY_BYTES) {
        if (is_fresh)
            fill(from, COPY_BYTES, done);
        double begin = now_s();
        error = hip->memcpy_async(to + done, from, COPY_BYTES, COPY_TO_DEVICE, NULL);
        busy_s += now_s() - begin;
        if (is_fresh && !error) { /* the local runtime reads the source later */
            begin = now_s();
            error = synchronize(hip, event);
            busy_s += now_s() - begin;
        }
    }
    double begin = now_s();
    if (!error)
        error = synchronize(hip, event);
    busy_s += now_s() - begin;
    if (error) {
        fprintf(stderr, "bench_upload: HIP error %d\n", error);
        return 1;
    }
    printf("%.2f GB/s\n", (double)n_bytes / busy_s * 1e-9);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_upload LIBAMDHIP64|--socket MIB [FRESH]\n");
        return 2;
    }
    uint64_t n_bytes = strtoull(argv[2], NULL, 10) << 20;
    if (strcmp(argv[1], "--socket") == 0)
        return bench_socket(n_bytes);
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
