/* walk.h: products of one row of x: what the gemv kernels of one row share.
 *
 * A wave makes 2 weight rows at a time, and the block goes on from its rows to others, a grid apart. A *piece* is what
 * a lane takes of a row at once: a unit, or 16 bytes of plain weights. A *turn* is what the lanes read at once: STEPS
 * pieces each of every row, with two steps 1 KiB of neighbours of a row's nibbles. While a turn is used the next is on
 * its way, also where it is the first of the next rows: 4096 columns of nibbles are two turns, and half the time would
 * go by waiting for the first. Two turns alternate in registers, so that none is copied.
 * On AMD's chips loads come back in order, and the compiler counts those under way: so x is loaded in front of the next
 * turn (else waiting for it would be waiting for the turn), and the next turn is loaded without a condition (else it
 * would have to be waited for at once). Pieces and rows that do not exist read one that does and count for nothing.
 * The order of the additions of a row is that of gemv.h.
 */
#ifndef HALO_GFX_WALK_H
#define HALO_GFX_WALK_H

#include "gemv_wave.h"
#include "plain.h"

/* Blocks that NVIDIA's chips shall hold at once. The third takes Q4_K up to a tenth of the copy further and the other
 * types that were measured back. */
template <uint32_t TYPE> constexpr int walk_resident = TYPE == HALO_TYPE_Q4_K ? 3 : 2;

/* A piece: its columns, how many there are to a turn, what is loaded of the row and of x, and the products. */
template <uint32_t TYPE, bool PLAIN = gemv_plain_type<TYPE>> struct walk_piece {
    typedef halo_type_code<TYPE> code;
    typedef typename code::raw raw;
    typedef halo_act act;
    static constexpr uint32_t COLS = HALO_HIP_UNIT;
    static constexpr int STEPS = 2;
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols) { return halo_hip_act_bytes(n_cols); }
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t i) { return code::load(row, at, i); }
    HALO_DEVICE act load_x(const uint8_t *x, uint32_t n_cols, uint32_t i) { return halo_act_load(x, n_cols, i); }
    HALO_DEVICE float add(const raw &raw, const act &x, float acc)
    {
        halo_unit w;
        code::expand(raw, halo_lane(), &w);
        return halo_unit_dot<code>(w, x, acc);
    }
};

template <uint32_t TYPE> struct walk_piece<TYPE, true> {
    typedef gemv_plain_code<TYPE> code;
    typedef halo_u4 raw;
    struct act { float x[code::CHUNK]; };
    static constexpr uint32_t COLS = code::CHUNK;
    static constexpr int STEPS = HALO_PLAIN_STEPS;
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols) { return n_cols * 4; }
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &, uint32_t i) { return halo_stream(row, i); }
    HALO_DEVICE act load_x(const uint8_t *x, uint32_t, uint32_t i)
    {
        act ret;
        for (uint32_t k = 0; k < COLS; k += 4) {
            const halo_f4 v = halo_load<halo_f4>(x, i * (COLS / 4) + k / 4);
            for (uint32_t j = 0; j < 4; j++)
                ret.x[k + j] = v.e[j];
        }
        return ret;
    }
    HALO_DEVICE float add(const raw &w, const act &act, float acc) { return gemv_chunk<code, false>(w, act.x, acc); }
};

