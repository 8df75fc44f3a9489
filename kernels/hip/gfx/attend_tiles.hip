/* attend_tiles.hip: decode attention, split along the context, by matrix tiles of 16 positions and up to eight q heads
 * of a kv head: strips (gfx.h) whose operands come straight from registers. For chips whose memory is fast enough for
 * the instructions of attend.hip to be the limit, which have HALO_STRIP_STEP; a cache in f16, q8 or q4.
 *
 * The steps of a split, 16 positions each, are dealt to the waves of a block. A wave makes the scores of a step for all
 * heads: the rows of a strip are its positions and K is its weights, in the order in which lanes read the chunks of a
 * page. It has an online softmax of its own and multiplies the probabilities with V, whose elements are the rows of
 * strips then: neighbouring positions of an element become a word, and probabilities pass through LDS. K and V of the
 * next steps are loaded as soon as those before are used, and no barrier waits for them: waves meet once, at the end,
 * where they bring their outputs to a common maximum. Heads are prepared as in attend.hip (attend_heads.h); the launch
 * behind merges the splits (attend_merge.hip).
 */
#include "gfx.h"

#if defined(HALO_STRIP_STEP) && !defined(HALO_NO_MATRIX)
#include "attend_heads.h"
#include "attend_merge.h"
#include "attend_tiles.h"

template <int D> struct alignas(16) attend_tiles_lds {
    static constexpr uint32_t Q_PITCH = D + 32, /* two heads lie in different banks */
        OUT_PITCH = D + 4;
    float q[HEADS][D];
    float fresh[2][D]; /* k and v of the row */
    alignas(16) float out[TILE_WAVES][HEADS][OUT_PITCH];
    alignas(16) uint16_t half[HEADS * Q_PITCH];
    alignas(16) uint16_t p[TILE_WAVES][HEADS][STEP];
    float max[TILE_WAVES][HEADS], sum[TILE_WAVES][HEADS];
};

/* The lane's heads: those of its sums. */
template <int D> struct tiles_state {
    float max[HALO_STRIP_HEADS], sum[HALO_STRIP_HEADS]; /* sums are the lane's own */
    float out[D / 128][8][SUMS];
};

/* The wave's heads of q as halves, in the order of the lanes' chunks of K. */
template <uint32_t TYPE, int D> HALO_DEVICE void tiles_halve_q(attend_tiles_lds<D> &lds)
{
    constexpr uint32_t CHUNK = kv_chunk<TYPE>;
    halo_wave_barrier();
    for (uint32_t g = halo_wave(); g < HEADS; g += TILE_WAVES)
        for (uint32_t d = halo_lane(); d < D; d += 32) {
            const uint32_t c = d / CHUNK, eight = c / PARTS * (CHUNK / 8) + d % CHUNK / 8;
            lds.half[g * lds.Q_PITCH + (eight * PARTS + c % PARTS) * 8 + kv_half_place<TYPE>(d % 8)] =
                halo_float_half(lds.q[g][d]);
        }
}

template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_scores(const tiles_part<TYPE, D> &part, const attend_tiles_lds<D> &lds, float (&sums)[SUMS])
{
    const uint16_t *q = lds.half + halo_strip_x_row() % HEADS * lds.Q_PITCH + halo_strip_part() * 8;
#pragma unroll
    for (uint32_t strip = 0; strip < D / 32 / PARTS; strip++) {
        uint32_t w[ROWS][16], x[16];
        tiles_k<TYPE, D>(part, strip, w);
#pragma unroll
        for (uint32_t n = 0; n < 4; n++) {
            const halo_u4 v = halo_load<halo_u4>(q, (strip * 4 + n) * PARTS);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                x[4 * n + e] = v.e[e];
        }
        halo_strip_mma(w, x, sums);
    }
}

/* Scores of positions first .. first + STEP - 1 become probabilities, left in LDS as halves; outputs shrink as the
 * maximum grows. */
template <int D>
HALO_DEVICE void tiles_softmax(const attend_job &job, uint32_t first, float cap, float (&s)[SUMS], uint16_t (*p)[STEP],
                               tiles_state<D> *state)
{
    float shrink[HALO_STRIP_HEADS];
#pragma unroll
    for (int h = 0; h < HALO_STRIP_HEADS; h++) {
        float max = state->max[h], sum = 0;
#pragma unroll
        for (int i = 0; i < (int)SUMS; i++)
            if (halo_strip_sum_of(i) == h) {
                const uint32_t position = first + halo_strip_sum_row(i);
                s[i] = cap > 0 ? halo_capped(s[i], cap) : s[i];
                s[i] = position >= job.lowest && position <= (uint32_t)job.pos ? s[i] : 2 * NOTHING;
                max = halo_max(max, s[i]);
            }
        max = halo_strip_rows_max(max);
        shrink[h] = halo_exp2(state->max[h] - max);
#pragma unroll
        for (int i = 0; i < (int)SUMS; i++)
            if (halo_strip_sum_of(i) == h) {
                const float v = halo_exp2(s[i] - max);
                sum += v;
                if (halo_strip_sum_x(i) < HEADS)
                    p[halo_strip_sum_x(i)][halo_strip_sum_row(i)] = halo_float_half(v);
            }
        state->sum[h] = halo_fma(state->sum[h], shrink[h], sum);
        state->max[h] = max;
    }
#pragma unroll
    for (uint32_t u = 0; u < D / 128; u++)
#pragma unroll
        for (uint32_t t = 0; t < 8; t++)
#pragma unroll
            for (int i = 0; i < (int)SUMS; i++)
                state->out[u][t][i] *= shrink[halo_strip_sum_of(i)];
}

