/* wire.c: both ends of a connection and the bytes between them. */
#include "wire.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hip_tls/tls.h>

static void check(bool is_so)
{
    assert(is_so);
}

static void open_sockets(struct wire *w)
{
    int sides[2][2];
    *w = (struct wire){.results = {1, 1}};
    for (int side = 0; side < 2; side++) {
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sides[side]) == 0);
        w->ends[side].fd = sides[side][0];
    }
    for (int way = 0; way < WIRE_WAYS; way++) {
        w->ways[way].from = sides[way == WIRE_UP ? WIRE_CLIENT : WIRE_WORKER][1];
        w->ways[way].to = sides[way == WIRE_UP ? WIRE_WORKER : WIRE_CLIENT][1];
        w->ways[way].cut_at = w->ways[way].flip_at = WIRE_NEVER;
    }
}

void wire_open_one(struct wire *w, int side, const struct halo_remote_key *key)
{
    open_sockets(w);
    w->ends[side].cipher = &halo_remote_tls;
    check(halo_remote_tls.begin(&w->ends[side].state, w->ends[side].fd, side == WIRE_WORKER, key) == 0);
    w->results[!side] = 0;
}

void wire_open(struct wire *w, const struct halo_remote_key *client, const struct halo_remote_key *worker)
{
    wire_open_one(w, WIRE_CLIENT, client);
    w->ends[WIRE_WORKER].cipher = &halo_remote_tls;
    check(halo_remote_tls.begin(&w->ends[WIRE_WORKER].state, w->ends[WIRE_WORKER].fd, true, worker) == 0);
    w->results[WIRE_WORKER] = 1;
}

void wire_close(struct wire *w)
{
    for (int side = 0; side < 2; side++) {
        halo_remote_channel_finish(&w->ends[side]);
        close(w->ends[side].fd);
        close(w->ways[side].from);
    }
}

static void end_way(struct wire_way *way)
{
    way->has_ended = true;
    shutdown(way->from, SHUT_RD);
    shutdown(way->to, SHUT_WR);
}

static bool pump_way(struct wire_way *way)
{
    uint8_t bytes[16384];
    if (way->has_ended)
        return false;
    ssize_t n = recv(way->from, bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n > 0 && way->flip_at >= way->n && way->flip_at - way->n < (size_t)n)
        bytes[way->flip_at - way->n] ^= way->flip_by;
    if (n > 0 && way->cut_at - way->n < (size_t)n)
        n = (ssize_t)(way->cut_at - way->n);
    for (ssize_t i = 0; i < n && way->n + (size_t)i < sizeof(way->seen); i++)
        way->seen[way->n + (size_t)i] = bytes[i];
    for (ssize_t done = 0; done < n;) {
        ssize_t sent = send(way->to, bytes + done, (size_t)(n - done), MSG_NOSIGNAL);
        if (sent <= 0)
            break; /* the other end has closed; none of the tests fills a socket */
        done += sent;
    }
    way->n += n > 0 ? (size_t)n : 0;
    if (n <= 0 || way->n == way->cut_at)
        end_way(way);
    return true;
}

bool wire_pump(struct wire *w)
{
    bool moved = pump_way(&w->ways[WIRE_UP]);
    return pump_way(&w->ways[WIRE_DOWN]) || moved;
}

void wire_shake_hands(struct wire *w)
{
    /* GnuTLS finds the end of a connection behind half a record with its second look. */
    for (int n_idle = 0; n_idle < 3; n_idle++) {
        bool moved = false;
        for (int side = 0; side < 2; side++) {
            short events;
            if (w->results[side] <= 0)
                continue;
            int r = halo_remote_tls.handshake(w->ends[side].state, &events);
            if (r == -EAGAIN)
                continue;
            w->results[side] = r;
            moved = true;
            if (r < 0)
                shutdown(w->ends[side].fd, SHUT_RDWR);
        }
        if (wire_pump(w) || moved)
            n_idle = 0;
    }
}

bool wire_carry(struct wire *w, int from, const uint8_t *at, size_t n, uint8_t *to, int *ret_error)
{
    size_t sent = 0, got = 0;
    while (got < n) {
        if (sent < n) {
            ssize_t r = halo_remote_channel_send(&w->ends[from], at + sent, n - sent);
            if (r < 0 && r != -EAGAIN) {
                *ret_error = (int)r;
                return false;
            }
            sent += r > 0 ? (size_t)r : 0;
        }
        bool moved = wire_pump(w);
        ssize_t r = halo_remote_channel_recv(&w->ends[!from], to + got, n - got);
        if (r == 0 || (r < 0 && r != -EAGAIN) || (r == -EAGAIN && !moved && sent == n)) {
            *ret_error = (int)r;
            return false;
        }
        got += r > 0 ? (size_t)r : 0;
    }
    return true;
}
