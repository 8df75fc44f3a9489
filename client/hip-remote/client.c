/* client.c: begins and ends the session; enters and leaves calls; errors. */
#include "client_priv.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hip_remote/table.h>

#include "connect_priv.h"

#define STREAM_LEGACY 1u
#define STREAM_PER_THREAD 2u
_Static_assert(HALO_CLIENT_SESSIONS_MAX *HALO_REMOTE_GENERATIONS == HALO_REMOTE_GENERATION_MAX + 1,
               "no two sessions have the same handle");

/* hip-worker refuses a runtime with this symbol: it would call itself. */
extern const char halo_hip_remote_client[];
__attribute__((visibility("default"))) const char halo_hip_remote_client[] = HALO_VERSION;

/* Why the last try to begin a session failed; empty: it did not. For a program that knows this library: halod. */
extern const char *halo_hip_remote_reason(void);
static char last_reason[HALO_REMOTE_REASON_BYTES];
__attribute__((visibility("default"))) const char *halo_hip_remote_reason(void)
{
    return last_reason;
}

static int call(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply);

struct halo_client_session halo_client_sessions[HALO_CLIENT_SESSIONS_MAX] = {
    [0 ... HALO_CLIENT_SESSIONS_MAX -
     1] = {.port = {call}, .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER}};
_Thread_local struct halo_client_session *halo_client_here = halo_client_sessions;
_Thread_local int halo_client_thread_device;
static _Thread_local struct halo_client_session *home = halo_client_sessions; /* of the thread's device */
static _Thread_local int home_device;
static _Thread_local int thread_error;
static atomic_int n_sessions; /* 0: the environment was not read yet */

/* ---- errors ---- */

static void say(const char *text, const char *why)
{
    char address[HALO_ENDPOINT_TEXT];
    halo_endpoint_format(&halo_client.settings.worker, address, sizeof(address));
    fprintf(stderr, "hip-remote: %s %s: %s\n", text, address, why);
}

static int error_of_state(void)
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
        say("the connection is lost, every HIP call fails from now on; worker", strerror(-r));
    }
    return halo_client.state == HALO_CLIENT_OPENING ? HIP_NO_DEVICE : error_of_state();
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

/* ---- the session ---- */

static void take_text(char *to, size_t size, struct halo_remote_bytes *text)
{
    size_t n = text->n < size ? text->n : size - 1;
    if (n > 0)
        memcpy(to, text->at, n);
    to[n] = '\0';
    *text = (struct halo_remote_bytes){to, (uint32_t)n};
}

static void take_properties(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct halo_client_device *d = ud;
    d->properties = reply->get_device_properties;
    take_text(d->name, sizeof(d->name), &d->properties.name);
    take_text(d->arch, sizeof(d->arch), &d->properties.arch);
    take_text(d->pci_bus_id, sizeof(d->pci_bus_id), &d->properties.pci_bus_id);
    /* The worker tells the truth about its GPU; over a network no memory is shared. */
    d->properties.integrated = 0;
}

static int read_devices(struct halo_client_session *c)
{
    int r = 0;
    for (int i = 0; i < c->n_devices && !r; i++) {
        const struct halo_remote_get_device_properties q = {i};
        c->devices[i].properties.status.error = HIP_UNKNOWN;
        r = halo_link_ask(&c->link, HIP_OP_GET_DEVICE_PROPERTIES, &q, HALO_REMOTE_DEVICE_CURRENT,
                          (struct halo_link_answer){.take = take_properties, .ud = &c->devices[i]});
    }
    while (!r && c->link.n_pending > 0)
        r = halo_link_step(&c->link);
    for (int i = 0; i < c->n_devices && !r; i++)
        if (c->devices[i].properties.status.error)
            r = -ENODEV;
    return r;
}

