/* channel.c: sends and receives, by a cipher if there is one. POSIX only. */
#include <hip_remote/channel.h>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* the socket has SO_NOSIGPIPE */
#endif

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int halo_remote_channel_secure(struct halo_remote_channel *ch, const struct halo_remote_cipher *cipher, bool is_worker,
                               const struct halo_remote_key *key, uint32_t timeout_ms)
{
    uint64_t end_ms = now_ms() + timeout_ms, at_ms;
    struct pollfd state = {.fd = ch->fd};
    int r = cipher->begin(&ch->state, ch->fd, is_worker, key);
    if (r < 0)
        return r;
    ch->cipher = cipher;
    while ((r = cipher->handshake(ch->state, &state.events)) == -EAGAIN) {
        if ((at_ms = now_ms()) >= end_ms) {
            r = -ETIMEDOUT;
            break;
        }
        (void)poll(&state, 1, (int)(end_ms - at_ms));
    }
    if (r < 0)
        halo_remote_channel_finish(ch);
    return r;
}

/* EAGAIN has two names on some systems. */
static ssize_t result(ssize_t n)
{
    return n >= 0 ? n : errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

ssize_t halo_remote_channel_send(struct halo_remote_channel *ch, const void *at, size_t n)
{
    ssize_t sent;
    if (ch->cipher)
        return ch->cipher->send(ch->state, at, n);
    do
        sent = send(ch->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return result(sent);
}

ssize_t halo_remote_channel_recv(struct halo_remote_channel *ch, void *at, size_t n)
{
    ssize_t got;
    if (ch->cipher)
        return ch->cipher->recv(ch->state, at, n);
    do
        got = recv(ch->fd, at, n, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return result(got);
}

bool halo_remote_channel_has_unread(const struct halo_remote_channel *ch)
{
    return ch->cipher && ch->cipher->has_unread(ch->state);
}

void halo_remote_channel_finish(struct halo_remote_channel *ch)
{
    if (ch->cipher)
        ch->cipher->end(ch->state);
    ch->cipher = NULL;
    ch->state = NULL;
}
