/* engine_priv.h: parts of the engine's object. */
#ifndef HALO_SERVE_CHILD_ENGINE_PRIV_H
#define HALO_SERVE_CHILD_ENGINE_PRIV_H

#include <serve/child/engine.h>

#define HALO_ENGINE_ARGS_MAX 32 /* without those of model_dirs */

struct halo_engine_args {
    char **args, **env; /* args NULL: out of memory */
    char fd[16], gpus[24], threads[24], budget[24], checkpoints[24], save[24], save_ms[24];
};

/* engine_args.c: the command line of an engine with these settings, and its environment: nothing of what is between the
 * service manager and the daemon. `ret_args` must stay where it is. */
void halo_engine_args_init(struct halo_engine_args *ret_args, const struct halo_config *config);
void halo_engine_args_finish(struct halo_engine_args *args);

/* spare.c: descriptors kept for a start. */
void halo_spare_fill(struct halo_engine *engine);
void halo_spare_drop(struct halo_engine *engine);

#endif
