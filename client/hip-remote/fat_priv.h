/* fat_priv.h: what a program compiled by hipcc registers before its main: bundles of code objects, and the host's
 * addresses that stand for kernels and variables in them.
 *
 * Nothing is sent for a registration: a bundle is read and loaded for a device when one of its kernels or variables
 * is first used on it. Of several workers only the first has them. With the lock of client_priv.h.
 */
#ifndef HALO_HIP_REMOTE_FAT_PRIV_H
#define HALO_HIP_REMOTE_FAT_PRIV_H

#include <stddef.h>
#include <stdint.h>

/* The handle of the kernel behind a stub, on the thread's device. 98 (InvalidDeviceFunction): nobody registered it.
 * Allocates nothing once the kernel is known. */
int halo_fat_function(const void *stub, uint64_t *ret_function);
/* Where the variable lies on the thread's device. 13 (InvalidSymbol): nobody registered it. */
int halo_fat_variable(const void *host, uint64_t *ret_at, uint64_t *ret_bytes);
/* NULL: nobody registered it. */
const char *halo_fat_name(const void *host);

#endif