template <uint32_t TYPE> struct gemv_walk {
    typedef walk_piece<TYPE> piece;
    static constexpr int R = gemv_wave_rows<TYPE, 1>, STEPS = piece::STEPS;
    struct turn { typename piece::raw raw[STEPS][R]; };
    struct place {
        const uint8_t *weight; /* the first of the wave's rows */
        uint32_t last;         /* of the rows from it on that exist */
        uint32_t block, row;
        uint32_t piece;        /* of lane 0 */
        uint32_t matrix;
    };

    /* The wave's rows in the block's. */
    HALO_DEVICE void find(const halo_gemv_args &a, uint32_t stride, place *at)
    {
        constexpr uint32_t ROWS = HALO_GEMV_WAVES * R;
        const uint32_t first = HALO_HIP_CEIL(a.matrix[0].n_rows, ROWS);
        const uint32_t second = HALO_HIP_CEIL(a.matrix[1].n_rows, ROWS);
        uint32_t block = at->block, n_rows = a.matrix[0].n_rows;
        const void *weight = a.matrix[0].weight;
        at->matrix = 0;
        if (block >= first) {
            block -= first;
            at->matrix = block < second ? 1 : 2;
            n_rows = block < second ? a.matrix[1].n_rows : a.matrix[2].n_rows;
            weight = block < second ? a.matrix[1].weight : a.matrix[2].weight;
            block -= block < second ? 0 : second;
        }
        at->row = block * ROWS + halo_wave() * R;
        const uint32_t row = halo_min_of(at->row, n_rows - 1);
        at->last = n_rows - 1 - row;
        at->weight = static_cast<const uint8_t *>(weight) + (uint64_t)row * stride;
        at->piece = 0;
    }

    /* With last_piece 0 all lanes read the same piece, which costs next to nothing. */
    HALO_DEVICE void load(const halo_row_layout &layout, const place &at, uint32_t last_piece, turn *ret)
    {
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++)
                ret->raw[k][r] = piece::load(at.weight + halo_min_of((uint32_t)r, at.last) * layout.stride, layout,
                                             halo_min_of(at.piece + 32 * (uint32_t)k + halo_lane(), last_piece));
    }

    HALO_DEVICE void use(const turn &turn, const typename piece::act *x, uint32_t first, uint32_t n, float acc[R][1])
    {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++) {
                const float sum = piece::add(turn.raw[k][r], x[k], acc[r][0]);
                acc[r][0] = first + 32 * (uint32_t)k + halo_lane() < n ? sum : acc[r][0];
            }
    }

    HALO_DEVICE void store(const halo_gemv_args &a, const place &at, float acc[R][1])
    {
        const halo_matrix_arg matrix = at.matrix == 0 ? a.matrix[0] : at.matrix == 1 ? a.matrix[1] : a.matrix[2];
        gemv_store<R, 1>(acc, matrix.bias, matrix.out, matrix.out_stride, at.row, matrix.n_rows, 1);
        for (int r = 0; r < R; r++)
            acc[r][0] = 0;
    }

    /* Uses `now` while `then` is on its way. At the end there is no more to load, and behind it nothing to use. */
    HALO_DEVICE void step(const halo_gemv_args &a, const halo_row_layout &layout, const uint8_t *x, place *at,
                          const turn &now, turn *then, float acc[R][1])
    {
        const uint32_t n = a.n_cols / piece::COLS;
        typename piece::act act[STEPS];
        for (int k = 0; k < STEPS; k++)
            act[k] = piece::load_x(x, a.n_cols, halo_min_of(at->piece + 32 * (uint32_t)k + halo_lane(), n - 1));
        halo_schedule_here();
        place next = *at;
        next.piece += 32 * STEPS;
        const bool row_ends = next.piece >= n;
        if (row_ends) {
            next.block += a.n_grid;
            if (next.block < a.n_blocks)
                find(a, layout.stride, &next);
        }
        load(layout, next, next.block < a.n_blocks ? n - 1 : 0, then);
        halo_schedule_here();
        use(now, act, at->piece, n, acc);
        if (row_ends && at->block < a.n_blocks)
            store(a, *at, acc);
        *at = next;
    }

    HALO_DEVICE void run(const halo_gemv_args &a)
    {
        const halo_row_layout layout = halo_hip_row_layout(TYPE, a.n_cols);
        place at = {};
        turn even = {}, odd = {};
        float acc[R][1] = {};
        at.block = halo_block_x();
        find(a, layout.stride, &at);
        load(layout, at, a.n_cols / piece::COLS - 1, &even);
        halo_inputs_ready();
        const uint8_t *x = static_cast<const uint8_t *>(a.x);
        x += a.row_index ? (uint64_t)a.row_index[0] * piece::x_stride(a.n_cols) : 0;
#pragma unroll 1
        while (at.block < a.n_blocks) {
            step(a, layout, x, &at, even, &odd, acc);
            step(a, layout, x, &at, odd, &even, acc);
        }
    }
};

#endif
