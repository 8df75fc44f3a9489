/* connect_priv.h: the connection to the worker. It begins here alone: client.c calls halo_remote_connect() once for a
 * session and gives the socket to link.c, whose send() and recv() (send_all, read_some) are the only ones.
 */
#ifndef HALO_HIP_REMOTE_CONNECT_PRIV_H
#define HALO_HIP_REMOTE_CONNECT_PRIV_H

#include "settings_priv.h"

/* A connected socket that does not block and is closed on exec, or a negative errno; -ETIMEDOUT after connect_ms. */
int halo_remote_connect(const struct halo_remote_settings *settings);

#endif
