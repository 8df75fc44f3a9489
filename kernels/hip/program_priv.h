/* program_priv.h: a plan compiled into launches: kernel, grid and arguments, for each class of batches.
 *
 * A program is made when a model is sealed (program.c) and is immutable afterwards. Which ops share a launch, which
 * form activations have and which kernel of variants.def runs is decided then. A batch replays the list of its class
 * (replay.c), which adds what only the batch knows: the addresses of its inputs and amounts such as its rows. A graph
 * is the same list, replayed into a capture. Device thread.
 */
#ifndef HALO_HIP_PROGRAM_PRIV_H
#define HALO_HIP_PROGRAM_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels/plan.h>

#include "variant_priv.h"

/* Tables of rotations that a batch brings: of each of the plan's ropes, at the positions of the rows, and behind them
 * those that compressed blocks of `ratio` positions have at their first one, of the rows that end a block. */
#define HALO_HIP_ROPES_MAX 4
#define HALO_HIP_TABLES_MAX 8
struct halo_hip_tables {
    uint32_t n;
    struct {
        uint32_t rope, ratio; /* ratio 1: of the rows */
    } table[HALO_HIP_TABLES_MAX];
};

/* The inputs of a batch as the GPU sees them. */
struct halo_hip_inputs {
    const int32_t *token, *pos;
    const uint32_t *page_first, *output;
    const uint32_t *pages[HALO_KV_GROUPS_MAX]; /* of each group: those of all sequences; of states: their slots */
    const struct halo_prefill_tile *tile;
    const struct halo_state_run *state_run; /* of each sequence with a row, where the plan has states */
    const float *rope[HALO_HIP_TABLES_MAX];
    uint64_t n_bytes; /* from the begin of the set to the last page number */
};

/* An amount that is known with the batch: ceil(count * times / over), at most `most` unless that is 0. */
enum halo_hip_count {
    HALO_HIP_ONE,
    HALO_HIP_BATCH,        /* rows of the batch */
    HALO_HIP_SEQUENCES,    /* sequences that have rows in the batch */
    HALO_HIP_SPAN,         /* rows, outputs or tiles of the span that is launched */
    HALO_HIP_SPLITS,       /* splits of a context in decode attention, with `times` blocks for each of them and row, in
                              all `most` or, if that is 0, blocks_wanted */
    HALO_HIP_EXPERT_TILES, /* `times` slots of each row of the batch, `over` experts */
};
struct halo_hip_amount {
    enum halo_hip_count count;
    uint32_t times, over, most;
};

/* What replaying changes in a copy of the arguments. */
enum halo_hip_patch_kind {
    HALO_HIP_PATCH_END,
    HALO_HIP_PATCH_AMOUNT, /* a 32-bit number: `amount` */
    HALO_HIP_PATCH_INPUT,  /* a pointer: the input, and `step` bytes on for each row in front of the span */
    HALO_HIP_PATCH_STEP,   /* a pointer goes on by `step` bytes for each row in front of the span */
    HALO_HIP_PATCH_MATRIX, /* a pointer: the streamed matrix with the number `step` in the plan */
};
struct halo_hip_patch {
    enum halo_hip_patch_kind kind;
    uint16_t at;    /* offset in the arguments */
    uint16_t input; /* offset in struct halo_hip_inputs */
    uint32_t step;
    struct halo_hip_amount amount;
};

#define HALO_HIP_ARGS_MAX 320
struct halo_hip_launch {
    uint16_t variant; /* index in halo_hip_variants */
    uint16_t op;      /* of the plan, for the phase */
    uint32_t first_patch, n_patches;
    uint32_t first_arg, n_arg_bytes;
    struct halo_hip_amount grid[3];
    /* For which spans: so many rows, contexts of these levels, tiles of prefill attention or rows. */
    uint32_t min_span, max_span;
    uint8_t levels; /* bit l: level l */
    bool tiles;
};

/* Launches that are made for one span after the other. */
enum halo_hip_over {
    HALO_HIP_OVER_ROWS,    /* rows of the batch, at most `most` (0: all) to a span */
    HALO_HIP_OVER_OUTPUTS, /* outputs, likewise; nothing without outputs */
    HALO_HIP_OVER_RUNS,    /* runs of tiles that are long enough for prefill attention, and rows between them */
    /* No launches, but something that the host does between them (experts_priv.h): */
    HALO_HIP_STOP_AT_CHOICE,    /* copies the choice that `op` made */
    HALO_HIP_STOP_FOR_EXPERTS,  /* brings the experts that `op` multiplies with */
    HALO_HIP_STOP_FOR_LAYER,    /* brings the streamed layer whose first product `op` is */
    HALO_HIP_STOP_BEHIND_LAYER, /* its last product has been launched */
};
struct halo_hip_loop {
    enum halo_hip_over over;
    uint16_t op; /* of a stop: index in the plan */
    uint32_t most;
    uint32_t min, max; /* only for so many rows or outputs in all */
    uint32_t first, n; /* launches */
};

/* Batches of a class have the same list of launches: so many rows (halo_hip_row_classes), and what attention meets. */
enum halo_hip_shape {
    HALO_HIP_APART, /* no two rows of one sequence, and no more rows than attention takes in one launch */
    HALO_HIP_SHORT, /* rows of one sequence, but too few beside each other for prefill attention */
    HALO_HIP_MIXED, /* some are enough */
    HALO_HIP_SHAPES
};

struct halo_hip_list {
    uint32_t first, n; /* loops */
    bool exists;
};

struct halo_hip_program {
    struct halo_hip_launch *launches;
    struct halo_hip_patch *patches;
    uint8_t *args;
    struct halo_hip_loop *loops;
    uint32_t n_launches, n_patches, n_arg_bytes, n_loops;
    uint32_t most_launches, most_patches, most_arg_bytes, most_loops; /* memory for so many */
    struct halo_hip_list lists[HALO_HIP_ROW_CLASSES][HALO_HIP_SHAPES];
    uint32_t blocks_wanted; /* that keep the GPU busy */
    uint32_t prefill_rows;  /* of a tile that prefill attention takes, at least; 0: it takes none */
    int largest, top;       /* variants that make the lists of largest logits: of one, of more; -1: none */
};

struct halo_device;
struct halo_device_model;
struct halo_plan;
struct halo_hip_run;

/* input.c. Ratios beyond HALO_HIP_TABLES_MAX are left out. */
struct halo_hip_tables halo_hip_tables_of(const struct halo_plan *plan);
/* HALO_HIP_TABLES_MAX: there is none. */
uint32_t halo_hip_table_find(const struct halo_plan *plan, uint32_t rope, uint32_t ratio);

/* program.c. 0, -ENOTSUP when a kernel is missing, -ENOMEM. */
int halo_hip_program_compile(struct halo_hip_program *ret, const struct halo_device_model *model, char *reason);
void halo_hip_program_finish(struct halo_hip_program *program);
/* Whether every batch has kernels for the op, by itself: 0 or -ENOTSUP. The op passed the other checks. Any thread. */
int halo_hip_program_check(const struct halo_device *device, const struct halo_plan *plan, uint32_t index,
                           char *reason);

/* replay.c: makes the launches of the batch's class in run->stream. */
int halo_hip_replay(struct halo_hip_run *run);
struct halo_hip_grid {
    uint32_t x, y, z;
};
/* One launch; after a kernel's first on this device it waits for it, so that one that hangs has a name. */
int halo_hip_launch(struct halo_hip_run *run, uint32_t variant, struct halo_hip_grid grid, void *args);

#endif
