/* op.h: the operations a plan is made of.
 *
 * A *value* is an activation: for each row of the batch, `width` f32 numbers. Values and weights are named by index
 * into the plan's tables; HALO_NONE means absent. A new op is one enum value, one argument struct, one CPU file, one
 * error bound, one .hip file. Formulas use x[i] for the element i of a row; r is the row.
 */
#ifndef HALO_KERNELS_OP_H
#define HALO_KERNELS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include <kernels/tensor.h>

#define HALO_NONE UINT16_MAX
#define HALO_WEIGHT_NONE UINT32_MAX
#define HALO_WEIGHTS_NONE                                                                                              \
    {                                                                                                                  \
        HALO_WEIGHT_NONE, HALO_WEIGHT_NONE                                                                             \
    }

enum halo_op_kind {
    HALO_OP_EMBED,    /* out[r] = weight[token[r]] * scale */
    HALO_OP_RMSNORM,  /* if add: x = (x + add * add_scale) * x_scale, in place; y = centre ? x - mean(x) : x;
                      * out = y / sqrt(mean(y^2) + eps) * weight + bias */
    HALO_OP_MATMUL,   /* out[k] = weight[k] x + bias[k], k < n: several weights that share one input */
    HALO_OP_QK_NORM,  /* q, and k if present: rmsnorm over each head, in place */
    HALO_OP_ROPE,     /* rotates q, and k if present, in place by the row's position */
    HALO_OP_KV_WRITE, /* stores k and v of the row into the pages of its sequence */
    HALO_OP_ATTEND, /* out = softmax(q K^T * scale) V, positions 0..pos of the row's sequence, of the stored K and V */
    HALO_OP_GLU,    /* out = act(gate) * up, or act(gate) without up; out may be gate */
    HALO_OP_MOE_ROUTE,  /* router logits -> the n_used best experts and their weights (at the end of this file) */
    HALO_OP_MOE_MATMUL, /* for the chosen experts: out[slot] = weight[expert] x[slot or shared] + bias[expert] */
    HALO_OP_MOE_SUM, /* out = sum over slots of weight[slot] * x[slot]; if add: + add * sigmoid(add_gate), or + add */
    HALO_OP_ADD,     /* x += add */
    HALO_OP_LOGITS,  /* for the wanted rows only: l = (weight x + bias) * scale; with a cap: cap * tanh(l / cap) */
    HALO_OP_CONCAT,  /* for each of n_head heads: out = n_a elements of the head's part of a, then n_b of b's */
    HALO_OP_CONV1D,  /* out = act(bias + the last n_kernel rows of x of the sequence, each channel by its own taps) */
    HALO_OP_DELTA_RULE,    /* the gated delta rule over a state for each head (at the end of this file) */
    HALO_OP_STREAMS_MIX,   /* several residual streams -> what a block reads, and how its result goes back into them */
    HALO_OP_STREAMS_ADD,   /* stream[d] = post[d] * add + sum over s of comb[s][d] * stream[s], in place */
    HALO_OP_COMPRESS,      /* keys of `ratio` positions -> one row of the cache, when the last of them is there */
    HALO_OP_BLOCKS_CHOOSE, /* the top_k compressed blocks with the largest score for a row */
    HALO_OP_ATTEND_BLOCKS, /* ATTEND over a window and over compressed blocks, in one softmax */
    HALO_OP_SSM_SCAN,      /* the scan of Mamba-2 over a state for each head (at the end of this file) */
    HALO_OP_COUNT
};

