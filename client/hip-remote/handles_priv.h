/* handles_priv.h: the client's side of handles: which index is free, and what the client knows of an object.
 *
 * HIP's opaque pointers are the handles themselves (hip_remote/handle.h), so a pointer that HIP did not give out, or of
 * a destroyed object, is recognised. One thread at a time.
 */
#ifndef HALO_HIP_REMOTE_HANDLES_PRIV_H
#define HALO_HIP_REMOTE_HANDLES_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <hip_remote/handle.h>

struct halo_remote_module;
struct halo_code_kernel;

/* How many blocks of a function fit into a multiprocessor, asked before the program does. */
struct halo_remote_fit {
    int block; /* 0: not asked */
    uint64_t lds_bytes;
    uint32_t serial; /* of the question; the answer to an earlier one is not taken */
    bool is_known;
    int error, n_blocks; /* the answer */
};

struct halo_remote_slot {
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0: the last one */
    bool is_live;
    union {
        struct {
            bool is_capturing;
            unsigned int flags;
            int priority, device;
        } stream;
        struct {
            bool has_no_time;                  /* hipEventDisableTiming */
            uint32_t recorded, asked, reached; /* numbers of its records */
            int error;                         /* of the last one that was reached */
        } event;
        struct halo_remote_module *module;
        struct {
            struct halo_remote_module *module;
            const struct halo_code_kernel *kernel;
            int error; /* of the worker's answer */
            struct halo_remote_fit fit;
        } function;
    } u;
};

struct halo_remote_handles {
    enum halo_remote_handle_type type;
    struct halo_remote_slot *slots;
    uint32_t n, n_used;  /* slots from n_used on were never live */
    uint32_t free;       /* index + 1 */
    uint32_t generation; /* in front of the first one of each slot */
};

/* Generations of a table: tables that begin so far apart have no handle in common. */
#define HALO_REMOTE_GENERATIONS ((HALO_REMOTE_GENERATION_MAX + 1) / 8)

int halo_remote_handles_init(struct halo_remote_handles *h, enum halo_remote_handle_type type, uint32_t n,
                             uint32_t generation);
void halo_remote_handles_finish(struct halo_remote_handles *h);

/* A live slot, zeroed; NULL: all are in use. */
struct halo_remote_slot *halo_remote_handles_take(struct halo_remote_handles *h, uint64_t *ret_bits);
/* NULL: not a live handle of this type. */
struct halo_remote_slot *halo_remote_handles_get(const struct halo_remote_handles *h, uint64_t bits);
/* The handle of a live slot. */
uint64_t halo_remote_handles_bits(const struct halo_remote_handles *h, const struct halo_remote_slot *slot);
void halo_remote_handles_drop(struct halo_remote_handles *h, struct halo_remote_slot *slot);

#endif
