/* recurrence.h: ops whose heads have a matrix as their state, S, which each row of the batch changes:
 *
 *   S = S * decay + u k^T,  out = S q + direct * v,  u = gain * (v - S k), or gain * v,  S k after the decay
 *
 * decay, gain and direct are numbers; k and q have an element for each column, v and out one for each row of S. Rows of
 * S know nothing of each other: a block takes HALO_RECURRENCE_ROWS of a head for one sequence, and keeps them in
 * registers from the first row of the batch to the last. What only depends on the batch (k and q, normed where they are
 * to be, the gates, k q) is made for some rows together and passes through LDS. S k and S q are both of the old S, in
 * one reduction: S q after the change is decay * (S q) + u * (k q).
 */
#ifndef HALO_GFX_RECURRENCE_H
#define HALO_GFX_RECURRENCE_H

#include "state.h"

constexpr uint32_t RECURRENCE_WAVES = 4, WAVE_ROWS = HALO_RECURRENCE_ROWS / RECURRENCE_WAVES;

/* How a wave has its rows of S: some lanes to each, four neighbouring columns of every SPAN to a lane. */
template <uint32_t COLS> struct recurrence_shape {
    static constexpr uint32_t LANES = COLS > 256 ? 16 : 8, SPAN = 4 * LANES, N = COLS > SPAN ? COLS / SPAN : 1;
    static constexpr uint32_t STEP = 32 / LANES, ROWS = WAVE_ROWS / STEP; /* of a lane: every STEP-th */
};

/* Of the rows of the batch that are prepared together. */
template <uint32_t COLS> struct recurrence_lds {
    static constexpr uint32_t ROWS = 2048 / COLS;
    alignas(16) float k[ROWS][COLS];
    alignas(16) float q[ROWS][COLS];
    float v[ROWS][HALO_RECURRENCE_ROWS], decay[ROWS], gain[ROWS], k_q[ROWS];
};

/* What a kernel says of one row of the batch. */
struct recurrence_row {
    const float *k, *q;
    float decay, gain;
};

/* What is the same for all rows. */
struct recurrence_head {
    float *state;                                  /* [n_rows][n_cols] */
    const float *v;                                /* of row 0 of the batch */
    float *out;                                    /* likewise */
    uint32_t n_rows, n_cols, v_stride, out_stride; /* strides: from one row of the batch to the next */
    float direct;
    float least, scale; /* of a norm: the shortest length, and a factor of q */
};

/* ln(1 + e^x): the larger of 0 and x, and ln(1 + e) for e up to 1, as twice the artanh of e / (2 + e). */
HALO_DEVICE float softplus(float x)
{
    const float e = halo_exp(-halo_abs(x)), y = e / (2 + e), y2 = y * y;
    float sum = 1.f / 17;
    for (int i = 15; i > 0; i -= 2)
        sum = halo_fma(sum, y2, 1.f / (float)i);
    return halo_fma(2 * y, sum, halo_max(x, 0));
}

template <uint32_t LANES> HALO_DEVICE float row_sum(float x)
{
    if (LANES == 16)
        x += halo_xor<8>(x);
    x += halo_xor<4>(x);
    x += halo_xor<2>(x);
    return x + halo_xor<1>(x);
}

/* Columns first .. first + 3, zeros behind the last one. */
HALO_DEVICE halo_f4 columns_load(const float *row, uint32_t first, uint32_t n, bool aligned)
{
    halo_f4 x = {{0, 0, 0, 0}};
    if (aligned && first < n)
        return halo_load<halo_f4>(row + first);
    for (uint32_t c = 0; c < 4; c++)
        if (first + c < n)
            x.e[c] = row[first + c];
    return x;
}

HALO_DEVICE void columns_store(float *row, uint32_t first, uint32_t n, bool aligned, const halo_f4 &x)
{
    if (aligned && first < n) {
        *reinterpret_cast<halo_f4 *>(row + first) = x;
        return;
    }
    for (uint32_t c = 0; c < 4; c++)
        if (first + c < n)
            row[first + c] = x.e[c];
}

/* One row of the batch into LDS, by a wave. */
template <bool DELTA, uint32_t COLS>
HALO_DEVICE void recurrence_prepare(const recurrence_head &head, const recurrence_row &row, uint32_t t,
                                    recurrence_lds<COLS> &lds)
{
    float k[COLS / 32], q[COLS / 32], k_k = 0, q_q = 0, k_q = 0, norm_k = 1, norm_q = 1;
    for (uint32_t i = 0; i < COLS / 32; i++) {
        const uint32_t c = halo_lane() + 32 * i;
        k[i] = c < head.n_cols ? row.k[c] : 0;
        q[i] = c < head.n_cols ? row.q[c] : 0;
        k_k = halo_fma(k[i], k[i], k_k);
        q_q = halo_fma(q[i], q[i], q_q);
        k_q = halo_fma(k[i], q[i], k_q);
    }
    k_q = halo_wave_sum(k_q);
    if (DELTA) {
        norm_k = halo_min(halo_rsqrt(halo_wave_sum(k_k)), 1 / head.least);
        norm_q = halo_min(halo_rsqrt(halo_wave_sum(q_q)), 1 / head.least) * head.scale;
    }
    for (uint32_t i = 0; i < COLS / 32; i++) {
        lds.k[t][halo_lane() + 32 * i] = k[i] * norm_k;
        lds.q[t][halo_lane() + 32 * i] = q[i] * norm_q;
    }
    if (halo_lane() == 0) {
        lds.decay[t] = row.decay;
        lds.gain[t] = row.gain;
        lds.k_q[t] = k_q * norm_k * norm_q;
    }
}

