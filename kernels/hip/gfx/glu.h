/* glu.h: the activations of a GLU, as op.h has them. */
#ifndef HALO_GFX_GLU_H
#define HALO_GFX_GLU_H

#include "gfx.h"
#include <kernels/op.h>

/* act(gate) * up. */
template <halo_glu_act ACT> HALO_DEVICE float activated(float gate, float up)
{
    switch (ACT) {
    case HALO_GLU_SILU: return gate * halo_sigmoid(gate) * up;
    case HALO_GLU_GELU:
        return gate * halo_sigmoid(1.59576912f * halo_fma(0.044715f * gate * gate, gate, gate)) *
               up; /* 2 sqrt(2 / pi) */
    case HALO_GLU_RELU2: gate = halo_max(gate, 0); return gate * gate * up;
    case HALO_GLU_LINEAR: return gate * up;
    case HALO_GLU_SIGMOID: return halo_sigmoid(gate) * up;
    default: /* HALO_GLU_CLAMPED */
        gate = halo_min(gate, HALO_GLU_CLAMP);
        up = halo_max(halo_min(up, HALO_GLU_CLAMP), -HALO_GLU_CLAMP);
        return gate * halo_sigmoid(HALO_GLU_CLAMP_ALPHA * gate) * (up + 1);
    }
}

/* The same of an act that is known at run time, behind the op's limit (0: none). */
HALO_DEVICE float activated_by(uint32_t act, float gate, float up, float limit)
{
    if (limit > 0) {
        gate = halo_min(gate, limit);
        up = halo_max(halo_min(up, limit), -limit);
    }
    switch (act) {
    case HALO_GLU_SILU: return activated<HALO_GLU_SILU>(gate, up);
    case HALO_GLU_GELU: return activated<HALO_GLU_GELU>(gate, up);
    case HALO_GLU_RELU2: return activated<HALO_GLU_RELU2>(gate, up);
    case HALO_GLU_LINEAR: return activated<HALO_GLU_LINEAR>(gate, up);
    case HALO_GLU_SIGMOID: return activated<HALO_GLU_SIGMOID>(gate, up);
    default: return activated<HALO_GLU_CLAMPED>(gate, up);
    }
}

#endif
