/* connect_priv.h: a connection to the worker. */
#ifndef HALO_HIP_REMOTE_CONNECT_PRIV_H
#define HALO_HIP_REMOTE_CONNECT_PRIV_H

#include "settings_priv.h"

/* A connected socket that does not block and is closed on exec, or a negative errno; -ETIMEDOUT after connect_ms. */
int halo_remote_connect(const struct halo_remote_settings *settings);

#endif
