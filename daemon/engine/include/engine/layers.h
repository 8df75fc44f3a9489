/* layers.h: what the layers of a dense model take of a device when they stream, and which of them do.
 *
 * `plan` and `load` ask the same placement (model/placement.h) with these numbers, so that both say the same. By
 * whoever has the model: the device thread.
 */
#ifndef HALO_ENGINE_LAYERS_H
#define HALO_ENGINE_LAYERS_H

#include <kernels/device.h>
#include <model/placement.h>

/* All zero: the device or the model cannot stream layers. */
struct halo_layer_needs {
    uint32_t n_layers;      /* that can stream; model/streamed.h */
    uint32_t max_rows;      /* of a step: every step reads all streamed layers, however few rows it has */
    uint64_t scratch_bytes; /* with so many rows, the engine's own included */
    uint64_t padding_bytes; /* that the device adds to all weights together while they are resident */
    uint64_t kv_bytes;      /* of a pool of n_pages */
    struct halo_placement_matrices matrices[HALO_MODEL_MAX_LAYERS];
};

/* For a model that may take free_bytes, with n_pages of the first group of its KV cache. Leaves every weight of the
 * model resident. */
void halo_layer_needs_of(const struct halo_device_ops *ops, const struct halo_device *device, struct halo_model *model,
                         uint64_t free_bytes, uint32_t n_pages, struct halo_layer_needs *ret);

/* Marks the layers that must stream in free_bytes and sets the rows of a step. Returns their number; 0: the model fits,
 * or cannot stream. When not even two buffers fit, all layers are marked. */
uint32_t halo_layers_stream(const struct halo_device_ops *ops, const struct halo_device *device,
                            struct halo_model *model, uint64_t free_bytes, uint32_t n_pages);

#endif
