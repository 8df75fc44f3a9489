/* op_half.c: f16: mixed, packed, dot products, the matrix unit. */
#include "numbers.h"
#include "values.h"

/* Mixed and packed halves. */
static void src_mix(struct wave *w, const struct ins *i, int k, float *f, uint32_t *poison)
{
    const struct operand *o = &i->o[k];
    struct values x;
    int s = k - 1;
    raw_word(w, o, 0, &x);
    if (i->op_sel_hi[s]) {
        if (o->kind == O_IMM)
            isa_report(w, i, ISA_UNKNOWN, "a constant as a half of fma_mix");
        for (int l = 0; l < N_LANES; l++)
            f[l] = half_float(i->op_sel[s] ? x.v[l] >> 16 : x.v[l]);
        *poison = i->op_sel[s] ? x.hi : x.lo;
    } else {
        for (int l = 0; l < N_LANES; l++)
            f[l] = f_of(x.v[l]);
        *poison = x.lo | x.hi;
    }
    if (o->abs)
        for (int l = 0; l < N_LANES; l++)
            f[l] = fabsf(f[l]);
    if (o->neg)
        for (int l = 0; l < N_LANES; l++)
            f[l] = -f[l];
}

static uint32_t mix(struct wave *w, const struct ins *i, float *r)
{
    float a[32], b[32], c[32];
    uint32_t p, q, s;
    src_mix(w, i, 1, a, &p);
    src_mix(w, i, 2, b, &q);
    src_mix(w, i, 3, c, &s);
    for (int l = 0; l < N_LANES; l++)
        r[l] = fmaf(a[l], b[l], c[l]);
    return p | q | s;
}

OP(v_fma_mix_f32)
{
    float f[32];
    uint32_t p = mix(w, i, f), r[32];
    for (int l = 0; l < N_LANES; l++)
        r[l] = u_of(f[l]);
    put(w, &i->o[0], 0, r, p, p);
}

OP(v_fma_mixlo_f16)
{
    float f[32];
    uint32_t p = mix(w, i, f), r[32];
    for (int l = 0; l < N_LANES; l++)
        r[l] = float_half(f[l]);
    put16(w, &i->o[0], r, p);
}

static void src_pk(struct wave *w, const struct ins *i, int k, uint32_t *lo, uint32_t *hi, uint32_t *plo, uint32_t *phi)
{
    struct values x;
    int s = k - 1;
    raw_word(w, &i->o[k], 0, &x);
    if (i->o[k].kind == O_IMM && i->o[k].is_float)
        broadcast(&x, i->o[k].imm16, 0);
    for (int l = 0; l < N_LANES; l++) {
        lo[l] = (i->op_sel[s] ? x.v[l] >> 16 : x.v[l]) & 0xffff;
        hi[l] = (i->op_sel_hi[s] ? x.v[l] >> 16 : x.v[l]) & 0xffff;
    }
    if (i->o[k].neg || i->o[k].abs || i->neg_lo[s] || i->neg_hi[s])
        isa_report(w, i, ISA_UNKNOWN, "signs of packed operands");
    *plo = i->op_sel[s] ? x.hi : x.lo;
    *phi = i->op_sel_hi[s] ? x.hi : x.lo;
}

OP(v_pk_fma_f16)
{
    uint32_t a[32], a2[32], b[32], b2[32], c[32], c2[32], r[32], p[6];
    src_pk(w, i, 1, a, a2, &p[0], &p[1]);
    src_pk(w, i, 2, b, b2, &p[2], &p[3]);
    src_pk(w, i, 3, c, c2, &p[4], &p[5]);
    for (int l = 0; l < N_LANES; l++)
        r[l] = half_fma(a[l], b[l], c[l]) | half_fma(a2[l], b2[l], c2[l]) << 16;
    put(w, &i->o[0], 0, r, p[0] | p[2] | p[4], p[1] | p[3] | p[5]);
}

OP(v_pk_add_f16)
{
    uint32_t a[32], a2[32], b[32], b2[32], r[32], p[4];
    src_pk(w, i, 1, a, a2, &p[0], &p[1]);
    src_pk(w, i, 2, b, b2, &p[2], &p[3]);
    for (int l = 0; l < N_LANES; l++)
        r[l] = double_half((double)half_float(a[l]) + half_float(b[l])) |
               double_half((double)half_float(a2[l]) + half_float(b2[l])) << 16;
    put(w, &i->o[0], 0, r, p[0] | p[2], p[1] | p[3]);
}

OP(v_pk_lshlrev_b16)
{
    uint32_t a[32], a2[32], b[32], b2[32], r[32], p[4];
    src_pk(w, i, 1, a, a2, &p[0], &p[1]);
    src_pk(w, i, 2, b, b2, &p[2], &p[3]);
    for (int l = 0; l < N_LANES; l++)
        r[l] = (b[l] << (a[l] & 15) & 0xffff) | b2[l] << (a2[l] & 15) << 16;
    put(w, &i->o[0], 0, r, p[0] | p[2], p[1] | p[3]);
}

