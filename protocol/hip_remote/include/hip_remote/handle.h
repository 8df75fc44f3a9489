/* handle.h: what stands for a stream, an event, a module and so on in a session: a number, never an address.
 *
 * The client picks the index; each reuse of an index has the next generation, so that a handle of a destroyed object is
 * recognised. The null handle is the null stream where an operation takes a stream, and nothing elsewhere. Pure.
 */
#ifndef HALO_HIP_REMOTE_HANDLE_H
#define HALO_HIP_REMOTE_HANDLE_H

#include <stdint.h>

enum halo_remote_handle_type {
    HALO_REMOTE_NULL,
    HALO_REMOTE_STREAM,
    HALO_REMOTE_EVENT,
    HALO_REMOTE_MODULE,
    HALO_REMOTE_FUNCTION,
    HALO_REMOTE_GRAPH,
    HALO_REMOTE_GRAPH_EXEC,
    HALO_REMOTE_BLOB,
    HALO_REMOTE_N_HANDLE_TYPES,
};

#define HALO_REMOTE_GENERATION_MAX 0xffffffu

struct halo_remote_handle {
    enum halo_remote_handle_type type;
    uint32_t index;
    uint32_t generation; /* from 1 */
};

/* type << 56 | generation << 32 | index */
static inline uint64_t halo_remote_handle_pack(struct halo_remote_handle h)
{
    return (uint64_t)h.type << 56 | (uint64_t)(h.generation & HALO_REMOTE_GENERATION_MAX) << 32 | h.index;
}

/* Any bits: the type of a forged handle may be none of the enum. */
static inline struct halo_remote_handle halo_remote_handle_unpack(uint64_t bits)
{
    return (struct halo_remote_handle){.type = (enum halo_remote_handle_type)(bits >> 56),
                                       .index = (uint32_t)bits,
                                       .generation = (uint32_t)(bits >> 32) & HALO_REMOTE_GENERATION_MAX};
}

#endif
