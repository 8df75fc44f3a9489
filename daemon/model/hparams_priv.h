/* hparams_priv.h: how a family lists its hyper-parameters, and the reader of such a list.
 *
 * A family's table names each key after the architecture's prefix, the field it fills, its bounds, and what holds when
 * the key is absent. Rows are read in order, so a default may use the fields above it. Key names: gguf.md
 * of ggml.
 */
#ifndef HALO_MODEL_HPARAMS_PRIV_H
#define HALO_MODEL_HPARAMS_PRIV_H

#include <stddef.h>

#include <base/fault.h>
#include <store/gguf.h>

#include <model/model.h>

enum halo_hparam_kind {
    HALO_HPARAM_COUNT, /* uint32_t */
    HALO_HPARAM_REAL,  /* float */
    HALO_HPARAM_FLAG,  /* uint32_t, 0 or 1; a truth value in the file */
    HALO_HPARAM_GATE,  /* enum halo_moe_gate; the file's number of a gating function, 0 for the default */
};

/* How a hyper-parameter may vary over the layers. But for ONE the file may give an array with an entry for each layer
 * instead of one number for all. */
enum halo_hparam_spread {
    HALO_HPARAM_ONE,   /* one number */
    HALO_HPARAM_ALIKE, /* all the same */
    HALO_HPARAM_SOME,  /* all the same, but 0 in layers that have none */
    HALO_HPARAM_TWO,   /* at most two values */
    HALO_HPARAM_ANY,
};

#define HALO_HPARAM_NOWHERE SIZE_MAX

struct halo_hparam {
    const char *suffix; /* "block_count" of "qwen3.block_count"; NULL: always `value` */
    enum halo_hparam_kind kind;
    enum halo_hparam_spread spread;
    size_t field;    /* offset in struct halo_hparams: of the first layer that has any. NOWHERE: not kept */
    size_t by_layer; /* offset in struct halo_hparams of an array of HALO_MODEL_MAX_LAYERS. NOWHERE: not kept */
    bool required;
    double value;                                        /* when absent */
    double (*derive)(const struct halo_hparams *so_far); /* when absent, before `value`; NULL: none */
    double min, max;                                     /* inclusive; of SOME without its zeros */
};

#define HALO_HPARAM_ROW(kind_, suffix_, field_, min_, max_, ...)                                                       \
    {                                                                                                                  \
        .suffix = suffix_, .kind = HALO_HPARAM_##kind_, .field = offsetof(struct halo_hparams, field_),                \
        .by_layer = HALO_HPARAM_NOWHERE, .min = min_, .max = max_, __VA_ARGS__                                         \
    }
#define HALO_HPARAM_NEEDED(kind, suffix, field, min, max)                                                              \
    HALO_HPARAM_ROW(kind, suffix, field, min, max, .required = true)
#define HALO_HPARAM_OR(kind, suffix, field, default_, min, max)                                                        \
    HALO_HPARAM_ROW(kind, suffix, field, min, max, .value = default_)
#define HALO_HPARAM_FROM(kind, suffix, field, function, min, max)                                                      \
    HALO_HPARAM_ROW(kind, suffix, field, min, max, .derive = function)

/* Counts of layers: `field` and the array of that name in by_layer. */
#define HALO_HPARAM_LAYERS_ROW(spread_, suffix_, field_, min_, max_, ...)                                              \
    {                                                                                                                  \
        .suffix = suffix_, .kind = HALO_HPARAM_COUNT, .spread = HALO_HPARAM_##spread_,                                 \
        .field = offsetof(struct halo_hparams, field_), .by_layer = offsetof(struct halo_hparams, by_layer.field_),    \
        .min = min_, .max = max_, __VA_ARGS__                                                                          \
    }
#define HALO_HPARAM_LAYERS(spread, suffix, field, min, max)                                                            \
    HALO_HPARAM_LAYERS_ROW(spread, suffix, field, min, max, .required = true)
#define HALO_HPARAM_LAYERS_OR(spread, suffix, field, default_, min, max)                                               \
    HALO_HPARAM_LAYERS_ROW(spread, suffix, field, min, max, .value = default_)
#define HALO_HPARAM_LAYERS_FROM(spread, suffix, field, function, min, max)                                             \
    HALO_HPARAM_LAYERS_ROW(spread, suffix, field, min, max, .derive = function)
/* A number of its own for each layer, in the array of that name in by_layer alone. */
#define HALO_HPARAM_EACH_ROW(kind_, suffix_, array_, min_, max_, ...)                                                  \
    {                                                                                                                  \
        .suffix = suffix_, .kind = HALO_HPARAM_##kind_, .spread = HALO_HPARAM_ANY, .field = HALO_HPARAM_NOWHERE,       \
        .by_layer = offsetof(struct halo_hparams, by_layer.array_), .min = min_, .max = max_, __VA_ARGS__              \
    }
#define HALO_HPARAM_EACH(kind, suffix, array, min, max)                                                                \
    HALO_HPARAM_EACH_ROW(kind, suffix, array, min, max, .required = true)