static int begin_session(struct halo_client_session *c)
{
    struct halo_remote_init_reply a;
    const struct halo_remote_init q = {.hip_major = (uint32_t)halo_client_major, .features = HALO_REMOTE_FEATURE_BLOBS};
    int r = halo_remote_init(&c->port, &q, &a);
    if (r < 0 || a.status.error)
        return r < 0 ? r : -ENODEV;
    c->uploads = (struct halo_uploads){0};
    if (a.features & HALO_REMOTE_FEATURE_BLOBS)
        halo_uploads_begin(&c->uploads);
    c->runtime_version = a.runtime_version;
    c->n_devices = a.n_devices;
    const struct {
        enum halo_remote_handle_type type;
        uint32_t n;
    } tables[] = {
        {HALO_REMOTE_STREAM, a.n_streams},     {HALO_REMOTE_EVENT, a.n_events}, {HALO_REMOTE_MODULE, a.n_modules},
        {HALO_REMOTE_FUNCTION, a.n_functions}, {HALO_REMOTE_GRAPH, a.n_graphs}, {HALO_REMOTE_GRAPH_EXEC, a.n_graphs},
        {HALO_REMOTE_BLOB, a.n_modules},
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && !r; i++)
        r = halo_remote_handles_init(&c->handles[tables[i].type], tables[i].type, tables[i].n,
                                     (uint32_t)(c - halo_client_sessions) * HALO_REMOTE_GENERATIONS);
    return r ? r : read_devices(c);
}

static void drop_tables(struct halo_client_session *c)
{
    for (int i = 0; i < HALO_REMOTE_N_HANDLE_TYPES; i++)
        halo_remote_handles_finish(&c->handles[i]);
    halo_remote_ranges_finish(&c->device_memory);
    halo_remote_ranges_finish(&c->host_memory);
    halo_remote_ranges_finish(&c->registered_memory);
}

/* ---- fork and exit ---- */

static void before_fork(void)
{
    for (int i = 0; i < HALO_CLIENT_SESSIONS_MAX; i++)
        pthread_mutex_lock(&halo_client_sessions[i].lock);
}

static void after_fork_in_parent(void)
{
    for (int i = HALO_CLIENT_SESSIONS_MAX; i-- > 0;)
        pthread_mutex_unlock(&halo_client_sessions[i].lock);
}

/* The child has the descriptor but not the session: two processes cannot take turns on one stream of frames. */
static void after_fork_in_child(void)
{
    for (int i = HALO_CLIENT_SESSIONS_MAX; i-- > 0;) {
        struct halo_client_session *c = &halo_client_sessions[i];
        if (c->state == HALO_CLIENT_OPEN || c->state == HALO_CLIENT_OPENING) {
            halo_link_abandon(&c->link);
            c->state = HALO_CLIENT_FORKED;
        }
        pthread_mutex_unlock(&c->lock);
    }
}

static int watch_forks(void)
{
    static bool is_watching;
    if (is_watching)
        return 0;
    int r = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    is_watching = !r;
    return -r;
}

/* Why there is no session, where the connection had no reason of its own. */
static const char *reason_of(const struct halo_client_session *c, int error)
{
    if (error == -ENODEV)
        return "it has no GPU, or no HIP runtime";
    if (!c->settings.key_file && !c->settings.worker.is_unix && (error == -EPROTO || error == -ECONNRESET))
        return "it closed the connection, or it serves clients with its key alone (HIP_REMOTE_KEY_FILE)";
    return strerror(-error);
}

/* Of several workers the reason says which. */
static void name_worker(const struct halo_client_session *c)
{
    char why[sizeof(last_reason)], address[HALO_ENDPOINT_TEXT];
    memcpy(why, last_reason, sizeof(why));
    halo_endpoint_format(&c->settings.worker, address, sizeof(address));
    snprintf(last_reason, sizeof(last_reason), "%s: %.100s", address, why);
}

