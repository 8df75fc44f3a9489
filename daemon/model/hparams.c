/* hparams.c: reads a family's hyper-parameters by its table, and the keys that all families have.
 *
 * Pure: no state, any thread. A file is not trusted: after halo_hparams_read every product of two fields that a plan
 * forms fits into 32 bits, heads divide, and no key that would change the computation was passed over. Fails with:
 * LOAD_FAILED (absent, wrong type, out of bounds, contradictory), UNSUPPORTED (varies by layer, unknown mechanism).
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "hparams_priv.h"
#include "rope_priv.h"

double halo_hparams_head_count(const struct halo_hparams *hparams)
{
    return hparams->n_head;
}

double halo_hparams_head_share(const struct halo_hparams *hparams)
{
    return hparams->n_embd % hparams->n_head ? 0 : hparams->n_embd / hparams->n_head;
}

double halo_hparams_key_length(const struct halo_hparams *hparams)
{
    return hparams->head_dim_k;
}

double halo_hparams_key_length_local(const struct halo_hparams *hparams)
{
    return hparams->head_dim_k_local;
}

double halo_hparams_ff_length(const struct halo_hparams *hparams)
{
    return hparams->n_expert ? hparams->n_ff : 0;
}

double halo_hparams_ff_share(const struct halo_hparams *hparams)
{
    return hparams->n_expert_used == 0 || hparams->n_ff % hparams->n_expert_used
               ? 0
               : hparams->n_ff / hparams->n_expert_used;
}

double halo_hparams_ff_shared(const struct halo_hparams *hparams)
{
    return (double)hparams->n_ff_expert * hparams->n_expert_shared;
}

/* The type of the rotary scaling, and its numbers. Absent type with a factor means linear, as the format has it. */
static int scaling_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                        struct halo_fault *fault)
{
    static const struct halo_hparam numbers[] = {
        HALO_HPARAM_OR(REAL, "rope.scale_linear", rope_factor, 0, 0, 1e6), /* the old spelling, overruled by the next */
        HALO_HPARAM_OR(REAL, "rope.scaling.attn_factor", rope_attn_factor, 1, 1e-3, 1e3),
        HALO_HPARAM_OR(COUNT, "rope.scaling.original_context_length", rope_original_context, 0, 0,
                       HALO_MODEL_MAX_CONTEXT),
        HALO_HPARAM_OR(REAL, "rope.scaling.yarn_ext_factor", rope_yarn_ext_factor, 1, 0, 1),
        HALO_HPARAM_OR(REAL, "rope.scaling.yarn_attn_factor", rope_yarn_attn_factor, 1, 1e-3, 1e3),
        HALO_HPARAM_OR(REAL, "rope.scaling.yarn_beta_fast", rope_yarn_beta_fast, HALO_YARN_BETA_FAST, 1e-3, 1e6),
        HALO_HPARAM_OR(REAL, "rope.scaling.yarn_beta_slow", rope_yarn_beta_slow, HALO_YARN_BETA_SLOW, 1e-3, 1e6),
    };
    static const struct halo_hparam factor = HALO_HPARAM_OR(REAL, "rope.scaling.factor", rope_factor, 0, 0, 1e6);
    struct halo_span type = {"linear", 6};
    char key[HALO_HPARAM_KEY_BYTES];
    int r;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if ((r = halo_hparams_row_read(hparams, gguf, arch, &numbers[i], fault)) < 0)
            return r;
    halo_hparams_key(key, arch, factor.suffix);
    if (halo_gguf_has(gguf, key) && (r = halo_hparams_row_read(hparams, gguf, arch, &factor, fault)) < 0)
        return r;
    if (hparams->rope_factor == 0) /* the format's "not scaled" */
        hparams->rope_factor = 1;
    if (hparams->rope_original_context == 0)
        hparams->rope_original_context = hparams->n_context_train;

    halo_hparams_key(key, arch, "rope.scaling.type");
    if ((r = halo_gguf_get_string(gguf, key, &type, fault)) < 0)
        return r;
    if (type.n == 4 && memcmp(type.bytes, "none", 4) == 0)
        hparams->rope_scaling = HALO_ROPE_SCALING_NONE;
    else if (type.n == 6 && memcmp(type.bytes, "linear", 6) == 0)
        hparams->rope_scaling = hparams->rope_factor == 1 ? HALO_ROPE_SCALING_NONE : HALO_ROPE_SCALING_LINEAR;
    else if (type.n == 4 && memcmp(type.bytes, "yarn", 4) == 0)
        hparams->rope_scaling = HALO_ROPE_SCALING_YARN;
    else if (type.n == 8 && memcmp(type.bytes, "longrope", 8) == 0)
        hparams->rope_scaling = HALO_ROPE_SCALING_LONGROPE;
    else
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s is not one of none, linear, yarn, longrope, which are what %s supports", key, arch);
    return 0;
}