#define HALO_HPARAM_EACH_OR(kind, suffix, array, default_, min, max)                                                   \
    HALO_HPARAM_EACH_ROW(kind, suffix, array, min, max, .value = default_)

#define HALO_HPARAM_FIXED(kind, field, value_) HALO_HPARAM_ROW(kind, NULL, field, value_, value_, .value = value_)

/* What every decoder with grouped-query attention and rotary positions has. */
#define HALO_HPARAMS_SIZES                                                                                             \
    HALO_HPARAM_NEEDED(COUNT, "block_count", n_layers, 1, HALO_MODEL_MAX_LAYERS),                                      \
        HALO_HPARAM_NEEDED(COUNT, "context_length", n_context_train, 1, HALO_MODEL_MAX_CONTEXT),                       \
        HALO_HPARAM_NEEDED(COUNT, "embedding_length", n_embd, 1, HALO_MODEL_MAX_EMBD),                                 \
        HALO_HPARAM_LAYERS(ALIKE, "attention.head_count", n_head, 1, HALO_MODEL_MAX_HEADS)
#define HALO_HPARAMS_HEADS                                                                                             \
    HALO_HPARAM_FROM(COUNT, "attention.key_length", head_dim_k, halo_hparams_head_share, 1, HALO_MODEL_MAX_HEAD_DIM),  \
        HALO_HPARAM_FROM(COUNT, "attention.value_length", head_dim_v, halo_hparams_head_share, 1,                      \
                         HALO_MODEL_MAX_HEAD_DIM),                                                                     \
        HALO_HPARAM_FROM(COUNT, "rope.dimension_count", n_rot, halo_hparams_key_length, 2, HALO_MODEL_MAX_HEAD_DIM),   \
        HALO_HPARAM_OR(REAL, "rope.freq_base", rope_base, 10000, 1, 1e15)
#define HALO_HPARAMS_DECODER                                                                                           \
    HALO_HPARAMS_SIZES,                                                                                                \
        HALO_HPARAM_LAYERS_FROM(ALIKE, "attention.head_count_kv", n_head_kv, halo_hparams_head_count, 1,               \
                                HALO_MODEL_MAX_HEADS),                                                                 \
        HALO_HPARAMS_HEADS
/* With RMS norms, as most have, or with layer norms. */
#define HALO_HPARAMS_COMMON                                                                                            \
    HALO_HPARAMS_DECODER, HALO_HPARAM_NEEDED(REAL, "attention.layer_norm_rms_epsilon", norm_eps, 1e-20, 1)
#define HALO_HPARAMS_COMMON_LAYER_NORM                                                                                 \
    HALO_HPARAMS_DECODER, HALO_HPARAM_NEEDED(REAL, "attention.layer_norm_epsilon", norm_eps, 1e-20, 1)

/* With layers that have a state instead of attention: 0 heads of K and V there. RMS norms. */
#define HALO_HPARAMS_HYBRID                                                                                            \
    HALO_HPARAMS_SIZES, HALO_HPARAM_LAYERS(SOME, "attention.head_count_kv", n_head_kv, 1, HALO_MODEL_MAX_HEADS),       \
        HALO_HPARAMS_HEADS, HALO_HPARAM_NEEDED(REAL, "attention.layer_norm_rms_epsilon", norm_eps, 1e-20, 1)

/* Of Mamba-2. */
#define HALO_HPARAMS_MAMBA                                                                                             \
    HALO_HPARAM_NEEDED(COUNT, "ssm.conv_kernel", n_conv, 2, HALO_CONV1D_TAPS_MAX),                                     \
        HALO_HPARAM_NEEDED(COUNT, "ssm.inner_size", n_ssm_inner, 1, HALO_MODEL_MAX_FF),                                \
        HALO_HPARAM_NEEDED(COUNT, "ssm.state_size", n_ssm_state, 1, HALO_MODEL_MAX_HEAD_DIM),                          \
        HALO_HPARAM_NEEDED(COUNT, "ssm.time_step_rank", n_ssm_heads, 1, HALO_MODEL_MAX_HEADS),                         \
        HALO_HPARAM_NEEDED(COUNT, "ssm.group_count", n_ssm_groups, 1, HALO_MODEL_MAX_HEADS)
/* A layer is a mixer or a feed-forward: an array of lengths, 0 where it is a mixer. */
#define HALO_HPARAMS_ONE_BLOCK                                                                                         \
    HALO_HPARAM_LAYERS(SOME, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF), HALO_HPARAM_FIXED(FLAG, one_block, 1)
/* The same keys for the delta rule, with a state in all layers but the last of each interval. */
#define HALO_HPARAMS_DELTA                                                                                             \
    HALO_HPARAM_OR(COUNT, "full_attention_interval", attention_interval, 4, 1, HALO_MODEL_MAX_LAYERS),                 \
        HALO_HPARAMS_MAMBA

/* A mixture of experts: how many, and whether the weights of the chosen are renormalised when the file does not say. */
#define HALO_HPARAMS_EXPERTS(normalise)                                                                                \
    HALO_HPARAM_NEEDED(COUNT, "expert_count", n_expert, 1, HALO_MODEL_MAX_EXPERTS),                                    \
        HALO_HPARAM_NEEDED(COUNT, "expert_used_count", n_expert_used, 1, HALO_MODEL_MAX_EXPERTS),                      \
        HALO_HPARAM_OR(FLAG, "expert_weights_norm", expert_normalise, normalise, 0, 1)
