/* latent_tiles.h: attention over rows that are K and, by their first elements, V of all heads, by matrix tiles with f16
 * operands.
 *
 * All heads see the same rows of the cache, so what has 16 rows in a tile are *queries*: heads of one row of the batch,
 * then those of the next. A block has HALO_LATENT_QUERIES of them, 16 to a group of four waves, and reads the cache
 * once for all: KEYS positions at a time as they are, for scores, and their first elements transposed, for outputs,
 * while the next ones are being loaded. Each wave of a group keeps a quarter of the steps of q in registers and makes
 * a part of the scores, adds the parts of four rows into probabilities by an online softmax, eight lanes to a row, and
 * has a quarter of the output. Scores are in units of log2, so that exp2 does.
 */
#ifndef HALO_GFX_LATENT_TILES_H
#define HALO_GFX_LATENT_TILES_H

#include "attend_merge.h"
#include "kv_half.h"

constexpr uint32_t QUERIES = HALO_LATENT_QUERIES, KEYS = 16, PARTS = 4, GROUPS = QUERIES / 16;
constexpr uint32_t THREADS = 32 * PARTS * GROUPS;
constexpr uint32_t CHUNK = 8; /* elements that a thread loads of a row */
constexpr uint32_t STEPS = HALO_LATENT_DIM_K / 16 / PARTS, TILES = HALO_LATENT_DIM_V / 16 / PARTS; /* of a wave */
constexpr uint32_t LOADS = HALO_HIP_CEIL(KEYS / 2 * (HALO_LATENT_DIM_K / CHUNK), THREADS);
/* Keep rows 16-byte aligned and off each other's banks. */
constexpr uint32_t PITCH = HALO_LATENT_DIM_K + 8, S_PITCH = KEYS + 1, P_PITCH = KEYS + 8;
static_assert(THREADS == 256, "as in variants.def");
static_assert(HALO_LATENT_DIM_K % (16 * PARTS) == 0 && HALO_LATENT_DIM_V % (16 * PARTS) == 0, "quarters are tiles");

struct tiles_group {
    float score[PARTS][16 * S_PITCH];
    alignas(16) uint16_t p[16 * P_PITCH];
    float row[16]; /* what the rows' outputs shrink by, at the end what they are multiplied by */
};

struct tiles_step_lds {
    alignas(16) uint16_t k[KEYS * PITCH], v[HALO_LATENT_DIM_V * KEYS];
    tiles_group group[GROUPS];
};

struct latent_tiles_lds {
    union {
        alignas(16) uint16_t q[QUERIES * PITCH]; /* on its way into registers, before the first step */
        tiles_step_lds step;
    };
    float weight[PARTS * GROUPS][HALO_SPLITS_MAX];
    uint32_t last;
};
static_assert(sizeof(uint16_t[QUERIES * PITCH]) <= sizeof(tiles_step_lds), "q takes no more LDS");

/* The block's queries: first .. first + n - 1, counted from the first head of row `row`, and the positions that one of
 * them sees. */
struct tiles_job {
    uint32_t row, first, n, pos, begin, end, n_splits;
};

/* CHUNK elements of a row of the cache as they lie there, and as halves. Those of f32 are converted when they are
 * loaded: they take too many registers. */
HALO_DEVICE halo_u4 tiles_halves(const float (&x)[CHUNK])
{
    halo_u4 ret;
    for (int i = 0; i < 4; i++)
        ret.e[i] = halo_float_half(x[2 * i]) | (uint32_t)halo_float_half(x[2 * i + 1]) << 16;
    return ret;
}
template <uint32_t TYPE> struct tiles_chunk {
    halo_u4 raw;
    HALO_DEVICE_MEMBER void load(const uint8_t *page, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t n_rows = KV_PAGE)
    {
        if constexpr (TYPE == HALO_KV_F16) {
            raw = halo_load<halo_u4>(page + (position * dim + first) * 2);
        } else {
            kv_values<TYPE, CHUNK> values;
            float x[CHUNK];
            values.load(page, dim, position, first, n_rows);
            for (int i = 0; i < (int)CHUNK; i++)
                x[i] = values.get(i);
            raw = tiles_halves(x);
        }
    }
    HALO_DEVICE_MEMBER halo_u4 halves() const
    {
        return raw;
    }
};
template <> struct tiles_chunk<HALO_KV_Q8> {
    kv_values<HALO_KV_Q8, CHUNK> raw;
    HALO_DEVICE_MEMBER void load(const uint8_t *page, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t n_rows = KV_PAGE)
    {
        raw.load(page, dim, position, first, n_rows);
    }
    HALO_DEVICE_MEMBER halo_u4 halves() const
    {
        return kv_eight_half<HALO_KV_Q8>(raw);
    }
};

