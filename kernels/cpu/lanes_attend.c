/* lanes_attend.c: scores, softmax and weighted sum of one tile of positions. Compiled once for each variant
 * (lanes_priv.h).
 *
 * A score is the dot product of sixteen lanes along the head, summed by the one tree of vec_sum; the weighted sum adds
 * the positions one after the other. So blocks of queries and positions may be as large as the registers of a variant
 * allow: each number is made by the same additions in the same order whatever the block.
 */
#include <math.h>

#include "lanes_priv.h"
#include "vec_priv.h"

#define INLINE static inline __attribute__((always_inline))
#define POSITIONS HALO_KV_PAGE_TOKENS

#if defined(HALO_CPU_LANES_AVX512)
enum { SCORE_Q = 4, SUM_Q = 4, SUM_CHUNKS = 4 };
#elif defined(HALO_CPU_LANES_AVX2)
enum { SCORE_Q = 1, SUM_Q = 2, SUM_CHUNKS = 2 };
#else
enum { SCORE_Q = 1, SUM_Q = 1, SUM_CHUNKS = 1 };
#endif

/* n_q queries by four positions, n_q a constant at every call so that the sums live in registers. */
INLINE void score_block(uint32_t n_q, const float *q, const float *k, uint32_t stride, float scale, float *ret)
{
    struct vec sum[SCORE_Q][4];
    for (uint32_t a = 0; a < n_q; a++)
        for (uint32_t b = 0; b < 4; b++)
            sum[a][b] = vec_zero();
    for (uint32_t i = 0; i < stride; i += 16) {
        struct vec key[4];
        for (uint32_t b = 0; b < 4; b++)
            key[b] = vec_load(k + b * stride + i);
        for (uint32_t a = 0; a < n_q; a++) {
            struct vec query = vec_load(q + a * stride + i);
            for (uint32_t b = 0; b < 4; b++)
                sum[a][b] = vec_fma(query, key[b], sum[a][b]);
        }
    }
    for (uint32_t a = 0; a < n_q; a++) {
        vec_sum4(sum[a], ret + a * POSITIONS);
        for (uint32_t b = 0; b < 4; b++)
            ret[a * POSITIONS + b] *= scale;
    }
}

INLINE void score_single(uint32_t n_q, const float *q, const float *k, uint32_t stride, float scale, float *ret)
{
    for (uint32_t a = 0; a < n_q; a++) {
        struct vec sum = vec_zero();
        for (uint32_t i = 0; i < stride; i += 16)
            sum = vec_fma(vec_load(q + a * stride + i), vec_load(k + i), sum);
        ret[a * POSITIONS] = vec_sum(sum) * scale;
    }
}

INLINE void score_queries(uint32_t n_q, const struct halo_cpu_tile *tile, const float *q, float scale, float *ret)
{
    uint32_t p = 0;
    for (; p + 4 <= tile->n_pos; p += 4)
        score_block(n_q, q, tile->k + p * tile->k_stride, tile->k_stride, scale, ret + p);
    for (; p < tile->n_pos; p++)
        score_single(n_q, q, tile->k + p * tile->k_stride, tile->k_stride, scale, ret + p);
    for (uint32_t a = 0; a < n_q; a++)
        for (uint32_t rest = p; rest < POSITIONS; rest++)
            ret[a * POSITIONS + rest] = -INFINITY;
}

static void score(const struct halo_cpu_tile *tile, uint32_t n_q, const float *q, float scale, float *ret)
{
    uint32_t a = 0;
    for (; a + SCORE_Q <= n_q; a += SCORE_Q)
        score_queries(SCORE_Q, tile, q + a * tile->k_stride, scale, ret + a * POSITIONS);
#if defined(HALO_CPU_LANES_AVX512)
    if (n_q - a >= 2) {
        score_queries(2, tile, q + a * tile->k_stride, scale, ret + a * POSITIONS);
        a += 2;
    }
#endif
    for (; a < n_q; a++)
        score_queries(1, tile, q + a * tile->k_stride, scale, ret + a * POSITIONS);
}

/* Replaces scores by e^(score - max), updates max and sum, and returns for each query what its old sums must
 * be multiplied by. */
static void weigh(uint32_t n_q, float *score, struct halo_cpu_softmax *softmax, float *ret_correction)
{
    float old[HALO_CPU_ATTEND_QUERIES] = {0}, max[HALO_CPU_ATTEND_QUERIES] = {0};
    for (uint32_t a = 0; a < n_q; a++) {
        struct vec both = vec_max(vec_load(score + a * POSITIONS), vec_load(score + a * POSITIONS + 16));
        float largest = vec_max_all(both);
        old[a] = softmax->max[a];
        max[a] = largest > old[a] ? largest : old[a];
        softmax->max[a] = max[a];
    }
    vec_store(ret_correction, vec_exp(vec_sub(vec_load(old), vec_load(max))));
    for (uint32_t a = 0; a < n_q; a++) {
        float *s = score + a * POSITIONS;
        struct vec shift = vec_splat(max[a]);
        struct vec low = vec_exp(vec_sub(vec_load(s), shift)), high = vec_exp(vec_sub(vec_load(s + 16), shift));
        vec_store(s, low);
        vec_store(s + 16, high);
        softmax->sum[a] = softmax->sum[a] * ret_correction[a] + vec_sum(vec_add(low, high));
    }
}

