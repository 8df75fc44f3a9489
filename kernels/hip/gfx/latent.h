/* latent.h: attention over rows that are K and, by their first elements, V of all heads, without matrix units.
 *
 * A wave has a few heads. Rows of the cache lie as they are, so a lane has the same elements of a row as of q and of
 * the output: a row is loaded into registers once and gives the scores, by a sum over the wave, and then the output. A
 * step is a few positions, whose softmax every lane computes.
 */
#ifndef HALO_GFX_LATENT_H
#define HALO_GFX_LATENT_H

#include "attend_merge.h"

constexpr uint32_t LATENT_G = HALO_LATENT_HEADS / WAVES; /* heads of a wave */
/* Groups of four elements of a lane: of V, and of the longest K. */
constexpr uint32_t V_GROUPS = HALO_LATENT_DIM_V / 128, K_GROUPS_MAX = HALO_HIP_CEIL(HALO_LATENT_DIM_K, 128);

struct latent_lds {
    float weight[WAVES][HALO_SPLITS_MAX];
    uint32_t last;
};

/* The wave's heads and how far they are. K_GROUPS: of K, as many as of V or more. */
template <uint32_t K_GROUPS> struct latent_state {
    float q[LATENT_G][K_GROUPS][4], out[LATENT_G][V_GROUPS][4], max[LATENT_G], sum[LATENT_G];
};

constexpr uint32_t LATENT_STEP = 2; /* positions; more have no room in registers */
template <uint32_t TYPE, uint32_t K_GROUPS> struct latent_rows {
    kv_values<TYPE, 4> row[LATENT_STEP][K_GROUPS];
};

/* Of the first of these heads, `n` of which exist; the others are zero. */
template <uint32_t K_GROUPS>
HALO_DEVICE void latent_begin(const halo_attend_args &a, const attend_job &job, uint32_t first, uint32_t n,
                              latent_state<K_GROUPS> *state)
{
    const uint32_t dim = a.kv.head_dim_k;
    const float scale = kv_score_scale(a.score, job.pos);
#pragma unroll
    for (uint32_t g = 0; g < LATENT_G; g++) {
        const float *q = a.q + ((uint64_t)job.row * a.n_head + first + g) * dim;
        state->max[g] = NOTHING;
        state->sum[g] = 0;
#pragma unroll
        for (uint32_t j = 0; j < K_GROUPS; j++) {
            const uint32_t d = 4 * halo_lane() + 128 * j;
            halo_f4 v = {{0, 0, 0, 0}};
            if (g < n && d < dim)
                v = halo_load<halo_f4>(q + d);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                state->q[g][j][e] = v.e[e] * scale;
        }
#pragma unroll
        for (uint32_t j = 0; j < V_GROUPS; j++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                state->out[g][j][e] = 0;
    }
}

/* The step's scores into probabilities of one head; the output so far shrinks. */
template <uint32_t N, uint32_t K_GROUPS>
HALO_DEVICE void latent_softmax(const bool seen[N], float cap, uint32_t g, latent_state<K_GROUPS> *state, float p[N])
{
    float max = state->max[g], sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        if (cap > 0)
            p[i] = halo_capped(p[i], cap);
        p[i] = seen[i] ? p[i] : NOTHING;
        max = halo_max(max, p[i]);
    }
    const float shrink = halo_exp2(state->max[g] - max);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        p[i] = seen[i] ? halo_exp2(p[i] - max) : 0;
        sum += p[i];
    }
    state->max[g] = max;
    state->sum[g] = halo_fma(state->sum[g], shrink, sum);
#pragma unroll
    for (uint32_t j = 0; j < V_GROUPS; j++)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            state->out[g][j][e] *= shrink;
}