/* What a thread has of a step: chunks of two neighbouring positions. */
template <uint32_t TYPE> struct tiles_step {
    tiles_chunk<TYPE> chunk[LOADS][2];
};

/* Of positions base .. base + KEYS - 1; behind the job's end the last one. */
template <uint32_t TYPE>
HALO_DEVICE void tiles_load(const halo_attend_args &a, const tiles_job &job, uint32_t base, tiles_step<TYPE> *ret)
{
    const uint8_t *page = kv_page(a.kv, job.row, base);
    for (uint32_t n = 0; n < LOADS; n++) {
        const uint32_t i = halo_tid() + THREADS * n, d = i / (KEYS / 2) * CHUNK, key = i % (KEYS / 2) * 2;
        for (uint32_t j = 0; j < 2 && d < a.kv.head_dim_k; j++)
            ret->chunk[n][j].load(page, a.kv.head_dim_k, halo_min_of(base + key + j, job.end - 1) % KV_PAGE, d);
    }
}

/* Where element d stands among the rows of lds.v, and back: neighbouring chunks begin at different banks. */
HALO_DEVICE uint32_t tiles_place(uint32_t d)
{
    return (d & ~3u) | ((d + d / CHUNK) & 3);
}
HALO_DEVICE uint32_t tiles_element(uint32_t place)
{
    return (place & ~3u) | ((place - place / CHUNK) & 3);
}

template <uint32_t TYPE>
HALO_DEVICE void tiles_put(const halo_attend_args &a, const tiles_step<TYPE> &step, tiles_step_lds &lds)
{
    for (uint32_t n = 0; n < LOADS; n++) {
        const uint32_t i = halo_tid() + THREADS * n, d = i / (KEYS / 2) * CHUNK, key = i % (KEYS / 2) * 2;
        if (d >= a.kv.head_dim_k)
            break;
        const halo_u4 x = step.chunk[n][0].halves(), y = step.chunk[n][1].halves();
        *reinterpret_cast<halo_u4 *>(lds.k + key * PITCH + d) = x;
        *reinterpret_cast<halo_u4 *>(lds.k + (key + 1) * PITCH + d) = y;
        for (uint32_t e = 0; e < CHUNK && d < a.kv.head_dim_v; e += 2) {
            const uint32_t left = x.e[e / 2], right = y.e[e / 2];
            *reinterpret_cast<uint32_t *>(lds.v + tiles_place(d + e) * KEYS + key) = (left & 0xffff) | right << 16;
            *reinterpret_cast<uint32_t *>(lds.v + tiles_place(d + e + 1) * KEYS + key) =
                left >> 16 | (right & 0xffff0000);
        }
    }
}

/* What lies behind short heads is zero. */
HALO_DEVICE void tiles_clear(const halo_attend_args &a, tiles_step_lds &lds)
{
    if (a.kv.head_dim_k == HALO_LATENT_DIM_K && a.kv.head_dim_v == HALO_LATENT_DIM_V)
        return;
    for (uint32_t i = halo_tid(); i < KEYS * PITCH / 8; i += THREADS)
        reinterpret_cast<halo_u4 *>(lds.k)[i] = halo_u4{{0, 0, 0, 0}};
    for (uint32_t i = halo_tid(); i < HALO_LATENT_DIM_V * KEYS / 8; i += THREADS)
        reinterpret_cast<halo_u4 *>(lds.v)[i] = halo_u4{{0, 0, 0, 0}};
    halo_barrier();
}

/* What a thread loads of q: every Q_LANES-th four of one query. What does not exist reads something else. */
constexpr uint32_t Q_LANES = THREADS / QUERIES, Q_LOADS = HALO_LATENT_DIM_K / 4 / Q_LANES;
static_assert(HALO_LATENT_DIM_K % (4 * Q_LANES) == 0, "all threads load the same number");
struct tiles_q {
    halo_f4 x[Q_LOADS];
};

HALO_DEVICE void tiles_load_q(const halo_attend_args &a, const tiles_job &job, tiles_q *ret)
{
    const uint32_t dim = a.kv.head_dim_k, query = halo_min_of(halo_tid() / Q_LANES, job.n - 1);
    const float *from = a.q + ((uint64_t)job.row * a.n_head + job.first + query) * dim;
#pragma unroll
    for (uint32_t n = 0; n < Q_LOADS; n++)
        ret->x[n] = halo_load<halo_f4>(from + halo_min_of(4 * (halo_tid() % Q_LANES + Q_LANES * n), dim - 4));
}