/* With the lock, which is released while answers are waited for: other threads wait for `opened`. */
static int open_session(struct halo_client_session *c)
{
    struct halo_remote_channel channel;
    const char *variable;
    int r = halo_remote_settings_read(&c->settings, (uint32_t)(c - halo_client_sessions), &variable);
    if (r < 0) {
        snprintf(last_reason, sizeof(last_reason), "the value of %s is not valid: '%s' (see hip-remote(7))", variable,
                 getenv(variable) ? getenv(variable) : "");
        fprintf(stderr, "hip-remote: %s\n", last_reason);
        c->state = HALO_CLIENT_FAILED;
        return r;
    }
    c->state = HALO_CLIENT_OPENING;
    last_reason[0] = '\0';
    r = watch_forks();
    if (!r)
        r = halo_remote_connect(&c->settings, &channel, last_reason);
    if (!r)
        r = halo_link_open(&c->link, &channel, c->settings.io_ms, &c->lock);
    if (!r) {
        r = begin_session(c);
        if (r)
            halo_link_close(&c->link);
    }
    if (r)
        drop_tables(c);
    if (r && !last_reason[0])
        snprintf(last_reason, sizeof(last_reason), "%s", reason_of(c, r));
    if (r)
        say("no session with the worker", last_reason);
    if (r && atomic_load(&n_sessions) > 1)
        name_worker(c);
    else if (c->settings.is_verbose)
        say("a session with the worker", channel.cipher ? "begins, encrypted" : "begins");
    c->state = r ? HALO_CLIENT_FAILED : HALO_CLIENT_OPEN;
    pthread_cond_broadcast(&c->opened);
    return r;
}

void halo_remote_module_free(struct halo_remote_module *module)
{
    halo_code_object_finish(&module->code);
    free(module->globals);
    free(module->image);
    free(module);
}

/* At exit other threads may be inside a call, and later destructors may call HIP: they get an error. */
static void end_session(struct halo_client_session *c)
{
    halo_client_here = c; /* the thread enters no call any more */
    if (pthread_mutex_trylock(&c->lock) != 0)
        return;
    if (c->state == HALO_CLIENT_OPEN && !c->link.is_polling) {
        while (c->device_memory.n > 0) {
            const struct halo_remote_range last = c->device_memory.entries[--c->device_memory.n];
            halo_remote_ranges_release(&c->device_memory, last);
            free(last.uploaded);
        }
        for (uint32_t i = 0; i < c->handles[HALO_REMOTE_MODULE].n_used; i++) {
            struct halo_remote_slot *slot = &c->handles[HALO_REMOTE_MODULE].slots[i];
            if (!slot->is_live)
                continue;
            halo_remote_module_free(slot->u.module);
        }
        halo_link_close(&c->link);
        drop_tables(c);
    }
    c->state = HALO_CLIENT_ENDED;
    pthread_mutex_unlock(&c->lock);
}

__attribute__((destructor)) static void end_sessions(void)
{
    for (int i = 0; i < HALO_CLIENT_SESSIONS_MAX; i++)
        end_session(&halo_client_sessions[i]);
    halo_client_here = home;
}

/* ---- calls ---- */

static int count_sessions(void)
{
    int n = atomic_load(&n_sessions);
    if (n == 0) {
        n = (int)halo_remote_settings_count();
        n = n < HALO_CLIENT_SESSIONS_MAX ? n : HALO_CLIENT_SESSIONS_MAX;
        atomic_store(&n_sessions, n);
    }
    return n;
}

/* Takes the lock of a session and begins it if it is new. */
static int enter(struct halo_client_session *c, int device)
{
    halo_client_here = c;
    halo_client_thread_device = device;
    pthread_mutex_lock(&c->lock);
    while (c->state == HALO_CLIENT_OPENING)
        pthread_cond_wait(&c->opened, &c->lock);
    if (c->state == HALO_CLIENT_NEW)
        (void)open_session(c);
    return error_of_state();
}

