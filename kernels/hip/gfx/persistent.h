/* persistent.h: persistent blocks: products of one row of x, and of the experts of each slot. What gemv_<type>_x1 and
 * moe_gemv_<type> share.
 *
 * A wave computes 2 weight rows at a time, and the block continues with further rows, a grid apart. A *chunk* is what a
 * lane loads of a row at once: a unit, or 16 bytes of plain weights. A *stage* of the pipeline is what the lanes load
 * together: STEPS chunks each of every row, with two steps 1 KiB of neighbours of a row's nibbles. The next stage is
 * loaded before the last is used, also where it is the first of the next rows: 4096 columns of nibbles are two stages,
 * and half the time would go by waiting for the first. Two stages alternate in registers, so that none is copied.
 * On AMD's chips loads return in order, and the compiler counts those in flight: so x is loaded before the next stage
 * (otherwise waiting for x would be waiting for the stage), and the next stage is loaded without a condition (otherwise
 * it would have to be waited for at once). Chunks and rows that do not exist read one that does and add nothing.
 * The order of the additions of a row is that of gemv.h.
 */
#ifndef HALO_GFX_PERSISTENT_H
#define HALO_GFX_PERSISTENT_H

#include "gemv_wave.h"
#include "plain.h"

/* Resident blocks per SM of NVIDIA's chips. A third brings Q4_K closer to the copy's bandwidth by up to a tenth of it;
 * the other types that were measured lose by it. */
template <uint32_t TYPE> constexpr int persistent_resident = TYPE == HALO_TYPE_Q4_K ? 3 : 2;

/* A chunk: its columns, how many make a stage, what is loaded of the row and of x, and the products. */
template <uint32_t TYPE, bool PLAIN = gemv_plain_type<TYPE>> struct persistent_chunk {
    typedef halo_type_code<TYPE> code;
    typedef typename code::raw raw;
    typedef halo_act act;
    static constexpr uint32_t COLS = HALO_HIP_UNIT;
    static constexpr int STEPS = 2;
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols)
    {
        return halo_hip_act_bytes(n_cols);
    }
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t i)
    {
        return code::load(row, at, i);
    }
    HALO_DEVICE act load_x(const uint8_t *x, uint32_t n_cols, uint32_t i)
    {
        return halo_act_load(x, n_cols, i);
    }
    HALO_DEVICE float add(const raw &raw, const act &x, const void *book, float acc)
    {
        halo_unit w;
        halo_expand<TYPE>(raw, halo_lane(), book, &w);
        return halo_unit_dot<code>(w, x, acc);
    }
};

template <uint32_t TYPE> struct persistent_chunk<TYPE, true> {
    typedef gemv_plain_code<TYPE> code;
    typedef halo_u4 raw;
    struct act {
        float x[code::CHUNK];
    };
    static constexpr uint32_t COLS = code::CHUNK;
    static constexpr int STEPS = HALO_PLAIN_STEPS;
    HALO_DEVICE uint32_t x_stride(uint32_t n_cols)
    {
        return n_cols * 4;
    }
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &, uint32_t i)
    {
        return halo_stream(row, i);
    }
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
    HALO_DEVICE float add(const raw &w, const act &act, const void *, float acc)
    {
        return gemv_chunk<code, false>(w, act.x, acc);
    }
};

/* Where a wave is in the grid. */
struct persistent_place {
    const uint8_t *weight; /* the first of the wave's rows */
    uint32_t last;         /* of the rows from it on that exist */
    const uint8_t *x;      /* the row of x that they take */
    uint32_t block, job;   /* the block whose rows these are; how many this one did before */
    uint32_t row, matrix, slot;
    uint32_t chunk;        /* of lane 0 */
    float factor;          /* of x, where it lacks one */
    const uint8_t *second; /* the row of the other matrix, of gate and up */
    const void *book;      /* of the type, or NULL */
};

/* The wave's rows in block `block` of a matrix of n_rows. */
template <int R, uint32_t WAVES = HALO_GEMV_WAVES>
HALO_DEVICE void persistent_rows(const void *weight, uint32_t n_rows, uint32_t block, uint32_t stride,
                                 persistent_place *at)
{
    at->row = block * (WAVES * R) + halo_wave() * R;
    const uint32_t row = halo_min_of(at->row, n_rows - 1);
    at->last = n_rows - 1 - row;
    at->weight = static_cast<const uint8_t *>(weight) + (uint64_t)row * stride;
    at->chunk = 0;
}

/* Row r of the wave's; rows that do not exist are the last. */
HALO_DEVICE const uint8_t *persistent_row(const persistent_place &at, uint32_t r, uint32_t stride)
{
    return at.weight + halo_min_of(r, at.last) * stride;
}

