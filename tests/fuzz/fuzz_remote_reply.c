/* fuzz_remote_reply.c: the client's side of a connection to a hostile worker.
 *
 * Input: a byte for how many requests are asked and for the time limit, and one for each; then records {choice,
 * flags, length, bytes}: a frame that answers a pending request with these bytes, or, as the choice says, bytes as
 * they are. Whatever comes, each answer is taken at most once, and no byte is written but those that were asked for.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_priv.h"

#define ASKS_MAX 8
#define TO_BYTES 32
#define CANARY 0xa5
#define SHORT_MS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct halo_link client;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t places[ASKS_MAX][3 * TO_BYTES]; /* the middle of each is asked for */
static unsigned n_taken[ASKS_MAX];

static void take(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    (void)ud;
    (void)reply;
    n_taken[tag]++;
}

static void ask(unsigned i, unsigned kind)
{
    const struct halo_remote_memcpy_async copy = {.from = 4096, .size = TO_BYTES, .kind = 2};
    const struct halo_remote_memcpy_2d_async rows = {
        .from = 4096, .from_pitch = 64, .to_pitch = 8, .width = 8, .height = TO_BYTES / 8, .kind = 2};
    const struct {
        enum halo_remote_op op;
        const void *request;
        uint32_t n;
    } asks[] = {
        {HIP_OP_MEMCPY_ASYNC, &copy, TO_BYTES},
        {HIP_OP_MEMCPY_2D_ASYNC, &rows, TO_BYTES},
        {HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = 64}, 0},
        {HIP_OP_GET_DEVICE_PROPERTIES, &(struct halo_remote_get_device_properties){0}, 0},
        {HIP_OP_INIT, &(struct halo_remote_init){.hip_major = 6}, 0},
        {HIP_OP_STREAM_QUERY, &(struct halo_remote_stream_query){0}, 0},
    };
    kind %= sizeof(asks) / sizeof(*asks);
    struct halo_link_answer answer = {.take = take, .tag = i, .to = places[i] + TO_BYTES, .n = asks[kind].n};
    int r = halo_link_ask(&client, asks[kind].op, asks[kind].request, 0, answer);
    assert(r == 0);
}

/* Requests without an answer, of a short and a long kind. A worker that is given up does not read them. */
static void send_more(int fd, unsigned choice)
{
    static uint8_t data[20 << 10], sink[64 << 10];
    const struct halo_remote_memcpy_async copy = {
        .to = 4096, .size = sizeof(data), .kind = 1, .data = {data, sizeof(data)}};
    if (choice & 0x10) { /* a fill of elements of 3 bytes, which the protocol does not have: refused here */
        const struct halo_remote_memset_async fill = {.to = 4096, .width = 3, .count = 1};
        int r = halo_link_send(&client, HIP_OP_MEMSET_ASYNC, &fill, 0, (struct halo_remote_bytes){0});
        assert(r < 0);
    }
    if (choice & 0x20)
        (void)halo_link_send(&client, HIP_OP_MEMCPY_ASYNC, &copy, 0, copy.data);
    else
        (void)halo_link_send(&client, HIP_OP_FREE, &(struct halo_remote_free){4096}, 0, (struct halo_remote_bytes){0});
    while (client.io_ms > SHORT_MS && recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
    assert(!halo_link_is_filling(&client, data, sizeof(data)));
}

/* The request that a record answers; 0: none is pending any more. */
static uint32_t pending_id(unsigned choice, uint16_t *ret_op)
{
    for (unsigned i = 0; i < ASKS_MAX; i++) {
        const struct halo_link_pending *p = &client.pending[(choice + i) % ASKS_MAX];
        *ret_op = p->op;
        if (p->id)
            return p->id;
    }
    return 0;
}

/* Returns where the next record begins. */
static const uint8_t *feed(int fd, const uint8_t *at, const uint8_t *end)
{
    uint8_t frame[HALO_REMOTE_HEADER_BYTES + 1024];
    struct halo_remote_header h = {.flags = HALO_REMOTE_FLAG_RESPONSE};
    unsigned choice = at[0], flags = at[1];
    size_t n = at[2] | (size_t)(at[3] & 3) << 8, most = (size_t)(end - at - 4);
    n = n < most ? n : most;
    at += 4;
    if (choice & 0x80) {
        (void)!send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        return at + n;
    }
    h.id = pending_id(choice, &h.op);
    h.flags |= flags & 6;
    h.payload_bytes = (uint32_t)n;
    halo_remote_header_encode(frame, &h);
    if (flags & 0x40) /* one wrong byte of the header */
        frame[flags % HALO_REMOTE_HEADER_BYTES] ^= (uint8_t)choice | 1;
    memcpy(frame + HALO_REMOTE_HEADER_BYTES, at, n);
    (void)!send(fd, frame, HALO_REMOTE_HEADER_BYTES + n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return at + n;
}

static void check_places(void)
{
    for (unsigned i = 0; i < ASKS_MAX; i++) {
        assert(n_taken[i] <= 1);
        for (unsigned j = 0; j < sizeof(places[i]); j++)
            assert(places[i][j] == CANARY || (j >= TO_BYTES && j < 2 * TO_BYTES));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;
    int fds[2];
    if (size < 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return 0;
    memset(places, CANARY, sizeof(places));
    memset(n_taken, 0, sizeof(n_taken));
    pthread_mutex_lock(&lock);
    int least = 1;
    bool is_abandoned = *at & 0x40;
    uint32_t io_ms = *at & 0x80 ? SHORT_MS : 60000; /* a worker that is given up, or one that ends */
    if (io_ms == SHORT_MS)
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    if (halo_link_open(&client, &(struct halo_remote_channel){.fd = fds[0]}, io_ms, &lock) < 0)
        abort();
    unsigned n_asks = 1 + *at++ % ASKS_MAX;
    for (unsigned i = 0; i < n_asks; i++)
        ask(i, at < end ? *at++ : 0);
    while (end - at >= 4 && !client.error) {
        if (*at & 0x40)
            send_more(fds[1], *at);
        at = feed(fds[1], at, end);
        (void)halo_link_poll(&client); /* may ask for a sign of life */
        assert(client.n_pending <= n_asks + 1 && client.n_filling <= client.n_pending);
    }
    if (io_ms > SHORT_MS)
        shutdown(fds[1], SHUT_WR);
    while (client.n_pending > 0 && halo_link_step(&client) == 0)
        ;
    assert(client.error < 0 || client.n_pending == 0);
    check_places();
    if (is_abandoned)
        halo_link_abandon(&client);
    halo_link_close(&client);
    pthread_mutex_unlock(&lock);
    close(fds[1]);
    return 0;
}