/* "qk_norm": the name of a kind in phases, reasons and reports. */
static inline const char *halo_op_name(enum halo_op_kind kind)
{
    switch (kind) {
    case HALO_OP_EMBED: return "embed";
    case HALO_OP_RMSNORM: return "rmsnorm";
    case HALO_OP_MATMUL: return "matmul";
    case HALO_OP_QK_NORM: return "qk_norm";
    case HALO_OP_ROPE: return "rope";
    case HALO_OP_KV_WRITE: return "kv_write";
    case HALO_OP_ATTEND: return "attend";
    case HALO_OP_GLU: return "glu";
    case HALO_OP_MOE_ROUTE: return "moe_route";
    case HALO_OP_MOE_MATMUL: return "moe_matmul";
    case HALO_OP_MOE_SUM: return "moe_sum";
    case HALO_OP_ADD: return "add";
    case HALO_OP_LOGITS: return "logits";
    case HALO_OP_CONCAT: return "concat";
    case HALO_OP_CONV1D: return "conv1d";
    case HALO_OP_DELTA_RULE: return "delta_rule";
    case HALO_OP_STREAMS_MIX: return "streams_mix";
    case HALO_OP_STREAMS_ADD: return "streams_add";
    case HALO_OP_COMPRESS: return "compress";
    case HALO_OP_BLOCKS_CHOOSE: return "blocks_choose";
    case HALO_OP_ATTEND_BLOCKS: return "attend_blocks";
    case HALO_OP_SSM_SCAN: return "ssm_scan";
    case HALO_OP_COUNT: break;
    }
    return "unknown op";
}

/* How the pairs of a rotation lie. NORM: (2i, 2i+1). NEOX: (i, i + n_rot/2). The wrong one gives plausible text for a
 * while. */
enum halo_rope_pairing { HALO_ROPE_NORM, HALO_ROPE_NEOX };
enum halo_glu_act {
    HALO_GLU_SILU,  /* x / (1 + e^-x) */
    HALO_GLU_GELU,  /* x / (1 + e^(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form */
    HALO_GLU_RELU2, /* max(x, 0)^2 */
    /* g / (1 + e^(-1.702 g)) * (u + 1), g = min(gate, 7), u = up limited to -7 .. 7; needs up */
    HALO_GLU_CLAMPED,
    HALO_GLU_LINEAR,  /* x: the product of gate and up */
    HALO_GLU_SIGMOID, /* 1 / (1 + e^-x) */
    HALO_GLU_ACTS
};
#define HALO_GLU_CLAMP 7.0f
#define HALO_GLU_CLAMP_ALPHA 1.702f
/* The score of an expert, from its router logit x. SOFTMAX: over all experts. Softmax over the chosen experts alone is
 * SOFTMAX with `normalise`. */
enum halo_moe_gate { HALO_MOE_SOFTMAX, HALO_MOE_SIGMOID, HALO_MOE_SQRT_SOFTPLUS /* sqrt(ln(1 + e^x)) */ };
#define HALO_MOE_GROUPS_MAX 32
#define HALO_MOE_SUM_MIN 6.103515625e-5f /* of the scores that weights are divided by */

/* One rotation: angle of pair i at position p is p * freqs[i]; cos and sin are multiplied by `scale`. freqs already
 * holds base, linear scaling, YaRN blending and rope factors, computed once in double when the plan is built. */
struct halo_rope {
    enum halo_rope_pairing pairing;
    uint32_t n_rot;      /* rotated elements of a head, even, <= head_dim; the rest pass through */
    float scale;         /* 1 unless the model says so */
    const double *freqs; /* n_rot / 2 angles per position; lives in the plan's arena */
};

struct halo_op_embed {
    uint32_t weight;
    uint16_t out;
    float scale;
};
struct halo_op_rmsnorm {
    uint32_t weight;      /* HALO_WEIGHT_NONE: ones */
    uint16_t x, add, out; /* out may be x */
    float eps, add_scale;
    bool centre;   /* a layer norm: the mean is taken off first */
    uint32_t bias; /* HALO_WEIGHT_NONE when absent; only of a layer norm */
    float x_scale; /* 0: 1; only with add */
};
#define HALO_MATMUL_MAX 3
struct halo_op_matmul {
    uint16_t x;
    uint16_t n;
    uint32_t weight[HALO_MATMUL_MAX], bias[HALO_MATMUL_MAX]; /* bias: HALO_WEIGHT_NONE when absent */
    uint16_t out[HALO_MATMUL_MAX];
};
struct halo_op_qk_norm {
    uint16_t q, k;               /* k: HALO_NONE when absent, with n_head_kv 0 */
    uint32_t q_weight, k_weight; /* a vector that the heads share, of q without k also one for each; NONE: ones */
    uint32_t n_head, n_head_kv, head_dim;
    float eps;
};
struct halo_op_rope {
    uint16_t q, k; /* k: HALO_NONE when absent, with n_head_kv 0 */
    uint32_t n_head, n_head_kv, head_dim;
    uint32_t rope; /* index into plan->ropes */
};
struct halo_op_kv_write {
    uint16_t k, v;               /* v: HALO_NONE where the group is latent */
    uint32_t kv_layer, kv_group; /* a layer of the group plan->kv[kv_group] */
};
/* The score of position j for a row at position p: s = q . k * scale * (1 + temperature * ln(1 + floor(p / period)));
 * with a cap: s = cap * tanh(s / cap). With a window only positions j > p - window are seen. A sink is the score of a
 * head for nothing: e^sink joins the denominator of its softmax. */
