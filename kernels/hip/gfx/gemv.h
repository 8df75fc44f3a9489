/* gemv.h: the products of few rows: the gemv and moe_gemv kernels of all types. Those of one row of x, and of experts,
 * are in persistent.h, except for numbers of columns that HALO_GEMV_PERSISTENT does not allow.
 *
 * A wave computes 2 weight rows (4 of the plain types for more than two rows of x, which then are read half as often)
 * for all N rows of x. Lane l takes units l, l + 32, ... of the rows; each step of a wave reads 512 bytes of neighbours
 * from every plane. The next steps are loaded before the last are used, so that memory never waits for arithmetic.
 * Activations are read through the caches: they are a few rows that all blocks share. Weights are loaded before the
 * inputs are there, where the target lets launches overlap. The order of the additions of a row does not depend on N,
 * so a row's result does not depend on the rows beside it.
 */
#ifndef HALO_GFX_GEMV_H
#define HALO_GFX_GEMV_H

#include "persistent.h"

/* Rows of x that a wave takes at once. Without dot4 each byte of the weights occupies a register, and eight rows would
 * not fit. */
#if defined(HALO_NO_DOT4)
template <uint32_t TYPE, int N> constexpr int gemv_pass = !gemv_plain_type<TYPE> && N > 4 ? 4 : N;
#else
template <uint32_t TYPE, int N> constexpr int gemv_pass = N;
#endif

/* Where a product reads and writes. The wave's rows are weight, weight + stride, ... */
struct gemv_job {
    const uint8_t *weight; /* the first of the wave's rows */
    uint32_t stride, last; /* bytes from weight row to weight row; the last of them that exists */
    const uint8_t *x;
    const uint32_t *row_index;
    uint32_t x_stride, n_cols, n_rows; /* x_stride in bytes */
    const void *book;                  /* of the type, or NULL */
};

/* Rows that do not exist read the last one. */
HALO_DEVICE const uint8_t *gemv_weight_row(const gemv_job &job, uint32_t r)
{
    return job.weight + halo_min_of(r, job.last) * job.stride;
}

HALO_DEVICE const uint8_t *gemv_x_row(const gemv_job &job, uint32_t r)
{
    r = halo_min_of(r, job.n_rows - 1);
    return job.x + (uint64_t)(job.row_index ? job.row_index[r] : r) * job.x_stride;
}

/* The lane's units are alike but for multiples of 32: which of a super-block they are is the lane's alone. */
template <uint32_t TYPE, int N, int R>
HALO_DEVICE void gemv_unit(const typename halo_type_code<TYPE>::raw *raw, const gemv_job &job, const uint8_t *const *x,
                           uint32_t u, float acc[R][N])
{
    halo_unit w[R];
    for (int r = 0; r < R; r++)
        halo_expand<TYPE>(raw[r], halo_lane(), job.book, &w[r]);
#pragma unroll
    for (int j = 0; j < N; j++) {
        halo_act act = halo_act_load(x[j], job.n_cols, u);
        for (int r = 0; r < R; r++)
            acc[r][j] = halo_unit_dot<halo_type_code<TYPE>>(w[r], act, acc[r][j]);
    }
}

/* Quantized weights, activation rows; a step is a stage. */
template <uint32_t TYPE, int N> struct gemv_rows {
    static constexpr int R = gemv_wave_rows<TYPE, N>;
    static constexpr bool AHEAD = N <= 2; /* with more rows of x, registers are worth more than loads in flight */
    typedef halo_type_code<TYPE> code;
    struct stage {
        typename code::raw raw[R];
    };
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols)
    {
        return halo_hip_act_bytes(n_cols);
    }
    HALO_DEVICE void load(const gemv_job &job, const halo_row_layout &at, uint32_t u, stage *ret)
    {
        for (int r = 0; r < R; r++)
            ret->raw[r] = code::load(gemv_weight_row(job, (uint32_t)r), at, u);
    }
    HALO_DEVICE void run(const gemv_job &job, float acc[R][N])
    {
        const halo_row_layout at = halo_hip_row_layout(TYPE, job.n_cols);
        const uint32_t n = job.n_cols / HALO_HIP_UNIT;
        uint32_t u = halo_lane();
        stage now = {};
        if (u < n)
            load(job, at, u, &now);
        halo_inputs_ready();
        const uint8_t *x[N];
        for (int j = 0; j < N; j++)
            x[j] = gemv_x_row(job, (uint32_t)j);
#pragma unroll 1
        for (; u < n; u += 32) {
            stage next = now;
            if (AHEAD && u + 32 < n)
                load(job, at, u + 32, &next);
            gemv_unit<TYPE, N, R>(now.raw, job, x, u, acc);
            now = next;
            if (!AHEAD && u + 32 < n)
                load(job, at, u + 32, &now);
        }
    }
};

