/* link.c: sends frames, matches answers with requests, notices a worker that is lost. */
#include "link_priv.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <base/clock.h>

#define GATHER_US 100 /* after this pause a request is sent at once */
#define GATHER_BYTES (32u << 10)
#define INLINE_DATA (16u << 10) /* less is copied into the buffer, more is sent from where it lies */
#define SLOT_BITS 12
#define SLOT_NONE ((1u << SLOT_BITS) - 1) /* of requests without an answer */
/* A thread that stalls in sending may read the answer that another one polls for. */
#define SLICE_MS 20

_Static_assert(HALO_LINK_PENDING_MAX <= SLOT_NONE, "each slot has a number");

static void close_channel(struct halo_link *link)
{
    halo_remote_channel_finish(&link->channel);
    close(link->channel.fd);
    link->channel.fd = -1;
}

int halo_link_open(struct halo_link *link, const struct halo_remote_channel *channel, uint32_t io_ms,
                   pthread_mutex_t *lock)
{
    memset(link, 0, sizeof(*link));
    link->channel = *channel;
    if (halo_remote_reader_init(&link->reader, HALO_REMOTE_PAYLOAD_MAX) < 0) {
        close_channel(link);
        return -ENOMEM;
    }
    link->io_ms = io_ms;
    link->lock = lock;
    pthread_cond_init(&link->heard, NULL);
    for (uint32_t i = 0; i < HALO_LINK_PENDING_MAX; i++)
        link->free_slots[i] = (uint16_t)(HALO_LINK_PENDING_MAX - 1 - i);
    return 0;
}

void halo_link_close(struct halo_link *link)
{
    close_channel(link);
    halo_remote_reader_finish(&link->reader);
    pthread_cond_destroy(&link->heard);
}

void halo_link_abandon(struct halo_link *link)
{
    close_channel(link);
    link->error = -EPIPE;
}

int halo_link_lose(struct halo_link *link, int error)
{
    if (!link->error)
        link->error = error;
    pthread_cond_broadcast(&link->heard);
    return link->error;
}

/* ---- answers ---- */

static struct halo_remote_bytes data_of(uint16_t op, const union halo_remote_reply *reply)
{
    return op == HIP_OP_MEMCPY_ASYNC      ? reply->memcpy_async.data
           : op == HIP_OP_MEMCPY_2D_ASYNC ? reply->memcpy_2d_async.data
                                          : (struct halo_remote_bytes){0};
}

/* 0 or a negative errno: the worker does not keep to the protocol. */
static int take_answer(struct halo_link *link, const struct halo_remote_header *h, const uint8_t *payload)
{
    uint32_t slot = h->id & SLOT_NONE;
    struct halo_link_pending *pending = slot < HALO_LINK_PENDING_MAX ? &link->pending[slot] : NULL;
    union halo_remote_reply reply = {0};
    if (!pending || pending->id != h->id || pending->op != h->op)
        return -EBADMSG;
    int r = halo_remote_reply_decode(h, payload, &reply, NULL);
    if (r < 0)
        return r;
    struct halo_link_answer answer = pending->answer;
    struct halo_remote_bytes data = data_of(h->op, &reply);
    if (reply.status.error == 0 && data.n != answer.n)
        return -EBADMSG;
    if (reply.status.error == 0 && data.n > 0)
        memcpy(answer.to, data.at, data.n);
    pending->id = 0;
    link->last = pending == link->last ? NULL : link->last;
    link->n_pending--;
    link->n_filling -= answer.n > 0;
    link->free_slots[HALO_LINK_PENDING_MAX - 1 - link->n_pending] = (uint16_t)slot;
    if (reply.status.deferred_error && !link->deferred_error) {
        link->deferred_error = reply.status.deferred_error;
        link->deferred_op = (uint16_t)reply.status.deferred_op;
    }
    if (answer.take)
        answer.take(answer.ud, answer.tag, &reply);
    return 0;
}

/* Takes what has come. 0 or an error. */
static int read_some(struct halo_link *link)
{
    struct halo_remote_header h;
    const uint8_t *payload;
    size_t room;
    uint8_t *at = halo_remote_reader_reserve(&link->reader, &room);
    ssize_t n = halo_remote_channel_recv(&link->channel, at, room);
    if (n < 0)
        return n == -EAGAIN ? 0 : halo_link_lose(link, (int)n);
    if (n == 0)
        return halo_link_lose(link, -ECONNRESET);
    halo_remote_reader_commit(&link->reader, (size_t)n);
    link->heard_ms = halo_clock_ms();
    link->was_pinged = false;
    int r;
    while ((r = halo_remote_reader_next(&link->reader, &h, &payload)) == 0)
        if ((r = take_answer(link, &h, payload)) < 0)
            break;
    pthread_cond_broadcast(&link->heard);
    return r < 0 ? halo_link_lose(link, r) : 0;
}

/* ---- requests ---- */

/* Sends all of it, however long the socket takes. */
static int send_all(struct halo_link *link, const uint8_t *at, size_t n)
{
    uint64_t moved_ms = halo_clock_ms();
    while (n > 0 && !link->error) {
        ssize_t sent = halo_remote_channel_send(&link->channel, at, n);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
            moved_ms = halo_clock_ms();
            continue;
        }
        if (sent != -EAGAIN)
            return halo_link_lose(link, (int)sent);
        struct pollfd state = {.fd = link->channel.fd, .events = POLLIN | POLLOUT};
        if (poll(&state, 1, SLICE_MS) > 0 && state.revents & ~POLLOUT && read_some(link) < 0)
            break;
        uint64_t last_ms = moved_ms > link->heard_ms ? moved_ms : link->heard_ms;
        if (halo_clock_ms() - last_ms > link->io_ms)
            return halo_link_lose(link, -ETIMEDOUT);
    }
    return link->error;
}

