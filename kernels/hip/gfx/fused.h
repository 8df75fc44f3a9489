/* fused.h: products of one row that have the next op in their epilogue: the GLU of gate and up, or the sum with the
 * residual row and its RMS norm. They save a launch each, with what it costs until it has its inputs.
 *
 * An activation row needs 32 neighbours for a unit. So a block makes whole units: its waves leave their sums in LDS,
 * and one of them goes on with 32 elements. A norm's factor is not known before all blocks have ended. It is left out:
 * quantization to int8 does not depend on it, and each product of the row multiplies its sums by it (halo_factor_arg),
 * which it adds up in one order from the squares of the units.
 */
#ifndef HALO_GFX_FUSED_H
#define HALO_GFX_FUSED_H

#include "args_fused.h"
#include "glu.h"
#include "persistent.h"
#include "rows.h"

/* For all lanes of the wave. */
HALO_DEVICE float fused_factor(const halo_factor_arg &a, uint32_t n_cols)
{
    if (!a.squares)
        return 1;
    float sum = 0;
    for (uint32_t i = halo_lane(); i < a.n_units; i += 32)
        sum += a.squares[i];
    return halo_rsqrt(halo_wave_sum(sum) / (float)n_cols + a.eps);
}

template <uint32_t TYPE> struct persistent_scaled : persistent_matrices<TYPE> {
    typedef persistent_matrices<TYPE> of;
    typedef halo_gemv_scaled_args args;
    typedef typename of::jobs jobs;
    HALO_DEVICE void find(const args &a, const jobs &jobs, uint32_t stride, persistent_place *at)
    {
        of::find(a.gemv, jobs, stride, at);
    }
    HALO_DEVICE void inputs(const args &a, const jobs &jobs, persistent_place *at)
    {
        of::inputs(a.gemv, jobs, at);
        at->factor = fused_factor(a.factor, a.n_cols);
    }
    HALO_DEVICE void store(const args &a, const jobs &jobs, const persistent_place &at, float acc[of::R][1])
    {
        for (int r = 0; r < of::R; r++)
            acc[r][0] *= at.factor;
        of::store(a.gemv, jobs, at, acc);
    }
};

struct fused_lds {
    alignas(16) float unit[2][HALO_HIP_UNIT]; /* one is filled while the other is read */
};

/* The units of a block: N_WAVES waves make R elements each in each of TURNS. */
template <uint32_t N_WAVES, int R> struct fused_units {
    static constexpr uint32_t WAVES = N_WAVES, BLOCK = WAVES * R, TURNS = HALO_HIP_UNIT / BLOCK;
    static_assert(BLOCK * TURNS == HALO_HIP_UNIT, "turns make a unit");
    struct jobs {
        uint32_t first, end;
        fused_lds *lds;
    };
    /* Where the turn's elements go. */
    HALO_DEVICE float *elements(const jobs &jobs, const persistent_place &at)
    {
        return jobs.lds->unit[at.job / TURNS % 2] + at.job % TURNS * BLOCK;
    }
    /* Whether the unit is complete, and for this wave to go on with. For all waves of the block. */
    HALO_DEVICE bool complete(const persistent_place &at)
    {
        if (at.job % TURNS + 1 < TURNS)
            return false;
        halo_lds_barrier();
        return halo_wave() == at.job / TURNS % WAVES;
    }
    /* The lane's four elements of the unit, and which of the row they are; the lanes behind the eighth have none. */
    HALO_DEVICE halo_f4 take(const jobs &jobs, const persistent_place &at, uint32_t n_rows, uint32_t *ret_i)
    {
        const uint32_t lane = halo_lane();
        *ret_i = lane < 8 ? at.block / TURNS * HALO_HIP_UNIT + lane * 4 : n_rows;
        return halo_load<halo_f4>(jobs.lds->unit[at.job / TURNS % 2], lane % 8);
    }
};

