/* model.h: a model: what the file says of its network (hyper-parameters, tensors) and the plan made from it.
 *
 * One file daemon/model/arch_<family>.c per family. Created on the io thread, immutable afterwards. Memory: one
 * arena, sealed.
 */
#ifndef HALO_MODEL_MODEL_H
#define HALO_MODEL_MODEL_H

#include <base/arena.h>
#include <base/fault.h>
#include <base/remarks.h>
#include <kernels/plan.h>
#include <store/gguf.h>

#define HALO_MODEL_MAX_LAYERS 512
#define HALO_MODEL_MAX_EXPERTS 1024
#define HALO_MODEL_MAX_CONTEXT (1 << 30)
#define HALO_MODEL_MAX_EMBD (1 << 17)
#define HALO_MODEL_MAX_HEADS 1024
#define HALO_MODEL_MAX_HEAD_DIM 1024
#define HALO_MODEL_MAX_FF (1 << 20)
#define HALO_MODEL_MAX_VOCAB (1 << 22)
#define HALO_MODEL_MAX_WIDTH (1 << 24) /* of one value: elements per row */
#define HALO_MODEL_MAX_ROWS 4096       /* of a batch */

/* LONGROPE: a factor for each pair, one list for contexts up to the original one and another for longer ones. */
enum halo_rope_scaling {
    HALO_ROPE_SCALING_NONE,
    HALO_ROPE_SCALING_LINEAR,
    HALO_ROPE_SCALING_YARN,
    HALO_ROPE_SCALING_LONGROPE
};

/* How many positions a compressed block stands for, in layers that have blocks: overlapping ones, or plain ones. */
#define HALO_COMPRESS_SHORT 4
#define HALO_COMPRESS_LONG 128

/* All counts are checked against each other and against ceilings before use. */
struct halo_hparams {
    uint32_t n_layers, n_embd, n_vocab, n_context_train;
    uint32_t n_head, n_head_kv;  /* of the first layer with attention */
    uint32_t one_block;          /* 1: a layer is a mixer or a feed-forward, never both */
    uint32_t rotated;            /* 0: attention does not rotate q and k; of one family */
    uint32_t n_conv;             /* taps of the short convolution in layers with a state */
    uint32_t attention_interval; /* the last of so many layers has attention, the others a state; 0: the file says */
    /* Of layers with a state: width of all heads, heads, groups of heads that share a key, and length of a key. */
    uint32_t n_ssm_inner, n_ssm_heads, n_ssm_groups, n_ssm_state;
    uint32_t head_dim_k, head_dim_v, n_rot;
    uint32_t head_dim_k_local, head_dim_v_local, n_rot_local; /* of layers with by_layer.local; 0: as the others */
    uint32_t n_kv_shared;                                     /* last layers, which read the K and V of earlier ones */
    uint32_t n_embd_layer;         /* width of the input of its own that every layer has; 0: none */
    uint32_t n_kv_lora, n_q_lora;  /* of latent attention; n_q_lora 0: q comes straight from the stream */
    uint32_t mla_dim_k, mla_dim_v; /* of a head where the cache holds the compressed row; else 0 */
    uint32_t n_ff;                 /* of the first layer that has any */
    uint32_t n_ff_expert, n_expert, n_expert_used;
    uint32_t n_expert_latent; /* width in which experts work, between two matrices of the layer; 0: n_embd */
    uint32_t n_nextn;         /* layers behind the n_layers that predict further tokens; not run */
    uint32_t n_dense;         /* leading layers without experts */
    uint32_t n_expert_shared, n_ff_shared; /* the experts that every row takes, and their width together; 0: none */
    uint32_t n_expert_groups, n_expert_groups_used; /* at most 1: no groups */
    enum halo_moe_gate expert_gate;
    uint32_t expert_normalise; /* 1: the weights of the chosen add up to 1, before expert_scale */
    float expert_scale;
    float norm_eps, rope_base, rope_factor, rope_attn_factor;
    float rope_yarn_ext_factor, rope_yarn_attn_factor, rope_yarn_beta_fast, rope_yarn_beta_slow;
    float rope_yarn_log_multiplier; /* 0: none */
    uint32_t rope_original_context;
    enum halo_rope_scaling rope_scaling;
    /* Of families that have them; 0: none, that is a factor of 1, no cap, no window. */
    float embed_scale, residual_scale, attention_scale, logit_scale, attention_cap, logit_cap;
    uint32_t window;                       /* of attention, positions */
    uint32_t period;                       /* every so many layers one is without the window */
    float rope_base_local;                 /* of the layers with a window; 0: as the others */
    float attention_temperature;           /* struct halo_op_attend; its period is rope_original_context */
    uint32_t n_streams, stream_iterations; /* residual streams beside each other; 0: one, without hyper-connections */
    float stream_eps;
    uint32_t n_out_groups, n_out_lora;                  /* groups of heads on their way out, and the rank of each */
    float rope_base_compressed;                         /* of the layers with blocks */
    uint32_t indexer_heads, indexer_dim, indexer_top_k; /* what chooses among overlapping blocks */
    uint32_t n_hash;                                    /* leading layers whose experts are chosen by token */
    uint32_t n_context;                                 /* of the plan, positions: the one asked for */
    /* What may differ between layers, [n_layers]; halo_hparams_of_layer() puts it into the fields above. */
    struct {
        uint32_t n_head[HALO_MODEL_MAX_LAYERS];
        uint32_t n_head_kv[HALO_MODEL_MAX_LAYERS];      /* 0: no attention */
        uint32_t n_ff[HALO_MODEL_MAX_LAYERS];           /* 0: no feed-forward, where one_block is set */
        uint32_t local[HALO_MODEL_MAX_LAYERS];          /* 1: with the window; of families that say so by layer */
        uint32_t compress_ratio[HALO_MODEL_MAX_LAYERS]; /* 0: no blocks */
        float expert_limit[HALO_MODEL_MAX_LAYERS], shared_limit[HALO_MODEL_MAX_LAYERS]; /* of gate and up; 0: none */
    } by_layer;
};