OP(v_pack_b32_f16)
{
    struct values a, b;
    uint32_t r[32];
    src16(w, i, 1, &a);
    src16(w, i, 2, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = (a.v[l] & 0xffff) | b.v[l] << 16;
    put(w, &i->o[0], 0, r, a.lo, b.lo);
}

OP(v_dot4_i32_iu8)
{
    struct values a, b, c;
    uint32_t r[32];
    src(w, i, 1, &a);
    src(w, i, 2, &b);
    src(w, i, 3, &c);
    const bool sa = i->neg_lo[0], sb = i->neg_lo[1];
    for (int l = 0; l < N_LANES; l++) {
        int32_t s = (int32_t)c.v[l];
        for (int k = 0; k < 32; k += 8)
            s += (sa ? (int8_t)(a.v[l] >> k) : (int32_t)(a.v[l] >> k & 255)) *
                 (sb ? (int8_t)(b.v[l] >> k) : (int32_t)(b.v[l] >> k & 255));
        r[l] = (uint32_t)s;
    }
    uint32_t p = a.lo | a.hi | b.lo | b.hi | c.lo | c.hi;
    put(w, &i->o[0], 0, r, p, p);
}

static float half_product(uint32_t a, uint32_t b, float c)
{
    float x = half_float(a), y = half_float(b);
    if (isa_run.wmma == ISA_WMMA_FLUSH) { /* the manual says nothing here either */
        x = fabsf(x) < 0x1p-14f ? 0 : x;
        y = fabsf(y) < 0x1p-14f ? 0 : y;
    }
    return fmaf(x, y, c);
}

static void dot2(struct wave *w, const struct ins *i, const struct values *c)
{
    struct values a, b;
    uint32_t r[32];
    raw_word(w, &i->o[1], 0, &a);
    raw_word(w, &i->o[2], 0, &b);
    for (int l = 0; l < N_LANES; l++)
        r[l] = u_of(half_product(a.v[l] >> 16, b.v[l] >> 16, half_product(a.v[l], b.v[l], f_of(c->v[l]))));
    const uint32_t p = a.lo | a.hi | b.lo | b.hi | c->lo | c->hi;
    put(w, &i->o[0], 0, r, p, p);
}

OP(v_dot2_f32_f16)
{
    struct values c;
    src(w, i, 3, &c);
    dot2(w, i, &c);
}

OP(v_dot2acc_f32_f16)
{
    struct values c;
    raw_word(w, &i->o[0], 0, &c);
    dot2(w, i, &c);
}

/* D = A B + C, 16 x 16 x 16. A: lane m has row m, halves k; B: lane n has column n. Lanes 16 .. 31 repeat them. D, C:
 * register r of lane l is row 2 r + l / 16, column l % 16. */
OP(v_wmma_f32_16x16x16_f16)
{
    const struct operand *d = &i->o[0], *oa = &i->o[1], *ob = &i->o[2], *oc = &i->o[3];
    static float a[16][16], b[16][16];
    uint32_t pa = 0, pb = 0; /* rows, columns with an undefined number */
    if (w->s[EXEC] != UINT32_MAX)
        isa_report(w, i, ISA_EXEC, "EXEC is %#x", w->s[EXEC]);
    for (int k = 0; k < 8; k++)
        for (int l = 0; l < N_LANES; l++) {
            uint32_t va = w->v[oa->reg + k][l], vb = w->v[ob->reg + k][l];
            if (l < 16) {
                a[l][2 * k] = half_float(va);
                a[l][2 * k + 1] = half_float(va >> 16);
                b[l][2 * k] = half_float(vb);
                b[l][2 * k + 1] = half_float(vb >> 16);
            } else if (va != w->v[oa->reg + k][l - 16] || vb != w->v[ob->reg + k][l - 16]) {
                isa_report(w, i, ISA_EXEC, "operand %s: lane %d and lane %d differ",
                           va != w->v[oa->reg + k][l - 16] ? "A" : "B", l - 16, l);
            }
            uint32_t x = (w->vp[oa->reg + k][0] | w->vp[oa->reg + k][1]) >> l & 1,
                     y = (w->vp[ob->reg + k][0] | w->vp[ob->reg + k][1]) >> l & 1;
            pa |= x << (l & 15);
            pb |= y << (l & 15);
        }
    if (isa_run.wmma == ISA_WMMA_FLUSH)
        for (int m = 0; m < 16; m++)
            for (int k = 0; k < 16; k++) {
                a[m][k] = fabsf(a[m][k]) < 0x1p-14f ? 0 : a[m][k];
                b[m][k] = fabsf(b[m][k]) < 0x1p-14f ? 0 : b[m][k];
            }
    uint32_t r[8][32], p[8];
    for (int g = 0; g < 8; g++) {
        struct values c;
        raw_word(w, oc, oc->kind == O_IMM ? 0 : g, &c);
        p[g] = c.lo | c.hi;
        for (int l = 0; l < N_LANES; l++) {
            int m = 2 * g + l / 16, n = l & 15;
            float f = f_of(c.v[l]);
            if (isa_run.wmma == ISA_WMMA_CHAIN) {
                for (int k = 0; k < 16; k++)
                    f = fmaf(a[m][k], b[n][k], f);
            } else {
                double s = f;
                for (int k = 0; k < 16; k++)
                    s += (double)a[m][k] * b[n][k];
                f = (float)s;
            }
            r[g][l] = u_of(f);
            p[g] |= ((pa >> m | pb >> n) & 1) << l;
        }
    }
    for (int g = 0; g < 8; g++)
        put(w, d, g, r[g], p[g], p[g]);
}

const struct op_entry isa_ops_half[] = {
    VALU(v_fma_mix_f32),
    VALU(v_fma_mixlo_f16),
    VALU(v_pk_fma_f16),
    VALU(v_pk_add_f16),
    VALU(v_pk_lshlrev_b16),
    VALU(v_pack_b32_f16),
    ENTRY(v_dot4_i32_iu8, C_VALU, 1, F_DOT),
    ENTRY(v_dot2_f32_f16, C_VALU, 1, F_DOT),
    ENTRY(v_dot2acc_f32_f16, C_VALU, 1, F_DOT | F_RMW),
    NAMED("v_dual_dot2acc_f32_f16", op_v_dot2acc_f32_f16, C_VALU, 1, F_RMW),
    ENTRY(v_wmma_f32_16x16x16_f16, C_VALU, 1, F_WMMA),
    {.name = NULL},
};
