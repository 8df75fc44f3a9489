/* args.h: what a kernel takes: one struct by value for each kernel, shared by the host (C) and the device code (C++).
 *
 * A launch passes kernelParams = { &struct }. Pointers are device addresses. A *row* is a row of the batch; values are
 * f32, [row][width] without padding. Everything that changes from batch to batch lies in buffers (token, pos, pages,
 * rope tables), so that a captured graph needs no new arguments. Rows whose pos is negative are padding: kv_write and
 * attention skip them. The comment of a struct says its grid; the block size is in variants.def.
 */
#ifndef HALO_HIP_ARGS_H
#define HALO_HIP_ARGS_H

#include <kernels/candidate.h>
#include <stdint.h>

/* Grids are in blocks. */
#define HALO_HIP_CEIL(n, d) (((n) + (d)-1) / (d))

/* embed_<type>: out[r] = weight[token[r]] * scale. Grid (rows). */
struct halo_embed_args {
    const void *weight; /* packed (layout.h) */
    const int32_t *token;
    float *out;
    uint32_t n_cols;
    float scale;
};

/* rmsnorm: x = (x + add * add_scale) * x_scale when add; out = x / sqrt(mean(x^2) + eps) * weight, as f32 and/or as an
 * activation row (layout.h) and/or as half_rows leaves it. layernorm: the same with y = x - mean(x) for x in the second
 * formula, and + bias. Grid (rows). n_cols % 32 == 0 when act or half is wanted; half: out is not x. */
struct halo_rmsnorm_args {
    float *x;
    const float *add;    /* or NULL */
    const float *weight; /* or NULL: ones */
    float *out;          /* or NULL */
    void *act;           /* or NULL */
    uint32_t n_cols;
    float eps, add_scale;
    const float *bias; /* or NULL; layernorm only */
    float x_scale;
    uint16_t *half; /* or NULL; these three of rmsnorm only */
    float *half_scale;
    const uint32_t *row_index; /* NULL, or for each row of the output the row of x and add */
};

/* quantize: f32 rows into activation rows. Grid (ceil(n_cols / HALO_QUANTIZE_COLS), rows). */
#define HALO_QUANTIZE_COLS 1024
struct halo_quantize_args {
    const float *x;
    void *act;
    uint32_t n_cols; /* % 32 == 0 */
};

/* half_rows: f32 rows into f16 rows for matrix tiles: half = x * 2^-e, scale = 2^e, e so that the largest magnitude is
 * below 2^15 and 0 for usual rows. Grid (rows). n_cols % 32 == 0. Row stride of half: n_cols, in the order of strips
 * (layout.h) halo_hip_strip_stride(). half_waves: the same of many rows, a wave for each. Grid
 * (ceil(rows / HALO_HALF_WAVES)). */
#define HALO_HALF_WAVES 8
struct halo_half_args {
    const float *x;
    uint16_t *half;
    float *scale;            /* [rows] */
    uint32_t n_cols, strips; /* strips: in their order */
    uint32_t n_rows;         /* half_waves alone reads it */
};

/* One of the matrices that share an input. */
struct halo_matrix_arg {
    const void *weight;  /* packed (layout.h) */
    const float *bias;   /* or NULL */
    float *out;          /* [row][out_stride] */
    uint32_t n_rows;     /* N */
    uint32_t out_stride; /* floats */
};

/* gemv_<type>_x<rows>: out = weight x for up to 1, 2, 4 or 8 rows. All matrices have the type. Also HALO_OP_LOGITS,
 * with row_index. Grid (n_grid): n_blocks, the sum over the matrices of ceil(n_rows / HALO_GEMV_ROWS(plain, rows of
 * x)); of one row where HALO_GEMV_PERSISTENT any number up to that: block b also does the work of blocks b + n_grid, b
 * + 2 n_grid, ... */
