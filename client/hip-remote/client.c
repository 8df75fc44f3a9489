/* client.c: the sessions; requests of the one in hand, their errors, and handles. */
#include "client_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <hip_remote/table.h>

#define STREAM_LEGACY 1u
#define STREAM_PER_THREAD 2u

static int call(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply);

struct halo_client_session halo_client_sessions[HALO_CLIENT_SESSIONS_MAX] = {
    [0 ... HALO_CLIENT_SESSIONS_MAX -
     1] = {.port = {call}, .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER}};
_Thread_local struct halo_client_session *halo_client_here = halo_client_sessions;
_Thread_local int halo_client_thread_device;

/* ---- errors ---- */

void halo_client_say(const char *text, const char *why)
{
    char address[HALO_ENDPOINT_TEXT];
    halo_endpoint_format(&halo_client.settings.worker, address, sizeof(address));
    fprintf(stderr, "hip-remote: %s %s: %s\n", text, address, why);
}

int halo_client_state_error(void)
{
    switch (halo_client.state) {
    case HALO_CLIENT_FORKED: return HIP_NOT_INITIALIZED;
    case HALO_CLIENT_ENDED: return HIP_DEINITIALIZED;
    case HALO_CLIENT_OPEN: return halo_client.fatal;
    default: return HIP_NO_DEVICE;
    }
}

int halo_client_error(int r)
{
    if (r >= 0)
        return r;
    if (r == -ERANGE || r == -ENOBUFS)
        return HIP_INVALID_VALUE; /* of one request; the link is well */
    if (halo_client.state == HALO_CLIENT_OPEN && !halo_client.has_told_loss) {
        halo_client.has_told_loss = true;
        halo_client.fatal = HIP_CONTEXT_IS_DESTROYED;
        if (r == -ETIMEDOUT)
            fprintf(stderr, "hip-remote: no answer for %u ms (HIP_REMOTE_IO_TIMEOUT_MS)\n", halo_client.settings.io_ms);
        halo_client_say("the connection is lost, every HIP call fails from now on; worker", strerror(-r));
    }
    return halo_client.state == HALO_CLIENT_OPENING ? HIP_NO_DEVICE : halo_client_state_error();
}

/* Errors after which HIP answers nothing else. */
static int keep_fatal(int error)
{
    if (error == HIP_ILLEGAL_ADDRESS || error == HIP_LAUNCH_TIMEOUT || error == HIP_ASSERT ||
        error == HIP_LAUNCH_FAILURE)
        halo_client.fatal = error;
    return error;
}

int halo_client_status(int r, const struct halo_remote_status *status)
{
    return r < 0 ? halo_client_error(r) : keep_fatal(status->error);
}

void halo_client_defer(enum halo_remote_op op, int error)
{
    if (!error || halo_client.link.deferred_error)
        return;
    halo_client.link.deferred_error = error;
    halo_client.link.deferred_op = (uint16_t)op;
}

int halo_client_deferred(void)
{
    int error = halo_client.link.deferred_error;
    halo_client.link.deferred_error = 0;
    return keep_fatal(error);
}

/* ---- requests ---- */

struct waiting {
    void *ret;
    size_t bytes;
    bool is_done;
};

static void take_reply(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct waiting *w = ud;
    memcpy(w->ret, reply, w->bytes);
    w->is_done = true;
}

/* Texts and data of the reply do not outlive it: operations that have some are asked through the link. */
static int call(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply)
{
    struct halo_client_session *c = &halo_client;
    uint8_t device = (uint8_t)halo_client_thread_device;
    struct waiting w = {.ret = ret_reply, .bytes = halo_remote_op_find((uint16_t)op)->reply.bytes};
    if (!ret_reply)
        return halo_link_send(&c->link, op, request, device, (struct halo_remote_bytes){0});
    int r = halo_link_ask(&c->link, op, request, device, (struct halo_link_answer){.take = take_reply, .ud = &w});
    while (!r && !w.is_done)
        r = halo_link_step(&c->link);
    return r;
}

int halo_client_send_data(enum halo_remote_op op, const void *request, struct halo_remote_bytes data)
{
    return halo_client_error(halo_link_send(&halo_client.link, op, request, (uint8_t)halo_client_thread_device, data));
}

int halo_client_send(enum halo_remote_op op, const void *request)
{
    return halo_client_send_data(op, request, (struct halo_remote_bytes){0});
}

int halo_client_settle(const void *at, size_t n)
{
    int r = 0;
    while (!r && halo_link_is_filling(&halo_client.link, at, n))
        r = halo_link_step(&halo_client.link);
    return halo_client_error(r);
}

int halo_client_synchronize(uint64_t stream)
{
    struct halo_remote_stream_synchronize_reply a;
    int r = halo_remote_stream_synchronize(&halo_client.port, &(struct halo_remote_stream_synchronize){stream}, &a);
    int error = halo_client_status(r, &a.status);
    return error ? error : halo_client_deferred();
}

/* ---- handles ---- */

void *halo_client_pointer(uint64_t bits)
{
    return (void *)(uintptr_t)bits;
}

uint64_t halo_client_bits(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

bool halo_client_stream(const void *stream, uint64_t *ret_bits, struct halo_remote_slot **ret_slot)
{
    uint64_t bits = halo_client_bits(stream);
    bool is_null = bits == 0 || bits == STREAM_LEGACY || bits == STREAM_PER_THREAD;
    *ret_bits = is_null ? 0 : bits;
    *ret_slot = is_null ? NULL : halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_STREAM], bits);
    return is_null || *ret_slot;
}