/* The rows of the embedding, unless the file says another number; then the binder reports the mismatch as a shape. */
static int vocab_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                      struct halo_fault *fault)
{
    static const struct halo_hparam row = HALO_HPARAM_OR(COUNT, "vocab_size", n_vocab, 0, 0, HALO_MODEL_MAX_VOCAB);
    const struct halo_gguf_tensor *embd = halo_gguf_find_tensor(gguf, "token_embd.weight");
    int r;

    if ((r = halo_hparams_row_read(hparams, gguf, arch, &row, fault)) < 0)
        return r;
    if (!embd)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "tensor token_embd.weight is missing");
    if (hparams->n_vocab == 0 && embd->dims[1] <= HALO_MODEL_MAX_VOCAB)
        hparams->n_vocab = (uint32_t)embd->dims[1];
    if (hparams->n_vocab == 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "token_embd.weight has %" PRIu64 " rows, allowed are 1 to %d", embd->dims[1],
                              HALO_MODEL_MAX_VOCAB);
    return 0;
}

static bool table_has(const struct halo_hparam *table, size_t n_table, const char *suffix)
{
    for (size_t i = 0; i < n_table; i++)
        if (table[i].suffix && strcmp(table[i].suffix, suffix) == 0)
            return true;
    return false;
}

/* Keys that change what a layer computes: a family that does not read one in its table accepts only the value that
 * leaves the computation as it is. */
static int mechanisms_check(const struct halo_gguf *gguf, const char *arch, const struct halo_hparam *table,
                            size_t n_table, struct halo_fault *fault)
{
    static const struct {
        const char *suffix;
        double neutral[2];
    } rows[] = {
        {"attention.scale", {0, 0}},
        {"attention.clamp_kqv", {0, 0}},
        {"attention.max_alibi_bias", {0, 0}},
        {"attn_logit_softcapping", {0, 0}},
        {"final_logit_softcapping", {0, 0}},
        {"logit_scale", {0, 1}},
        {"embedding_scale", {0, 1}},
        {"residual_scale", {0, 1}},
        {"expert_shared_count", {0, 0}},
        {"expert_weights_scale", {0, 1}},
        {"expert_gating_func", {0, 1}},
        {"expert_group_count", {0, 1}},
        {"leading_dense_block_count", {0, 0}},
        {"nextn_predict_layers", {0, 0}},
        {"interleave_moe_layer_step", {0, 1}},
        {"attention.temperature_length", {0, 0}},
        {"attention.temperature_scale", {0, 0}},
        {"rope.scaling.alpha", {0, 1}},
        {"rope.scaling.yarn_log_multiplier", {0, 0}},
    };
    char key[HALO_HPARAM_KEY_BYTES], is[HALO_HPARAM_TEXT_BYTES];
    double value = 0;
    bool causal = true;
    int r;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (table_has(table, n_table, rows[i].suffix))
            continue;
        halo_hparams_key(key, arch, rows[i].suffix);
        if ((r = halo_gguf_get_f64(gguf, key, &value, fault)) < 0)
            return r;
        if (r == 0 && value != rows[i].neutral[0] && value != rows[i].neutral[1])
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s is %s, which is not supported for %s", key,
                                  halo_hparams_text(value, is), arch);
    }
    halo_hparams_key(key, arch, "attention.causal");
    if ((r = halo_gguf_get_bool(gguf, key, &causal, fault)) < 0)
        return r;
    if (!causal)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s is false: a model that reads both ways cannot generate", key);
    return 0;
}

/* A family that knows no attention window takes one that no position reaches: it does nothing. */
static int window_check(const struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                        uint32_t context, struct halo_fault *fault)
{
    char key[HALO_HPARAM_KEY_BYTES];
    uint64_t window = 0;
    int r;

    halo_hparams_key(key, arch, "attention.sliding_window");
    if ((r = halo_gguf_get_u64(gguf, key, &window, fault)) < 0)
        return r;
    if (context == 0)
        context = hparams->n_context_train;
    if (r == 0 && window != 0 && window < context)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "%s is %" PRIu64
                              ", which is not supported for %s beyond that many positions: load with a context of at "
                              "most %" PRIu64 " (asked for: %" PRIu32 ")",
                              key, window, arch, window, context);
    return 0;
}

int halo_hparams_read(struct halo_hparams *ret, const struct halo_gguf *gguf, const char *arch,
                      const struct halo_hparam *table, size_t n_table, uint32_t context, struct halo_fault *fault)
{
    int r;

    assert(ret && gguf && arch && n_table > 0);
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < n_table; i++)
        if ((r = halo_hparams_row_read(ret, gguf, arch, &table[i], fault)) < 0)
            return r;
    if (ret->n_nextn >= ret->n_layers)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s.nextn_predict_layers is %" PRIu32 " of %" PRIu32 " layers", arch, ret->n_nextn,
                              ret->n_layers);
    ret->n_layers -= ret->n_nextn;
    if (ret->expert_scale == 0) /* the format's "not scaled" */
        ret->expert_scale = 1;
    if ((r = scaling_read(ret, gguf, arch, fault)) < 0)
        return r;
    if ((r = vocab_read(ret, gguf, arch, fault)) < 0)
        return r;
    if ((r = halo_hparams_relations_check(ret, arch, fault)) < 0)
        return r;
    if ((r = mechanisms_check(gguf, arch, table, n_table, fault)) < 0)
        return r;
    return table_has(table, n_table, "attention.sliding_window") ? 0 : window_check(ret, gguf, arch, context, fault);
}