#define HALO_GEMV_WAVES 8
/* Weight rows of a wave, and of a block, for n rows of x; plain: F32, F16, BF16. */
#define HALO_GEMV_WAVE_ROWS(plain, n) ((plain) && (n) > 2 ? 4 : 2)
#define HALO_GEMV_ROWS(plain, n) (HALO_GEMV_WAVES * HALO_GEMV_WAVE_ROWS(plain, n))
/* Whether the product of one row has persistent blocks (persistent.h): always with quantized weights, and with plain
 * ones where chunks of 16 bytes, and their x, divide the row. */
#define HALO_GEMV_PERSISTENT(n_cols) ((n_cols) % 8 == 0)
struct halo_gemv_args {
    struct halo_matrix_arg matrix[3];
    const void *x;             /* activation rows for quantized types, f32 rows [row][n_cols] for F32, F16, BF16 */
    const uint32_t *row_index; /* NULL, or for each output row the row of x */
    uint32_t n_matrices, n_cols, n_rows, n_blocks, n_grid;
};

/* strip_<type>: the same for up to eight rows in f16, on chips with matrix units, strip_<type>_x32 for up to
 * HALO_STRIP_X, strip_<type>_x64 for up to HALO_STRIP_X_WIDE. n_cols % 32 == 0. Grid (sum over the matrices of
 * ceil(n_rows / HALO_STRIP_COLS)), of x64 with HALO_STRIP_PANELS_WIDE times the columns. */
#define HALO_STRIP_COLS 16 /* weight rows of a panel; blocks have one, of x64 more */
#define HALO_STRIP_X 32
#define HALO_STRIP_X_WIDE 64
#define HALO_STRIP_PANELS_WIDE 2
struct halo_strip_args {
    struct halo_matrix_arg matrix[3];
    const uint16_t *half; /* of half_rows, of quantized types in the order of strips */
    const float *scale;
    const uint32_t *row_index;                     /* as gemv's */
    uint32_t n_matrices, n_cols, n_rows, x_stride; /* x_stride: halves */
};

/* The GLU of two matrices in the epilogue of their product, as halves: gate is matrix[0], up matrix[1], with as many
 * rows, a multiple of 32. Each segment of HALO_GLU_SEGMENT outputs is divided by a power of two of its own, 2^shift,
 * as half_rows divides a row; half_align brings a row's segments to one. */
#define HALO_GLU_SEGMENT 16
struct halo_glu_arg {
    uint16_t *half; /* [row or slot][n_rows]; NULL: no GLU */
    uint8_t *shift; /* [row or slot][n_rows / HALO_GLU_SEGMENT] */
    uint32_t act;   /* enum halo_glu_act */
    float limit;    /* 0: none */
};

/* half_align: divides the segments of a row further, so that all have the largest shift, and stores 2^shift in scale.
 * Grid (ceil(n_rows / HALO_HALF_WAVES)), a wave to a row. */
struct halo_half_align_args {
    uint16_t *half;
    const uint8_t *shift;
    float *scale; /* [n_rows] */
    uint32_t n_cols, n_rows;
};

/* gemm_<type>: the same for many rows, in f16 with f32 sums. Grid (ceil(n_rows / HALO_GEMM_ROWS), sum of ceil(n_rows /
 * HALO_GEMM_COLS) of the matrices; one that is not there has no rows). With a GLU (ceil(n_rows / HALO_GEMM_ROWS),
 * ceil(n_rows / (HALO_GEMM_COLS / 2)) of one of its two matrices), and nothing goes to their out. n_cols % 32 == 0. */
#define HALO_GEMM_COLS 128 /* weight rows of a block */
#define HALO_GEMM_ROWS 128 /* rows of x */
struct halo_gemm_args {
    struct halo_matrix_arg matrix[3];
    const uint16_t *half; /* of half_rows */
    const float *scale;
    uint32_t n_cols, n_rows;
    struct halo_glu_arg glu;
};

/* qk_norm: rmsnorm of each head of q and k, in place; a weight that is NULL: ones. The weights of q's heads lie q_step
 * apart. Grid (ceil((n_head + n_head_kv) /
 * HALO_HEAD_WAVES), rows). */
#define HALO_HEAD_WAVES 8 /* heads of a block, one wave each */
struct halo_qk_norm_args {
    float *q, *k;
    const float *q_weight, *k_weight;
    uint32_t n_head, n_head_kv, head_dim;
    float eps;
    uint32_t q_step;
};

