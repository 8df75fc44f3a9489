/* dot_avx2_priv.h: panel times activation blocks with VPMADDUBSW and VPMADDWD, without ever saturating.
 *
 * VPMADDUBSW adds two products into 16 bits. Unsigned weights up to `top`: 2 * 127 * top fits several times, so that
 * many quads are added in 16 bits before they are widened; the widening multiplies by the sub-block scale for free.
 * Signed weights: magnitudes times activations with the sign of the weight, likewise; with magnitudes up to 128 a sum
 * may be 2 * 128 * 127 = 32512, and is widened at once.
 */
#ifndef HALO_CPU_DOT_AVX2_PRIV_H
#define HALO_CPU_DOT_AVX2_PRIV_H

struct halo_dot {
    halo_vint w[HALO_QUADS], magnitude[HALO_QUADS];
    halo_vint factor[2]; /* pairs of 16 bits: the scale of a half, twice; or ones */
    halo_vint sub_pair;  /* the scales of both halves */
    halo_vfloat float_sub[2];
};

HALO_INLINE void dot_prepare(const struct halo_panel_shape shape, const struct halo_panel *panel, struct halo_dot *ret)
{
    for (int q = 0; q < HALO_QUADS; q++) {
        ret->w[q] = panel->w[q];
        if (shape.is_signed)
            ret->magnitude[q] = _mm256_abs_epi8(panel->w[q]);
    }
    ret->factor[0] = ret->factor[1] = _mm256_set1_epi16(1);
    if (shape.float_halves) {
        ret->float_sub[0] = panel->float_sub[0];
        ret->float_sub[1] = panel->float_sub[1];
    } else if (shape.halves) {
        const __m256i low = _mm256_set1_epi32(0x01000100), high = _mm256_set1_epi32(0x03020302);
        const __m256i lanes =
            _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
        ret->sub_pair = _mm256_blend_epi16(panel->sub[0], v_sll32(panel->sub[1], 16), 0xaa);
        ret->factor[0] = _mm256_shuffle_epi8(ret->sub_pair, _mm256_add_epi8(lanes, low));
        ret->factor[1] = _mm256_shuffle_epi8(ret->sub_pair, _mm256_add_epi8(lanes, high));
    }
}

/* How many quads may be added in 16 bits. */
HALO_INLINE unsigned dot_chain(const struct halo_panel_shape shape)
{
    unsigned fits = INT16_MAX / (2 * 127 * shape.top), most = shape.halves ? 4 : 8;
    return fits >= most ? most : fits >= 4 ? 4 : fits >= 2 ? 2 : 1;
}

HALO_INLINE halo_vint dot_offset(const struct halo_panel_shape shape, const struct halo_dot *dot,
                                 const struct halo_act_block *a, halo_vint sum)
{
    if (shape.offset_shift == 0)
        return sum;
    if (shape.halves) /* the sums of the halves fit 16 bits, offset times them would not */
        return v_sub32(sum, v_sll32(v_madd16(dot->sub_pair, v_set32(halo_load_i32(a->sum16))), shape.offset_shift));
    return v_add32(sum, v_sll32(v_set32(a->neg_sum), shape.offset_shift));
}

/* 4 columns: sums of two products each in 16 bits. */
HALO_INLINE halo_vint dot_quad(const struct halo_panel_shape shape, const struct halo_dot *dot,
                               const struct halo_act_block *a, unsigned q)
{
    halo_vint x = v_set32(halo_load_i32(a->q + 4 * q));
    return shape.is_signed ? _mm256_maddubs_epi16(dot->magnitude[q], _mm256_sign_epi8(x, dot->w[q]))
                           : _mm256_maddubs_epi16(dot->w[q], x);
}

/* Adds the products of the quads first .. last - 1 to sum[i]. */
HALO_INLINE void dot_quads(const struct halo_panel_shape shape, const struct halo_dot *dot,
                           const struct halo_act_block *const *act, const unsigned n, const unsigned first,
                           const unsigned last, halo_vint *sum)
{
    const unsigned chain = dot_chain(shape);
    for (unsigned at = first; at < last; at += chain) {
        halo_vint sum16[HALO_DOT_ROWS];
        for (unsigned i = 0; i < n; i++)
            sum16[i] = dot_quad(shape, dot, act[i], at);
        for (unsigned q = at + 1; q < at + chain; q++)
            for (unsigned i = 0; i < n; i++) {
                sum16[i] = _mm256_add_epi16(sum16[i], dot_quad(shape, dot, act[i], q));
                HALO_KEEP_ORDER(sum16[i]);
            }
        for (unsigned i = 0; i < n; i++)
            sum[i] = v_add32(sum[i], v_madd16(sum16[i], dot->factor[at / 4]));
    }
}

/* The halves by themselves, because their scales are no integers. */
HALO_INLINE void dot_float_halves(const struct halo_panel_shape shape, const struct halo_dot *dot,
                                  const struct halo_act_block *const *act, const unsigned n, halo_vfloat *ret)
{
    for (unsigned h = 0; h < 2; h++) {
        halo_vint sum[HALO_DOT_ROWS];
        for (unsigned i = 0; i < n; i++)
            sum[i] = v_sll32(v_set32(act[i]->neg_sum16[h]), shape.offset_shift);
        dot_quads(shape, dot, act, n, 4 * h, 4 * h + 4, sum);
        for (unsigned i = 0; i < n; i++)
            ret[i] = h ? v_fma(v_float(sum[i]), dot->float_sub[1], ret[i]) : v_fmul(v_float(sum[i]), dot->float_sub[0]);
    }
}

/* ret[i]: the integer part of the product of panel and act[i], as a float, exact (float_halves: rounded once). */
HALO_INLINE void dot_run(const struct halo_panel_shape shape, const struct halo_dot *dot,
                         const struct halo_act_block *const *act, const unsigned n, halo_vfloat *ret)
{
    if (shape.float_halves) {
        dot_float_halves(shape, dot, act, n, ret);
        return;
    }
    halo_vint sum[HALO_DOT_ROWS];
    for (unsigned i = 0; i < n; i++)
        sum[i] = v_zero();
    dot_quads(shape, dot, act, n, 0, HALO_QUADS, sum);
    for (unsigned i = 0; i < n; i++)
        ret[i] = v_float(dot_offset(shape, dot, act[i], sum[i]));
}

#endif