/* The rows of up to three matrices, which take the same row of x. Weights are found before the inputs are there. */
template <uint32_t TYPE> struct persistent_matrices {
    typedef halo_gemv_args args;
    typedef persistent_chunk<TYPE> chunk;
    static constexpr uint32_t TYPE_OF = TYPE;
    static constexpr int R = gemv_wave_rows<TYPE, 1>, STEPS = chunk::STEPS;
    static constexpr uint32_t TURNS = 1;
    struct jobs {
        uint32_t first, end;
    }; /* of the blocks */
    HALO_DEVICE void find(const args &a, const jobs &, uint32_t stride, persistent_place *at)
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
        persistent_rows<R>(weight, n_rows, block, stride, at);
    }
    HALO_DEVICE const uint8_t *row(const persistent_place &at, uint32_t r, uint32_t stride)
    {
        return persistent_row(at, r, stride);
    }
    HALO_DEVICE void inputs(const args &a, const jobs &, persistent_place *at)
    {
        halo_inputs_ready();
        at->x = static_cast<const uint8_t *>(a.x);
        at->x += a.row_index ? (uint64_t)a.row_index[0] * chunk::x_stride(a.n_cols) : 0;
    }
    HALO_DEVICE void store(const args &a, const jobs &, const persistent_place &at, float acc[R][1])
    {
        const halo_matrix_arg matrix = at.matrix == 0 ? a.matrix[0] : at.matrix == 1 ? a.matrix[1] : a.matrix[2];
        gemv_store<R, 1>(acc, matrix.bias, matrix.out, matrix.out_stride, at.row, matrix.n_rows, 1);
    }
};

/* The rows of the experts of all slots. Lane l reads which place and which row of x the block's job l wants, for 32
 * jobs at a time, so that the next rows cost one exchange between lanes. Where a row is a chunk a lane or less (SHORT),
 * a stage is one chunk of twice as many rows: a second step would load nothing. */
template <uint32_t TYPE, bool SHORT> struct persistent_experts {
    typedef halo_moe_gemv_args args;
    typedef persistent_chunk<TYPE> chunk;
    static constexpr uint32_t TYPE_OF = TYPE;
    static constexpr int R = SHORT ? HALO_MOE_SHORT_ROWS : gemv_wave_rows<TYPE, 1>, STEPS = SHORT ? 1 : chunk::STEPS;
    static constexpr uint32_t TURNS = 1;
    struct jobs {
        uint32_t first, end, word;
    };                                                     /* word, of lane l: place, slot and row of x of job l */
    static constexpr uint32_t N = 32, SLOT = 17, ROW = 29; /* SLOT, ROW: their first bits in a word */
    static_assert(HALO_MOE_PLACES_MAX <= 1 << SLOT && HALO_MOE_SLOTS_MAX <= 1 << (ROW - SLOT) &&
                      HALO_MOE_ROWS_MAX <= 1 << (32 - ROW),
                  "fit");
    HALO_DEVICE jobs read(const args &a, uint32_t first)
    {
        const uint32_t block = halo_min_of(first + halo_lane() * a.n_grid, a.n_blocks - 1);
        const uint32_t slot = block / a.n_slot_blocks, row = slot / a.n_used;
        const uint32_t expert =
            a.choice ? halo_float_bits(a.choice[(row + 1) * a.n_used + slot]) : slot - row * a.n_used;
        const uint32_t place = a.place ? a.place[expert] : expert;
        return jobs{first, halo_min_of(first + N * a.n_grid, a.n_blocks), place | slot << SLOT | row << ROW};
    }
    HALO_DEVICE void find(const args &a, const jobs &jobs, uint32_t stride, persistent_place *at)
    {
        const uint32_t word = halo_broadcast(jobs.word, at->job), place = word & ((1 << SLOT) - 1);
        at->slot = word >> SLOT & ((1 << (ROW - SLOT)) - 1);
        uint32_t block = at->block - at->slot * a.n_slot_blocks;
        const uint32_t first = HALO_HIP_CEIL(a.matrix[0].n_rows, (HALO_GEMV_WAVES * R));
        at->matrix = block < first ? 0 : 1;
        block -= block < first ? 0 : first;
        const halo_expert_arg matrix = at->matrix == 0 ? a.matrix[0] : a.matrix[1];
        persistent_rows<R>(static_cast<const uint8_t *>(matrix.weight) + place * matrix.expert_bytes, matrix.n_rows,
                           block, stride, at);
        at->x = static_cast<const uint8_t *>(a.x) +
                (uint64_t)(a.per_slot ? at->slot : word >> ROW) * chunk::x_stride(a.n_cols);
    }
    HALO_DEVICE const uint8_t *row(const persistent_place &at, uint32_t r, uint32_t stride)
    {
        return persistent_row(at, r, stride);
    }
    HALO_DEVICE void inputs(const args &, const jobs &, persistent_place *)
    {
        halo_inputs_ready(); /* again, where the choice was one */
    }
    HALO_DEVICE void store(const args &a, const jobs &, const persistent_place &at, float acc[R][1])
    {
        const halo_expert_arg matrix = at.matrix == 0 ? a.matrix[0] : a.matrix[1];
        uint64_t first = 0;
        if (matrix.bias) /* the choice is read again: few experts have one, and registers are short */
            first = (uint64_t)halo_float_bits(a.choice[(at.slot / a.n_used + 1) * a.n_used + at.slot]) * matrix.n_rows;
        gemv_store<R, 1>(acc, matrix.bias + first, matrix.out + (uint64_t)at.slot * matrix.out_stride, 0, at.row,
                         matrix.n_rows, 1);
    }
};

