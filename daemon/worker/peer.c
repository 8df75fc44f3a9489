/* peer.c: reads frames, feeds them to the session, writes its answers.
 *
 * HIP is called from one thread: its state belongs to a thread, and the order of requests is the order on the GPU. No
 * HIP library is opened until the first frame has turned out to be a valid HIP_OP_INIT. A second thread ends the
 * process when a HIP call does not return: nothing else can.
 */
#include "peer_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>
#include <base/thread.h>
#include <hip_remote/channel.h>
#include <sandbox/sandbox.h>

#include "runtime_priv.h"
#include "secure_priv.h"
#include "store_priv.h"
#include "tcp_priv.h"

#define HANDSHAKE_MS 3000
#define UNREAD_MS 60000 /* a client that takes no answers for this long */
#define OUT_BYTES (2 * (size_t)(HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX))
#define GONE_MS 5000 /* after the client has left, for a HIP call to return */
#define WATCH_MS 100
#define SPIN_US 200 /* after progress: the end of a decode step is near */
#define PAUSE_NS 20000

struct peer {
    struct halo_remote_channel channel;
    const struct halo_worker_options *options;
    struct halo_remote_reader reader;
    struct halo_session *session; /* NULL until INIT */
    struct halo_blob_store blobs; /* with --blobs, if its folder can be used */
    bool has_blobs;
    uint8_t *out; /* answers: [out_at, out_n) are still to be sent */
    size_t out_at, out_n;
    uint64_t began_ms, progress_us;
    _Atomic uint64_t busy_ms; /* since when requests run; 0: the thread waits for the client */
};

/* ---- the watch ---- */

/* Ends the process; its log line says why. */
static void check_call(const struct peer *p, uint64_t gone_ms)
{
    uint64_t now = halo_clock_ms(), busy = atomic_load(&p->busy_ms);
    uint32_t deadline = p->options->limits.deadline_ms;
    if (busy && deadline && now - busy > deadline + (uint64_t)GONE_MS) {
        halo_log(HALO_LOG_ERROR, "a HIP call has not returned for %u ms: the session is ended", deadline + GONE_MS);
        _exit(1);
    }
    if (gone_ms && now - gone_ms > GONE_MS) {
        halo_log(HALO_LOG_ERROR, "the client has left and a HIP call has not returned: the session is ended");
        _exit(1);
    }
}

static void *watch(void *ud)
{
    const struct peer *p = ud;
    const struct timespec pause = {.tv_nsec = WATCH_MS * 1000000};
    for (uint64_t gone_ms = 0;;) {
        struct pollfd state = {.fd = p->channel.fd, .events = POLLRDHUP};
        if (!gone_ms && poll(&state, 1, WATCH_MS) > 0)
            gone_ms = halo_clock_ms();
        else if (gone_ms)
            nanosleep(&pause, NULL);
        check_call(p, gone_ms);
    }
    return NULL;
}

/* ---- answers ---- */

/* Sends what the socket takes. 0 or a negative errno. */
static int flush(struct peer *p)
{
    while (p->out_at < p->out_n) {
        ssize_t n = halo_remote_channel_send(&p->channel, p->out + p->out_at, p->out_n - p->out_at);
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        p->out_at += (size_t)n;
    }
    p->out_at = p->out_n = 0;
    return 0;
}

/* Waits for the client to read until n more bytes fit. */
static uint8_t *reserve(void *ud, size_t n)
{
    struct peer *p = ud;
    while (p->out_n + n > OUT_BYTES) {
        struct pollfd writable = {.fd = p->channel.fd, .events = POLLOUT};
        if (flush(p) < 0)
            return NULL;
        memmove(p->out, p->out + p->out_at, p->out_n - p->out_at);
        p->out_n -= p->out_at;
        p->out_at = 0;
        if (p->out_n + n <= OUT_BYTES)
            break;
        int ready = poll(&writable, 1, UNREAD_MS);
        atomic_store(&p->busy_ms, halo_clock_ms()); /* it was the client that kept us */
        if (ready <= 0) {
            halo_log(HALO_LOG_WARN, "the client has not read its answers for %d s: closed", UNREAD_MS / 1000);
            return NULL;
        }
    }
    return p->out + p->out_n;
}

static void commit(void *ud, size_t n)
{
    struct peer *p = ud;
    p->out_n += n;
}

