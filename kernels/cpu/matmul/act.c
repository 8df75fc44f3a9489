/* act.c: activations into the form that the kernels of a type read. Pure. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "act_priv.h"
#include "float_priv.h"
#include "format_priv.h"

enum halo_cpu_act halo_cpu_act_kind(enum halo_type type)
{
    const struct halo_cpu_format *format = halo_cpu_format_of(type);
    assert(format);
    return format->block_weights == 1 ? HALO_CPU_ACT_F32 : HALO_CPU_ACT_Q8;
}

size_t halo_cpu_act_bytes(enum halo_cpu_act kind, uint32_t n_cols)
{
    size_t bytes = kind == HALO_CPU_ACT_F32 ? (size_t)n_cols * sizeof(float)
                                            : (size_t)n_cols / HALO_QK * sizeof(struct halo_act_block);
    return halo_cpu_spread_bytes(bytes);
}

void halo_act_block_reference(const float *x, struct halo_act_block *ret)
{
    uint32_t amax_bits = 0; /* magnitudes order like their bits, and NaN above infinity above all numbers */
    for (int i = 0; i < HALO_QK; i++) {
        uint32_t bits = halo_float_bits(x[i]) & 0x7fffffff;
        amax_bits = bits > amax_bits ? bits : amax_bits;
    }
    if (amax_bits >= 0x7f800000) {
        halo_act_block_poison(ret);
        return;
    }
    float amax = halo_bits_float(amax_bits), scale = 127 / amax;
    *ret = (struct halo_act_block){0};
    if (amax < HALO_ACT_TINY)
        return;
    ret->d = amax / 127;
    for (int i = 0; i < HALO_QK; i++) {
        ret->q[i] = (int8_t)lrintf(x[i] * scale); /* to nearest, ties to even */
        ret->sum16[i / 16] = (int16_t)(ret->sum16[i / 16] + ret->q[i]);
    }
    for (int half = 0; half < 2; half++)
        ret->neg_sum16[half] = -ret->sum16[half];
    ret->neg_sum = ret->neg_sum16[0] + ret->neg_sum16[1];
    ret->dsum = ret->d * (float)-ret->neg_sum;
}

void halo_cpu_act_prepare(enum halo_cpu_isa isa, enum halo_cpu_act kind, uint32_t n_cols, const float *x, void *act)
{
    if (kind == HALO_CPU_ACT_F32) {
        memcpy(act, x, (size_t)n_cols * sizeof *x);
        return;
    }
    assert(n_cols % HALO_QK == 0); /* isa is checked where the device is opened: cpuid traps in a virtual machine */
    halo_act_block_fn *prepare = isa == HALO_CPU_REFERENCE ? halo_act_block_reference : halo_act_block_avx2;
    struct halo_act_block *block = act;
    for (uint32_t i = 0; i < n_cols; i += HALO_QK)
        prepare(x + i, block++);
}
