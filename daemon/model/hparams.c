/* hparams.c: reads a family's hyper-parameters and checks them against ceilings and against each other.
 *
 * Pure: no state, any thread. A file is not trusted: after halo_hparams_read every product of two fields that a plan
 * forms fits into 32 bits, heads divide, and no key that would change the computation was passed over. Fails with:
 * LOAD_FAILED (absent, wrong type, out of bounds, contradictory), UNSUPPORTED (varies by layer, unknown mechanism).
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hparams_priv.h"
#include "rope_priv.h"

#define KEY_BYTES 128
#define NUMBER_BYTES 32

static void key_make(char key[KEY_BYTES], const char *arch, const char *suffix)
{
    int n = snprintf(key, KEY_BYTES, "%s.%s", arch, suffix);
    assert(n > 0 && n < KEY_BYTES);
}

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

/* An array of another length than the layers is a contradiction, not a variation. */
static int length_check(const struct halo_gguf_array *array, const char *key, uint32_t n_layers,
                        struct halo_fault *fault)
{
    if (array->n == n_layers)
        return 0;
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s has %" PRIu64 " entries for %" PRIu32 " layers", key,
                          array->n, n_layers);
}

/* The common entry of a per-layer array. With `zeros` an entry may be 0 as well: its bit is set there. */
static int layered_read(struct halo_gguf_array array, const char *key, uint32_t n_layers, uint64_t *zeros, double *ret,
                        struct halo_fault *fault)
{
    int64_t first = 0, entry = 0;
    uint32_t first_layer = 0;

    int r = length_check(&array, key, n_layers, fault);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n_layers; i++) {
        if (!halo_gguf_next_i64(&array, &entry))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold integers", key);
        if (zeros && entry == 0) {
            zeros[i / 64] |= 1ull << i % 64;
        } else if (i == 0 || (zeros && first == 0)) {
            first = entry;
            first_layer = i;
        } else if (entry != first) {
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s varies by layer (layer %" PRIu32 ": %" PRId64 ", layer %" PRIu32 ": %" PRId64
                                  "), which is not supported",
                                  key, first_layer, first, i, entry);
        }
    }
    *ret = (double)first;
    return 0;
}

/* A per-layer array of at most two values: the first one in *ret, and the layers that have the other. */
static int two_read(struct halo_gguf_array array, const char *key, uint32_t n_layers, uint64_t *bits,
                    uint32_t *ret_other, double *ret, struct halo_fault *fault)
{
    int64_t values[2] = {0, 0}, entry = 0;
    uint32_t n_values = 0;

    int r = length_check(&array, key, n_layers, fault);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n_layers; i++) {
        if (!halo_gguf_next_i64(&array, &entry))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold integers", key);
        if (n_values < 2 && (n_values == 0 || entry != values[0]))
            values[n_values++] = entry;
        if (entry == values[0])
            continue;
        if (entry != values[1])
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s takes more than two values over the layers (%" PRId64 ", %" PRId64 ", %" PRId64
                                  "), which is not supported",
                                  key, values[0], values[1], entry);
        bits[i / 64] |= 1ull << i % 64;
    }
    if (values[1] < 0 || values[1] > UINT32_MAX)
        values[1] = 0; /* out of bounds, as 0 is */
    *ret_other = (uint32_t)values[1];
    *ret = (double)values[0];
    return 0;
}

static int bits_read(const struct halo_gguf *gguf, const char *key, uint32_t n_layers, uint64_t *bits,
                     struct halo_fault *fault)
{
    struct halo_gguf_array array;
    int64_t entry = 0;
    int r = halo_gguf_get_array(gguf, key, &array, fault);

    if (r != 0)
        return r;
    if ((r = length_check(&array, key, n_layers, fault)) < 0)
        return r;
    for (uint32_t i = 0; i < n_layers; i++) {
        if (!halo_gguf_next_i64(&array, &entry) || entry < 0 || entry > 1)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold truth values", key);
        if (entry == 1)
            bits[i / 64] |= 1ull << i % 64;
    }
    return 0;
}

/* 0 with the value as the file gives it, HALO_GGUF_ABSENT, or negative. */
static int value_read(const struct halo_gguf *gguf, const struct halo_hparam *row, const char *key,
                      struct halo_hparams *hparams, double *ret, struct halo_fault *fault)
{
    uint64_t *bits = (uint64_t *)(void *)((char *)hparams + row->bits);
    uint64_t *zeros = row->kind == HALO_HPARAM_SOME ? bits : NULL;
    struct halo_gguf_array array;
    uint64_t count = 0;
    int r;

