/* dot_avx512_priv.h: panel times activation blocks with VPDPBUSD.
 *
 * Unsigned weights times signed activations, 4 columns a step. Offsets cost nothing: the integer sums start at minus
 * offset times the sum of the activations. Signed weights are biased by 128.
 */
#ifndef HALO_CPU_DOT_AVX512_PRIV_H
#define HALO_CPU_DOT_AVX512_PRIV_H

struct halo_dot {
    halo_vint w[HALO_QUADS];
    halo_vfloat sub[2];
};

HALO_INLINE void dot_prepare(const struct halo_panel_shape shape, const struct halo_panel *panel, struct halo_dot *ret)
{
    for (int q = 0; q < HALO_QUADS; q++)
        ret->w[q] = shape.is_signed ? v_xor(panel->w[q], v_set8(-128)) : panel->w[q];
    if (shape.halves) {
        for (int h = 0; h < 2; h++)
            ret->sub[h] = shape.float_halves ? panel->float_sub[h] : v_float(panel->sub[h]);
    }
}

HALO_INLINE halo_vint dot_start(const struct halo_panel_shape shape, int32_t neg_sum)
{
    unsigned shift = shape.is_signed ? 7 : shape.offset_shift;
    return shift ? v_sll32(v_set32(neg_sum), shift) : v_zero();
}

/* ret[i]: the integer part of the product of panel and act[i], as a float, exact (float_halves: rounded once). */
HALO_INLINE void dot_run(const struct halo_panel_shape shape, const struct halo_dot *dot,
                         const struct halo_act_block *const *act, const unsigned n, halo_vfloat *ret)
{
    halo_vint sum[HALO_DOT_ROWS][2];
    const unsigned n_sums = shape.halves ? 2 : 1;
    for (unsigned i = 0; i < n; i++)
        for (unsigned h = 0; h < n_sums; h++)
            sum[i][h] = dot_start(shape, shape.halves ? act[i]->neg_sum16[h] : act[i]->neg_sum);
    for (unsigned q = 0; q < HALO_QUADS; q++)
        for (unsigned i = 0; i < n; i++) {
            halo_vint *s = &sum[i][shape.halves ? q / 4 : 0];
            *s = _mm512_dpbusd_epi32(*s, dot->w[q], v_set32(halo_load_i32(act[i]->q + 4 * q)));
        }
    for (unsigned i = 0; i < n; i++) {
        ret[i] = v_float(sum[i][0]);
        if (shape.halves)
            ret[i] = v_fma(v_float(sum[i][1]), dot->sub[1], v_fmul(ret[i], dot->sub[0]));
    }
}

#endif