struct halo_op_attend {
    uint16_t q, out;
    uint32_t kv_layer;
    uint32_t n_head;
    float scale;
    uint32_t kv_group;
    uint32_t window;             /* 0: none */
    float cap;                   /* 0: none */
    uint32_t sinks;              /* vector of n_head, or HALO_WEIGHT_NONE */
    float temperature;           /* 0: none */
    uint32_t temperature_period; /* positions */
};
struct halo_op_glu {
    uint16_t gate, up, out; /* up: HALO_NONE when absent */
    enum halo_glu_act act;
    float limit; /* > 0: gate is min(gate, limit) and up limited to -limit .. limit first; needs up, both used up */
};
struct halo_op_moe_route {
    uint16_t logits, choice;
    uint32_t n_expert, n_used;
    bool normalise;
    float scale;
    enum halo_moe_gate gate;
    uint32_t bias;                    /* [n_expert], counts for the choice alone; HALO_WEIGHT_NONE when absent */
    uint32_t n_groups, n_groups_used; /* of experts side by side, of two or more each; 0 or 1: no groups */
    const int32_t *table;             /* [n_vocab][n_used]: the experts of each token, which are not chosen then; NULL:
                                       * none. In the plan's arena */
};
struct halo_op_moe_matmul {
    uint16_t x;         /* width K (shared by the slots) or n_used * K */
    uint16_t choice;    /* HALO_NONE: slot s takes expert s, all are used; only per_slot */
    uint16_t n;         /* 1 or 2 weights that share the input */
    bool per_slot;      /* x has a part for each slot */
    uint32_t weight[2]; /* 3-D: [K, N, n_expert] */
    uint16_t out[2];    /* n_used * N wide */
    uint32_t n_used;
    uint32_t bias[2]; /* vector of n_expert rows of N, or HALO_WEIGHT_NONE */
};
struct halo_op_moe_sum {
    uint16_t x, choice, out;
    uint32_t n_used;
    uint16_t add;      /* a shared expert's result, as wide as out, or HALO_NONE */
    uint16_t add_gate; /* of width 1, or HALO_NONE: as it is */
};
struct halo_op_add {
    uint16_t x, add;
};
struct halo_op_concat {
    uint16_t a, b, out;         /* b: HALO_NONE when absent; out is neither */
    uint32_t n_head;            /* parts of a and out, of the same width each */
    uint32_t a_first, n_a, n_b; /* elements a_first .. a_first + n_a - 1 of a head of a; all n_b of a head of b */
    bool b_shared;              /* b has one part for all heads */
};
/* Where an op keeps what it has come to: `offset` f32 into the state of a layer of a group of states. The ops of one
 * layer share its state, each its own part of it. */
struct halo_state_part {
    uint32_t kv_group, kv_layer, offset;
};
/* A causal depthwise convolution: y[c] = bias[c] + sum over k < n_kernel of weight[c][k] * x'[c], x' the row of x that
 * is n_kernel - 1 - k positions earlier in the sequence, zeros in front of its first one. The sum begins with the bias,
 * or 0, and goes from the oldest tap to the newest in fused multiply-adds. out = y, or y / (1 + e^-y) with `silu`.
 * State: n_kernel - 1 rows of x, the oldest first. */
