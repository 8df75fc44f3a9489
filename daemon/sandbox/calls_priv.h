/* calls_priv.h: the filter of system calls. */
#ifndef HALO_SANDBOX_CALLS_PRIV_H
#define HALO_SANDBOX_CALLS_PRIV_H

/* Refuses the system calls that none of the sandboxed programs needs, in all threads. 0 or negative errno. */
int halo_sandbox_filter_calls(void);

#endif
