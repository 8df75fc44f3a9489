/* settings_priv.h: where the worker is and how long to wait for it, from the environment. */
#ifndef HALO_HIP_REMOTE_SETTINGS_PRIV_H
#define HALO_HIP_REMOTE_SETTINGS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <base/endpoint.h>

struct halo_remote_settings {
    struct halo_endpoint worker;
    uint32_t connect_ms, io_ms; /* until a worker that does not answer counts as lost */
    const char *key_file;       /* of the environment; NULL: the connection is not encrypted */
    bool is_verbose;
};

/* How many workers HIP_REMOTE_WORKER names, separated by commas; 1 without it. */
uint32_t halo_remote_settings_count(void);

/* Of worker `index`. HIP_REMOTE_WORKER, then TF_WORKER_HOST and TF_WORKER_PORT, then the default socket of a local
 * worker. 0; -EINVAL: a variable has no valid value, and `ret_variable` names it. */
int halo_remote_settings_read(struct halo_remote_settings *ret, uint32_t index, const char **ret_variable);

/* What HIP_REMOTE_DEBUG or TF_DEBUG says. */
bool halo_remote_settings_is_verbose(void);

#endif