/* One row of the batch for a row of S, of which the lane has s; returns the row's element of out. */
template <bool DELTA, uint32_t COLS>
HALO_DEVICE float recurrence_step(const recurrence_lds<COLS> &lds, uint32_t t, float v, float direct, const halo_f4 *k,
                                  const halo_f4 *q, halo_f4 *s)
{
    typedef recurrence_shape<COLS> shape;
    const float decay = lds.decay[t];
    float s_k = 0, s_q = 0;
    for (uint32_t i = 0; i < shape::N; i++)
        for (uint32_t c = 0; c < 4; c++) {
            if (DELTA)
                s_k = halo_fma(s[i].e[c], k[i].e[c], s_k);
            s_q = halo_fma(s[i].e[c], q[i].e[c], s_q);
        }
    s_q = row_sum<shape::LANES>(s_q);
    const float u = lds.gain[t] * (DELTA ? halo_fma(-decay, row_sum<shape::LANES>(s_k), v) : v);
    for (uint32_t i = 0; i < shape::N; i++)
        for (uint32_t c = 0; c < 4; c++)
            s[i].e[c] = halo_fma(u, k[i].e[c], decay * s[i].e[c]);
    return halo_fma(direct, v, halo_fma(u, lds.k_q[t], decay * s_q));
}

/* RULE says with row(r) what row r of the batch brings, and with DELTA which form u has. */
template <class RULE, uint32_t COLS>
HALO_DEVICE void recurrence(const RULE &rule, const state_rows &rows, const recurrence_head &head,
                            recurrence_lds<COLS> &lds)
{
    typedef recurrence_shape<COLS> shape;
    constexpr uint32_t N = shape::N, TOGETHER = recurrence_lds<COLS>::ROWS;
    const uint32_t first = halo_block_x() * HALO_RECURRENCE_ROWS, lane_first = halo_lane() % shape::LANES * 4;
    const uint32_t mine = halo_wave() * WAVE_ROWS + halo_lane() / shape::LANES;
    const bool aligned = head.n_cols % 4 == 0 && reinterpret_cast<uintptr_t>(head.state) % 16 == 0;
    halo_f4 s[shape::ROWS][N];
    for (uint32_t j = 0; j < shape::ROWS; j++) {
        const uint32_t row = first + mine + shape::STEP * j;
        for (uint32_t i = 0; i < N; i++)
            s[j][i] = rows.begins || row >= head.n_rows
                          ? halo_f4{{0, 0, 0, 0}}
                          : columns_load(head.state + (uint64_t)row * head.n_cols, shape::SPAN * i + lane_first,
                                         head.n_cols, aligned);
    }
    for (uint32_t done = 0; done < rows.n_rows; done += TOGETHER) {
        const uint32_t n = halo_min_of(rows.n_rows - done, TOGETHER), r = rows.first + done;
        halo_barrier();
        for (uint32_t t = halo_wave(); t < n; t += RECURRENCE_WAVES)
            recurrence_prepare<RULE::DELTA, COLS>(head, rule.row(r + t), t, lds);
        for (uint32_t i = halo_tid(); i < n * HALO_RECURRENCE_ROWS; i += 32 * RECURRENCE_WAVES) {
            const uint32_t t = i / HALO_RECURRENCE_ROWS, row = first + i % HALO_RECURRENCE_ROWS;
            lds.v[t][i % HALO_RECURRENCE_ROWS] =
                row < head.n_rows ? head.v[(uint64_t)(r + t) * head.v_stride + row] : 0;
        }
        halo_barrier();
        for (uint32_t t = 0; t < n; t++) {
            halo_f4 k[N], q[N];
            for (uint32_t i = 0; i < N; i++) {
                k[i] = halo_load<halo_f4>(&lds.k[t][shape::SPAN * i + lane_first]);
                q[i] = halo_load<halo_f4>(&lds.q[t][shape::SPAN * i + lane_first]);
            }
            for (uint32_t j = 0; j < shape::ROWS; j++) {
                const float out = recurrence_step<RULE::DELTA, COLS>(lds, t, lds.v[t][mine + shape::STEP * j],
                                                                     head.direct, k, q, s[j]);
                const uint32_t row = first + mine + shape::STEP * j;
                if (lane_first == 0 && row < head.n_rows)
                    head.out[(uint64_t)(r + t) * head.out_stride + row] = out;
            }
        }
    }
    for (uint32_t j = 0; j < shape::ROWS; j++) {
        const uint32_t row = first + mine + shape::STEP * j;
        for (uint32_t i = 0; i < N; i++)
            if (row < head.n_rows)
                columns_store(head.state + (uint64_t)row * head.n_cols, shape::SPAN * i + lane_first, head.n_cols,
                              aligned, s[j][i]);
    }
}

#endif