#define HALO_HPARAM_WEIGHTS_SCALE HALO_HPARAM_OR(REAL, "expert_weights_scale", expert_scale, 1, 0, 1e6)
/* Scores by the gating function of the file, or HALO_MOE_* when it has none. */
#define HALO_HPARAM_GATE(gate) HALO_HPARAM_OR(GATE, "expert_gating_func", expert_gate, HALO_MOE_##gate, 0, 4)
#define HALO_HPARAMS_GROUPS                                                                                            \
    HALO_HPARAM_OR(COUNT, "expert_group_count", n_expert_groups, 0, 0, HALO_MOE_GROUPS_MAX),                           \
        HALO_HPARAM_OR(COUNT, "expert_group_used_count", n_expert_groups_used, 0, 0, HALO_MOE_GROUPS_MAX)
/* The width of an expert, and of the experts that every row takes together. */
#define HALO_HPARAMS_SHARED                                                                                            \
    HALO_HPARAM_NEEDED(COUNT, "expert_feed_forward_length", n_ff_expert, 1, HALO_MODEL_MAX_FF),                        \
        HALO_HPARAM_OR(COUNT, "expert_shared_count", n_expert_shared, 0, 0, HALO_MODEL_MAX_EXPERTS),                   \
        HALO_HPARAM_FROM(COUNT, "expert_shared_feed_forward_length", n_ff_shared, halo_hparams_ff_shared, 0,           \
                         HALO_MODEL_MAX_FF)
#define HALO_HPARAM_DENSE HALO_HPARAM_OR(COUNT, "leading_dense_block_count", n_dense, 0, 0, HALO_MODEL_MAX_LAYERS)
#define HALO_HPARAM_NEXTN HALO_HPARAM_OR(COUNT, "nextn_predict_layers", n_nextn, 0, 0, HALO_MODEL_MAX_LAYERS)

/* Defaults that follow from the fields above a row. */
double halo_hparams_head_count(const struct halo_hparams *hparams); /* head_count_kv: as many as query heads */
double halo_hparams_head_share(const struct halo_hparams *hparams); /* embedding / heads, 0 when it does not divide */
double halo_hparams_key_length(const struct halo_hparams *hparams); /* all of the head is rotated */
double halo_hparams_key_length_local(const struct halo_hparams *hparams);
double halo_hparams_ff_length(const struct halo_hparams *hparams); /* feed-forward; 0 without experts */
double halo_hparams_ff_shared(const struct halo_hparams *hparams); /* expert's width times expert_shared_count */
double halo_hparams_ff_share(const struct halo_hparams *hparams);  /* feed-forward / experts used, or 0 */

/* Families whose layers differ. */
bool halo_hparams_has_kv(const struct halo_hparams *hparams, uint32_t layer); /* K and V of its own */
/* The hyper-parameters as they hold in one layer: heads, rotation and feed-forward. */
void halo_hparams_of_layer(const struct halo_hparams *hparams, uint32_t layer, struct halo_hparams *ret);
/* Layers of one kind are alike, there is one without a window, K and V are shared with layers that have some. */
int halo_hparams_layers_check(const struct halo_hparams *hparams, const char *arch, struct halo_fault *fault);

/* Of a model with residual streams and compressed blocks (hparams_blocks.c): whether what was read fits each other.
 * UNSUPPORTED for a ratio or a number of streams that the format allows and the plan does not have. */
int halo_hparams_blocks_check(const struct halo_hparams *hparams, const char *arch, struct halo_fault *fault);

/* Whether heads, experts and states fit each other (hparams_check.c). Marks the layers without attention where an
 * interval says which they are. */
int halo_hparams_relations_check(struct halo_hparams *hparams, const char *arch, struct halo_fault *fault);

/* One row of a table (hparams_row.c). n_layers must be known where `spread` is not ONE. */
int halo_hparams_row_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                          const struct halo_hparam *row, struct halo_fault *fault);
#define HALO_HPARAM_KEY_BYTES 128
void halo_hparams_key(char key[HALO_HPARAM_KEY_BYTES], const char *arch, const char *suffix); /* "qwen3.block_count" */
/* A whole number in full, whatever its size; another to nine digits. */
#define HALO_HPARAM_TEXT_BYTES 32
const char *halo_hparams_text(double value, char buf[static HALO_HPARAM_TEXT_BYTES]);

/* Fills *ret from the file by the table, then the rotary scaling and the vocabulary size, and checks all of it against
 * each other. `context`: the one asked for (0: the model's), against which an unsupported attention window is judged.
 * LOAD_FAILED names key and numbers; UNSUPPORTED names a key that changes the computation in a way that this family
 * does not know. */
int halo_hparams_read(struct halo_hparams *ret, const struct halo_gguf *gguf, const char *arch,
                      const struct halo_hparam *table, size_t n_table, uint32_t context, struct halo_fault *fault);

#endif
