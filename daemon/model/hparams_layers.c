/* hparams_layers.c: hyper-parameters that differ between the layers of a model, and their checks. Pure; any thread. */
#include <inttypes.h>

#include "hparams_priv.h"

bool halo_hparams_has_kv(const struct halo_hparams *h, uint32_t layer)
{
    return layer < h->n_layers - h->n_kv_shared;
}

void halo_hparams_of_layer(const struct halo_hparams *h, uint32_t layer, struct halo_hparams *ret)
{
    *ret = *h;
    /* A layer that has none keeps the others' number: nothing of it is read. */
    if (h->by_layer.n_head_kv[layer] > 0)
        ret->n_head_kv = h->by_layer.n_head_kv[layer];
    if (h->by_layer.n_ff[layer] > 0)
        ret->n_ff = h->by_layer.n_ff[layer];
    if (!h->by_layer.local[layer])
        return;
    ret->head_dim_k = h->head_dim_k_local;
    ret->head_dim_v = h->head_dim_v_local;
    ret->n_rot = h->n_rot_local;
}

/* Layers that share the K and V of others follow on one with a window and one without. */
static int shared_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    uint32_t n_own = h->n_layers - h->n_kv_shared;
    if (h->n_kv_shared == 0)
        return 0;
    if (h->n_kv_shared + 2 > h->n_layers || !h->by_layer.local[n_own - 2] || h->by_layer.local[n_own - 1])
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.attention.shared_kv_layers is %" PRIu32 " of %" PRIu32
                              " layers: the last two before them must be one with a window and one without",
                              arch, h->n_kv_shared, h->n_layers);
    return 0;
}

/* A layer against the first one of its kind: with a window or without. */
static int layer_check(const struct halo_hparams *layer, const struct halo_hparams *first, uint32_t index,
                       const char *arch, struct halo_fault *fault)
{
    if (layer->n_head_kv != first->n_head_kv)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s.attention.head_count_kv is %" PRIu32 " in layer %" PRIu32 " and %" PRIu32
                              " in another layer of its kind, which is not supported",
                              arch, layer->n_head_kv, index, first->n_head_kv);
    if (layer->n_head % layer->n_head_kv)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.attention.head_count %" PRIu32 " is not a multiple of head_count_kv %" PRIu32
                              " of layer %" PRIu32,
                              arch, layer->n_head, layer->n_head_kv, index);
    if (layer->head_dim_k != layer->head_dim_v)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s: heads of K of %" PRIu32 " and of V of %" PRIu32 " in layer %" PRIu32
                              " are not supported",
                              arch, layer->head_dim_k, layer->head_dim_v, index);
    if (layer->n_rot % 2 || layer->n_rot > layer->head_dim_k)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " rotated elements of %" PRIu32 " in layer %" PRIu32
                              ", must be even and at most the key length",
                              arch, layer->n_rot, layer->head_dim_k, index);
    return 0;
}

int halo_hparams_layers_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    struct halo_hparams layer, first[2]; /* without the window, with it */
    bool seen[2] = {false, false}, kinds[2] = {false, false};
    int r;

    if (h->head_dim_k_local == 0) /* a family whose layers are alike */
        return 0;
    for (uint32_t i = 0; i < h->n_layers; i++)
        kinds[h->by_layer.local[i]] = true;
    if (!kinds[0] || !kinds[1])
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s.attention.sliding_window_pattern: %s layer has a window, which is not supported",
                              arch, kinds[0] ? "no" : "every");
    for (uint32_t i = 0; i < h->n_layers; i++) {
        bool local = h->by_layer.local[i];
        halo_hparams_of_layer(h, i, &layer);
        if (!seen[local])
            first[local] = layer;
        seen[local] = true;
        if ((r = layer_check(&layer, &first[local], i, arch, fault)) < 0)
            return r;
    }
    if ((uint64_t)h->n_layers * h->n_embd_layer > HALO_MODEL_MAX_WIDTH)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: inputs of %" PRIu32 " for each of %" PRIu32
                              " layers are wider than the %d that one row may hold",
                              arch, h->n_embd_layer, h->n_layers, HALO_MODEL_MAX_WIDTH);
    return shared_check(h, arch, fault);
}