/* The plain types, f32 rows of x, any number of columns. */
template <uint32_t TYPE, int N, bool ALIGNED>
HALO_DEVICE void gemv_plain(const gemv_job &job, float acc[gemv_wave_rows<TYPE, N>][N])
{
    constexpr int R = gemv_wave_rows<TYPE, N>;
    constexpr uint32_t STEPS = N <= 2 ? 2 : 1, LAST = 32 * (STEPS - 1), NEXT = 32 * STEPS;
    typedef gemv_plain_code<TYPE> code;
    struct stage {
        halo_u4 w[STEPS][R];
    };
    const uint32_t n = job.n_cols / code::CHUNK, lane = halo_lane();
    uint32_t c = lane;
    stage now = {};
    for (uint32_t k = 0; k < STEPS && c + LAST < n; k++)
        for (uint32_t r = 0; r < R; r++)
            now.w[k][r] = halo_load<halo_u4>(gemv_weight_row(job, r), c + 32 * k);
    halo_inputs_ready();
    const float *x[N];
    for (int j = 0; j < N; j++)
        x[j] = reinterpret_cast<const float *>(gemv_x_row(job, (uint32_t)j));
#pragma unroll 1
    for (; c + LAST < n; c += NEXT) {
        stage next = now;
        for (uint32_t k = 0; k < STEPS && c + NEXT + LAST < n; k++)
            for (uint32_t r = 0; r < R; r++)
                next.w[k][r] = halo_load<halo_u4>(gemv_weight_row(job, r), c + NEXT + 32 * k);
        for (uint32_t k = 0; k < STEPS; k++)
#pragma unroll
            for (int j = 0; j < N; j++)
                for (uint32_t r = 0; r < R; r++)
                    acc[r][j] = gemv_chunk<code, ALIGNED>(now.w[k][r], x[j] + (c + 32 * k) * code::CHUNK, acc[r][j]);
        now = next;
    }
#pragma unroll 1
    for (; c < n; c += 32)
        for (uint32_t r = 0; r < R; r++) {
            halo_u4 w = halo_load<halo_u4>(gemv_weight_row(job, r), c);
#pragma unroll
            for (int j = 0; j < N; j++)
                acc[r][j] = gemv_chunk<code, ALIGNED>(w, x[j] + c * code::CHUNK, acc[r][j]);
        }
#pragma unroll 1
    for (uint32_t i = n * code::CHUNK + lane; i < job.n_cols; i += 32)
        for (uint32_t r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < N; j++)
                acc[r][j] = halo_fma(code::one(gemv_weight_row(job, r), i), x[j][i], acc[r][j]);
}

template <uint32_t TYPE, int N> struct gemv_plain_rows {
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols)
    {
        return n_cols * 4;
    }
    HALO_DEVICE void run(const gemv_job &job, float acc[gemv_wave_rows<TYPE, N>][N])
    {
        if (job.n_cols % 4 == 0)
            gemv_plain<TYPE, N, true>(job, acc);
        else
            gemv_plain<TYPE, N, false>(job, acc);
    }
};
template <int N> struct gemv_rows<HALO_TYPE_F32, N> : gemv_plain_rows<HALO_TYPE_F32, N> {
};
template <int N> struct gemv_rows<HALO_TYPE_F16, N> : gemv_plain_rows<HALO_TYPE_F16, N> {
};
template <int N> struct gemv_rows<HALO_TYPE_BF16, N> : gemv_plain_rows<HALO_TYPE_BF16, N> {
};

/* The matrix and first row of this block; false when the wave has no row. */
template <int R, typename MATRIX>
HALO_DEVICE bool gemv_find(const MATRIX *matrix, uint32_t n_matrices, uint32_t *ret_matrix, uint32_t *ret_row)
{
    uint32_t block = halo_block_x(), m = 0;
    for (; m + 1 < n_matrices; m++) {
        uint32_t n = HALO_HIP_CEIL(matrix[m].n_rows, (HALO_GEMV_WAVES * R));
        if (block < n)
            break;
        block -= n;
    }
    *ret_matrix = m;
    *ret_row = block * (HALO_GEMV_WAVES * R) + halo_wave() * R;
    return *ret_row < matrix[m].n_rows;
}

template <uint32_t TYPE, int N> HALO_DEVICE void gemv(const halo_gemv_args &a)
{
    constexpr int R = gemv_wave_rows<TYPE, N>, P = gemv_pass<TYPE, N>;
    typedef gemv_rows<TYPE, P> rows;
    const void *book = halo_book_ready<TYPE, HALO_GEMV_WAVES * 32>();
    uint32_t m, row;
    if (!gemv_find<R>(a.matrix, a.n_matrices, &m, &row))
        return;
    const halo_matrix_arg matrix = m == 0 ? a.matrix[0] : m == 1 ? a.matrix[1] : a.matrix[2];
    const uint32_t stride = halo_hip_row_layout(TYPE, a.n_cols).stride;
    gemv_job job = {static_cast<const uint8_t *>(matrix.weight) + (uint64_t)row * stride,
                    stride,
                    matrix.n_rows - 1 - row,
                    static_cast<const uint8_t *>(a.x),
                    a.row_index,
                    rows::x_stride(a.n_cols),
                    a.n_cols,
                    a.n_rows,
                    book};
#pragma unroll 1
    for (uint32_t first = 0; first < N && first < a.n_rows; first += P) {
        float acc[R][P] = {};
        rows::run(job, acc);
        gemv_store<R, P>(acc, matrix.bias, matrix.out + (uint64_t)first * matrix.out_stride, matrix.out_stride, row,
                         matrix.n_rows, job.n_rows);
        if (P == N)
            break;
        job.x += job.row_index ? 0 : (uint64_t)P * job.x_stride;
        job.row_index += job.row_index ? P : 0;
        job.n_rows -= P;
    }
}