/* rope_norm, rope_neox: rotates q and k in place. Grid (ceil((n_head + n_head_kv) / HALO_HEAD_WAVES), rows). */
struct halo_rope_args {
    float *q, *k;
    const float *table; /* [row][n_rot]: n_rot / 2 cosines, then n_rot / 2 sines, times the rope's scale; made by the
                           host in double */
    uint32_t n_head, n_head_kv, head_dim, n_rot;
};

/* The cache of one layer, and where the positions of a row are. Layout of a page: layout.h. */
struct halo_kv_arg {
    uint8_t *base;              /* page 0 of the layer; a page every halo_hip_kv_layer_page_bytes() */
    const int32_t *pos;         /* [rows]; negative: no row */
    const uint32_t *page_first; /* [rows] index into pages of the first page of the row's sequence */
    const uint32_t *pages;
    uint64_t page_bytes;
    uint32_t n_head_kv, head_dim_k, head_dim_v;
};

/* An op's part of the states of a layer, and the sequences of the batch that go on from them: rows first .. first +
 * n_rows - 1 of the batch, of ascending positions, beginning with zeros where the first of them is at position 0. A
 * grid has blocks for each sequence, which take its rows one after the other. */
struct halo_state_run {
    uint32_t first, n_rows;
};
struct halo_state_arg {
    uint8_t *base; /* f32; the part in slot 0 */
    const int32_t *pos;
    const struct halo_state_run *run; /* [sequences] */
    const uint32_t *slot;             /* [sequences] */
    uint64_t slot_bytes;
};

/* What happens to the scores of attention (op.h); 0: nothing. */
struct halo_score_arg {
    const float *sinks; /* [n_head], or NULL */
    float scale, cap, temperature;
    uint32_t period, window;
};

/* kv_write_<kv type>: Grid (n_head_kv, rows). */
struct halo_kv_write_args {
    struct halo_kv_arg kv;
    const float *k, *v; /* v: NULL where the page is latent */
};

/* heads_<kv type>: qk_norm (when q_weight), rope and kv_write together: one wave to a head of q, k or v, which stays in
 * LDS meanwhile. q and k are written back as well. head_dim of q, k and v alike, <= HALO_HEADS_DIM. Grid (ceil((n_head
 * + 2 n_head_kv) / HALO_HEAD_WAVES), rows). */
#define HALO_HEADS_DIM 256
struct halo_heads_args {
    struct halo_kv_arg kv;
    float *q, *k;
    const float *v, *q_weight, *k_weight; /* weights: both or neither */
    const float *table;                   /* as rope's */
    uint32_t n_head, n_rot, neox;
    float eps;
};

/* attend_<kv type>_g<heads>_d<dim>: decode attention of rows that need not belong together. The positions of a row are
 * cut into n_splits runs of whole pages; with several, each split leaves its maximum, sum and weighted V in `partial`,
 * and the last block to finish merges them. A block serves up to <heads> q heads of one kv head. n_parts = ceil(n_head
 * / n_head_kv / <heads>). Grid (n_splits, n_head_kv * n_parts, rows). The result as f32 and, when act, as activation
 * rows (head_dim_v % 32 == 0 then). With k: what heads_<kv type> does as well, for rows that are
 * each of a sequence of their own; q, k and v stay as they are. */
#define HALO_SPLITS_MAX 64
#define HALO_PARTIAL_HEAD 4                                  /* floats: max, sum, two unused */
#define HALO_PARTIAL_STRIDE(dim) ((dim) + HALO_PARTIAL_HEAD) /* floats of one split of one head */
struct halo_attend_args {
    struct halo_kv_arg kv;
    const float *q;                           /* [row][n_head][head_dim_k] */
    const float *k, *v;                       /* [row][n_head_kv][head_dim], or NULL */
    const float *q_weight, *k_weight, *table; /* with k: as those of heads */
    const struct halo_prefill_tile *tile;     /* of latent_tiles, or NULL */
    float *out;                               /* [row][n_head][head_dim_v] */
    void *act;                                /* or NULL */
    float *partial;                           /* [row][n_head][n_splits][HALO_PARTIAL_STRIDE] */
    uint32_t *counter;                        /* [row][n_head_kv][n_parts], zero between launches */
    struct halo_score_arg score;
    uint32_t n_head, n_splits, n_parts, n_rot, neox;
    float eps;
    uint32_t act_cols;                /* of an activation row: those of all heads, or head_dim_v: a row for each head */
    uint32_t split_step, split_least; /* positions, and least number of them; 0: see below */
};

