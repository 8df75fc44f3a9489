/* bind_priv.h: finds the tensors of a family in a file and checks their shapes. */
#ifndef HALO_MODEL_BIND_PRIV_H
#define HALO_MODEL_BIND_PRIV_H

#include <base/arena.h>

#include "arch_priv.h"

struct halo_binding {
    const struct halo_gguf *gguf;
    const struct halo_hparams *hparams;
    const struct halo_tensor_spec **specs; /* [HALO_TENSOR_COUNT], NULL for a tensor that the family has not */
    const struct halo_gguf_tensor **found; /* [HALO_TENSOR_COUNT][n_layers]; one outside the layers is at layer 0 */
    uint32_t n_layers;
    uint32_t n_found; /* tensors by role: those of a fused tensor each, not the fused one */
};

/* A tensor as the plan sees it: one of the file, or rows of one. */
struct halo_bound {
    const struct halo_gguf_tensor *tensor;
    uint64_t dims[3];
    uint64_t offset, n_bytes;
    uint64_t expert_step; /* struct halo_weight */
    const char *suffix;   /* of the tensor's name; empty when it is all of it */
};

/* Fills *ret in the arena. Every missing or misshapen tensor is counted, as many as fit are told in the one fault:
 * LOAD_FAILED. A tensor that the family does not know is UNSUPPORTED: it would have changed the result, and passing it
 * over would be silent. Those known to carry nothing are passed over. OUT_OF_MEMORY when the arena is full. */
int halo_binding_make(struct halo_binding *ret, struct halo_arena *arena, const struct halo_gguf *gguf,
                      const struct halo_arch *arch, const struct halo_hparams *hparams, struct halo_fault *fault);

/* The tensor of this role in this layer; false when the file has it neither alone nor in a fused tensor. */
bool halo_binding_get(const struct halo_binding *binding, enum halo_tensor_id id, uint32_t layer,
                      struct halo_bound *ret);

/* The tensor of that name, or NULL when the file has it not (or the family, or the layer). */
const struct halo_gguf_tensor *halo_binding_find(const struct halo_binding *binding, enum halo_tensor_id id,
                                                 uint32_t layer);

/* The factors of a bound matrix's product: "blk.0.ffn_up.scale" beside "blk.0.ffn_up.weight", F32, one or one for each
 * expert. NULL when the file has none, or the family uses the name for something of its own. */
const struct halo_gguf_tensor *halo_binding_scale(const struct halo_binding *binding,
                                                  const struct halo_gguf_tensor *tensor);

/* Reads the n elements of a bound F32 vector from its file. */
int halo_binding_read(const struct halo_binding *binding, const struct halo_gguf_tensor *tensor, float *ret, uint32_t n,
                      struct halo_fault *fault);

/* The same for a table of indices. */
int halo_binding_read_table(const struct halo_binding *binding, const struct halo_gguf_tensor *tensor, int32_t *ret,
                            size_t n, struct halo_fault *fault);

#endif
