/* pool_priv.h: the memory of one decoded message: many small pieces, freed together.
 *
 * A pool is a pointer, NULL when empty, that sits in the message. Pieces are aligned for any type and not zeroed.
 * Fails with: NULL, when malloc does.
 */
#ifndef HALO_PROTOCOL_POOL_PRIV_H
#define HALO_PROTOCOL_POOL_PRIV_H

#include <stddef.h>

void *halo_pool_alloc(void **pool, size_t n_bytes);
void halo_pool_free(void **pool);

#endif
