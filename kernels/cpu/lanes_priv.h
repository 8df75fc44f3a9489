/* lanes_priv.h: the arithmetic of the ops outside the matrices, sixteen lanes wide, once for each instruction set.
 *
 * The sources lanes_*.c are compiled three times; all three tables give the same bits (vec_priv.h says why), so the
 * plain C one is the oracle of the others by equality. Every function is pure: any thread, no state, no allocation, no
 * failure. A NaN or an infinity in the input comes out as one. Pointers need the alignment of their type only. A
 * *stride* is a dimension rounded up to sixteen floats; the floats between the dimension and the stride are zero where
 * said so.
 */
#ifndef HALO_CPU_LANES_PRIV_H
#define HALO_CPU_LANES_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels/plan.h>

#define HALO_CPU_LANES_WIDTH 16
/* Queries that one call of `attend` takes at most. */
#define HALO_CPU_ATTEND_QUERIES 16

static inline uint32_t halo_cpu_stride(uint32_t dim)
{
    return (dim + HALO_CPU_LANES_WIDTH - 1) / HALO_CPU_LANES_WIDTH * HALO_CPU_LANES_WIDTH;
}

/* Consecutive positions, at most a page, as f32. */
struct halo_cpu_tile {
    const float *k, *v; /* [n_pos][k_stride], [n_pos][v_stride], padded with zeros */
    uint32_t n_pos;     /* 1..HALO_KV_PAGE_TOKENS */
    uint32_t k_stride, v_stride;
};

/* A softmax in progress for some queries: the largest score so far, the sum of e^(score - max), and the sum of e^(score
 * - max) V. Empty: max -inf, sum 0, out 0. max and sum have room for HALO_CPU_ATTEND_QUERIES numbers whatever the count
 * in use. */
struct halo_cpu_softmax {
    float *max, *sum;
    float *out; /* [queries][v_stride] */
};

/* Heads of the gated delta rule (op.h), and what it reads and writes of one row for one head. */
struct halo_cpu_delta {
    uint32_t dim_k, dim_v;
    float eps, scale;
};
struct halo_cpu_delta_row {
    const float *q, *k, *v;
    float decay, beta; /* what S is multiplied with, and what the difference to v is */
    float *out;
};
#define HALO_CPU_DELTA_ROWS 16 /* that one call takes at most */

/* What the scan of a state-space model (op.h) reads and writes of one row for one head. */
struct halo_cpu_ssm_row {
    const float *x, *b, *c;
    float dt, decay, d; /* decay: what S is multiplied with */
    float *out;
};
#define HALO_CPU_SSM_ROWS 16 /* that one call takes at most */

