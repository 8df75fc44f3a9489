/* hparams_blocks.c: whether the hyper-parameters of a model with residual streams and compressed blocks fit each other.
 * Pure; any thread. */
#include <inttypes.h>

#include "hparams_priv.h"

static int ratios_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    bool indexed = false;

    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        uint32_t ratio = h->by_layer.compress_ratio[layer];
        if (ratio != 0 && ratio != HALO_COMPRESS_SHORT && ratio != HALO_COMPRESS_LONG)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s.attention.compress_ratios of layer %" PRIu32 " is %" PRIu32
                                  ", which is not supported (0, %d and %d are)",
                                  arch, layer, ratio, HALO_COMPRESS_SHORT, HALO_COMPRESS_LONG);
        indexed = indexed || ratio == HALO_COMPRESS_SHORT;
    }
    if (indexed && (h->indexer_heads == 0 || h->indexer_top_k == 0 || h->indexer_dim <= h->n_rot))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.attention.indexer: head_count is %" PRIu32 ", key_length %" PRIu32
                              " and top_k %" PRIu32 "; none may be 0, and the key must be longer than the %" PRIu32
                              " rotated elements",
                              arch, h->indexer_heads, h->indexer_dim, h->indexer_top_k, h->n_rot);
    return 0;
}

int halo_hparams_blocks_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    if ((h->n_streams & (h->n_streams - 1)) != 0)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s.hyper_connection.count is %" PRIu32 ", which is not supported (2, 4 and 8 are)", arch,
                              h->n_streams);
    if (h->n_head_kv != 1 || h->head_dim_v != h->head_dim_k || h->n_rot >= h->head_dim_k)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " KV heads with keys of %" PRIu32 " and values of %" PRIu32 ", %" PRIu32
                              " elements rotated; wanted one head, keys as long as values, and fewer elements rotated",
                              arch, h->n_head_kv, h->head_dim_k, h->head_dim_v, h->n_rot);
    if (h->n_head % h->n_out_groups)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.attention.output_group_count is %" PRIu32 ", which does not divide %" PRIu32 " heads",
                              arch, h->n_out_groups, h->n_head);
    if ((uint64_t)h->n_out_groups * h->n_out_lora > HALO_MODEL_MAX_WIDTH)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " groups of %" PRIu32 " are wider than the %d that one row may hold", arch,
                              h->n_out_groups, h->n_out_lora, HALO_MODEL_MAX_WIDTH);
    return ratios_check(h, arch, fault);
}