/* attend_tiles_<kv type>_d128: the same for up to HALO_ATTEND_TILE_HEADS heads to a block, on targets that have it; no
 * cache of f32. Its splits are always merged by a launch of their own and are runs of steps of HALO_ATTEND_TILE_STEP
 * positions, at least HALO_ATTEND_TILE_LEAST of them. n_parts = ceil(n_head / n_head_kv / HALO_ATTEND_TILE_HEADS). */
#define HALO_ATTEND_TILE_HEADS 8
#define HALO_ATTEND_TILE_STEP 16
#define HALO_ATTEND_TILE_LEAST 8

/* attend_merge_<kv type>_d<dim>: merges the splits that attend or attend_tiles has left, right behind it and with the
 * same arguments: splits are runs of steps of split_step positions, at least split_least of them. With split_step == 0
 * attend merges them itself. Grid (n_head, 1, rows). */

/* latent_<kv type>: the same over latent pages, for up to HALO_LATENT_HEADS heads to a block; no k, v and weights. One
 * row of the cache for all heads (n_head_kv is 1), n_parts = ceil(n_head / HALO_LATENT_HEADS).
 * latent_tiles_<kv type>: the same with HALO_LATENT_QUERIES for HALO_LATENT_HEADS, on chips with matrix units; with
 * tile: what prefill does, without act. Grid (n_tiles, ceil(HALO_PREFILL_ROWS * n_head / HALO_LATENT_QUERIES)) then. */
#define HALO_LATENT_DIM_K 576 /* elements of a row, and of V, at most */
#define HALO_LATENT_DIM_V 512
#define HALO_LATENT_HEADS 16
#define HALO_LATENT_QUERIES 32 /* a row and a head each */

/* latent_heads_<kv type>: with a latent cache, what lies between the product of q and the one that takes each head's q
 * down. The norm of the compressed row c; the rotation of k_rot and of each head's part of q; c and k_rot into the
 * cache; the rotated part of q to the end of its head of q, in front of which the product writes; the rest of a head of
 * q_up as f32 or as an activation row. A wave to the row of the cache, and one to each head. n_low % 4 == 0 (with act:
 * % 32) and <= HALO_LATENT_LOW, n_rot % 4 == 0 and <= HALO_LATENT_ROT. Grid (ceil((1 + n_head) / HALO_HEAD_WAVES),
 * rows). */
#define HALO_LATENT_LOW 256
#define HALO_LATENT_ROT 128
struct halo_latent_heads_args {
    struct halo_kv_arg kv;
    const float *q_up;      /* [row][n_head][n_low + n_rot] */
    const float *c, *k_rot; /* [row][head_dim_k - n_rot], [row][n_rot] */
    const float *weight;    /* of the norm of c */
    const float *table;     /* as rope's, of n_table elements a row */
    float *q;               /* [row][n_head][head_dim_k] */
    float *q_low;           /* [row][n_head][n_low], or NULL */
    void *act;              /* the same as activation rows, or NULL */
    uint32_t n_head, n_low, n_rot, n_table, neox;
    float eps;
};

/* prefill_<kv type>_d<dim>: causal attention of runs of rows of one sequence with ascending, consecutive positions, on
 * chips with matrix units. A tile is up to HALO_PREFILL_ROWS rows. Grid (n_tiles, n_head, HALO_PREFILL_BLOCKS). */
