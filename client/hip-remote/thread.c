/* thread.c: what HIP keeps for each thread, its GPU and its last error; every call enters here and leaves. */
#include <stdatomic.h>
#include <stdio.h>

#include "client_priv.h"
#include "session_priv.h"

_Static_assert(HALO_CLIENT_SESSIONS_MAX *HALO_REMOTE_GENERATIONS == HALO_REMOTE_GENERATION_MAX + 1,
               "no two sessions have the same handle");

static _Thread_local struct halo_client_session *home = halo_client_sessions; /* of the thread's device */
static _Thread_local int home_device;
static _Thread_local int thread_error;
static atomic_int n_sessions; /* 0: the environment was not read yet */

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
        (void)halo_client_begin(c, count_sessions() > 1);
    return halo_client_state_error();
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

__attribute__((destructor)) static void end_sessions(void)
{
    for (int i = 0; i < HALO_CLIENT_SESSIONS_MAX; i++)
        halo_client_end(&halo_client_sessions[i]);
    halo_client_here = home;
}