struct halo_model_params { /* of load and plan; 0 means "the model's" or the default */
    uint32_t context;      /* per sequence, positions; at most what the model was trained for */
    uint64_t kv_tokens; /* of the whole pool, rounded up to pages; 0: 4 contexts. The engine may lower plan.kv[].n_pages
                         * before it hands the plan to a device, when memory does not allow them */
    enum halo_kv_type kv;
    uint32_t max_rows, max_outputs; /* of a batch; 0: 256, and 64 or max_rows if that is less */
};

struct halo_model {
    struct halo_arena arena;
    struct halo_gguf *gguf; /* owned */
    const char *arch;       /* "qwen3" */
    char name[128];         /* general.name or the file's stem */
    char quant[32];         /* "Q4_K_M" by general.file_type, else the most frequent type */
    uint64_t n_params;      /* of the file, those that the plan leaves out included */
    uint64_t weights_bytes; /* in the file */
    struct halo_hparams hparams;
    struct halo_plan plan;
    struct halo_remarks remarks; /* for whoever loads it */
};

/* Opens the directory, reads and checks everything, builds the plan for `params` (NULL: all defaults). Any thread that
 * may read files. LOAD_FAILED: the binder lists every missing or misshapen tensor it found (as many as fit into the
 * fault's text, and their count). UNSUPPORTED: an unknown architecture (names it), a mechanism or a tensor that the
 * family's plan does not have. BAD_REQUEST: params that the model cannot serve. Other codes as those of the
 * directory. */
int halo_model_create(struct halo_model **ret, const char *path, const struct halo_model_params *params,
                      struct halo_fault *fault);
void halo_model_destroy(struct halo_model *model);

/* How a file is quantized, for people: the mixture that general.file_type names ("Q4_K_M"), else the type that most
 * bytes of its tensors have. From the directory alone. */
void halo_model_quant(const struct halo_gguf *gguf, char *ret, size_t n);

/* Numbers in all tensors of a file. From the directory alone. */
uint64_t halo_model_count_params(const struct halo_gguf *gguf);

/* Prints the plan as text, one op a line, for tests and `plan`. Returns bytes needed like snprintf. */
int halo_plan_print(const struct halo_plan *plan, char *buffer, size_t n);

/* What one step of n_rows rows reads and computes when each row attends to n_positions: weights once for all rows (of a
 * mixture, as many experts as so many rows touch when they choose at random), K and V for each row. One decoded token
 * is a step of one row. From the plan alone. */
struct halo_plan_cost {
    uint64_t weight_bytes, kv_bytes, flops;
};
void halo_plan_cost(const struct halo_plan *plan, uint32_t n_positions, uint32_t n_rows, struct halo_plan_cost *ret);

#endif