template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_weigh(const tiles_part<TYPE, D> &part, const uint16_t (*p)[STEP], tiles_state<D> *state)
{
    constexpr uint32_t WORDS = POSITIONS / 2;
    uint32_t x[WORDS];
    const uint16_t *own = &p[halo_strip_x_row() % HEADS][halo_strip_part() * POSITIONS];
#pragma unroll
    for (uint32_t k = 0; k < WORDS; k++)
        x[k] = halo_load<uint32_t>(own, k);
#pragma unroll
    for (uint32_t u = 0; u < D / 128; u++) {
        halo_u4 v[ROWS][POSITIONS];
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (uint32_t j = 0; j < POSITIONS; j++)
                v[i][j] = part.v[j][u][i].halves();
#pragma unroll
        for (uint32_t pair = 0; pair < 4; pair++) {
            uint32_t even[ROWS][WORDS], odd[ROWS][WORDS];
#pragma unroll
            for (uint32_t i = 0; i < ROWS; i++)
#pragma unroll
                for (uint32_t k = 0; k < WORDS; k++) {
                    even[i][k] = kv_first_halves(v[i][2 * k].e[pair], v[i][2 * k + 1].e[pair]);
                    odd[i][k] = kv_second_halves(v[i][2 * k].e[pair], v[i][2 * k + 1].e[pair]);
                }
            halo_strip_step(even, x, 0, state->out[u][2 * pair]);
            halo_strip_step(odd, x, 0, state->out[u][2 * pair + 1]);
        }
    }
}

/* The wave's outputs, at its own maxima. */
template <uint32_t TYPE, int D> HALO_DEVICE void tiles_leave(const tiles_state<D> &state, attend_tiles_lds<D> &lds)
{
    const uint32_t wave = halo_wave();
#pragma unroll
    for (int h = 0; h < HALO_STRIP_HEADS; h++) {
        const float sum = halo_strip_rows_sum(state.sum[h]);
        const uint32_t head = halo_strip_sum_x(h);
        if (halo_strip_sum_row(h) == 0 && head < HEADS) {
            lds.max[wave][head] = state.max[h];
            lds.sum[wave][head] = sum;
        }
    }
#pragma unroll
    for (int i = 0; i < (int)SUMS; i++) {
        const uint32_t head = halo_strip_sum_x(i);
        if (head >= HEADS)
            continue;
#pragma unroll
        for (uint32_t u = 0; u < D / 128; u++)
#pragma unroll
            for (uint32_t four = 0; four < 8; four += 4) {
                halo_f4 v;
#pragma unroll
                for (uint32_t e = 0; e < 4; e++)
                    v.e[e] = state.out[u][kv_half_place<TYPE>(four + e)][i];
                *reinterpret_cast<halo_f4 *>(&lds.out[wave][head][128 * u + 8 * halo_strip_sum_row(i) + four]) = v;
            }
    }
}

/* The outputs of the block's waves added up at their common maximum: a head by a wave. */
template <uint32_t TYPE, int D>
HALO_DEVICE void tiles_join(const halo_attend_args &a, const attend_job &job, const attend_tiles_lds<D> &lds)
{
    static_assert(HEADS == TILE_WAVES, "a head by a wave");
    const uint32_t head = halo_wave();
    float max = NOTHING, sum = 0;
    halo_f4 v[D / 128] = {};
    for (uint32_t w = 0; w < TILE_WAVES; w++)
        max = halo_max(max, lds.max[w][head]);
    for (uint32_t w = 0; w < TILE_WAVES; w++) {
        const float scale = halo_exp2(lds.max[w][head] - max);
        sum = halo_fma(lds.sum[w][head], scale, sum);
        for (uint32_t k = 0; k < D / 128; k++) {
            const halo_f4 part = halo_load<halo_f4>(&lds.out[w][head][4 * halo_lane() + 128 * k]);
            for (uint32_t e = 0; e < 4; e++)
                v[k].e[e] = halo_fma(part.e[e], scale, v[k].e[e]);
        }
    }
    if (head < job.n_heads)
        leave_part<TYPE>(a, job, job.first_head + head, max, sum, v);
}

