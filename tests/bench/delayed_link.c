/* delayed_link.c: a link between a client and a worker of remote HIP that delays each byte, and counts what passes.
 *
 *   delayed_link LISTEN TARGET DELAY_US [MBIT_S]
 *
 * LISTEN and TARGET: a path of a Unix socket, or a port of 127.0.0.1. Each direction delays by half of DELAY_US, so
 * that it is the round trip, and carries at most MBIT_S, by default what the machine can; with a limit it holds what
 * fits on the line and QUEUE_BYTES in front of it. One connection after another. At the end of each, one line: bytes to
 * and from the worker, and how many requests went up, of these how many with an answer (0 0 when the connection is
 * encrypted).
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <hip_remote/frame.h>

#include "bench_socket.h"

#define PIECE_BYTES (256u << 10)
#define LIMITED_BYTES (64u << 10) /* of a piece, when the rate is limited */
#define QUEUE_BYTES (256u << 10)
#define N_PIECES 1024u /* in flight each way: 256 MiB */

struct piece {
    uint64_t due_ns;
    uint32_t n;
    uint8_t bytes[PIECE_BYTES];
};

/* One direction: a ring of pieces between a thread that receives and one that sends. */
struct way {
    int from, to;
    uint64_t delay_ns, n_bytes;
    uint64_t bytes_s;   /* 0: no limit */
    uint64_t idle_ns;   /* when the line has taken all that came */
    struct piece *ring; /* [N_PIECES] */
    uint32_t first, n;
    uint64_t n_held; /* bytes in the ring */
    bool has_ended;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* The frames, if they can be read. */
    bool counts, is_strange;
    uint8_t header[HALO_REMOTE_HEADER_BYTES];
    uint64_t n_header, n_skip, n_frames, n_answered;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void count(struct way *w, const uint8_t *at, uint64_t n)
{
    while (n > 0 && w->counts && !w->is_strange) {
        uint64_t step = w->n_skip < n ? w->n_skip : n;
        at += step;
        n -= step;
        w->n_skip -= step;
        step = HALO_REMOTE_HEADER_BYTES - w->n_header < n ? HALO_REMOTE_HEADER_BYTES - w->n_header : n;
        if (w->n_skip > 0)
            return;
        memcpy(w->header + w->n_header, at, step);
        at += step;
        n -= step;
        w->n_header += step;
        if (w->n_header < HALO_REMOTE_HEADER_BYTES)
            return;
        struct halo_remote_header h;
        w->n_header = 0;
        w->is_strange = halo_remote_header_decode(w->header, &h) < 0;
        w->n_skip = w->is_strange ? 0 : h.payload_bytes;
        w->n_frames += !w->is_strange;
        w->n_answered += !w->is_strange && !(h.flags & HALO_REMOTE_FLAG_NO_REPLY);
    }
}

static bool is_full(const struct way *w)
{
    uint64_t line_bytes = w->bytes_s * w->delay_ns / 1000000000;
    return w->n == N_PIECES || (w->bytes_s > 0 && w->n_held >= line_bytes + QUEUE_BYTES);
}

/* When a piece that has come now arrives at the other end. */
static uint64_t arrival_ns(struct way *w, uint32_t n)
{
    uint64_t now = now_ns();
    if (w->bytes_s == 0)
        return now + w->delay_ns;
    w->idle_ns = (w->idle_ns > now ? w->idle_ns : now) + n * 1000000000ull / w->bytes_s;
    return w->idle_ns + w->delay_ns;
}

static void *receive(void *ud)
{
    struct way *w = ud;
    ssize_t got = 1;
    while (got > 0) {
        pthread_mutex_lock(&w->lock);
        while (is_full(w))
            pthread_cond_wait(&w->changed, &w->lock);
        struct piece *p = &w->ring[(w->first + w->n) % N_PIECES];
        pthread_mutex_unlock(&w->lock);
        got = recv(w->from, p->bytes, w->bytes_s > 0 ? LIMITED_BYTES : sizeof(p->bytes), 0);
        p->n = got > 0 ? (uint32_t)got : 0;
        p->due_ns = arrival_ns(w, p->n);
        count(w, p->bytes, p->n);
        w->n_bytes += p->n;
        pthread_mutex_lock(&w->lock);
        w->n_held += p->n;
        w->n += got > 0;
        w->has_ended = got <= 0;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static bool send_all(int fd, const uint8_t *at, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void *deliver(void *ud)
{
    struct way *w = ud;
    bool goes_on = true;
    prctl(PR_SET_TIMERSLACK, 1);
    while (goes_on) {
        pthread_mutex_lock(&w->lock);
        while (w->n == 0 && !w->has_ended)
            pthread_cond_wait(&w->changed, &w->lock);
        struct piece *p = w->n > 0 ? &w->ring[w->first] : NULL;
        pthread_mutex_unlock(&w->lock);
        if (!p)
            break;
        const struct timespec due = {.tv_sec = (time_t)(p->due_ns / 1000000000),
                                     .tv_nsec = (long)(p->due_ns % 1000000000)};
        if (w->delay_ns > 0 || w->bytes_s > 0)
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        goes_on = send_all(w->to, p->bytes, p->n);
        pthread_mutex_lock(&w->lock);
        w->first = (w->first + 1) % N_PIECES;
        w->n--;
        w->n_held -= p->n;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    shutdown(w->to, SHUT_WR);
    shutdown(w->from, SHUT_RD);
    return NULL;
}

static void start(struct way *w, pthread_t threads[2])
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (!w->ring || pthread_create(&threads[0], NULL, receive, w) || pthread_create(&threads[1], NULL, deliver, w)) {
        fprintf(stderr, "delayed_link: no memory\n");
        exit(1);
    }
}

static void pass(int near, int far, uint64_t delay_us, uint64_t bytes_s, struct piece *rings)
{
    struct way up = {
        .from = near, .to = far, .delay_ns = delay_us * 500, .bytes_s = bytes_s, .ring = rings, .counts = true};
    struct way down = {
        .from = far, .to = near, .delay_ns = delay_us * 500, .bytes_s = bytes_s, .ring = rings + N_PIECES};
    pthread_t threads[4];
    int one = 1;
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* an error on a Unix socket */
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    start(&up, threads);
    start(&down, threads + 2);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", up.n_bytes, down.n_bytes,
           up.is_strange ? 0 : up.n_frames, up.is_strange ? 0 : up.n_answered);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: delayed_link LISTEN TARGET DELAY_US [MBIT_S]\n");
        return 2;
    }
    uint64_t bytes_s = argc > 4 ? strtoull(argv[4], NULL, 10) * 1000000 / 8 : 0;
    struct piece *rings = calloc(2 * N_PIECES, sizeof(*rings)); /* touched as far as it is used */
    int listening = bench_socket_listen(argv[1], bytes_s > 0 ? QUEUE_BYTES : 0), near;
    while ((near = accept(listening, NULL, NULL)) >= 0) {
        int far = bench_socket_connect(argv[2], bytes_s > 0 ? QUEUE_BYTES : 0);
        pass(near, far, strtoull(argv[3], NULL, 10), bytes_s, rings);
        close(near);
        close(far);
    }
    free(rings);
    return 1;
}
