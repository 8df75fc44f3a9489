/* peer_priv.h: the child of hip-worker: one connection from its first byte to its last. */
#ifndef HALO_WORKER_PEER_PRIV_H
#define HALO_WORKER_PEER_PRIV_H

#include "options_priv.h"

/* Gives up what the process does not need, then serves the connection. Does not return: the process ends with the
 * session, and with the process the driver frees everything. */
_Noreturn void halo_peer_run(const struct halo_worker_options *options);

#endif
