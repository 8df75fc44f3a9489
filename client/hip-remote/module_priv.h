/* module_priv.h: code objects on the worker, by handle, for those who load them: programs, and fat binaries. With the
 * lock of client_priv.h and a session. Returns HIP errors.
 */
#ifndef HALO_HIP_REMOTE_MODULE_PRIV_H
#define HALO_HIP_REMOTE_MODULE_PRIV_H

#include <stddef.h>
#include <stdint.h>

/* Loads the code object for the thread's device that is in these bytes: an ELF file or a bundle; what lies behind it is
 * not read. Tells on stderr why a bundle cannot be used. */
int halo_module_load(const void *at, size_t n, uint64_t *ret_module);
/* Its functions and globals end with it. */
int halo_module_unload(uint64_t module);
int halo_module_function(uint64_t module, const char *name, uint64_t *ret_function);
/* Where a global of it lies on the device; the place may be copied from and to until the module ends. */
int halo_module_global(uint64_t module, const char *name, uint64_t *ret_at, uint64_t *ret_bytes);

/* How many bytes may be read from here on: to the end of the segment of the program or library that holds it, or the
 * most that a code object may have, for memory that is not of a file. */
size_t halo_module_readable(const void *at);

#endif
