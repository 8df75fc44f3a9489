/* session.c: begins and ends a session with a worker. A session belongs to the process that began it: the child of a
 * fork gets errors.
 */
#include "session_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_priv.h"
#include "connect_priv.h"

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

/* ---- what the worker says first ---- */

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

static int introduce(struct halo_client_session *c)
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

/* ---- fork ---- */

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

/* ---- begin, end ---- */

/* Why there is no session, where the connection had no reason of its own. */
static const char *reason_of(const struct halo_client_session *c, int error)
{
    if (error == -ENODEV)
        return "it has no GPU, or no HIP runtime";
    if (!c->settings.key_file && !c->settings.worker.is_unix && (error == -EPROTO || error == -ECONNRESET))
        return "it closed the connection; it may serve only clients that have its key (HIP_REMOTE_KEY_FILE)";
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

int halo_client_begin(struct halo_client_session *c, bool is_one_of_several)
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
        r = introduce(c);
        if (r)
            halo_link_close(&c->link);
    }
    if (r)
        drop_tables(c);
    if (r && !last_reason[0])
        snprintf(last_reason, sizeof(last_reason), "%s", reason_of(c, r));
    if (r)
        halo_client_say("no session with the worker", last_reason);
    if (r && is_one_of_several)
        name_worker(c);
    if (!r && c->settings.is_verbose)
        halo_client_say("a session with the worker", channel.cipher ? "begins, encrypted" : "begins");
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

void halo_client_end(struct halo_client_session *c)
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