/* The steps of q that belong to the wave's part, by way of LDS, which is free again afterwards. */
HALO_DEVICE void tiles_put_q(const halo_attend_args &a, const tiles_job &job, const tiles_q &all, uint32_t group,
                             uint32_t part, latent_tiles_lds &lds, halo_frag (&q)[STEPS])
{
    const uint32_t query = halo_tid() / Q_LANES, dim = query < job.n ? a.kv.head_dim_k : 0;
    const float scale = kv_score_scale(a.score, (int32_t)(job.pos + (job.first + query) / a.n_head));
#pragma unroll
    for (uint32_t n = 0; n < Q_LOADS; n++) {
        const uint32_t d = 4 * (halo_tid() % Q_LANES + Q_LANES * n);
        halo_f4 v;
        for (int j = 0; j < 4; j++)
            v.e[j] = d < dim ? all.x[n].e[j] * scale : 0;
        halo_u2 h;
        for (int j = 0; j < 2; j++)
            h.e[j] = halo_float_half(v.e[2 * j]) | (uint32_t)halo_float_half(v.e[2 * j + 1]) << 16;
        *reinterpret_cast<halo_u2 *>(lds.q + query * PITCH + d) = h;
    }
    halo_barrier();
#pragma unroll
    for (uint32_t j = 0; j < STEPS; j++)
        q[j] = halo_mma_load(lds.q + group * 16 * PITCH + (part + PARTS * j) * 16, PITCH);
    halo_barrier();
}

/* The wave's part of the scores of its group. */
HALO_DEVICE void tiles_scores(const uint16_t *k, uint32_t part, const halo_frag (&q)[STEPS], float *score)
{
    halo_acc s = {};
#pragma unroll
    for (uint32_t j = 0; j < STEPS; j++)
        s = halo_mma(q[j], halo_mma_load(k + (part + PARTS * j) * 16, PITCH), s);
#pragma unroll
    for (int i = 0; i < 8; i++)
        score[halo_mma_row(i) * S_PITCH + halo_mma_col(i)] = s[i];
}

/* A row that eight lanes have together: positions lowest .. pos are seen. */
struct tiles_row {
    uint32_t row, head, lowest, pos;
    float max, sum;
};

/* Parts of the scores of positions base .. base + KEYS - 1 into probabilities, two to a lane. */
HALO_DEVICE void tiles_softmax(uint32_t base, float cap, tiles_row *own, tiles_group &group)
{
    const uint32_t key = halo_lane() % 8 * 2;
    float s[2] = {0, 0}, max = own->max;
    bool seen[2];
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t w = 0; w < PARTS; w++)
            s[i] += group.score[w][own->row * S_PITCH + key + i];
        if (cap > 0)
            s[i] = halo_capped(s[i], cap);
        seen[i] = base + key + i >= own->lowest && base + key + i <= own->pos;
        s[i] = seen[i] ? s[i] : NOTHING;
        max = halo_max(max, s[i]);
    }
    max = halo_max(max, halo_xor<1>(max));
    max = halo_max(max, halo_xor<2>(max));
    max = halo_max(max, halo_xor<4>(max));
    for (uint32_t i = 0; i < 2; i++)
        s[i] = seen[i] ? halo_exp2(s[i] - max) : 0;
    float sum = s[0] + s[1];
    sum += halo_xor<1>(sum);
    sum += halo_xor<2>(sum);
    sum += halo_xor<4>(sum);
    const float shrink = halo_exp2(own->max - max);
    own->sum = halo_fma(own->sum, shrink, sum);
    own->max = max;
    *reinterpret_cast<uint32_t *>(group.p + own->row * P_PITCH + key) =
        halo_float_half(s[0]) | (uint32_t)halo_float_half(s[1]) << 16;
    if (key == 0)
        group.row[own->row] = shrink;
}