#define HALO_PREFILL_ROWS 64
#define HALO_PREFILL_BLOCKS(dim) ((dim) > 256 ? 2 : 1) /* to a tile; of the kernel's d */
struct halo_prefill_tile {
    uint32_t first_row, n_rows;
};
struct halo_prefill_args {
    struct halo_kv_arg kv;
    const struct halo_prefill_tile *tile; /* n_rows == 0: nothing to do */
    const float *q;
    float *out;
    struct halo_score_arg score;
    uint32_t n_head;
};

/* glu_<act>: act(gate) * up, with a limit of min(gate, limit) and of up within -limit .. limit, as f32 and/or as an
 * activation row. Grid (ceil(n_cols / HALO_QUANTIZE_COLS), rows). out may be gate. */
struct halo_glu_args {
    const float *gate, *up; /* up may be NULL: ones */
    float *out;             /* or NULL */
    void *act;              /* or NULL; n_cols % 32 == 0 then */
    uint32_t n_cols;
    float limit; /* 0: none */
};

/* glu_half_<act>: the same with the result as half_rows leaves it, a row to a block. n_cols % 32 == 0 and <=
 * HALO_GLU_HALF_COLS. Grid (rows). */
#define HALO_GLU_HALF_COLS 16384
struct halo_glu_half_args {
    const float *gate, *up; /* up: or NULL */
    uint16_t *half;
    float *scale;
    uint32_t n_cols;
    float limit;
};

/* add: x += add. Grid (ceil(n / HALO_QUANTIZE_COLS)), n floats over all rows. */
struct halo_add_args {
    float *x;
    const float *add;
    uint32_t n;
};

/* limit: x *= scale; with a cap: x = cap * tanh(x / cap). Grid (ceil(n / HALO_QUANTIZE_COLS)), n: of all
 * rows. */
struct halo_limit_args {
    float *x;
    uint32_t n;
    float scale, cap;
};

/* moe_route: softmax without bias, groups and table. moe_route_scored: any (gate: enum halo_moe_gate). Grid (rows), one
 * wave. n_expert <= HALO_MOE_EXPERTS_MAX. The choice has the format of op.h. */
#define HALO_MOE_EXPERTS_MAX 512
struct halo_moe_route_args {
    const float *logits;
    float *choice;
    const float *bias; /* or NULL */
    uint32_t n_expert, n_used, normalise, gate, n_groups, n_groups_used;
    float scale;
    const int32_t *table; /* [token][n_used] experts, or NULL */
    const int32_t *token; /* [rows], with a table */
};

/* moe_router, moe_router_scored: the product of few rows and an F32 router, and the routing of its results. The second
 * matrix may have no rows, and is not routed. n_cols % 4 == 0. Grid (ceil(rows of both / HALO_ROUTER_ROWS), rows). */
#define HALO_ROUTER_ROWS 8 /* weight rows of a block */
#define HALO_ROUTER_MATRICES 2
struct halo_moe_router_args {
    struct halo_moe_route_args route; /* logits: what the first matrix gives */
    struct halo_matrix_arg matrix[HALO_ROUTER_MATRICES];
    const float *x;
    uint32_t *counter; /* [rows], zero between launches */
    uint32_t n_cols;
};

/* Experts lie one after the other, each at a place, which is its number or, where they are streamed, that of the memory
 * that it was brought to: `place` of the kernels' arguments, [n_expert], each below HALO_MOE_PLACES_MAX. */
#define HALO_MOE_PLACES_MAX (1 << 17)
struct halo_expert_arg {
    const void *weight; /* the expert at place p at weight + p * expert_bytes */
    uint64_t expert_bytes;
    float *out;        /* [row][n_used][out_stride], of which n_rows are written */
    const float *bias; /* [n_expert][n_rows], or NULL */
    uint32_t n_rows, out_stride;
};

/* moe_gemv_<type>: each (row, slot) by itself, for up to HALO_MOE_ROWS_MAX rows. Grid (n_grid): n_blocks or, where
 * HALO_GEMV_PERSISTENT, any number up to that, as gemv's. A slot has n_slot_blocks, the sum over the matrices of
 * ceil(n_rows / HALO_MOE_GEMV_ROWS(plain, n_cols)); n_blocks: n_slot_blocks * n_slots, slot after slot. */
