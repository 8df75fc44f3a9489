/* connect_priv.h: the connection to the worker. It begins here alone: session.c calls halo_remote_connect() once for a
 * session and gives the channel to link.c, which alone sends and receives.
 */
#ifndef HALO_HIP_REMOTE_CONNECT_PRIV_H
#define HALO_HIP_REMOTE_CONNECT_PRIV_H

#include "secure_priv.h"
#include "settings_priv.h"

/* A channel on a connected socket that does not block and is closed on exec; encrypted, when there is a key and the
 * worker is not at a Unix socket. 0, or a negative errno with the reason; -ETIMEDOUT after connect_ms. */
int halo_remote_connect(const struct halo_remote_settings *settings, struct halo_remote_channel *ret,
                        char reason[static HALO_REMOTE_REASON_BYTES]);

#endif