HALO_DEVICE void tiles_outputs(const uint16_t *v, uint32_t part, const tiles_group &group, halo_acc (&out)[TILES])
{
    const halo_frag p = halo_mma_load(group.p, P_PITCH);
    float shrink[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        shrink[i] = group.row[halo_mma_row(i)];
#pragma unroll
    for (uint32_t t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            out[t][i] *= shrink[i];
        out[t] = halo_mma(p, halo_mma_load(v + (part * TILES + t) * 16 * KEYS, KEYS), out[t]);
    }
}

/* Maximum and sum of each row, its quotient or 1; then the wave's part of the rows of its group, as results or as
 * partial results. */
HALO_DEVICE void tiles_leave(const halo_attend_args &a, const tiles_job &job, uint32_t index, uint32_t part,
                             const tiles_row &own, tiles_group &group, halo_acc (&out)[TILES])
{
    const uint32_t dim = a.kv.head_dim_v, split = halo_block_x();
    const bool alone = job.n_splits == 1;
    if (halo_lane() % 8 == 0) {
        group.row[own.row] = alone && own.sum > 0 ? halo_rcp(own.sum + kv_sink(a.score, own.head, own.max)) : 1;
        if (!alone && index * 16 + own.row < job.n)
            *reinterpret_cast<halo_f2 *>(partial_of(a, job.row, own.head, split)) = halo_f2{{own.max, own.sum}};
    }
    halo_barrier();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t row = halo_mma_row(i), query = index * 16 + row;
        if (query >= job.n)
            continue;
        float *to = alone ? a.out + ((uint64_t)job.row * a.n_head + job.first + query) * dim
                          : partial_of(a, job.row, job.first + query, split) + HALO_PARTIAL_HEAD;
        const float scale = group.row[row];
#pragma unroll
        for (uint32_t t = 0; t < TILES; t++) {
            const uint32_t d = tiles_element((part * TILES + t) * 16 + halo_mma_col(i));
            if (d < dim)
                to[d] = out[t][i] * scale;
        }
    }
}

/* What a wave and its lanes have of the block's queries, and what they have found. */
struct tiles_wave {
    uint32_t index, part; /* group; part of it */
    tiles_row own;
};

HALO_DEVICE tiles_wave tiles_wave_of(const halo_attend_args &a, const tiles_job &job)
{
    tiles_wave w = {halo_wave() / PARTS, halo_wave() % PARTS, {}};
    w.own = {4 * w.part + halo_lane() / 8, 0, 0, 0, NOTHING, 0};
    const uint32_t query = job.first + w.index * 16 + w.own.row;
    w.own.head = query % a.n_head;
    w.own.pos = job.pos + query / a.n_head;
    w.own.lowest = kv_lowest(a.score, (int32_t)w.own.pos);
    return w;
}

/* The step that stands in LDS behind the next barrier: positions base .. base + KEYS - 1 as the softmax counts them. */
HALO_DEVICE void tiles_take(const halo_attend_args &a, uint32_t base, const halo_frag (&q)[STEPS], tiles_wave *w,
                            tiles_step_lds &lds, halo_acc (&out)[TILES])
{
    tiles_group &group = lds.group[w->index];
    halo_barrier();
    tiles_scores(lds.k, w->part, q, group.score[w->part]);
    halo_barrier();
    tiles_softmax(base, a.score.cap * LOG2_E, &w->own, group);
    halo_barrier();
    tiles_outputs(lds.v, w->part, group, out);
    halo_barrier();
}

/* Activation rows of what the block has left in a.out: a lane of a tile does not hold neighbours. */
HALO_DEVICE void tiles_leave_act(const halo_attend_args &a, const tiles_job &job)
{
    const uint32_t dim = a.kv.head_dim_v;
    halo_barrier();
    for (uint32_t n = halo_wave(); n < job.n; n += PARTS * GROUPS) {
        const float *from = a.out + ((uint64_t)job.row * a.n_head + job.first + n) * dim;
        halo_f4 v[HALO_LATENT_DIM_V / 128];
        for (uint32_t k = 0; k < HALO_LATENT_DIM_V / 128; k++)
            v[k] = halo_load<halo_f4>(from + halo_min_of(4 * halo_lane() + 128 * k, dim - 4));
        for (uint32_t k = 0; k < HALO_LATENT_DIM_V / 128; k++)
            leave_act(a, job.row, job.first + n, 4 * halo_lane() + 128 * k, v[k]);
    }
}

/* The results of a split; the last block of a row's splits merges them. */
template <uint32_t TYPE>
HALO_DEVICE void tiles_finish(const halo_attend_args &a, const tiles_job &job, const tiles_wave &w,
                              latent_tiles_lds &lds, halo_acc (&out)[TILES])
{
    tiles_leave(a, job, w.index, w.part, w.own, lds.step.group[w.index], out);
    if (job.n_splits == 1 && a.act)
        tiles_leave_act(a, job);
    if (job.n_splits == 1 ||
        !halo_last_block(a.counter + job.row * a.n_parts + halo_block_y(), job.n_splits, &lds.last))
        return;
    for (uint32_t i = halo_wave(); i < job.n; i += PARTS * GROUPS)
        merge_long_head<TYPE, HALO_LATENT_DIM_V>(a, job.row, job.first + i, job.n_splits, lds.weight[halo_wave()]);
}

#endif