template <uint32_t TYPE> HALO_DEVICE void gemv_one(const halo_gemv_args &a)
{
    typedef persistent_matrices<TYPE> of;
    if (!gemv_plain_type<TYPE> || HALO_GEMV_PERSISTENT(a.n_cols))
        persistent<of>::run(a, typename of::jobs{halo_block_x(), a.n_blocks},
                            halo_book_ready<TYPE, HALO_GEMV_WAVES * 32>());
    else if constexpr (gemv_plain_type<TYPE>)
        gemv<TYPE, 1>(a);
}

template <typename OF> HALO_DEVICE void moe_gemv_persistent(const halo_moe_gemv_args &a, const void *book)
{
#pragma unroll 1
    for (uint32_t first = halo_block_x(); first < a.n_blocks; first += OF::N * a.n_grid)
        persistent<OF>::run(a, OF::read(a, first), book);
}

/* Plain weights whose rows end within a chunk: a block computes only its own rows. */
template <uint32_t TYPE> HALO_DEVICE void moe_gemv_rows(const halo_moe_gemv_args &a)
{
    typedef persistent_experts<TYPE, false> of;
    typedef gemv_rows<TYPE, 1> rows;
    const uint32_t stride = halo_hip_row_layout(TYPE, a.n_cols).stride;
    persistent_place at = {};
    at.block = halo_block_x();
    const typename of::jobs jobs = of::read(a, at.block);
    of::find(a, jobs, stride, &at);
    const gemv_job job = {at.weight, stride, at.last, at.x, nullptr, rows::x_stride(a.n_cols), a.n_cols, 1, nullptr};
    float acc[of::R][1] = {};
    rows::run(job, acc);
    of::store(a, jobs, at, acc);
}

/* Each slot by itself: its expert's rows times its row of x. The choice of weights may itself be an input. */
template <uint32_t TYPE> HALO_DEVICE void moe_gemv(const halo_moe_gemv_args &a)
{
    if (!a.early)
        halo_inputs_ready();
    if constexpr (gemv_plain_type<TYPE>) {
        if (HALO_GEMV_PERSISTENT(a.n_cols))
            moe_gemv_persistent<persistent_experts<TYPE, false>>(a, nullptr);
        else
            moe_gemv_rows<TYPE>(a);
    } else {
        const void *book = halo_book_ready<TYPE, HALO_GEMV_WAVES * 32>();
        if (HALO_MOE_SHORT(false, a.n_cols))
            moe_gemv_persistent<persistent_experts<TYPE, true>>(a, book);
        else
            moe_gemv_persistent<persistent_experts<TYPE, false>>(a, book);
    }
}

#define HALO_GEMV_KERNELS(TYPE, type)                                                                                  \
    HALO_KERNEL_RESIDENT(gemv_##type##_x1, halo_gemv_args, 256, persistent_resident<HALO_TYPE_##TYPE>)                 \
    {                                                                                                                  \
        gemv_one<HALO_TYPE_##TYPE>(a);                                                                                 \
    }                                                                                                                  \
    HALO_KERNEL_EARLY(gemv_##type##_x2, halo_gemv_args, 256)                                                           \
    {                                                                                                                  \
        gemv<HALO_TYPE_##TYPE, 2>(a);                                                                                  \
    }                                                                                                                  \
    HALO_KERNEL_EARLY(gemv_##type##_x4, halo_gemv_args, 256)                                                           \
    {                                                                                                                  \
        gemv<HALO_TYPE_##TYPE, 4>(a);                                                                                  \
    }                                                                                                                  \
    HALO_KERNEL_EARLY(gemv_##type##_x8, halo_gemv_args, 256)                                                           \
    {                                                                                                                  \
        gemv<HALO_TYPE_##TYPE, 8>(a);                                                                                  \
    }                                                                                                                  \
    HALO_KERNEL_RESIDENT(moe_gemv_##type, halo_moe_gemv_args, 256, persistent_resident<HALO_TYPE_##TYPE>)              \
    {                                                                                                                  \
        moe_gemv<HALO_TYPE_##TYPE>(a);                                                                                 \
    }

#endif
