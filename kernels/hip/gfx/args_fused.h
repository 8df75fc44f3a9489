/* args_fused.h: what products of one row with the op behind them take (fused.h), and routers with the norm in front.
 * Included by args.h, whose rules hold. */
#ifndef HALO_HIP_ARGS_FUSED_H
#define HALO_HIP_ARGS_FUSED_H

#include "args.h"

/* Activation rows that lack the factor of their RMS norm: sum of `squares` over n_cols elements, + eps, its inverse
 * root. squares: one for each unit of the row, or NULL: the rows are whole. */
struct halo_factor_arg {
    const float *squares;
    uint32_t n_units;
    float eps;
};

/* gemv_scaled_<type>: gemv_<type>_x1 of such a row. The same grid. */
struct halo_gemv_scaled_args {
    struct halo_gemv_args gemv;
    struct halo_factor_arg factor;
    uint32_t n_cols, n_grid; /* those of gemv */
};

/* gemv_pair_<type>_<type>: two gemv_scaled, one of each type, of one row of x. Grid: the sum of theirs, the second
 * behind the first. */
struct halo_gemv_pair_args {
    struct halo_gemv_scaled_args of[2];
};

/* gemv_norm_<type>: x = (x + (weight in + bias) * add_scale) * x_scale, and of what an RMS norm makes of it all but the
 * factor: act = x * norm, squares = the sum of x^2 of each unit. Grid (n_grid): any number up to n_units; block b makes
 * the units b, b + n_grid, ... of HALO_HIP_UNIT weight rows. */
struct halo_gemv_norm_args {
    const void *weight, *in; /* in: an activation row */
    const float *bias;       /* or NULL */
    float *x;
    const float *norm; /* or NULL: ones */
    float *out;        /* x * norm as f32, or NULL */
    void *act;
    float *squares;
    uint32_t n_cols, n_rows, n_units, n_grid; /* n_rows % HALO_HIP_UNIT == 0 */
    float add_scale, x_scale;
};

/* gemv_glu_<type>: act = glu(gate in + bias, up in + bias) of the GLU op, as an activation row. Grid as gemv_norm's, of
 * n_rows of each matrix. */
struct halo_gemv_glu_args {
    const void *gate, *up, *in;
    const float *gate_bias, *up_bias; /* or NULL */
    struct halo_factor_arg factor;    /* of in */
    void *act;
    uint32_t n_cols, n_rows, n_units, n_grid, glu; /* glu: enum halo_glu_act */
    float limit;
};

/* moe_gemv_glu_<type>: of one row the products of each slot's expert with the GLU of what its gate and up gave, which
 * each block makes an activation row of. Grid (n_grid * n_slots): block b makes the parts b % n_grid, + n_grid, ... of
 * the ceil(n_rows / HALO_MOE_GEMV_ROWS(false, n_cols)) of slot b / n_grid. */
#define HALO_MOE_GLU_COLS 4096
struct halo_moe_gemv_glu_args {
    struct halo_expert_arg matrix;
    const float *gate, *up;                              /* [slot][n_cols]; up: or NULL */
    const float *choice;                                 /* as moe_gemv's, older than what the launch in front leaves */
    uint32_t n_cols, n_used, n_slot_blocks, n_grid, glu; /* glu: enum halo_glu_act; n_cols % HALO_HIP_UNIT == 0 */
    float limit;
};

/* moe_router_norm, moe_router_norm_scored: rmsnorm, without half, and moe_router of its output. Grid (the router's + 1,
 * rows). */
#define HALO_ROUTER_NORM_COLS 4096
struct halo_moe_router_norm_args {
    struct halo_moe_router_args router; /* x: not read */
    struct halo_rmsnorm_args norm;      /* n_cols % HALO_HIP_UNIT == 0; out is not x */
};

#endif
