/* variant_priv.h: the kernels by what they do: gfx/variants.def as a table, and the functions of one code object.
 *
 * The table is static; a set of functions belongs to a device and is immutable after opening, apart from `seen`.
 */
#ifndef HALO_HIP_VARIANT_PRIV_H
#define HALO_HIP_VARIANT_PRIV_H

#include <stdbool.h>

#include <kernels/tensor.h>

/* What is launched: the ops of variants.def. */
enum halo_hip_op {
    HALO_HIP_EMBED,
    HALO_HIP_GEMV,
    HALO_HIP_GEMV_SCALED,
    HALO_HIP_GEMV_PAIR,
    HALO_HIP_GEMV_NORM,
    HALO_HIP_GEMV_GLU,
    HALO_HIP_STRIP,
    HALO_HIP_GEMM,
    HALO_HIP_MOE_GEMV,
    HALO_HIP_MOE_GEMV_GLU,
    HALO_HIP_MOE_GEMM,
    HALO_HIP_KV_WRITE,
    HALO_HIP_HEADS,
    HALO_HIP_ATTEND_D128,
    HALO_HIP_ATTEND_D256,
    HALO_HIP_ATTEND_D512,
    HALO_HIP_ATTEND_TILES_D128,
    HALO_HIP_ATTEND_MERGE,
    HALO_HIP_PREFILL_D128,
    HALO_HIP_PREFILL_D256,
    HALO_HIP_PREFILL_D512,
    HALO_HIP_LATENT,
    HALO_HIP_LATENT_TILES,
    HALO_HIP_LATENT_HEADS,
    HALO_HIP_RMSNORM,
    HALO_HIP_LAYERNORM,
    HALO_HIP_QUANTIZE,
    HALO_HIP_HALF_ROWS,
    HALO_HIP_HALF_ALIGN,
    HALO_HIP_QK_NORM,
    HALO_HIP_ROPE_NORM,
    HALO_HIP_ROPE_NEOX,
    HALO_HIP_GLU_SILU, /* those of enum halo_glu_act, in its order */
    HALO_HIP_GLU_GELU,
    HALO_HIP_GLU_RELU2,
    HALO_HIP_GLU_CLAMPED,
    HALO_HIP_GLU_LINEAR,
    HALO_HIP_GLU_SIGMOID,
    HALO_HIP_GLU_HALF_SILU, /* likewise */
    HALO_HIP_GLU_HALF_GELU,
    HALO_HIP_GLU_HALF_RELU2,
    HALO_HIP_GLU_HALF_CLAMPED,
    HALO_HIP_GLU_HALF_LINEAR,
    HALO_HIP_GLU_HALF_SIGMOID,
    HALO_HIP_LIMIT,
    HALO_HIP_ADD,
    HALO_HIP_MOE_ROUTE,
    HALO_HIP_MOE_ROUTE_SCORED,
    HALO_HIP_MOE_ROUTER,
    HALO_HIP_MOE_ROUTER_SCORED,
    HALO_HIP_MOE_ROUTER_NORM,
    HALO_HIP_MOE_ROUTER_NORM_SCORED,
    HALO_HIP_MOE_GROUP,
    HALO_HIP_MOE_SUM,
    HALO_HIP_MOE_SUM_NORM,
    HALO_HIP_MOE_SCALE,
    HALO_HIP_CONCAT,
    HALO_HIP_CONV1D,
    HALO_HIP_DELTA_RULE,
    HALO_HIP_SSM_SCAN,
    HALO_HIP_STREAMS_MIX,
    HALO_HIP_STREAMS_ADD,
    HALO_HIP_COMPRESS,
    HALO_HIP_COMPRESS_STORE,
    HALO_HIP_BLOCK_SCORES,
    HALO_HIP_BLOCKS_CHOOSE,
    HALO_HIP_ATTEND_BLOCKS,
    HALO_HIP_ATTEND_BLOCKS_TILES,
    HALO_HIP_GATHER,
    HALO_HIP_TOP,
    HALO_HIP_DIGEST,
    HALO_HIP_COPY,
};

/* The type column: weight types by their ids, KV types behind them. */
enum halo_hip_type {
#define X(id, gguf_id, weights, bytes) HALO_HIP_TYPE_##id = gguf_id,
    HALO_TYPE_LIST(X)
#undef X
        HALO_HIP_TYPE_KV_F32 = 64 + HALO_KV_F32,
    HALO_HIP_TYPE_KV_F16 = 64 + HALO_KV_F16,
    HALO_HIP_TYPE_KV_Q8 = 64 + HALO_KV_Q8,
    HALO_HIP_TYPE_KV_Q4 = 64 + HALO_KV_Q4,
    HALO_HIP_TYPE_ANY = 127
};

struct halo_hip_variant {
    uint32_t op, type;
    uint32_t min_rows, max_rows; /* max_rows 0: no limit */
    const char *kernel;
    const char *first_launch; /* the phase of its first launch */
    uint32_t block, lds_bytes;
};

extern const struct halo_hip_variant halo_hip_variants[];
extern const uint32_t halo_hip_n_variants;
#define HALO_HIP_VARIANTS_MAX 576

/* Numbers of rows that the table does not tell apart. */
#define HALO_HIP_ROW_CLASSES 8
struct halo_hip_row_class {
    uint32_t min, max;
};
extern const struct halo_hip_row_class halo_hip_row_classes[HALO_HIP_ROW_CLASSES];

/* The first variant that fits, or NULL. */
const struct halo_hip_variant *halo_hip_variant_find(uint32_t op, uint32_t type, uint32_t n_rows);

#endif
