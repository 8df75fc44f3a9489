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
    for (i = 0; i + 16 <= n; i += 16)
        vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_load(weight + i)));
    if (i < n)
        vec_store_n(out + i, vec_mul(vec_mul(vec_load_n(x + i, n - i), scale), vec_load_n(weight + i, n - i)), n - i);
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

static inline struct vec silu(struct vec gate, struct vec up)
{
    struct vec e = vec_exp(vec_sub(vec_zero(), gate));
    return vec_mul(vec_div(gate, vec_add(vec_splat(1.0f), e)), up);
}

void LANES(silu)(uint32_t n, const float *gate, const float *up, float *out)
{
    EACH_CHUNK(n, vec_store(out + i, silu(vec_load(gate + i), vec_load(up + i))),
               vec_store_n(out + i, silu(vec_load_n(gate + i, tail), vec_load_n(up + i, tail)), tail));
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