    bool each = row->kind == HALO_HPARAM_EACH || row->kind == HALO_HPARAM_EACH_REAL;
    if (each && halo_gguf_get_array(gguf, key, &array, NULL) == 0)
        return 0;
    if (row->kind == HALO_HPARAM_REAL || row->kind == HALO_HPARAM_EACH_REAL)
        return halo_gguf_get_f64(gguf, key, ret, fault);
    if (row->kind == HALO_HPARAM_BITS)
        return bits_read(gguf, key, hparams->n_layers, bits, fault);
    if (row->kind == HALO_HPARAM_TWO && halo_gguf_get_array(gguf, key, &array, NULL) == 0)
        return two_read(array, key, hparams->n_layers, bits, (uint32_t *)(void *)((char *)hparams + row->other), ret,
                        fault);
    if (row->kind == HALO_HPARAM_FLAG) {
        bool flag = false;
        r = halo_gguf_get_bool(gguf, key, &flag, fault);
        *ret = flag;
        return r;
    }
    if ((row->kind == HALO_HPARAM_LAYERED || zeros) && halo_gguf_get_array(gguf, key, &array, NULL) == 0)
        return layered_read(array, key, hparams->n_layers, zeros, ret, fault);
    r = halo_gguf_get_u64(gguf, key, &count, fault);
    *ret = (double)count; /* exact below 2^53, and every ceiling is far below that */
    return r;
}

/* The gate of a number in the file. 3 is softmax over the chosen experts, which renormalised softmax is. */
static int gate_read(const struct halo_hparam *row, const char *key, double *value, struct halo_hparams *hparams,
                     struct halo_fault *fault)
{
    if (*value == 3)
        hparams->expert_normalise = 1;
    if (*value == 0)
        *value = row->value;
    else if (*value == 1 || *value == 3)
        *value = HALO_MOE_SOFTMAX;
    else if (*value == 2)
        *value = HALO_MOE_SIGMOID;
    else if (*value == 4)
        *value = HALO_MOE_SQRT_SOFTPLUS;
    else
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s is %.9g, which is no known gating function", key,
                              *value);
    return 0;
}

/* A whole number in full, whatever its size; another to nine digits. */
static const char *number_text(double value, char buf[static NUMBER_BYTES])
{
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    snprintf(buf, NUMBER_BYTES, is_whole ? "%.0f" : "%.9g", value);
    return buf;
}

/* The second of two values, where any layer has it. */
static int other_check(const struct halo_hparam *row, const char *key, const struct halo_hparams *hparams,
                       struct halo_fault *fault)
{
    const uint64_t *bits = (const uint64_t *)(const void *)((const char *)hparams + row->bits);
    uint32_t other = *(const uint32_t *)(const void *)((const char *)hparams + row->other);
    for (uint32_t i = 0; i < hparams->n_layers; i++)
        if (halo_hparams_bit(bits, i) && !(other >= row->min && other <= row->max))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                  "%s is %" PRIu32 " in layer %" PRIu32 ", allowed are %.0f to %.0f", key, other, i,
                                  row->min, row->max);
    return 0;
}

/* A number for each layer: the entries of an array, or `common`, where there is none. */
static int each_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const struct halo_hparam *row,
                     const char *key, double common, struct halo_fault *fault)
{
    char is[NUMBER_BYTES], min[NUMBER_BYTES], max[NUMBER_BYTES];
    void *field = (char *)hparams + row->field;
    struct halo_gguf_array array;
    bool is_array = halo_gguf_get_array(gguf, key, &array, NULL) == 0;
    bool is_real = row->kind == HALO_HPARAM_EACH_REAL;

    int r = is_array ? length_check(&array, key, hparams->n_layers, fault) : 0;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < hparams->n_layers; i++) {
        double value = common;
        int64_t whole = 0;
        bool ok = !is_array || (is_real ? halo_gguf_next_f64(&array, &value) : halo_gguf_next_i64(&array, &whole));
        if (!ok)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold %s", key,
                                  is_real ? "numbers" : "integers");
        value = is_array && !is_real ? (double)whole : value;
        if (!(value >= row->min && value <= row->max))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s of layer %" PRIu32 " is %s, allowed are %s to %s",
                                  key, i, number_text(value, is), number_text(row->min, min),
                                  number_text(row->max, max));
        if (is_real)
            ((float *)field)[i] = (float)value;
        else
            ((uint32_t *)field)[i] = (uint32_t)value;
    }
    return 0;
}

