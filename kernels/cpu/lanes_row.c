/* lanes_row.c: norms, sums and activations of one row. Pure functions; compiled once for each variant (lanes_priv.h).
 */
#include <math.h>

#include "lanes_priv.h"
#include "vec_priv.h"

/* Calls statement for each chunk of sixteen from i on, and the tail statement for the rest of `tail` floats. */
#define EACH_CHUNK(n, chunk, rest)                                                                                     \
    uint32_t i = 0;                                                                                                    \
    for (; i + 16 <= (n); i += 16)                                                                                     \
        chunk;                                                                                                         \
    uint32_t tail = (n)-i;                                                                                             \
    if (tail > 0)                                                                                                      \
    rest

/* The chunk of a row of n at i; ones where there is no row. */
static inline struct vec row_load(const float *row, uint32_t i, uint32_t n)
{
    return row ? vec_load_chunk(row, i, n) : vec_splat(1.0f);
}

void LANES(rmsnorm)(uint32_t n, float *x, const float *add, const float *weight, float eps, float *out)
{
    if (add)
        LANES(add)(n, x, add);
    struct vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    uint32_t i = 0;
    for (; i + 64 <= n; i += 64) {
        for (uint32_t j = 0; j < 4; j++) {
            struct vec a = vec_load(x + i + 16 * j);
            sum[j] = vec_fma(a, a, sum[j]);
        }
    }
    for (uint32_t j = 0; i < n; j++, i += 16) {
        struct vec a = n - i >= 16 ? vec_load(x + i) : vec_load_n(x + i, n - i);
        sum[j] = vec_fma(a, a, sum[j]);
    }
    double mean = (double)vec_sum(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3]))) / n;
    struct vec scale = vec_splat((float)(1.0 / sqrt(mean + (double)eps)));
    for (i = 0; i < n; i += 16)
        vec_store_chunk(out, i, n, vec_mul(vec_mul(row_load(x, i, n), scale), row_load(weight, i, n)));
}

void LANES(layernorm)(uint32_t n, const float *x, const float *weight, const float *bias, float eps, float *out)
{
    struct vec sum = vec_zero(), squares = vec_zero();
    for (uint32_t i = 0; i < n; i += 16)
        sum = vec_add(sum, row_load(x, i, n));
    float mean = (float)((double)vec_sum(sum) / n), rest[16] = {0};
    struct vec m = vec_splat(mean);
    for (uint32_t i = 0; i < n; i += 16) {
        struct vec y = vec_sub(row_load(x, i, n), m);
        if (n - i < 16) { /* what lies behind the row counts nothing */
            vec_store_n(rest, y, n - i);
            y = vec_load(rest);
        }
        squares = vec_fma(y, y, squares);
    }
    struct vec scale = vec_splat((float)(1.0 / sqrt((double)vec_sum(squares) / n + (double)eps)));
    for (uint32_t i = 0; i < n; i += 16) {
        struct vec y = vec_mul(vec_mul(vec_sub(row_load(x, i, n), m), scale), row_load(weight, i, n));
        vec_store_chunk(out, i, n, bias ? vec_add(y, row_load(bias, i, n)) : y);
    }
}

void LANES(add)(uint32_t n, float *x, const float *add)
{
    EACH_CHUNK(n, vec_store(x + i, vec_add(vec_load(x + i), vec_load(add + i))),
               vec_store_n(x + i, vec_add(vec_load_n(x + i, tail), vec_load_n(add + i, tail)), tail));
}

void LANES(axpy)(uint32_t n, float w, const float *x, float *out)
{
    struct vec weight = vec_splat(w);
    EACH_CHUNK(n, vec_store(out + i, vec_fma(weight, vec_load(x + i), vec_load(out + i))),
               vec_store_n(out + i, vec_fma(weight, vec_load_n(x + i, tail), vec_load_n(out + i, tail)), tail));
}

/* x / (1 + e^-y) */
static inline struct vec sigmoid_times(struct vec x, struct vec y)
{
    struct vec e = vec_exp(vec_sub(vec_zero(), y));
    return vec_div(x, vec_add(vec_splat(1.0f), e));
}

