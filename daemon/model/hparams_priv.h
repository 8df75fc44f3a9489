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
    HALO_HPARAM_COUNT,   /* uint32_t */
    HALO_HPARAM_LAYERED, /* uint32_t; the file may give an array with one entry per layer, all the same */
    HALO_HPARAM_REAL,    /* float */
};

struct halo_hparam {
    const char *suffix; /* "block_count" of "qwen3.block_count" */
    enum halo_hparam_kind kind;
    size_t field; /* offset in struct halo_hparams */
    bool required;
    double value;                                        /* when absent */
    double (*derive)(const struct halo_hparams *so_far); /* when absent, before `value`; NULL: none */
    double min, max;                                     /* inclusive */
};

#define HALO_HPARAM_NEEDED(kind, suffix, field, min, max)                                                              \
    {                                                                                                                  \
        suffix, HALO_HPARAM_##kind, offsetof(struct halo_hparams, field), true, 0, NULL, min, max                      \
    }
#define HALO_HPARAM_OR(kind, suffix, field, value, min, max)                                                           \
    {                                                                                                                  \
        suffix, HALO_HPARAM_##kind, offsetof(struct halo_hparams, field), false, value, NULL, min, max                 \
    }
#define HALO_HPARAM_FROM(kind, suffix, field, derive, min, max)                                                        \
    {                                                                                                                  \
        suffix, HALO_HPARAM_##kind, offsetof(struct halo_hparams, field), false, 0, derive, min, max                   \
    }

/* What every decoder with grouped-query attention, RMS norms and rotary positions has. */
#define HALO_HPARAMS_COMMON                                                                                            \
    HALO_HPARAM_NEEDED(COUNT, "block_count", n_layers, 1, HALO_MODEL_MAX_LAYERS),                                      \
        HALO_HPARAM_NEEDED(COUNT, "context_length", n_context_train, 1, HALO_MODEL_MAX_CONTEXT),                       \
        HALO_HPARAM_NEEDED(COUNT, "embedding_length", n_embd, 1, HALO_MODEL_MAX_EMBD),                                 \
        HALO_HPARAM_NEEDED(LAYERED, "attention.head_count", n_head, 1, HALO_MODEL_MAX_HEADS),                          \
        HALO_HPARAM_FROM(LAYERED, "attention.head_count_kv", n_head_kv, halo_hparams_head_count, 1,                    \
                         HALO_MODEL_MAX_HEADS),                                                                        \
        HALO_HPARAM_FROM(COUNT, "attention.key_length", head_dim_k, halo_hparams_head_share, 1,                        \
                         HALO_MODEL_MAX_HEAD_DIM),                                                                     \
        HALO_HPARAM_FROM(COUNT, "attention.value_length", head_dim_v, halo_hparams_head_share, 1,                      \
                         HALO_MODEL_MAX_HEAD_DIM),                                                                     \
        HALO_HPARAM_NEEDED(REAL, "attention.layer_norm_rms_epsilon", rms_eps, 1e-20, 1),                               \
        HALO_HPARAM_FROM(COUNT, "rope.dimension_count", n_rot, halo_hparams_key_length, 2, HALO_MODEL_MAX_HEAD_DIM),   \
        HALO_HPARAM_OR(REAL, "rope.freq_base", rope_base, 10000, 1, 1e15)

/* Defaults that follow from the fields above a row. */
double halo_hparams_head_count(const struct halo_hparams *hparams); /* head_count_kv: as many as query heads */
double halo_hparams_head_share(const struct halo_hparams *hparams); /* embedding / heads, 0 when it does not divide */
double halo_hparams_key_length(const struct halo_hparams *hparams); /* all of the head is rotated */
double halo_hparams_ff_length(const struct halo_hparams *hparams);  /* feed-forward; 0 without experts */
double halo_hparams_ff_share(const struct halo_hparams *hparams);   /* feed-forward / experts used, or 0 */

/* Fills *ret from the file by the table, then the rotary scaling and the vocabulary size, and checks all of it against
 * each other. `context`: the one asked for (0: the model's), against which an unsupported attention window is judged.
 * LOAD_FAILED names key and numbers; UNSUPPORTED names a key that changes the computation in a way that this family
 * does not know. */
int halo_hparams_read(struct halo_hparams *ret, const struct halo_gguf *gguf, const char *arch,
                      const struct halo_hparam *table, size_t n_table, uint32_t context, struct halo_fault *fault);

#endif