template <uint32_t TYPE> struct fused_norm : fused_units<16, gemv_wave_rows<TYPE, 1>> {
    static constexpr int R = gemv_wave_rows<TYPE, 1>;
    typedef fused_units<16, R> units;
    typedef halo_gemv_norm_args args;
    typedef persistent_chunk<TYPE> chunk;
    typedef typename units::jobs jobs;
    static constexpr uint32_t TYPE_OF = TYPE;
    static constexpr int STEPS = chunk::STEPS;
    HALO_DEVICE void find(const args &a, const jobs &, uint32_t stride, persistent_place *at)
    {
        persistent_rows<R, units::WAVES>(a.weight, a.n_rows, at->block, stride, at);
        at->second = at->weight; /* there is none; if it is never written, AMD's compiler keeps places in LDS */
    }
    HALO_DEVICE const uint8_t *row(const persistent_place &at, uint32_t r, uint32_t stride)
    {
        return at.weight + r * stride;
    }
    HALO_DEVICE void inputs(const args &a, const jobs &, persistent_place *at)
    {
        halo_inputs_ready();
        at->x = static_cast<const uint8_t *>(a.in);
    }
    HALO_DEVICE void store(const args &a, const jobs &jobs, const persistent_place &at, float acc[R][1])
    {
        gemv_store<R, 1>(acc, nullptr, units::elements(jobs, at), 0, halo_wave() * R, units::BLOCK, 1);
        if (!units::complete(at))
            return;
        uint32_t i;
        const halo_f4 sum = units::take(jobs, at, a.n_rows, &i);
        const halo_f4 bias = a.bias ? halo_load4(a.bias, i, a.n_rows) : halo_f4{{0, 0, 0, 0}};
        const halo_f4 norm = halo_load4_or_ones(a.norm, i, a.n_rows);
        halo_f4 x = halo_load4(a.x, i, a.n_rows);
        float squares = 0;
        for (int j = 0; j < 4; j++) {
            x.e[j] = halo_fma(sum.e[j] + bias.e[j], a.add_scale, x.e[j]) * a.x_scale;
            squares = i < a.n_rows ? halo_fma(x.e[j], x.e[j], squares) : 0;
        }
        halo_store4(a.x, i, a.n_rows, x);
        squares = halo_wave_sum(squares);
        if (halo_lane() == 0)
            a.squares[i / HALO_HIP_UNIT] = squares;
        for (int j = 0; j < 4; j++)
            x.e[j] *= norm.e[j];
        if (a.out)
            halo_store4(a.out, i, a.n_rows, x);
        halo_quantize4(x, i, a.n_rows, static_cast<uint8_t *>(a.act));
    }
};

/* Waves of a block of gate and up: where an SM holds three blocks of a product, as many of these are more. */
template <uint32_t TYPE> constexpr uint32_t fused_glu_waves = persistent_resident<TYPE> == 3 ? 8 : 16;

/* A wave has the same row of gate and of up. */
template <uint32_t TYPE> struct fused_glu : fused_units<fused_glu_waves<TYPE>, 1> {
    typedef fused_units<fused_glu_waves<TYPE>, 1> units;
    typedef halo_gemv_glu_args args;
    typedef persistent_chunk<TYPE> chunk;
    typedef typename units::jobs jobs;
    static constexpr uint32_t TYPE_OF = TYPE;
    static constexpr int R = 2, STEPS = chunk::STEPS;
    HALO_DEVICE void find(const args &a, const jobs &, uint32_t stride, persistent_place *at)
    {
        persistent_rows<1, units::WAVES>(a.gate, a.n_rows, at->block, stride, at);
        at->second = static_cast<const uint8_t *>(a.up) + (uint64_t)at->row * stride;
    }
    HALO_DEVICE const uint8_t *row(const persistent_place &at, uint32_t r, uint32_t)
    {
        return r == 0 ? at.weight : at.second;
    }
    HALO_DEVICE void inputs(const args &a, const jobs &, persistent_place *at)
    {
        halo_inputs_ready();
        at->x = static_cast<const uint8_t *>(a.in);
        at->factor = fused_factor(a.factor, a.n_cols);
    }
    HALO_DEVICE void store(const args &a, const jobs &jobs, const persistent_place &at, float acc[R][1])
    {
        float gate = halo_wave_sum(acc[0][0]) * at.factor, up = halo_wave_sum(acc[1][0]) * at.factor;
        if (halo_lane() == 0) {
            gate = a.gate_bias ? gate + a.gate_bias[at.row] : gate;
            up = a.up_bias ? up + a.up_bias[at.row] : up;
            units::elements(jobs, at)[halo_wave()] = activated_by(a.glu, gate, up, a.limit);
        }
        if (!units::complete(at))
            return;
        uint32_t i;
        const halo_f4 v = units::take(jobs, at, a.n_rows, &i);
        halo_quantize4(v, i, a.n_rows, static_cast<uint8_t *>(a.act));
    }
};

struct fused_row_lds {
    alignas(16) uint8_t act[HALO_MOE_GLU_COLS + HALO_MOE_GLU_COLS / HALO_HIP_UNIT * sizeof(halo_act_unit)];
};

/* The rows of one slot's expert. */
template <uint32_t TYPE, bool SHORT> struct fused_experts {
    typedef halo_moe_gemv_glu_args args;
    typedef persistent_chunk<TYPE> chunk;
    static constexpr uint32_t TYPE_OF = TYPE, TURNS = 1;
    static constexpr int R = SHORT ? HALO_MOE_SHORT_ROWS : gemv_wave_rows<TYPE, 1>, STEPS = SHORT ? 1 : chunk::STEPS;
    struct jobs {
        uint32_t first, end, slot, expert;
        fused_row_lds *lds;
    };
    HALO_DEVICE void find(const args &a, const jobs &jobs, uint32_t stride, persistent_place *at)
    {
        persistent_rows<R>(static_cast<const uint8_t *>(a.matrix.weight) + jobs.expert * a.matrix.expert_bytes,
                           a.matrix.n_rows, at->block, stride, at);
    }
    HALO_DEVICE const uint8_t *row(const persistent_place &at, uint32_t r, uint32_t stride)
    {
        return persistent_row(at, r, stride);
    }
    HALO_DEVICE void inputs(const args &a, const jobs &jobs, persistent_place *at)
    {
        halo_inputs_ready();
        const float *gate = a.gate + (uint64_t)jobs.slot * a.n_cols,
                    *up = a.up ? a.up + (uint64_t)jobs.slot * a.n_cols : nullptr;
        for (uint32_t first = 0; first < a.n_cols; first += HALO_QUANTIZE_COLS) {
            const uint32_t i = first + halo_tid() * 4;
            halo_f4 v = halo_load4(gate, i, a.n_cols);
            const halo_f4 u = halo_load4_or_ones(up, i, a.n_cols);
            for (int j = 0; j < 4; j++)
                v.e[j] = activated_by(a.glu, v.e[j], u.e[j], a.limit);
            halo_quantize4(v, i, a.n_cols, jobs.lds->act);
        }
        halo_barrier();
        at->x = jobs.lds->act;
    }
    HALO_DEVICE void store(const args &a, const jobs &jobs, const persistent_place &at, float acc[R][1])
    {
        const float *bias = a.matrix.bias ? a.matrix.bias + (uint64_t)jobs.expert * a.matrix.n_rows : nullptr;
        gemv_store<R, 1>(acc, bias, a.matrix.out + (uint64_t)jobs.slot * a.matrix.out_stride, 0, at.row,
                         a.matrix.n_rows, 1);
    }
};

