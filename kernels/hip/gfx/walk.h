/* walk.h: products of one row of x with quantized weights: what the gemv kernels of one row share.
 *
 * A wave makes 2 weight rows at a time, and the block goes on from its rows to others, a grid apart. A *turn* is what
 * the lanes read at once: two units each of every row, 1 KiB of neighbours of a row's nibbles. While a turn is used the
 * next is on its way, also where it is the first of the next rows: a matrix of 4096 columns has two turns, and half the
 * time would go by waiting for the first. Two turns alternate in registers, so that none is copied.
 * On AMD's chips loads come back in order, and the compiler counts those under way: so activations are loaded in front
 * of the next turn (else waiting for them would be waiting for it), and the next turn is loaded without a condition
 * (else it would have to be waited for at once). Units and rows that do not exist read one that does and count for
 * nothing.
 * The order of the additions of a row is that of gemv.h.
 */
#ifndef HALO_GFX_WALK_H
#define HALO_GFX_WALK_H

#include "gemv_wave.h"

template <uint32_t TYPE> struct gemv_walk {
    static constexpr int R = HALO_GEMV_WAVE_ROWS(false, 1), STEPS = 2;
    typedef halo_type_code<TYPE> code;
    struct turn { typename code::raw raw[STEPS][R]; };
    struct place {
        const uint8_t *weight; /* the first of the wave's rows */
        uint32_t last;         /* of the rows from it on that exist */
        uint32_t block, row;
        uint32_t unit;         /* of lane 0 */
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
        at->unit = 0;
    }

    /* With last_unit 0 all lanes read the same unit, which costs next to nothing. */
    HALO_DEVICE void load(const halo_row_layout &layout, const place &at, uint32_t last_unit, turn *ret)
    {
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++)
                ret->raw[k][r] = code::load(at.weight + halo_min_of((uint32_t)r, at.last) * layout.stride, layout,
                                            halo_min_of(at.unit + 32 * (uint32_t)k + halo_lane(), last_unit));
    }

    HALO_DEVICE void use(const turn &turn, const halo_act *x, uint32_t first, uint32_t n_units, float acc[R][1])
    {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++) {
                halo_unit w;
                code::expand(turn.raw[k][r], halo_lane(), &w);
                const float sum = halo_unit_dot<code>(w, x[k], acc[r][0]);
                acc[r][0] = first + 32 * (uint32_t)k + halo_lane() < n_units ? sum : acc[r][0];
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
        const uint32_t n_units = a.n_cols / HALO_HIP_UNIT;
        halo_act act[STEPS];
        for (int k = 0; k < STEPS; k++)
            act[k] = halo_act_load(x, a.n_cols, halo_min_of(at->unit + 32 * (uint32_t)k + halo_lane(), n_units - 1));
        halo_schedule_here();
        place next = *at;
        next.unit += 32 * STEPS;
        const bool row_ends = next.unit >= n_units;
        if (row_ends) {
            next.block += a.n_grid;
            if (next.block < a.n_blocks)
                find(a, layout.stride, &next);
        }
        load(layout, next, next.block < a.n_blocks ? n_units - 1 : 0, then);
        halo_schedule_here();
        use(now, act, at->unit, n_units, acc);
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
        load(layout, at, a.n_cols / HALO_HIP_UNIT - 1, &even);
        halo_inputs_ready();
        const uint8_t *x = static_cast<const uint8_t *>(a.x);
        x += a.row_index ? (uint64_t)a.row_index[0] * halo_hip_act_bytes(a.n_cols) : 0;
#pragma unroll 1
        while (at.block < a.n_blocks) {
            step(a, layout, x, &at, even, &odd, acc);
            step(a, layout, x, &at, odd, &even, acc);
        }
    }
};

#endif