/* Positions first .. of a page, of which hidden .. n - 1 are seen. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void latent_positions(const latent_rows<TYPE, K_GROUPS> &rows, uint32_t first, uint32_t hidden, uint32_t n,
                                  float cap, latent_state<K_GROUPS> *state)
{
    constexpr uint32_t N = LATENT_STEP;
    bool seen[N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        seen[i] = first + i >= hidden && first + i < n;
#pragma unroll
    for (uint32_t g = 0; g < LATENT_G; g++) {
        float p[N];
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            float s = 0;
#pragma unroll
            for (uint32_t j = 0; j < K_GROUPS; j++)
#pragma unroll
                for (uint32_t e = 0; e < 4; e++)
                    s = halo_fma(rows.row[i][j].get((int)e), state->q[g][j][e], s);
            p[i] = halo_wave_sum(s);
        }
        latent_softmax<N, K_GROUPS>(seen, cap, g, state, p);
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
#pragma unroll
            for (uint32_t j = 0; j < V_GROUPS; j++)
#pragma unroll
                for (uint32_t e = 0; e < 4; e++)
                    state->out[g][j][e] = halo_fma(rows.row[i][j].get((int)e), p[i], state->out[g][j][e]);
    }
}

/* The wave's heads of this split: as results, or as partial results. */
template <uint32_t K_GROUPS>
HALO_DEVICE void latent_leave(const halo_attend_args &a, const attend_job &job, uint32_t first, uint32_t n,
                              const latent_state<K_GROUPS> &state)
{
    const uint32_t dim = a.kv.head_dim_v;
    const bool alone = job.n_splits == 1;
#pragma unroll
    for (uint32_t g = 0; g < LATENT_G; g++) {
        if (g >= n)
            continue;
        const uint32_t head = first + g;
        const float scale = alone ? halo_rcp(state.sum[g] + kv_sink(a.score, head, state.max[g])) : 1;
        float *partial = partial_of(a, job.row, head, halo_block_x());
#pragma unroll
        for (uint32_t j = 0; j < V_GROUPS; j++) {
            halo_f4 v;
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                v.e[e] = state.out[g][j][e] * scale;
            if (alone)
                leave(a, job.row, head, 4 * halo_lane() + 128 * j, v);
            else
                halo_store4(partial + HALO_PARTIAL_HEAD, 4 * halo_lane() + 128 * j, dim, v);
        }
        if (!alone && halo_lane() == 0)
            *reinterpret_cast<halo_f2 *>(partial) = halo_f2{{state.max[g], state.sum[g]}};
    }
}

/* Of the n positions of a page; what does not exist reads the last position, or the first elements, of which q is
 * zero. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void latent_load(const halo_attend_args &a, const uint8_t *page, uint32_t first, uint32_t n,
                             latent_rows<TYPE, K_GROUPS> *ret)
{
    const uint32_t dim = a.kv.head_dim_k;
#pragma unroll
    for (uint32_t i = 0; i < LATENT_STEP; i++)
#pragma unroll
        for (uint32_t j = 0; j < K_GROUPS; j++) {
            const uint32_t d = 4 * halo_lane() + 128 * j;
            ret->row[i][j].load(page, dim, halo_min_of(first + i, n - 1), d < dim ? d : 0);
        }
}

/* The pages first .. end - 1 of a row, those of its window. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void latent_pages(const halo_attend_args &a, const attend_job &job, uint32_t first, uint32_t end,
                              latent_state<K_GROUPS> *state)
{
#pragma unroll 1
    for (uint32_t i = first; i < end; i++) {
        const uint8_t *page = a.kv.base + job.pages[i] * a.kv.page_bytes;
        const uint32_t n = positions_of(job, i), hidden = hidden_of(job, i);
#pragma unroll 1
        for (uint32_t p = hidden / LATENT_STEP * LATENT_STEP; p < n; p += LATENT_STEP) {
            latent_rows<TYPE, K_GROUPS> rows;
            latent_load<TYPE, K_GROUPS>(a, page, p, n, &rows);
            latent_positions<TYPE, K_GROUPS>(rows, p, hidden, n, a.score.cap * LOG2_E, state);
        }
    }
}

/* The results of a split; the last block of a row's splits merges them. */
template <uint32_t TYPE, uint32_t K_GROUPS>
HALO_DEVICE void latent_finish(const halo_attend_args &a, const attend_job &job, uint32_t first, uint32_t n_heads,
                               const latent_state<K_GROUPS> &state, latent_lds &lds)
{
    latent_leave(a, job, first, n_heads, state);
    if (job.n_splits == 1 ||
        !halo_last_block(a.counter + job.row * a.n_parts + halo_block_y(), job.n_splits, &lds.last))
        return;
    for (uint32_t g = 0; g < n_heads; g++)
        merge_long_head<TYPE, HALO_LATENT_DIM_V>(a, job.row, first + g, job.n_splits, lds.weight[halo_wave()]);
}

/* The wave's heads of the block's: the first, and how many. */
HALO_DEVICE uint32_t latent_heads(const attend_job &job, uint32_t *ret_n)
{
    const uint32_t skip = halo_min_of(halo_wave() * LATENT_G, job.n_heads);
    *ret_n = halo_min_of(job.n_heads - skip, LATENT_G);
    return job.first_head + skip;
}

#endif