template <uint32_t TYPE, bool SHORT>
HALO_DEVICE void fused_experts_run(const halo_moe_gemv_glu_args &a, fused_row_lds *lds)
{
    typedef fused_experts<TYPE, SHORT> of;
    const uint32_t slot = halo_block_x() / a.n_grid;
    const uint32_t expert = a.choice ? halo_float_bits(a.choice[a.n_used + slot]) : slot;
    persistent<of>::run(a, typename of::jobs{halo_block_x() % a.n_grid, a.n_slot_blocks, slot, expert, lds});
}

template <typename OF> HALO_DEVICE void fused_run(const typename OF::args &a, fused_lds *lds)
{
    persistent<OF>::run(a, typename OF::jobs{halo_block_x() * OF::TURNS, a.n_units * OF::TURNS, lds});
}

template <uint32_t TYPE> HALO_DEVICE void scaled_run(const halo_gemv_scaled_args &a, uint32_t block)
{
    typedef persistent_scaled<TYPE> of;
    persistent<of>::run(a, typename of::jobs{block, a.gemv.n_blocks});
}

/* The smaller types' number of resident blocks: their rows are most of the work. */
#define HALO_PAIR_KERNEL(FIRST, first, SECOND, second)                                                                 \
    HALO_KERNEL_RESIDENT(gemv_pair_##first##_##second, halo_gemv_pair_args, 256,                                       \
                         persistent_resident<HALO_TYPE_##FIRST>)                                                       \
    {                                                                                                                  \
        const uint32_t block = halo_block_x();                                                                         \
        if (block < a.of[0].n_grid)                                                                                    \
            scaled_run<HALO_TYPE_##FIRST>(a.of[0], block);                                                             \
        else                                                                                                           \
            scaled_run<HALO_TYPE_##SECOND>(a.of[1], block - a.of[0].n_grid);                                           \
    }

#define HALO_FUSED_EXPERTS(TYPE, type)                                                                                 \
    HALO_KERNEL_RESIDENT(moe_gemv_glu_##type, halo_moe_gemv_glu_args, 256, persistent_resident<HALO_TYPE_##TYPE>)      \
    {                                                                                                                  \
        HALO_LDS(fused_row_lds, lds);                                                                                  \
        if (HALO_MOE_SHORT(false, a.n_cols))                                                                           \
            fused_experts_run<HALO_TYPE_##TYPE, true>(a, &lds);                                                        \
        else                                                                                                           \
            fused_experts_run<HALO_TYPE_##TYPE, false>(a, &lds);                                                       \
    }

#define HALO_FUSED_KERNELS(TYPE, type)                                                                                 \
    HALO_FUSED_EXPERTS(TYPE, type)                                                                                     \
    HALO_KERNEL_RESIDENT(gemv_scaled_##type, halo_gemv_scaled_args, 256, persistent_resident<HALO_TYPE_##TYPE>)        \
    {                                                                                                                  \
        scaled_run<HALO_TYPE_##TYPE>(a, halo_block_x());                                                               \
    }                                                                                                                  \
    HALO_KERNEL_RESIDENT(gemv_norm_##type, halo_gemv_norm_args, 512, 1)                                                \
    {                                                                                                                  \
        HALO_LDS(fused_lds, lds);                                                                                      \
        fused_run<fused_norm<HALO_TYPE_##TYPE>>(a, &lds);                                                              \
    }                                                                                                                  \
    HALO_KERNEL_RESIDENT(gemv_glu_##type, halo_gemv_glu_args, fused_glu_waves<HALO_TYPE_##TYPE> * 32,                  \
                         fused_glu_waves<HALO_TYPE_##TYPE> == 8 ? 3 : 1)                                               \
    {                                                                                                                  \
        HALO_LDS(fused_lds, lds);                                                                                      \
        fused_run<fused_glu<HALO_TYPE_##TYPE>>(a, &lds);                                                               \
    }

#endif
