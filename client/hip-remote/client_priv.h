/* client_priv.h: the sessions of this process with its workers, most often one, and what HIP keeps for each thread.
 *
 * The sessions begin with the first call that needs one: nothing happens when the library is loaded, and the child of a
 * fork gets errors. Each exported function is halo_client_enter(), its work under the session's lock, and
 * halo_client_leave(), which keeps the thread's last error.
 *
 * The GPUs of several workers are numbered one worker after the other. A call works in the session of the thread's
 * device; streams, events, modules and graphs of another session are unknown there. Session and device of a thread are
 * `halo_client` and halo_client_thread_device, the GPU's number at its worker.
 */
#ifndef HALO_HIP_REMOTE_CLIENT_PRIV_H
#define HALO_HIP_REMOTE_CLIENT_PRIV_H

#include <hip_remote/code_object.h>
#include <hip_remote/stub.h>

#include "abi_priv.h"
#include "handles_priv.h"
#include "link_priv.h"
#include "ranges_priv.h"
#include "settings_priv.h"
#include "upload_priv.h"

enum halo_client_state {
    HALO_CLIENT_NEW,
    HALO_CLIENT_OPENING, /* a thread connects */
    HALO_CLIENT_OPEN,
    HALO_CLIENT_FAILED, /* no worker; hipInit tries again */
    HALO_CLIENT_FORKED, /* the session is the parent's */
    HALO_CLIENT_ENDED,  /* the process exits, or the library is unloaded */
};

struct halo_client_device {
    char name[256], arch[256], pci_bus_id[64];
    struct halo_remote_get_device_properties_reply properties; /* its texts point to the three above */
};

/* The last long copy to the device. */
struct halo_long_copy {
    uint64_t stream;
    uint32_t serial; /* of the link, right behind the copy */
};

#define HALO_CLIENT_SESSIONS_MAX 8

struct halo_client_session {
    struct halo_remote_port port; /* for the stubs: the thread's device, waits for the answer if there is one */
    pthread_mutex_t lock;
    pthread_cond_t opened;
    enum halo_client_state state;
    struct halo_remote_settings settings;
    struct halo_link link;
    struct halo_uploads uploads;
    struct halo_long_copy long_copy;
    int fatal; /* HIP error that every call returns from now on */
    bool has_told_loss;
    int runtime_version, n_devices;
    int first_device; /* the program's number of device 0 */
    struct halo_client_device devices[HALO_REMOTE_DEVICES_MAX];
    struct halo_remote_handles handles[HALO_REMOTE_N_HANDLE_TYPES];          /* by type */
    struct halo_remote_ranges device_memory, host_memory, registered_memory; /* registered: the program's own */
};

struct halo_remote_module {
    void *image;
    struct halo_code_object code;      /* its names point into the image */
    struct halo_remote_range *globals; /* [n_globals]: those that are among the device's memory */
    uint32_t n_globals;
};

extern struct halo_client_session halo_client_sessions[HALO_CLIENT_SESSIONS_MAX];
extern _Thread_local struct halo_client_session *halo_client_here;
#define halo_client (*halo_client_here)
extern _Thread_local int halo_client_thread_device;
extern const int halo_client_major; /* of HIP, that this library stands for */

void halo_remote_module_free(struct halo_remote_module *module);

/* Takes the lock, and begins the sessions if there are none. A HIP error; the lock is taken in either case. */
int halo_client_enter(void);
/* The same in the session that has this GPU of the program; `device` becomes its number there. HIP_INVALID_DEVICE: none
 * has. */
int halo_client_enter_device(int *device);
/* The same in the session that has taken the memory at this address: the thread's, if it has some there too. */
int halo_client_enter_at(const void *p);
/* All GPUs of all sessions, which are open. */
int halo_client_count_devices(void);
/* Makes the GPU the thread's. With the lock of its session. */
void halo_client_choose(int device);
/* hipInit: sessions that could not begin are tried again. */
void halo_client_retry(void);
/* The program's number of the thread's GPU. */
static inline int halo_client_device_number(void)
{
    return halo_client.first_device + halo_client_thread_device;
}
/* Releases the lock; keeps and returns the error. */
int halo_client_leave(int error);

/* The thread's last error, else the first of requests without an answer that no call has reported; begins no session.
 * `forget`: it is reported once. */
int halo_client_last_error(bool forget);

/* Of the state of the session in hand: the error of every call, or 0. */
int halo_client_state_error(void);
/* One line on stderr, with the worker's address. */
void halo_client_say(const char *text, const char *why);
/* The HIP error for what the link or a stub returned; the first loss is told on stderr. */
int halo_client_error(int r);
/* The same for an answered request: its own error, and errors that make the device unusable are kept. */
int halo_client_status(int r, const struct halo_remote_status *status);
/* The error of a request whose answer nobody waits for. Takes answers: must not send. */
void halo_client_defer(enum halo_remote_op op, int error);
/* For calls that may report it: the first error of requests without an answer, once. */
int halo_client_deferred(void);

/* A request without an answer, in its order. A HIP error. */
int halo_client_send(enum halo_remote_op op, const void *request);
int halo_client_send_data(enum halo_remote_op op, const void *request, struct halo_remote_bytes data);

/* The handle of HIP's stream; false: there is none. The legacy and the per-thread stream are the null stream. */
bool halo_client_stream(const void *stream, uint64_t *ret_bits, struct halo_remote_slot **ret_slot);
void *halo_client_pointer(uint64_t bits);
uint64_t halo_client_bits(const void *pointer);

/* Waits until no answer is owed that writes to these bytes of the host. A HIP error. */
int halo_client_settle(const void *at, size_t n);

/* Waits for what is queued on the stream (0: the null stream). A HIP error, that of earlier requests included. */
int halo_client_synchronize(uint64_t stream);

#endif