#define HALO_MOE_ROWS_MAX 8
#define HALO_MOE_SLOTS_MAX (HALO_MOE_ROWS_MAX * HALO_MOE_EXPERTS_MAX)
/* Of rows of at most one unit a lane a wave takes more. */
#define HALO_MOE_SHORT(plain, n_cols) (!(plain) && (n_cols) <= 1024)
#define HALO_MOE_SHORT_ROWS 4 /* of a wave */
#define HALO_MOE_GEMV_ROWS(plain, n_cols)                                                                              \
    (HALO_GEMV_WAVES * (HALO_MOE_SHORT(plain, n_cols) ? HALO_MOE_SHORT_ROWS : HALO_GEMV_WAVE_ROWS(plain, 1)))
struct halo_moe_gemv_args {
    struct halo_expert_arg matrix[2]; /* the second may have no rows */
    const void *x;                    /* like gemv's; a row for each slot (per_slot) or for each row of the batch */
    const float *choice;              /* [row][2 * n_used], or NULL: slot s takes expert s */
    const uint32_t *place;            /* NULL: an expert is at its number */
    uint32_t n_cols, n_used, per_slot, n_slot_blocks, n_blocks, n_grid;
    uint32_t early; /* choice is older than what the launch in front leaves */
};

/* moe_group: sorts the slots by expert and cuts each expert's into tiles of HALO_GEMM_ROWS. Grid (n_expert). */
struct halo_moe_tile {
    uint32_t expert, first, n_slots;
}; /* first: index into slot[]; n_slots 0: a tile that is not needed */
struct halo_moe_group_args {
    const float *choice;
    uint32_t *slot;                              /* [n_slots] slots in the order of their experts */
    struct halo_moe_tile *tile;                  /* [n_slots / HALO_GEMM_ROWS + min(n_expert, n_slots)] */
    uint32_t n_slots, n_used, n_expert, n_tiles; /* n_tiles: of the array */
};

/* moe_gemm_<type>: for many rows. Grid (n_tiles, sum of ceil(n_rows / HALO_GEMM_COLS) of the matrices). half and scale:
 * a row for each slot (per_slot) or for each row of the batch. */
struct halo_moe_gemm_args {
    struct halo_expert_arg matrix[2]; /* the second has no rows, or as many as the first */
    const uint16_t *half;
    const float *scale;
    const uint32_t *slot;
    const struct halo_moe_tile *tile;
    const uint32_t *place; /* NULL: an expert is at its number */
    uint32_t n_cols, n_used, per_slot;
    struct halo_glu_arg glu; /* as gemm's */
};

/* moe_sum: out = sum over the slots of weight[slot] * x[slot], + add * sigmoid(add_gate[row]), or + add. Grid
 * (ceil(n_cols / HALO_QUANTIZE_COLS), rows). */
struct halo_moe_sum_args {
    const float *x, *choice;
    const float *add, *add_gate; /* or NULL */
    float *out;
    uint32_t n_cols, n_used;
};

/* moe_sum_norm: the sum of experts, and the norm of what it is added to (joins: norm.x = (norm.x + sum * add_scale) *
 * x_scale) or of itself (norm.x = sum); norm.add and sum.out are not used. n_cols % 4 == 0. Grid (rows). */
struct halo_moe_sum_norm_args {
    struct halo_moe_sum_args sum;
    struct halo_rmsnorm_args norm;
    uint32_t joins;
};

/* moe_scale: x *= scale of the slot's expert, in place. Grid (ceil(n_cols / HALO_QUANTIZE_COLS), n_used, rows). */
struct halo_moe_scale_args {
    float *x;            /* [row][n_used][n_cols] */
    const float *choice; /* or NULL: slot s has expert s */
    const float *scale;  /* [n_expert] */
    uint32_t n_cols, n_used;
};

/* concat: for each head, n_a elements of a from a_first on, then n_b of b (b_stride 0: the same for all heads). Grid
 * (ceil(n_head * (n_a + n_b) / HALO_QUANTIZE_COLS), rows). */
