/* engine.h: the whole engine on two file descriptors: what halod-engine's main is, and what tests run with a scripted
 * device. */
#ifndef HALO_ENGINE_ENGINE_H
#define HALO_ENGINE_ENGINE_H

#include <stdbool.h>

#include <kernels/device.h>

#include <engine/pressure_watch.h>

struct halo_engine_setup {
    int in_fd, out_fd;
    bool link; /* the peer is halod, on one non-blocking socket: heartbeats, and the end when it goes */
    const char *const *model_dirs; /* outlive the process, as the device's table does */
    size_t n_model_dirs;
    bool models_only;          /* no model file that lies elsewhere can be opened */
    uint32_t max_models;       /* loaded at once; 0: HALO_MAX_LOADED, which is the most */
    uint64_t budget_bytes;     /* of all models together; 0: what is free */
    uint64_t checkpoint_bytes; /* of each model, for checkpoints of recurrent states */
    const char *state_dir;     /* where cached prefixes are saved and looked for; NULL: nowhere. Outlives the process */
    uint64_t save_bytes;       /* of them, at most; 0: none */
    uint64_t save_ms;          /* what saving them may take when a model is unloaded; 0: they are not saved then */
    struct halo_pressure_watch *watch;          /* open; outlives the process. NULL: memory is not watched */
    const struct halo_pressure_rules *pressure; /* NULL: halo_pressure_rules_default */
    const struct halo_device_ops *device;
    struct halo_device_options device_options;
};

/* Serves until the peer is gone (link), or until the input has ended and everything is answered. Returns the exit
 * status: 0, 1 for a failure that was logged, 3 when the device was lost. The device is closed
 * if that takes no longer than a moment; the caller then ends the process by _exit: threads may hang in a driver. Once
 * per process. */
int halo_engine_run(const struct halo_engine_setup *setup);

#endif