struct halo_cpu_lanes {
    const char *name;
    /* If add: x += add. out = x / sqrt(mean(x^2) + eps) * weight; weight may be NULL, out may be x. The sum of squares:
     * sixty-four running sums. */
    void (*rmsnorm)(uint32_t n, float *x, const float *add, const float *weight, float eps, float *out);
    /* y = x - mean(x); out = y / sqrt(mean(y^2) + eps) * weight + bias; weight and bias may be NULL, out may be x. */
    void (*layernorm)(uint32_t n, const float *x, const float *weight, const float *bias, float eps, float *out);
    void (*add)(uint32_t n, float *x, const float *add);
    /* out += w x */
    void (*axpy)(uint32_t n, float w, const float *x, float *out);
    /* out = act(gate) * up as op.h has it; silu within 3 ulp or 1e-36. up may be NULL, out may be gate or up. */
    void (*glu)(enum halo_glu_act act, uint32_t n, const float *gate, const float *up, float *out);
    /* x *= scale; with a cap: x = cap * tanh(x / cap), the tanh within 2e-7. */
    void (*limit)(uint32_t n, float scale, float cap, float *x);
    /* out = e^(x - shift); the exponential within 1 ulp. out may be x. */
    void (*exp)(uint32_t n, const float *x, float shift, float *out);
    /* One head row of the KV cache in its stored form. Q8: scale amax / 127 rounded to f16; x / that scale to nearest
     * even. Q4: a row that was rotated. */
    void (*kv_store)(enum halo_kv_type type, uint32_t dim, const float *x, void *row);
    /* n_rows consecutive head rows as f32, padded with zeros to the stride. As many bytes at `next` (NULL: none) are
     * prefetched meanwhile: the rows that will be loaded after these. */
    void (*kv_load)(enum halo_kv_type type, uint32_t dim, uint32_t n_rows, const void *rows, const void *next,
                    float *out);
    /* Lets n_q queries (q: [n_q][k_stride], padded with zeros) see all of a tile. The numbers of a query depend on
     * nothing but that query, the tile and its own softmax. */
    void (*attend)(const struct halo_cpu_tile *tile, uint32_t n_q, const float *q, float scale, float cap,
                   struct halo_cpu_softmax *softmax);
    /* into = into followed by from; an empty `into` becomes `from` bit for bit. */
    void (*merge)(uint32_t n_q, uint32_t v_stride, const struct halo_cpu_softmax *from, struct halo_cpu_softmax *into);
    /* A row of n channels of a convolution, as op.h has it: taps [n][n_taps], rows[k] is what tap k multiplies, NULL:
     * zeros. */
    void (*conv1d)(uint32_t n, uint32_t n_taps, const float *taps, const float *bias, const float *const *rows,
                   bool silu, float *out);
    /* The rows one after the other over a state [dim_v][dim_k]. The numbers do not depend on how rows are divided over
     * calls. */
    void (*delta_rule)(const struct halo_cpu_delta *heads, uint32_t n_rows, const struct halo_cpu_delta_row *rows,
                       float *state);
    /* The rows one after the other over a state [head_dim][n_state], with the same promise. */
    void (*ssm_scan)(uint32_t head_dim, uint32_t n_state, uint32_t n_rows, const struct halo_cpu_ssm_row *rows,
                     float *state);
    /* out[i] = numerator[i] / divisor */
    void (*divide)(uint32_t n, const float *numerator, float divisor, float *out);
    /* Reads memory at full speed; the result has no meaning. n_bytes is a multiple of 256. */
    uint64_t (*read)(const void *memory, size_t n_bytes);
};

extern const struct halo_cpu_lanes halo_cpu_lanes_reference, halo_cpu_lanes_avx2, halo_cpu_lanes_avx512;

#ifdef HALO_CPU_LANES
/* Inside lanes_*.c: the functions of the variant that is being compiled. */
#define LANES_PASTE2(prefix, name) prefix##_##name
#define LANES_PASTE(prefix, name) LANES_PASTE2(prefix, name)
#define LANES(name) LANES_PASTE(HALO_CPU_LANES, name)

void LANES(rmsnorm)(uint32_t n, float *x, const float *add, const float *weight, float eps, float *out);
void LANES(add)(uint32_t n, float *x, const float *add);
void LANES(axpy)(uint32_t n, float w, const float *x, float *out);
void LANES(layernorm)(uint32_t n, const float *x, const float *weight, const float *bias, float eps, float *out);
void LANES(glu)(enum halo_glu_act act, uint32_t n, const float *gate, const float *up, float *out);
void LANES(limit)(uint32_t n, float scale, float cap, float *x);
void LANES(exp)(uint32_t n, const float *x, float shift, float *out);
void LANES(kv_store)(enum halo_kv_type type, uint32_t dim, const float *x, void *row);
void LANES(kv_load)(enum halo_kv_type type, uint32_t dim, uint32_t n_rows, const void *rows, const void *next,
                    float *out);
void LANES(attend)(const struct halo_cpu_tile *tile, uint32_t n_q, const float *q, float scale, float cap,
                   struct halo_cpu_softmax *softmax);
void LANES(merge)(uint32_t n_q, uint32_t v_stride, const struct halo_cpu_softmax *from, struct halo_cpu_softmax *into);
void LANES(conv1d)(uint32_t n, uint32_t n_taps, const float *taps, const float *bias, const float *const *rows,
                   bool silu, float *out);
void LANES(delta_rule)(const struct halo_cpu_delta *heads, uint32_t n_rows, const struct halo_cpu_delta_row *rows,
                       float *state);
void LANES(ssm_scan)(uint32_t head_dim, uint32_t n_state, uint32_t n_rows, const struct halo_cpu_ssm_row *rows,
                     float *state);
void LANES(divide)(uint32_t n, const float *numerator, float divisor, float *out);
uint64_t LANES(read)(const void *memory, size_t n_bytes);
#endif

#endif
