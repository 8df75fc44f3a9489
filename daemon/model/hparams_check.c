/* hparams_check.c: whether the hyper-parameters of a file fit each other. Pure; any thread.
 *
 * Fails with: LOAD_FAILED (contradictory), UNSUPPORTED (a model that the format allows and no plan computes).
 */
#include <inttypes.h>

#include "hparams_priv.h"

static int latent_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    if (h->mla_dim_k && (h->n_head_kv != 1 || h->head_dim_k != h->n_kv_lora + h->n_rot ||
                         h->head_dim_v != h->n_kv_lora || h->mla_dim_k <= h->n_rot || h->mla_dim_v == 0))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " heads of %" PRIu32 " and %" PRIu32
                              " in the cache are not one compressed row of %" PRIu32 " and %" PRIu32
                              " rotated elements",
                              arch, h->n_head_kv, h->head_dim_k, h->head_dim_v, h->n_kv_lora, h->n_rot);
    if (!h->mla_dim_k && (h->n_head_kv != h->n_head || h->head_dim_k <= h->n_rot))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " heads of K of %" PRIu32 " for %" PRIu32 " heads, %" PRIu32
                              " elements rotated",
                              arch, h->n_head_kv, h->head_dim_k, h->n_head, h->n_rot);
    return 0;
}

/* Heads of the state, and what a layer of it holds: those of all heads, and rows of the convolution. */
static int state_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    uint32_t heads = h->n_ssm_heads, groups = h->n_ssm_groups;
    uint64_t n_row = h->n_ssm_inner + 2ull * groups * h->n_ssm_state;

    if (heads % groups != 0 || h->n_ssm_inner % heads != 0 || h->n_ssm_inner / heads > HALO_MODEL_MAX_HEAD_DIM)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: an inner size of %" PRIu32 " in %" PRIu32 " heads over %" PRIu32 " groups", arch,
                              h->n_ssm_inner, heads, groups);
    if ((h->n_conv - 1) * n_row + (uint64_t)h->n_ssm_inner * h->n_ssm_state > HALO_MODEL_MAX_WIDTH)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: a state of %" PRIu32 " x %" PRIu32 " is wider than the %d that a layer may hold",
                              arch, h->n_ssm_inner, h->n_ssm_state, HALO_MODEL_MAX_WIDTH);
    return 0;
}

/* Which layers have attention, and its gates. */
static int interval_check(struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    if (h->attention_interval > h->n_layers)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.full_attention_interval is %" PRIu32 ": none of the %" PRIu32
                              " layers would have attention",
                              arch, h->attention_interval, h->n_layers);
    for (uint32_t layer = 0; layer < h->n_layers; layer++)
        if ((layer + 1) % h->attention_interval != 0)
            h->by_layer.n_head_kv[layer] = 0;
    if (h->head_dim_v != h->head_dim_k)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: a gate of heads of %" PRIu32 " does not fit values of %" PRIu32, arch, h->head_dim_k,
                              h->head_dim_v);
    return 0;
}

static int one_block_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    for (uint32_t layer = 0; layer < h->n_layers; layer++)
        if (h->by_layer.n_head_kv[layer] > 0 && h->by_layer.n_ff[layer] > 0)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s: layer %" PRIu32
                                  " has attention and a feed-forward, and only one of them is supported",
                                  arch, layer);
    return 0;
}

static int mixture_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    uint32_t n_groups = h->n_expert_groups, widest = h->n_ff_expert > h->n_embd ? h->n_ff_expert : h->n_embd;

    if (h->n_expert_used == 0 || h->n_expert_used > h->n_expert)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.expert_used_count is %" PRIu32 ", must be 1 to expert_count %" PRIu32, arch,
                              h->n_expert_used, h->n_expert);
    if (h->n_ff_expert == 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.expert_feed_forward_length is 0 or missing with %" PRIu32 " experts", arch,
                              h->n_expert);
    if ((uint64_t)h->n_expert_used * widest > HALO_MODEL_MAX_WIDTH)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " experts of %" PRIu32 " are wider than the %d that one row may hold",
                              arch, h->n_expert_used, h->n_ff_expert, HALO_MODEL_MAX_WIDTH);
    if (h->n_dense > h->n_layers)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.leading_dense_block_count is %" PRIu32 " of %" PRIu32 " layers", arch, h->n_dense,
                              h->n_layers);
    if (h->n_dense > 0 && h->n_ff == 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.feed_forward_length is 0 with %" PRIu32 " dense layers", arch, h->n_dense);
    if (n_groups > 1 &&
        (h->n_expert % n_groups || h->n_expert / n_groups < 2 || h->n_expert_groups_used == 0 ||
         h->n_expert_groups_used > n_groups || h->n_expert / n_groups * h->n_expert_groups_used < h->n_expert_used))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: %" PRIu32 " of %" PRIu32 " expert groups do not give %" PRIu32 " of %" PRIu32
                              " experts",
                              arch, h->n_expert_groups_used, n_groups, h->n_expert_used, h->n_expert);
    return 0;
}

int halo_hparams_relations_check(struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    if (h->n_head % h->n_head_kv)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.attention.head_count %" PRIu32 " is not a multiple of head_count_kv %" PRIu32, arch,
                              h->n_head, h->n_head_kv);
    if (h->n_rot % 2 || h->n_rot > h->head_dim_k)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.rope.dimension_count is %" PRIu32
                              ", must be even and at most the key length %" PRIu32,
                              arch, h->n_rot, h->head_dim_k);
    int r = h->n_kv_lora > 0            ? latent_check(h, arch, fault)
            : h->attention_interval > 0 ? interval_check(h, arch, fault)
            : h->one_block              ? one_block_check(h, arch, fault)
                                        : halo_hparams_layers_check(h, arch, fault);
    if (r == 0 && h->n_ssm_heads > 0)
        r = state_check(h, arch, fault);
    r = r == 0 && h->n_streams > 0 ? halo_hparams_blocks_check(h, arch, fault) : r;
    return r == 0 && h->n_expert ? mixture_check(h, arch, fault) : r;
}
