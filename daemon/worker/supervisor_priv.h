/* supervisor_priv.h: the process that listens. It never calls HIP, so that each child starts with a clean process. */
#ifndef HALO_WORKER_SUPERVISOR_PRIV_H
#define HALO_WORKER_SUPERVISOR_PRIV_H

#include <base/fault.h>

#include "options_priv.h"

/* Serves until SIGTERM or SIGINT. `argv`: of this process; a child gets it too. 0 or a negative errno. */
int halo_supervisor_run(const struct halo_worker_options *options, int argc, char **argv, struct halo_fault *fault);

#endif