static int row_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                    const struct halo_hparam *row, struct halo_fault *fault)
{
    char key[KEY_BYTES], is[NUMBER_BYTES], min[NUMBER_BYTES], max[NUMBER_BYTES];
    double value = 0;
    bool absent;
    int r;

    key_make(key, arch, row->suffix ? row->suffix : "");
    r = row->suffix ? value_read(gguf, row, key, hparams, &value, fault) : HALO_GGUF_ABSENT;
    if (r < 0)
        return r;
    absent = r == HALO_GGUF_ABSENT;
    if (!absent && row->kind == HALO_HPARAM_GATE && (r = gate_read(row, key, &value, hparams, fault)) < 0)
        return r;
    if (absent && row->required)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is missing", key);
    if (absent)
        value = row->derive ? row->derive(hparams) : row->value;
    if (row->kind == HALO_HPARAM_EACH || row->kind == HALO_HPARAM_EACH_REAL)
        return each_read(hparams, gguf, row, key, value, fault);
    if (!(value >= row->min && value <= row->max)) /* written so that NaN fails */
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is %s%s, allowed are %s to %s", key,
                              number_text(value, is), absent ? " by default" : "", number_text(row->min, min),
                              number_text(row->max, max));
    if (row->kind == HALO_HPARAM_TWO && (r = other_check(row, key, hparams, fault)) < 0)
        return r;
    if (row->kind == HALO_HPARAM_REAL)
        *(float *)((char *)hparams + row->field) = (float)value;
    else if (row->kind != HALO_HPARAM_BITS)
        *(uint32_t *)((char *)hparams + row->field) = (uint32_t)value;
    return 0;
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
    char key[KEY_BYTES];
    int r;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if ((r = row_read(hparams, gguf, arch, &numbers[i], fault)) < 0)
            return r;
    key_make(key, arch, factor.suffix);
    if (halo_gguf_has(gguf, key) && (r = row_read(hparams, gguf, arch, &factor, fault)) < 0)
        return r;
    if (hparams->rope_factor == 0) /* the format's "not scaled" */
        hparams->rope_factor = 1;
    if (hparams->rope_original_context == 0)
        hparams->rope_original_context = hparams->n_context_train;

    key_make(key, arch, "rope.scaling.type");
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

    if ((r = row_read(hparams, gguf, arch, &row, fault)) < 0)
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
    char key[KEY_BYTES], is[NUMBER_BYTES];
    double value = 0;
    bool causal = true;
    int r;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (table_has(table, n_table, rows[i].suffix))
            continue;
        key_make(key, arch, rows[i].suffix);
        if ((r = halo_gguf_get_f64(gguf, key, &value, fault)) < 0)
            return r;
        if (r == 0 && value != rows[i].neutral[0] && value != rows[i].neutral[1])
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s is %s, which is not supported for %s", key,
                                  number_text(value, is), arch);
    }
    key_make(key, arch, "attention.causal");
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
    char key[KEY_BYTES];
    uint64_t window = 0;
    int r;

    key_make(key, arch, "attention.sliding_window");
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
            h->without_attention[layer / 64] |= 1ull << layer % 64;
    if (h->head_dim_v != h->head_dim_k)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%s: a gate of heads of %" PRIu32 " does not fit values of %" PRIu32, arch, h->head_dim_k,
                              h->head_dim_v);
    return 0;
}

static int one_block_check(const struct halo_hparams *h, const char *arch, struct halo_fault *fault)
{
    for (uint32_t layer = 0; layer < h->n_layers; layer++)
        if (!((h->without_attention[layer / 64] | h->without_ff[layer / 64]) >> layer % 64 & 1))
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

static int relations_check(struct halo_hparams *h, const char *arch, struct halo_fault *fault)
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

int halo_hparams_read(struct halo_hparams *ret, const struct halo_gguf *gguf, const char *arch,
                      const struct halo_hparam *table, size_t n_table, uint32_t context, struct halo_fault *fault)
{
    int r;

    assert(ret && gguf && arch && n_table > 0);
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < n_table; i++)
        if ((r = row_read(ret, gguf, arch, &table[i], fault)) < 0)
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
    if ((r = relations_check(ret, arch, fault)) < 0)
        return r;
    if ((r = mechanisms_check(gguf, arch, table, n_table, fault)) < 0)
        return r;
    return table_has(table, n_table, "attention.sliding_window") ? 0 : window_check(ret, gguf, arch, context, fault);
}