/* Within a request that waits: is the client still there? */
static int idle(void *ud)
{
    struct peer *p = ud;
    struct pollfd state = {.fd = p->channel.fd, .events = POLLRDHUP};
    atomic_store(&p->busy_ms, halo_clock_ms());
    int r = flush(p);
    if (r == 0 && poll(&state, 1, 0) > 0 && state.revents & (POLLRDHUP | POLLHUP | POLLERR))
        r = -EPIPE;
    return r;
}

/* ---- requests ---- */

/* The client gets a HIP error in place of a session. */
static void refuse_session(struct peer *p, const struct halo_remote_header *h)
{
    struct halo_remote_header out = *h;
    const struct halo_remote_status status = {.error = HIP_ERROR_NO_DEVICE};
    uint8_t *at = reserve(p, HALO_REMOTE_HEADER_BYTES + sizeof(status));
    int n = at ? halo_remote_reply_encode(at, HALO_REMOTE_HEADER_BYTES + sizeof(status), &out, &status, true) : -EPIPE;
    if (n > 0)
        commit(p, (size_t)n);
    (void)flush(p);
}

static int begin_session(struct peer *p, const struct halo_remote_header *h, const uint8_t *payload,
                         struct halo_fault *fault)
{
    const struct halo_session_ops ops = {reserve, commit, idle, p};
    union halo_remote_request q;
    if (h->op != HIP_OP_INIT || halo_remote_request_decode(h, payload, &q, NULL) < 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "the first frame is no valid HIP_OP_INIT");
    int r = halo_session_create(&p->session, p->options->hip_lib, &p->options->limits, &ops, fault);
    if (r < 0) {
        refuse_session(p, h);
        return r;
    }
    if (p->has_blobs)
        halo_session_keep_blobs(p->session, &p->blobs);
    p->reader.payload_max = HALO_REMOTE_PAYLOAD_MAX;
    return 0;
}

/* Runs the requests that have come. 0, HALO_SESSION_E_END or a negative errno. */
static int run_requests(struct peer *p, struct halo_fault *fault)
{
    struct halo_remote_header h;
    const uint8_t *payload;
    int r;
    while ((r = halo_remote_reader_next(&p->reader, &h, &payload)) == 0) {
        if (!p->session && (r = begin_session(p, &h, payload, fault)) < 0)
            return r;
        r = halo_session_request(p->session, &h, payload, fault);
        if (r != 0)
            return r;
        p->progress_us = halo_clock_us();
    }
    if (r < 0)
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                       r == -EPROTO && halo_secure_is_hello(p->reader.buf, p->reader.end)
                           ? "the client encrypts, but this worker has no --key-file"
                       : r == -EPROTONOSUPPORT ? "the client speaks another version of the protocol"
                       : r == -EMSGSIZE        ? "a frame is longer than the limit"
                       : r == -EPROTO          ? "the client does not speak remote HIP"
                                               : "a frame has unknown flags");
    return r == HALO_REMOTE_E_MORE ? 0 : r;
}

/* Waits for bytes, or for the moment to ask the GPU again. 0; HALO_SESSION_E_END at the client's end; negative. */
static int wait_and_read(struct peer *p, struct halo_fault *fault)
{
    struct pollfd state = {.fd = p->channel.fd, .events = POLLIN};
    struct timespec timeout = {0};
    bool waits = p->session && halo_session_waits(p->session), forever = false;
    uint64_t age_ms = halo_clock_ms() - p->began_ms;
    size_t room;
    if (p->out_n > p->out_at)
        state.events |= POLLOUT;
    if (!p->session && age_ms >= HANDSHAKE_MS)
        return halo_fault_set(fault, HALO_FAULT_DEADLINE, "no HIP_OP_INIT within %d s", HANDSHAKE_MS / 1000);
    if (!p->session)
        timeout = (struct timespec){.tv_sec = HANDSHAKE_MS / 1000 + 1};
    else if (!waits)
        forever = true;
    else if (halo_clock_us() - p->progress_us > SPIN_US)
        timeout.tv_nsec = PAUSE_NS;
    if (!halo_remote_channel_has_unread(&p->channel) &&
        (ppoll(&state, 1, forever ? NULL : &timeout, NULL) <= 0 || !(state.revents & ~POLLOUT)))
        return 0;
    uint8_t *at = halo_remote_reader_reserve(&p->reader, &room);
    ssize_t n = halo_remote_channel_recv(&p->channel, at, room);
    if (n < 0)
        return n == -EAGAIN ? 0 : halo_fault_errno(fault, HALO_FAULT_CANCELLED, (int)n, "cannot read from the client");
    halo_remote_reader_commit(&p->reader, (size_t)n);
    return n == 0 ? HALO_SESSION_E_END : 0;
}