/* All sessions begin before one is used: the numbers of GPUs depend on it. A HIP error: one of them cannot be used. */
static int begin_all(void)
{
    static atomic_bool is_done;
    int n = count_sessions(), error = 0, n_devices = 0;
    if (n == 1 || atomic_load(&is_done))
        return 0;
    for (int i = 0; i < n && !error; i++) {
        struct halo_client_session *c = &halo_client_sessions[i];
        error = enter(c, 0);
        c->first_device = n_devices;
        n_devices += c->n_devices;
        pthread_mutex_unlock(&c->lock);
    }
    if (!error && n_devices > HALO_REMOTE_DEVICES_MAX)
        error = HIP_NO_DEVICE;
    atomic_store(&is_done, !error);
    return error;
}

int halo_client_enter(void)
{
    int error = begin_all(), here = enter(home, home_device);
    return error ? error : here;
}

int halo_client_count_devices(void)
{
    int n = 0;
    for (int i = 0; i < count_sessions(); i++)
        n += halo_client_sessions[i].n_devices;
    return n;
}

int halo_client_enter_device(int *device)
{
    int error = begin_all();
    for (int i = 0; i < count_sessions() && !error; i++) {
        struct halo_client_session *c = &halo_client_sessions[i];
        error = enter(c, 0);
        int mine = *device - c->first_device;
        if (error || (mine >= 0 && mine < c->n_devices)) {
            *device = mine;
            return error;
        }
        pthread_mutex_unlock(&c->lock);
    }
    int here = enter(home, home_device);
    return error ? error : here ? here : HIP_INVALID_DEVICE;
}

static bool has_memory(const struct halo_client_session *c, uint64_t at)
{
    return halo_remote_ranges_find(&c->device_memory, at, 1) || halo_remote_ranges_find(&c->host_memory, at, 1) ||
           halo_remote_ranges_find(&c->registered_memory, at, 1);
}

/* The thread's own session first: others may have memory with the same address. */
int halo_client_enter_at(const void *p)
{
    int error = halo_client_enter();
    if (error || count_sessions() == 1 || has_memory(&halo_client, halo_client_bits(p)))
        return error;
    pthread_mutex_unlock(&halo_client.lock);
    for (int i = 0; i < count_sessions(); i++) {
        struct halo_client_session *c = &halo_client_sessions[i];
        error = enter(c, 0);
        if (!error && has_memory(c, halo_client_bits(p)))
            return 0;
        pthread_mutex_unlock(&c->lock);
    }
    return halo_client_enter();
}

/* The address of the worker that has this GPU of the program; empty: none has. For halod, too. */
extern void halo_hip_remote_worker(int device, char *ret, size_t n);
__attribute__((visibility("default"))) void halo_hip_remote_worker(int device, char *ret, size_t n)
{
    int error = halo_client_enter_device(&device);
    if (error)
        snprintf(ret, n, "%s", "");
    else
        halo_endpoint_format(&halo_client.settings.worker, ret, n);
    pthread_mutex_unlock(&halo_client.lock);
}

void halo_client_choose(int device)
{
    home = halo_client_here;
    home_device = halo_client_thread_device = device;
}

void halo_client_retry(void)
{
    for (int i = 0; i < HALO_CLIENT_SESSIONS_MAX; i++) {
        struct halo_client_session *c = &halo_client_sessions[i];
        pthread_mutex_lock(&c->lock);
        if (c->state == HALO_CLIENT_FAILED)
            c->state = HALO_CLIENT_NEW; /* the worker may have been started since */
        pthread_mutex_unlock(&c->lock);
    }
}

int halo_client_leave(int error)
{
    pthread_mutex_unlock(&halo_client.lock);
    halo_client_here = home;
    halo_client_thread_device = home_device;
    /* Up to HIP 6 it is the status of the last call, from HIP 7 on the last error. */
    if (halo_client_major < 7 || (error != HIP_SUCCESS && error != HIP_NOT_READY))
        thread_error = error;
    return error;
}

int halo_client_last_error(bool forget)
{
    pthread_mutex_lock(&halo_client.lock);
    if (!thread_error && halo_client.state == HALO_CLIENT_OPEN)
        thread_error = halo_client_deferred();
    pthread_mutex_unlock(&halo_client.lock);
    int error = thread_error;
    if (forget)
        thread_error = HIP_SUCCESS;
    return error;
}
