/* layers.h: where a device begins to differ: the logits after each layer beside those of an oracle.
 *
 * The plan is the program: cut after layer k and ended with the model's own norm and head it is a smaller model, whose
 * logits any device gives. No device needs a tap for that.
 */
#ifndef HALO_GATES_LAYERS_H
#define HALO_GATES_LAYERS_H

#include "golden_host.h"

struct halo_layer {
    uint32_t n;         /* positions compared */
    uint32_t n_broken;  /* of them, with a logit that is not finite on the device under test */
    double mean, worst; /* cosine; over the positions that are finite on both sides. NaN: none */
    uint32_t worst_pos;
};

struct halo_layers {
    struct halo_layer *at; /* [n] layer 0 first, each with all before it */
    uint32_t n;
    uint32_t first; /* the first that differs; n: none does */
};

/* Feeds the ids as one prompt. A layer differs when a logit is not finite or the worst cosine is under `least`. */
int halo_layers_compare(struct halo_layers *ret, const char *path, const struct halo_golden_settings *settings,
                        const struct halo_golden_settings *oracle, const int32_t *tokens, uint32_t n_tokens,
                        double least, struct halo_fault *fault);
void halo_layers_finish(struct halo_layers *layers);

#endif