/* The number of the page of a step, of the split's last one behind that. */
HALO_DEVICE uint32_t tiles_page(const attend_job &job, uint32_t step)
{
    return job.pages[halo_min_of(step, job.end - 1) / (KV_PAGE / STEP)];
}

HALO_DEVICE tiles_step tiles_at(const halo_attend_args &a, const attend_job &job, uint32_t step, uint32_t page)
{
    const uint32_t first = step % (KV_PAGE / STEP) * STEP;
    return tiles_step{a.kv.base + page * a.kv.page_bytes, first, (uint32_t)job.pos - step * STEP + first};
}

template <uint32_t TYPE, int D> HALO_DEVICE void attend_tiles(const halo_attend_args &a, attend_tiles_lds<D> &lds)
{
    const attend_job job = job_of<STEP>(a, HEADS, TILE_WAVES);
    const bool some = job.begin < job.end, newest = takes_product<D>(a) && some && job.end == job.n_pages;
    const uint32_t begin = job.begin + halo_wave();
    attend_tables<D> tables;
    tables.load(a, job.row);
    tiles_part<TYPE, D> part[AHEAD];
    tiles_step next[AHEAD] = {};
    uint32_t page[AHEAD] = {}; /* of the step behind those that are loaded */
    /* Before the inputs are ready, the row's own position is not in the cache; without k and v here, others may be
     * missing too. */
#pragma unroll
    for (uint32_t s = 0; s < AHEAD; s++)
        if (begin + TILE_WAVES * s < job.end) {
            next[s] = tiles_at(a, job, begin + TILE_WAVES * s, tiles_page(job, begin + TILE_WAVES * s));
            page[s] = tiles_page(job, begin + TILE_WAVES * (s + AHEAD));
            const bool own = begin + TILE_WAVES * s + 1 == job.n_pages;
            const tiles_step early = {next[s].page, next[s].first, next[s].last - own};
            if (takes_product<D>(a) && next[s].last >= (uint32_t)own) {
                tiles_load_k<TYPE, D>(a, job, early, &part[s]);
                tiles_load_v<TYPE, D>(a, job, early, &part[s]);
            }
        }
    halo_inputs_ready();
    if (!some)
        return;
    bring_heads<TYPE, HEADS, D, TILE_WAVES>(a, job, tables, newest, lds);
    tiles_halve_q<TYPE, D>(lds);
    halo_barrier();
#pragma unroll
    for (uint32_t s = 0; s < AHEAD; s++) {
        const uint32_t step = begin + TILE_WAVES * s;
        if (step < job.end && (!takes_product<D>(a) || step + 1 == job.n_pages)) {
            tiles_load_k<TYPE, D>(a, job, next[s], &part[s]);
            tiles_load_v<TYPE, D>(a, job, next[s], &part[s]);
        }
    }
    tiles_state<D> state = {};
#pragma unroll
    for (int h = 0; h < HALO_STRIP_HEADS; h++)
        state.max[h] = NOTHING;
    uint16_t(*p)[STEP] = lds.p[halo_wave()];
#pragma unroll 1
    for (uint32_t first = begin; first < job.end; first += TILE_WAVES * AHEAD)
#pragma unroll
        for (uint32_t s = 0; s < AHEAD; s++) {
            const uint32_t step = first + TILE_WAVES * s;
            if (step >= job.end)
                break;
            const bool more = step + TILE_WAVES * AHEAD < job.end;
            float sums[SUMS] = {};
            tiles_scores<TYPE, D>(part[s], lds, sums);
            if (more) {
                next[s] = tiles_at(a, job, step + TILE_WAVES * AHEAD, page[s]);
                page[s] = tiles_page(job, step + 2 * TILE_WAVES * AHEAD);
                tiles_load_k<TYPE, D>(a, job, next[s], &part[s]);
            }
            tiles_softmax<D>(job, step * STEP, a.score.cap * LOG2_E, sums, p, &state);
            halo_wave_barrier();
            tiles_weigh<TYPE, D>(part[s], p, &state);
            halo_wave_barrier();
            if (more)
                tiles_load_v<TYPE, D>(a, job, next[s], &part[s]);
        }
    tiles_leave<TYPE, D>(state, lds);
    halo_barrier();
    tiles_join<TYPE, D>(a, job, lds);
}

typedef attend_tiles_lds<128> attend_tiles_lds_d128;
#define HALO_ATTEND_TILES_KERNEL(TYPE, type)                                                                           \
    HALO_KERNEL_RESIDENT(attend_tiles_##type##_d128, halo_attend_args, 256, 1)                                         \
    {                                                                                                                  \
        HALO_LDS(attend_tiles_lds_d128, lds);                                                                          \
        attend_tiles<HALO_KV_##TYPE, 128>(a, lds);                                                                     \
    }
HALO_ATTEND_TILES_KERNEL(F16, f16)
HALO_ATTEND_TILES_KERNEL(Q8, q8)
HALO_ATTEND_TILES_KERNEL(Q4, q4)
#endif
