/* session_priv.h: the beginning and the end of a session, for thread.c. */
#ifndef HALO_HIP_REMOTE_SESSION_PRIV_H
#define HALO_HIP_REMOTE_SESSION_PRIV_H

#include <stdbool.h>

struct halo_client_session;

/* Connects and reads what the worker has. With the lock, which is released while answers are waited for: other threads
 * wait for `opened`. 0 or a negative errno, with the reason on stderr; the state says the same. */
int halo_client_begin(struct halo_client_session *session, bool is_one_of_several);
/* At exit. Other threads may be inside a call, and later destructors may call HIP: they get an error. */
void halo_client_end(struct halo_client_session *session);

#endif
