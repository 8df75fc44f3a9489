/* device_thread_priv.h: the thread that owns the device, its models and their sequences.
 *
 * Everything reaches it through its mailbox, everything leaves it through the port's. It opens the device first.
 * Between two steps it looks at its mail and at the flags of all sequences. When the device is lost
 * (HALO_DEVICE_E_LOST) or hangs (-ETIME) every sequence ends with device_fault, `lost` is raised, and later work is
 * refused: the process should end and be started again.
 */
#ifndef HALO_ENGINE_DEVICE_THREAD_PRIV_H
#define HALO_ENGINE_DEVICE_THREAD_PRIV_H

#include <pthread.h>

#include <model/placement.h>

#include <engine/bench.h>
#include <engine/layers.h>
#include <engine/load.h>
#include <engine/profile.h>
#include <engine/stats.h>

/* What a plan would need and how fast it would be. The io thread opens the model, the device thread answers. */
struct halo_forecast {
    struct halo_note note;
    struct halo_job *job;
    atomic_bool cancel;            /* the port's wish */
    char *file;                    /* in: name or path of the model; malloc */
    bool is_path;                  /* in: it is a path, whatever it looks like */
    struct halo_model_params wish; /* in */
    struct halo_model *model;      /* made by the io thread; NULL: it could not be opened */
    struct halo_device_info info;
    struct halo_budget budget;
    /* out: of a load that keeps everything in memory */
    uint32_t n_pages;
    uint64_t kv_bytes; /* with checkpoints */
    struct halo_budget_checkpoints checkpoints;
    struct halo_stages stages;
    uint64_t budget_bytes;       /* in: 0 means what is free; out: what was used */
    struct halo_profile profile; /* memory_bytes_s is measured once per process */
    double flops;                /* operations per second of prompt rows seen so far; 0: unknown */
    /* out: what a placement counts when experts have slots; slot_bytes 0: the device or the model cannot do it */
    struct halo_placement_options streamed;
    uint32_t streamed_context;      /* out: the longest context that this leaves room for */
    struct halo_layer_needs layers; /* out: of a dense model whose layers stream */
    struct halo_profile here;       /* what a profile would hold for; by the io thread, and the device's by its own */
    struct halo_profile_record stored;
    struct halo_fault stored_fault; /* why there is none: NOT_FOUND, or it cannot be read; code NONE: there is one */
    struct halo_fault fault;
};

/* Forgets prefixes. The port's request owns it. */
struct halo_reset {
    struct halo_note note;
    struct halo_job *job;
    struct halo_instance *instance;
    bool all; /* everybody's, or those of `user` */
    uint64_t user;
    uint32_t n_freed; /* out: pages */
};

/* The facts of the device, asked for again. */
struct halo_look {
    struct halo_note note;
    struct halo_job *job;
};

struct halo_device_thread {
    pthread_t thread;
    struct halo_mailbox box;
    struct halo_mailbox *port, *io, *prefetch;
    bool keeps_prefixes; /* there is a place to save them */
    struct halo_stats *stats;
    const struct halo_device_ops *ops;
    struct halo_device_options options;
    uint32_t max_queued;
    uint32_t max_models;       /* at most HALO_MAX_LOADED */
    uint64_t budget_bytes;     /* of all models together; in: 0 means what is free. From then on under info_lock */
    uint64_t checkpoint_bytes; /* of a model, for checkpoints of states */

    struct halo_note kick_note, open_note;
    atomic_bool kick_posted;
    struct halo_device_phase phase;
    atomic_int activity; /* enum halo_activity */

    pthread_mutex_t info_lock;    /* of the three below */
    bool opened;                  /* tried */
    struct halo_device_info info; /* name empty: could not be opened */
    struct halo_fault open_fault;

    atomic_bool lost;

    /* the thread's own */
    bool has_budget; /* somebody has set budget_bytes */
    struct halo_device *device;
    struct halo_instance *models[HALO_MAX_LOADED];
    uint32_t n_models;
    uint32_t n_device_models;     /* that the device has, those that are loading included */
    struct halo_bench *benches;   /* the first one runs; they take turns by repetition */
    uint64_t bench_ns, models_ns; /* of the device, while benches and sequences share it */
    bool models_worked;           /* in the last round */
    double bandwidth;
};

/* Starts it. 0 or a negative errno. */
int halo_device_thread_start(struct halo_device_thread *thread);

/* Ends everything with shutting_down, gives the models back and closes the device, unless that takes longer: a driver
 * may hang. True: the thread has ended. The process should end afterwards in either case. */
bool halo_device_thread_stop(struct halo_device_thread *thread, uint32_t most_ms);

/* Any thread: look at the flags now. */
void halo_device_thread_kick(struct halo_device_thread *thread);

/* Any thread: what requests call the device, "cpu" or "hip", also where several GPUs divide a model. Static. */
const char *halo_device_thread_name(const struct halo_device_thread *thread);

/* Any thread: 0 and the facts, -EAGAIN while it is being opened, or the error of opening. */
int halo_device_thread_info(struct halo_device_thread *thread, struct halo_device_info *ret, struct halo_fault *fault);

/* Any thread: whether it answers a note soon. A hint: it may begin work at any time. */
bool halo_device_thread_is_idle(const struct halo_device_thread *thread);

/* Any thread: what all models together may take; 0 while the device is being opened. */
uint64_t halo_device_thread_budget(struct halo_device_thread *thread);

#endif
