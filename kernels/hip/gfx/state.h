/* state.h: where the state of a block's sequence is, and which rows go on from it. */
#ifndef HALO_GFX_STATE_H
#define HALO_GFX_STATE_H

#include "gfx.h"

struct state_rows {
    float *state;           /* the op's part */
    uint32_t first, n_rows; /* of the batch */
    bool begins;            /* with zeros, whatever the slot holds */
};

HALO_DEVICE state_rows state_rows_of(const halo_state_arg &a, uint32_t sequence)
{
    const halo_state_run run = a.run[sequence];
    return {reinterpret_cast<float *>(a.base + a.slot[sequence] * a.slot_bytes), run.first, run.n_rows,
            a.pos[run.first] == 0};
}

#endif