static int flush(struct halo_link *link)
{
    size_t n = link->n_out;
    if (n == 0)
        return link->error;
    link->n_out = 0;
    link->sent_us = halo_clock_us();
    return send_all(link, link->out, n);
}

/* Puts the frame into the buffer; long data is sent behind it. */
static int put(struct halo_link *link, struct halo_remote_header *h, const void *request, struct halo_remote_bytes data)
{
    bool is_inline = data.n <= INLINE_DATA;
    size_t most = HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_FIELDS_MAX + (is_inline ? data.n : 0);
    int r = link->error;
    if (!r && HALO_LINK_OUT_BYTES - link->n_out < most)
        r = flush(link);
    if (r)
        return r;
    int n =
        halo_remote_request_encode(link->out + link->n_out, HALO_LINK_OUT_BYTES - link->n_out, h, request, is_inline);
    if (n < 0)
        return n; /* a request that the protocol does not have; nothing was sent */
    link->n_out += (size_t)n;
    if (is_inline)
        return 0;
    r = flush(link);
    return r ? r : send_all(link, data.at, data.n);
}

static uint32_t next_id(struct halo_link *link, uint32_t slot)
{
    link->serial++;
    uint32_t id = link->serial << SLOT_BITS | slot;
    return id ? id : ++link->serial << SLOT_BITS | slot;
}

int halo_link_send(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                   struct halo_remote_bytes data)
{
    struct halo_remote_header h = {
        .op = (uint16_t)op, .id = next_id(link, SLOT_NONE), .flags = HALO_REMOTE_FLAG_NO_REPLY, .device = device};
    int r = put(link, &h, request, data);
    link->n_sent++;
    link->last = NULL;
    if (!r && link->n_out > 0 && (link->n_out >= GATHER_BYTES || halo_clock_us() - link->sent_us > GATHER_US))
        r = flush(link);
    return r;
}

int halo_link_ask_data(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                       struct halo_remote_bytes data, struct halo_link_answer answer)
{
    int r = link->error;
    while (!r && link->n_pending == HALO_LINK_PENDING_MAX)
        r = halo_link_step(link);
    if (r)
        return r;
    /* Taken before anything is sent: while the socket is full, answers are read, which give other slots back. */
    uint32_t slot = link->free_slots[HALO_LINK_PENDING_MAX - 1 - link->n_pending];
    struct halo_remote_header h = {.op = (uint16_t)op, .id = next_id(link, slot), .device = device};
    if (link->n_pending++ == 0)
        link->heard_ms = halo_clock_ms(); /* silence counts from when an answer is owed */
    r = put(link, &h, request, data);
    if (r) {
        link->n_pending--;
        link->free_slots[HALO_LINK_PENDING_MAX - 1 - link->n_pending] = (uint16_t)slot;
        return r;
    }
    link->pending[slot] = (struct halo_link_pending){h.id, (uint16_t)op, answer};
    link->n_filling += answer.n > 0;
    link->n_slots = slot < link->n_slots ? link->n_slots : slot + 1;
    link->n_asked++;
    link->last = &link->pending[slot];
    return 0;
}

int halo_link_ask(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                  struct halo_link_answer answer)
{
    return halo_link_ask_data(link, op, request, device, (struct halo_remote_bytes){0}, answer);
}

/* ---- waiting ---- */

/* Asks a silent worker whether it is there, and gives it up in the end. */
static int check_silence(struct halo_link *link)
{
    if (link->n_pending == 0)
        return link->error;
    uint64_t silent_ms = halo_clock_ms() - link->heard_ms;
    if (silent_ms > link->io_ms)
        return halo_link_lose(link, -ETIMEDOUT);
    if (silent_ms <= link->io_ms / 2 || link->was_pinged || link->n_pending == HALO_LINK_PENDING_MAX)
        return link->error;
    link->was_pinged = true;
    int r = halo_link_ask(link, HIP_OP_PING, &(struct halo_remote_ping){}, HALO_REMOTE_DEVICE_CURRENT,
                          (struct halo_link_answer){0});
    return r ? r : flush(link);
}

int halo_link_step(struct halo_link *link)
{
    struct pollfd state = {.fd = link->channel.fd, .events = POLLIN};
    int r = flush(link);
    if (!r)
        r = check_silence(link);
    if (r || link->n_pending == 0)
        return r;
    if (link->is_polling) {
        pthread_cond_wait(&link->heard, link->lock);
        return link->error;
    }
    int slice_ms = halo_remote_channel_has_unread(&link->channel) ? 0 : SLICE_MS;
    link->is_polling = true;
    pthread_mutex_unlock(link->lock);
    (void)poll(&state, 1, slice_ms);
    pthread_mutex_lock(link->lock);
    link->is_polling = false;
    /* Another thread takes over the polling when this one has what it wanted. */
    pthread_cond_broadcast(&link->heard);
    return link->error ? link->error : read_some(link);
}

int halo_link_poll(struct halo_link *link)
{
    int r = flush(link);
    if (!r)
        r = check_silence(link);
    return r || link->is_polling || link->n_pending == 0 ? r : read_some(link);
}

bool halo_link_is_filling(const struct halo_link *link, const void *at, size_t n)
{
    uintptr_t from = (uintptr_t)at;
    for (uint32_t i = 0; link->n_filling > 0 && i < link->n_slots; i++) {
        const struct halo_link_answer *a = &link->pending[i].answer;
        if (link->pending[i].id && a->n > 0 && (uintptr_t)a->to < from + n && from < (uintptr_t)a->to + a->n)
            return true;
    }
    return false;
}
