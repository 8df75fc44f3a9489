/* args_blocks.h: what the kernels of residual streams and of compressed blocks take. Included by args.h, whose rules
 * hold. */
#ifndef HALO_HIP_ARGS_BLOCKS_H
#define HALO_HIP_ARGS_BLOCKS_H

#include "args.h"

/* streams_mix_n<streams>: the op of op.h with up to 4 or 8 streams. Grid (ceil(n_cols / HALO_QUANTIZE_COLS), rows). */
struct halo_streams_mix_args {
    const float *x, *mix; /* [row][n][n_cols]; [row][n (n + 2)], without back [row][n] */
    const float *scale, *base;
    float *out;  /* [row][n_cols] */
    float *back; /* [row][n (n + 1)], or NULL */
    uint32_t n, n_cols, iterations;
    float eps;
};

/* streams_add_n<streams>: likewise. */
struct halo_streams_add_args {
    float *x;
    const float *back, *add; /* add: [row][n_cols] */
    uint32_t n, n_cols;
};

/* compress: the softmax of op.h over the rows of a sequence, for elements of their own in each block. What a finished
 * block comes to is left in u. Grid (ceil(dim / HALO_COMPRESS_COLS), sequences). */
#define HALO_COMPRESS_COLS 32
struct halo_compress_args {
    struct halo_state_arg state; /* [3][dim]: maximum, sum, weighted sum; with overlap those of the next block too */
    float *u;                    /* [row][dim], with overlap [row][2 dim] */
    const float *z, *bias;       /* z like u; bias: a row of z for each of `ratio` positions */
    uint32_t dim, ratio, overlap;
};

/* Compressed blocks: their one row for `ratio` positions is in the page of the last of these. A page has page_rows
 * rows, one for every 32 / page_rows positions. */
struct halo_blocks_arg {
    struct halo_kv_arg kv;
    uint32_t ratio, page_rows;
};

/* compress_store_<kv type>: norm and rotation of the blocks that end with a row of the batch, and their entry in the
 * cache. Grid (rows), one wave. */
struct halo_compress_store_args {
    struct halo_blocks_arg blocks;
    const float *u, *norm, *table; /* u: [row][u_stride]; table: as rope's, of the block's first position */
    uint32_t u_stride, n_rot, neox;
    float eps;
};

/* block_scores_<kv type>: the scores of all blocks that end in front of a row, as integers in their order (order.h);
 * nothing for rows with no more blocks than top_k. A key is at most HALO_KEY_DIM elements. Grid (n_splits, 1, rows). */
#define HALO_KEY_DIM 128
#define HALO_CHOOSE_ROWS 64 /* of a launch */
struct halo_block_scores_args {
    struct halo_blocks_arg blocks;
    const float *q, *weight; /* [row][n_head][dim]; [row][n_head] */
    uint32_t *order;         /* [row][n_most] */
    uint32_t n_head, n_most, top_k, n_splits;
    float scale;
};

/* blocks_choose: the top_k blocks of the largest scores, in ascending order; -1 ends fewer. Grid (rows). */
struct halo_blocks_choose_args {
    const uint32_t *order; /* [row][n_most] */
    const int32_t *pos;    /* [rows] */
    int32_t *out;          /* [row][top_k] */
    uint32_t n_most, top_k, ratio;
};

/* attend_blocks_<kv type>: as latent_<kv type>, over the window of a row and its compressed blocks, whose rows are as
 * long as those of the window and as V. attend_blocks_tiles_<kv type>: the same with HALO_LATENT_QUERIES for
 * HALO_LATENT_HEADS, on chips with matrix units. */
struct halo_attend_blocks_args {
    struct halo_attend_args attend;
    struct halo_blocks_arg blocks;
    const int32_t *chosen; /* [row][n_chosen], ascending, or NULL: all blocks */
    uint32_t n_chosen;
};

#endif