#define HALO_CONV1D_TAPS_MAX 8
struct halo_op_conv1d {
    uint16_t x, out; /* as wide as there are channels; out is not x */
    uint32_t weight; /* a vector of n_kernel taps, 2 to HALO_CONV1D_TAPS_MAX, for each channel */
    uint32_t bias;   /* HALO_WEIGHT_NONE when absent */
    bool silu;
    struct halo_state_part state; /* (n_kernel - 1) * channels f32 */
};
/* The gated delta rule; the formula is at the end of this file. */
struct halo_op_delta_rule {
    uint16_t qkv;         /* n_head_k heads of q, as many of k, of dim_k each; n_head_v heads of v, of dim_v each */
    uint16_t alpha, beta; /* what the gates are made of, n_head_k * gate_stride wide; may be one value */
    uint16_t out;         /* n_head_v heads of dim_v; none of the inputs */
    uint32_t a, dt_bias;  /* vectors of n_head_v; a holds -e^A_log */
    uint32_t n_head_k, n_head_v, dim_k, dim_v;
    uint32_t gate_stride, alpha_first, beta_first;
    bool grouped;
    float eps, scale;
    struct halo_state_part state; /* n_head_v * dim_v * dim_k f32 */
};
/* n streams of one width side by side in x. m = scale * mix + base, element by element, where the scale of the first n
 * elements is scale[0], of the next n scale[1], of the other n * n scale[2].
 * out = sum over i of (sigmoid(m[i]) + eps) * x[i]. `back`, if there is one, is post[i] = 2 sigmoid(m[n + i]), n
 * numbers, then comb[s][d], which m[2 n + n s + d] becomes: softmax over d, + eps, divided by (sum over s + eps), and
 * iterations - 1 times: divided by (sum over d + eps), then by (sum over s + eps).
 * (Zhu et al. 2025, "Hyper-connections"; Sinkhorn's iteration as in DeepSeek-V4.) */
#define HALO_STREAMS_MAX 8
struct halo_op_streams_mix {
    uint16_t x, mix, out;
    uint16_t back;        /* n + n * n wide, mix is n + n + n * n; HALO_NONE: mix is n wide, scale has one element */
    uint32_t scale, base; /* vectors */
    uint32_t n, iterations;
    float eps;
};
struct halo_op_streams_add {
    uint16_t x, back, add;
    uint32_t n;
};
/* Block b stands for the positions b * ratio .. b * ratio + ratio - 1. Element i of its row: the mean of u[i] over
 * these positions, weighted by the softmax of z[i] + bias[position mod ratio][i] over them. With `overlap` u, z and
 * bias have two halves, and the mean goes over the positions of the block in front too: of those the first half
 * counts, of the block's own the second; block 0 has only its own. Then rmsnorm, and the last n_rot elements of the
 * row are rotated by the block's first position.
 * What is kept of an unfinished block is in a group of states: for each element the largest score, the sum of the
 * weights and the weighted sum; with overlap the same again for the block that follows. */
#define HALO_COMPRESS_ROTATED_MAX 1024
struct halo_op_compress {
    uint16_t u, z; /* dim wide, with overlap 2 * dim; used up */
    uint32_t bias; /* `ratio` vectors of that width */
    uint32_t norm; /* vector of dim */
    uint32_t dim, ratio;
    bool overlap;
    float eps;
    uint32_t rope;                /* of at most HALO_COMPRESS_ROTATED_MAX elements */
    uint32_t kv_group, kv_layer;  /* the row is K of one head of a latent group */
    struct halo_state_part state; /* halo_compress_state_width f32 */
};
static inline uint32_t halo_compress_state_width(uint32_t dim, bool overlap)
{
    return (overlap ? 6 : 3) * dim;
}
/* Score of block b for a row: sum over the heads h of weight[h] * max(0, q[h] . k[b]) * scale. Of the blocks whose last
 * position is at most the row's, the top_k with the largest score, ties to the lowest number, as int32 bit patterns in
 * ascending order; -1 ends fewer. */
struct halo_op_blocks_choose {
    uint16_t q, weight, out; /* out: top_k wide */
    uint32_t n_head, ratio, top_k;
    uint32_t kv_group, kv_layer;
    float scale;
};
/* As ATTEND with a window, over a latent group whose V is all of K; the rows of the blocks join the same softmax: those
 * of `chosen`, or all whose last position is at most the row's. */