/* out[a] = out[a] * correction[a] + sum over the positions of weight[a][p] V[p], for n_q queries and n_chunks chunks of
 * sixteen. */
INLINE void sum_block(uint32_t n_q, uint32_t n_chunks, const struct halo_cpu_tile *tile, const float *v,
                      const float *weight, const float *correction, float *out)
{
    struct vec sum[SUM_Q][SUM_CHUNKS];
    for (uint32_t a = 0; a < n_q; a++)
        for (uint32_t c = 0; c < n_chunks; c++)
            sum[a][c] = vec_mul(vec_load(out + a * tile->v_stride + 16 * c), vec_splat(correction[a]));
    for (uint32_t p = 0; p < tile->n_pos; p++, v += tile->v_stride) {
        struct vec value[SUM_CHUNKS];
        for (uint32_t c = 0; c < n_chunks; c++)
            value[c] = vec_load(v + 16 * c);
        for (uint32_t a = 0; a < n_q; a++) {
            struct vec w = vec_splat(weight[a * POSITIONS + p]);
            for (uint32_t c = 0; c < n_chunks; c++)
                sum[a][c] = vec_fma(w, value[c], sum[a][c]);
        }
    }
    for (uint32_t a = 0; a < n_q; a++)
        for (uint32_t c = 0; c < n_chunks; c++)
            vec_store(out + a * tile->v_stride + 16 * c, sum[a][c]);
}

INLINE void sum_queries(uint32_t n_q, const struct halo_cpu_tile *tile, const float *weight, const float *correction,
                        float *out)
{
    uint32_t n_chunks = tile->v_stride / 16, c = 0;
    for (; c + SUM_CHUNKS <= n_chunks; c += SUM_CHUNKS)
        sum_block(n_q, SUM_CHUNKS, tile, tile->v + 16 * c, weight, correction, out + 16 * c);
    for (; c < n_chunks; c++)
        sum_block(n_q, 1, tile, tile->v + 16 * c, weight, correction, out + 16 * c);
}

static void cap_scores(const struct halo_cpu_tile *tile, uint32_t n_q, float cap, float *score)
{
    for (uint32_t a = 0; a < n_q; a++, score += POSITIONS) {
        for (uint32_t i = 0; i < POSITIONS; i += 16)
            vec_store(score + i, vec_capped(vec_load(score + i), cap));
        for (uint32_t rest = tile->n_pos; rest < POSITIONS; rest++)
            score[rest] = -INFINITY;
    }
}

void LANES(attend)(const struct halo_cpu_tile *tile, uint32_t n_q, const float *q, float scale, float cap,
                   struct halo_cpu_softmax *softmax)
{
    float weight[HALO_CPU_ATTEND_QUERIES * POSITIONS], correction[HALO_CPU_ATTEND_QUERIES];
    score(tile, n_q, q, scale, weight);
    if (cap > 0)
        cap_scores(tile, n_q, cap, weight);
    weigh(n_q, weight, softmax, correction);
    uint32_t a = 0, stride = tile->v_stride;
    for (; a + SUM_Q <= n_q; a += SUM_Q)
        sum_queries(SUM_Q, tile, weight + a * POSITIONS, correction + a, softmax->out + a * stride);
#if defined(HALO_CPU_LANES_AVX512)
    if (n_q - a >= 2) {
        sum_queries(2, tile, weight + a * POSITIONS, correction + a, softmax->out + a * stride);
        a += 2;
    }
#endif
    for (; a < n_q; a++)
        sum_queries(1, tile, weight + a * POSITIONS, correction + a, softmax->out + a * stride);
}

void LANES(merge)(uint32_t n_q, uint32_t v_stride, const struct halo_cpu_softmax *from, struct halo_cpu_softmax *into)
{
    for (uint32_t a = 0; a < n_q; a++) {
        float *out = into->out + a * v_stride;
        const float *add = from->out + a * v_stride;
        float max = from->max[a] > into->max[a] ? from->max[a] : into->max[a];
        float factors[16] = {into->max[a] - max, from->max[a] - max};
        vec_store(factors, vec_exp(vec_load(factors)));
        struct vec old = vec_splat(factors[0]), new = vec_splat(factors[1]);
        for (uint32_t i = 0; i < v_stride; i += 16)
            vec_store(out + i, vec_fma(vec_load(add + i), new, vec_mul(vec_load(out + i), old)));
        into->sum[a] = into->sum[a] * factors[0] + from->sum[a] * factors[1];
        into->max[a] = max;
    }
}