/* The operands of max and min stand so that a NaN comes through. */
static inline __attribute__((always_inline)) struct vec glu(enum halo_glu_act act, struct vec gate, struct vec up)
{
    struct vec limit = vec_splat(HALO_GLU_CLAMP), cube;
    switch (act) {
    case HALO_GLU_SILU: return vec_mul(sigmoid_times(gate, gate), up);
    case HALO_GLU_GELU:
        cube = vec_mul(vec_mul(gate, gate), gate);
        cube = vec_mul(vec_fma(cube, vec_splat(0.044715f), gate), vec_splat(1.5957691216057308f)); /* 2 sqrt(2 / pi) */
        return vec_mul(sigmoid_times(gate, cube), up);
    case HALO_GLU_RELU2: gate = vec_max(vec_zero(), gate); return vec_mul(vec_mul(gate, gate), up);
    case HALO_GLU_CLAMPED:
        gate = vec_min(limit, gate);
        up = vec_max(vec_sub(vec_zero(), limit), vec_min(limit, up));
        return vec_mul(sigmoid_times(gate, vec_mul(gate, vec_splat(HALO_GLU_CLAMP_ALPHA))),
                       vec_add(up, vec_splat(1.0f)));
    case HALO_GLU_LINEAR: return vec_mul(gate, up);
    case HALO_GLU_SIGMOID: return sigmoid_times(up, gate);
    case HALO_GLU_ACTS: break;
    }
    return gate;
}

static inline __attribute__((always_inline)) void glu_row(enum halo_glu_act act, uint32_t n, const float *gate,
                                                          const float *up, float *out)
{
    for (uint32_t i = 0; i < n; i += 16)
        vec_store_chunk(out, i, n, glu(act, row_load(gate, i, n), row_load(up, i, n)));
}

void LANES(glu)(enum halo_glu_act act, uint32_t n, const float *gate, const float *up, float *out)
{
    switch (act) {
    case HALO_GLU_SILU: glu_row(HALO_GLU_SILU, n, gate, up, out); break;
    case HALO_GLU_GELU: glu_row(HALO_GLU_GELU, n, gate, up, out); break;
    case HALO_GLU_RELU2: glu_row(HALO_GLU_RELU2, n, gate, up, out); break;
    case HALO_GLU_CLAMPED: glu_row(HALO_GLU_CLAMPED, n, gate, up, out); break;
    case HALO_GLU_LINEAR: glu_row(HALO_GLU_LINEAR, n, gate, up, out); break;
    case HALO_GLU_SIGMOID: glu_row(HALO_GLU_SIGMOID, n, gate, up, out); break;
    case HALO_GLU_ACTS: break;
    }
}

void LANES(conv1d)(uint32_t n, uint32_t n_taps, const float *taps, const float *bias, const float *const *rows,
                   bool silu, float *out)
{
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t n_lanes = n - i < 16 ? n - i : 16;
        struct vec y = bias ? row_load(bias, i, n) : vec_zero();
        for (uint32_t k = 0; k < n_taps; k++) {
            float tap[16] = {0};
            for (uint32_t lane = 0; lane < n_lanes; lane++)
                tap[lane] = taps[(size_t)(i + lane) * n_taps + k];
            y = vec_fma(vec_load(tap), rows[k] ? row_load(rows[k], i, n) : vec_zero(), y);
        }
        vec_store_chunk(out, i, n, silu ? sigmoid_times(y, y) : y);
    }
}

void LANES(limit)(uint32_t n, float scale, float cap, float *x)
{
    struct vec by = vec_splat(scale);
    for (uint32_t i = 0; i < n; i += 16) {
        struct vec v = vec_mul(row_load(x, i, n), by);
        vec_store_chunk(x, i, n, cap > 0 ? vec_capped(v, cap) : v);
    }
}

void LANES(exp)(uint32_t n, const float *x, float shift, float *out)
{
    struct vec s = vec_splat(shift);
    EACH_CHUNK(n, vec_store(out + i, vec_exp(vec_sub(vec_load(x + i), s))),
               vec_store_n(out + i, vec_exp(vec_sub(vec_load_n(x + i, tail), s)), tail));
}

void LANES(divide)(uint32_t n, const float *numerator, float divisor, float *out)
{
    struct vec d = vec_splat(divisor);
    EACH_CHUNK(n, vec_store(out + i, vec_div(vec_load(numerator + i), d)),
               vec_store_n(out + i, vec_div(vec_load_n(numerator + i, tail), d), tail));
}

uint64_t LANES(read)(const void *memory, size_t n_bytes)
{
    const float *p = memory;
    struct vec max[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    for (size_t i = 0; i < n_bytes / sizeof(float); i += 64)
        for (uint32_t j = 0; j < 4; j++)
            max[j] = vec_max(max[j], vec_load(p + i + 16 * j));
    float largest = vec_max_all(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
    uint32_t bits;
    _Static_assert(sizeof(bits) == sizeof(largest), "f32");
    __builtin_memcpy(&bits, &largest, sizeof(bits));
    return bits;
}