/* OF: persistent_matrices, persistent_experts, or those of fused.h. A block makes TURNS neighbours, then those that are
 * a grid further on. */
template <typename OF> struct persistent {
    typedef typename OF::args args;
    typedef typename OF::jobs jobs;
    typedef typename OF::chunk chunk;
    static constexpr int R = OF::R, STEPS = OF::STEPS;
    struct stage {
        typename chunk::raw raw[STEPS][R];
    };

    /* With last_chunk 0 all lanes read the same chunk, which costs next to nothing. */
    HALO_DEVICE void load(const halo_row_layout &layout, const persistent_place &at, uint32_t last_chunk, stage *ret)
    {
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++)
                ret->raw[k][r] = chunk::load(OF::row(at, (uint32_t)r, layout.stride), layout,
                                             halo_min_of(at.chunk + 32 * (uint32_t)k + halo_lane(), last_chunk));
    }

    HALO_DEVICE void use(const stage &stage, const typename chunk::act *x, const void *book, uint32_t first, uint32_t n,
                         float acc[R][1])
    {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            for (int r = 0; r < R; r++) {
                const float sum = chunk::add(stage.raw[k][r], x[k], book, acc[r][0]);
                acc[r][0] = first + 32 * (uint32_t)k + halo_lane() < n ? sum : acc[r][0];
            }
    }

    /* Loads `then`, and uses `now` meanwhile. After the last stage there is nothing to load, and the one loaded then is
     * not used. */
    HALO_DEVICE void step(const args &a, const jobs &jobs, const halo_row_layout &layout, persistent_place *at,
                          const stage &now, stage *then, float acc[R][1])
    {
        const uint32_t n = a.n_cols / chunk::COLS;
        typename chunk::act act[STEPS];
        for (int k = 0; k < STEPS; k++)
            act[k] = chunk::load_x(at->x, a.n_cols, halo_min_of(at->chunk + 32 * (uint32_t)k + halo_lane(), n - 1));
        halo_schedule_here();
        persistent_place next = *at;
        next.chunk += 32 * STEPS;
        const bool row_ends = next.chunk >= n;
        if (row_ends) {
            next.job++;
            next.block += next.job % OF::TURNS != 0 ? 1 : (a.n_grid - 1) * OF::TURNS + 1;
            if (next.block < jobs.end)
                OF::find(a, jobs, layout.stride, &next);
        }
        load(layout, next, next.block < jobs.end ? n - 1 : 0, then);
        halo_schedule_here();
        use(now, act, at->book, at->chunk, n, acc);
        if (row_ends && at->block < jobs.end) {
            OF::store(a, jobs, *at, acc);
            for (int r = 0; r < R; r++)
                acc[r][0] = 0;
        }
        *at = next;
    }

    HALO_DEVICE void run(const args &a, const jobs &jobs, const void *book = nullptr)
    {
        const halo_row_layout layout = halo_hip_row_layout(OF::TYPE_OF, a.n_cols);
        persistent_place at = {};
        stage even = {}, odd = {};
        float acc[R][1] = {};
        at.block = jobs.first;
        at.book = book;
        OF::find(a, jobs, layout.stride, &at);
        load(layout, at, a.n_cols / chunk::COLS - 1, &even);
        OF::inputs(a, jobs, &at);
#pragma unroll 1
        while (at.block < jobs.end) {
            step(a, jobs, layout, &at, even, &odd, acc);
            step(a, jobs, layout, &at, odd, &even, acc);
        }
    }
};

#endif