struct halo_concat_args {
    const float *a, *b; /* [row][n_head][a_stride], [row][n_head][b_stride] or [row][n_b] */
    float *out;         /* [row][n_head][n_a + n_b] */
    uint32_t n_head, a_stride, a_first, n_a, b_stride, n_b;
};

/* conv1d_t<taps>: the convolution of op.h with up to 4 or 8 taps, and its state moved on. Grid (ceil(n_cols /
 * HALO_CONV1D_COLS), sequences). */
#define HALO_CONV1D_COLS 256
struct halo_conv1d_args {
    struct halo_state_arg state; /* [n_taps - 1][n_cols], the oldest row first */
    const float *x, *weight;     /* weight: [n_cols][n_taps] */
    const float *bias;           /* or NULL */
    float *out;
    uint32_t n_cols, n_taps, silu;
};

/* delta_rule_d<dim>: the gated delta rule of op.h, with dim_k up to 64, 128, 256 or 512. Grid (ceil(dim_v /
 * HALO_RECURRENCE_ROWS), n_head_v, sequences). */
#define HALO_RECURRENCE_ROWS 32 /* rows of a head's state that a block takes */
#define HALO_RECURRENCE_COLS 512
struct halo_delta_rule_args {
    struct halo_state_arg state;     /* [n_head_v][dim_v][dim_k] */
    const float *qkv, *alpha, *beta; /* [row][2 n_head_k dim_k + n_head_v dim_v]; [row][n_head_k gate_stride] */
    const float *a, *dt_bias;
    float *out; /* [row][n_head_v][dim_v] */
    uint32_t n_head_k, n_head_v, dim_k, dim_v, gate_stride, alpha_first, beta_first, grouped;
    float eps, scale;
};

/* ssm_scan_d<dim>: the scan of op.h, with n_state up to 64, 128, 256 or 512. Grid (ceil(head_dim /
 * HALO_RECURRENCE_ROWS), n_head, sequences). */
struct halo_ssm_scan_args {
    struct halo_state_arg state; /* [n_head][head_dim][n_state] */
    const float *xbc, *dt;       /* [row][n_head head_dim + 2 n_group n_state]; [row][n_head] */
    const float *a, *d, *dt_bias;
    float *out; /* [row][n_head][head_dim] */
    uint32_t n_head, head_dim, n_group, n_state;
};

/* gather_rows: out[i] = x[row[i]]. For the wanted rows before the head when there are many. Grid (ceil(n_cols /
 * HALO_QUANTIZE_COLS), rows). */
struct halo_gather_args {
    const float *x;
    const uint32_t *row;
    float *out;
    uint32_t n_cols;
};

/* top: of each part of HALO_TOP_PART numbers of a row the k largest, falling, the lowest id first on a tie; k <=
 * HALO_CANDIDATES_MAX. An id of -1 ends a list that is shorter than k. A part with a NaN or an infinity has one in
 * front, and its id is -1. The row is logits, or the lists that the launch before made of its parts. Grid (parts,
 * rows). largest: k is 1 and the row, of logits, is one part. Grid (1, rows). */
#define HALO_TOP_PART 8192
struct halo_top_args {
    const float *logits;               /* [row][n], or NULL: */
    const struct halo_candidate *from; /* [row][n] */
    struct halo_candidate *to;         /* [row][part][k] */
    uint32_t n, k;
};

/* digest: of each of up to HALO_DIGEST_SPANS lists of words, the sum of kernels/digest.h in parts. Grid
 * (HALO_DIGEST_BLOCKS, lists). */
#define HALO_DIGEST_SPANS 4
#define HALO_DIGEST_BLOCKS 32
struct halo_digest_args {
    const uint32_t *from[HALO_DIGEST_SPANS];
    uint32_t n[HALO_DIGEST_SPANS];
    uint64_t *to; /* [list][HALO_DIGEST_BLOCKS] */
};

/* copy: n 16-byte words, for a page of the cache. Grid (ceil(n / HALO_COPY_WORDS)). */
#define HALO_COPY_WORDS 1024
struct halo_copy_args {
    const void *from;
    void *to;
    uint32_t n;
};

#include "args_blocks.h"
#include "args_fused.h"

#endif
