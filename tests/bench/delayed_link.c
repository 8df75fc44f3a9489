/* delayed_link.c: a link between a client and a worker of remote HIP that delays each byte, and counts what passes.
 *
 *   delayed_link LISTEN TARGET DELAY_US
 *
 * LISTEN and TARGET: a path of a Unix socket, or a port of 127.0.0.1. Each direction delays by half of DELAY_US, so
 * that it is the round trip; the bandwidth stays that of the machine. One connection after another. At the end of each,
 * one line: bytes to and from the worker, and how many requests went up, of these how many with an answer (0 0 when
 * the connection is encrypted).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <hip_remote/frame.h>

#define PIECE_BYTES (256u << 10)
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
    struct piece *ring; /* [N_PIECES] */
    uint32_t first, n;
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

static void *receive(void *ud)
{
    struct way *w = ud;
    ssize_t got = 1;
    while (got > 0) {
        pthread_mutex_lock(&w->lock);
        while (w->n == N_PIECES)
            pthread_cond_wait(&w->changed, &w->lock);
        struct piece *p = &w->ring[(w->first + w->n) % N_PIECES];
        pthread_mutex_unlock(&w->lock);
        got = recv(w->from, p->bytes, sizeof(p->bytes), 0);
        p->due_ns = now_ns() + w->delay_ns;
        p->n = got > 0 ? (uint32_t)got : 0;
        count(w, p->bytes, p->n);
        w->n_bytes += p->n;
        pthread_mutex_lock(&w->lock);
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
        if (w->delay_ns > 0)
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        goes_on = send_all(w->to, p->bytes, p->n);
        pthread_mutex_lock(&w->lock);
        w->first = (w->first + 1) % N_PIECES;
        w->n--;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    shutdown(w->to, SHUT_WR);
    shutdown(w->from, SHUT_RD);
    return NULL;
}

/* ---- sockets ---- */

/* A socket for a path or a port, bound (`listens`) or connected. Ends the program if it cannot be. */
static int open_socket(const char *name, bool listens)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(name)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_path = strchr(name, '/') != NULL;
    snprintf(local.sun_path, sizeof(local.sun_path), "%s", name);
    const struct sockaddr *address = is_path ? (struct sockaddr *)&local : (struct sockaddr *)&port;
    socklen_t n = is_path ? sizeof(local) : sizeof(port);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    int r = listens ? bind(fd, address, n) : connect(fd, address, n);
    if (r == 0 && listens)
        r = listen(fd, 4);
    if (r < 0) {
        fprintf(stderr, "delayed_link: %s: %s\n", name, strerror(errno));
        exit(1);
    }
    return fd;
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

static void pass(int near, int far, uint64_t delay_us, struct piece *rings)
{
    struct way up = {.from = near, .to = far, .delay_ns = delay_us * 500, .ring = rings, .counts = true};
    struct way down = {.from = far, .to = near, .delay_ns = delay_us * 500, .ring = rings + N_PIECES};
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
    if (argc != 4) {
        fprintf(stderr, "usage: delayed_link LISTEN TARGET DELAY_US\n");
        return 2;
    }
    struct piece *rings = calloc(2 * N_PIECES, sizeof(*rings)); /* touched as far as it is used */
    int listening = open_socket(argv[1], true), near;
    while ((near = accept(listening, NULL, NULL)) >= 0) {
        int far = open_socket(argv[2], false);
        pass(near, far, strtoull(argv[3], NULL, 10), rings);
        close(near);
        close(far);
    }
    free(rings);
    return 1;
}