static int serve(struct peer *p, struct halo_fault *fault)
{
    for (;;) {
        atomic_store(&p->busy_ms, halo_clock_ms());
        int r = run_requests(p, fault);
        if (r == 0 && p->session)
            r = halo_session_poll(p->session, fault);
        atomic_store(&p->busy_ms, 0);
        int sent = flush(p);
        if (r != 0)
            return r;
        if (sent < 0)
            return halo_fault_errno(fault, HALO_FAULT_CANCELLED, sent, "cannot write to the client");
        r = wait_and_read(p, fault);
        if (r != 0)
            return r;
    }
}

/* The folder of this client's blobs: those of another key are out of reach. If it cannot be used, the session has no
 * blobs. `key`: NULL for a client that is known as this user. */
static void open_blobs(struct peer *p, const struct halo_remote_key *key, char path[static PATH_MAX])
{
    char name[HALO_SECURE_NAME_BYTES] = "user";
    struct halo_fault fault = {0};
    path[0] = '\0';
    if (!p->options->blobs)
        return;
    if (key)
        halo_secure_name(key, name);
    if (halo_blob_folder_make(p->options->blobs, name, path, PATH_MAX, &fault) == 0)
        p->has_blobs = halo_blob_store_open(&p->blobs, path, p->options->blob_bytes, &fault) == 0;
    if (!p->has_blobs)
        halo_log(HALO_LOG_WARN, "%s", fault.text);
}

/* What needs a right that the sandbox takes away comes before it, what parses bytes of the client after it. */
static int begin(struct peer *p, struct halo_fault *fault)
{
    char blobs[PATH_MAX];
    struct halo_sandbox sandbox = {
        .program = "hip-worker", .hip_lib = p->options->hip_lib, .gpu = true, .models_only = true};
    struct halo_remote_key key;
    pthread_t watcher;
    bool is_encrypted = p->options->key_file && halo_tcp_is(p->channel.fd);
    int r = is_encrypted ? halo_secure_read_key(p->options->key_file, &key, fault) : 0;
    if (r < 0)
        return r;
    open_blobs(p, is_encrypted ? &key : NULL, blobs);
    sandbox.work_dir = p->has_blobs ? blobs : NULL;
    if (!p->options->no_sandbox)
        halo_sandbox_enter(&sandbox);
    halo_tcp_prepare(p->channel.fd);
    if (!p->out || halo_remote_reader_init(&p->reader, HALO_REMOTE_FIRST_MAX) < 0 ||
        halo_thread_start(&watcher, "watch", watch, p) < 0)
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a session");
    else if (is_encrypted)
        r = halo_secure_accept(&p->channel, &key, HANDSHAKE_MS, fault);
    halo_remote_key_forget(&key);
    return r;
}

_Noreturn void halo_peer_run(const struct halo_worker_options *options)
{
    const struct rlimit no_core = {0, 0};
    struct halo_fault fault = {0};
    struct peer p = {.channel = {.fd = options->session_fd},
                     .options = options,
                     .out = malloc(OUT_BYTES),
                     .began_ms = halo_clock_ms()};
    setrlimit(RLIMIT_CORE, &no_core);
    int r = begin(&p, &fault);
    if (r == 0)
        r = serve(&p, &fault);
    if (p.blobs.found_bytes + p.blobs.added_bytes > 0)
        halo_log(HALO_LOG_INFO, "blobs: %" PRIu64 " MiB were here, %" PRIu64 " MiB are new", p.blobs.found_bytes >> 20,
                 p.blobs.added_bytes >> 20);
    if (r < 0)
        halo_log(HALO_LOG_WARN, "session ended: %s", fault.text[0] ? fault.text : strerror(-r));
    else
        halo_log(HALO_LOG_INFO, "session ended");
    _exit(r < 0 ? 1 : 0); /* not through HIP: its threads may hang in the driver */
}