struct halo_op_attend_blocks {
    uint16_t q, out;
    uint16_t chosen; /* of BLOCKS_CHOOSE; HALO_NONE: all */
    uint32_t n_head;
    float scale;
    uint32_t kv_group, kv_layer, window;
    uint32_t block_group, block_layer, ratio;
    uint32_t sinks; /* vector of n_head, or HALO_WEIGHT_NONE */
};
/* The scan of Mamba-2; the formula is at the end of this file. */
struct halo_op_ssm_scan {
    uint16_t xbc;           /* n_head heads of x, of head_dim each; n_group rows of B, of n_state each; as many of C */
    uint16_t dt, out;       /* n_head; n_head heads of head_dim, none of the inputs */
    uint32_t a, d, dt_bias; /* n_head numbers each, as one vector or as so many of one; a holds -e^A_log */
    uint32_t n_head, head_dim, n_group, n_state;
    struct halo_state_part state; /* n_head * head_dim * n_state f32 */
};
struct halo_op_logits {
    uint32_t weight;
    uint16_t x;
    uint32_t bias;    /* HALO_WEIGHT_NONE when absent */
    float scale, cap; /* 1: none, 0: none */
};

struct halo_op {
    enum halo_op_kind kind;
    uint16_t layer; /* for names in phases and faults; HALO_NONE outside the layers */
    union {
        struct halo_op_embed embed;
        struct halo_op_rmsnorm rmsnorm;
        struct halo_op_matmul matmul;
        struct halo_op_qk_norm qk_norm;
        struct halo_op_rope rope;
        struct halo_op_kv_write kv_write;
        struct halo_op_attend attend;
        struct halo_op_glu glu;
        struct halo_op_moe_route moe_route;
        struct halo_op_moe_matmul moe_matmul;
        struct halo_op_moe_sum moe_sum;
        struct halo_op_add add;
        struct halo_op_logits logits;
        struct halo_op_concat concat;
        struct halo_op_conv1d conv1d;
        struct halo_op_delta_rule delta_rule;
        struct halo_op_streams_mix streams_mix;
        struct halo_op_streams_add streams_add;
        struct halo_op_compress compress;
        struct halo_op_blocks_choose blocks_choose;
        struct halo_op_attend_blocks attend_blocks;
        struct halo_op_ssm_scan ssm_scan;
    } u;
};

/* A MOE_ROUTE result for one row: n_used pairs, in the value `choice` of width 2 * n_used: first the weights as f32,
 * then the expert ids as int32 bit patterns. Choice: the n_used largest of score + bias, ties to the lowest id. With
 * groups, only experts of the n_groups_used best groups, ties to the first; a group ranks by the sum of its two largest
 * score + bias. Weights: the scores without bias; when `normalise`, divided by their sum or HALO_MOE_SUM_MIN if that is
 * larger; then multiplied by `scale`. A NaN among the logits makes every weight one; the experts chosen are always
 * n_used different ones. With a table the experts are those of the row's token, in its order. */

/* DELTA_RULE, for each head h of v; R = n_head_v / n_head_k is a whole number. The head has q and k of head h / R when
 * `grouped`, else of head h % n_head_k. Its alpha is element h / R * gate_stride + alpha_first + h % R of that value,
 * its beta the same with beta_first. Its state S is the matrix [dim_v][dim_k] at h * dim_v * dim_k of the op's part.
 * For one row of a sequence after the other:
 *   q' = q / max(|q|, eps), k' = k / max(|k|, eps), lengths being Euclidean
 *   S = S * e^(a[h] * ln(1 + e^(alpha + dt_bias[h])))
 *   S = S + 1 / (1 + e^-beta) * (v - S k') k'^T
 *   out = scale * S q'
 * Element i of out and row i of S depend on q, k, alpha, beta and element i of v, on no other row of S. */

/* SSM_SCAN, for each head h, which has B and C of group h / (n_head / n_group), a whole number. Its state S is the
 * matrix [head_dim][n_state] at h * head_dim * n_state of the op's part. For one row of a sequence after the other:
 *   t = ln(1 + e^(dt[h] + dt_bias[h]))
 *   S = S * e^(t * a[h]) + (t * x) B^T
 *   out = S C + d[h] * x
 * Element i of out and row i of S depend on dt, B, C and element i of x, on no other row of S. */

#endif
