/* op_compare.c: vector compares: into a mask, or into EXEC. */
#include "numbers.h"
#include "values.h"

/* The instructions: into a mask, and into EXEC, which undefined lanes may not decide. */
#define INTO_BOTH(name)                                                                                                \
    OP(v_cmp_##name)                                                                                                   \
    {                                                                                                                  \
        uint32_t p, m = cmp_##name(w, i, 1, &p);                                                                       \
        put_mask(w, &i->o[0], m, p);                                                                                   \
    }                                                                                                                  \
    OP(v_cmpx_##name)                                                                                                  \
    {                                                                                                                  \
        uint32_t p, m = cmp_##name(w, i, 0, &p);                                                                       \
        if (p & w->s[EXEC])                                                                                            \
            isa_report(w, i, ISA_UNDEFINED, "EXEC of undefined lanes %#x", p & w->s[EXEC]);                            \
        w->s[EXEC] &= m;                                                                                               \
    }

/* One compare. */
#define COMPARE(name, source, cast, cond)                                                                              \
    static uint32_t cmp_##name(struct wave *w, const struct ins *i, int k, uint32_t *poison)                           \
    {                                                                                                                  \
        struct values a, b;                                                                                            \
        uint32_t mask = 0;                                                                                             \
        source(w, i, k, &a);                                                                                           \
        source(w, i, k + 1, &b);                                                                                       \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            cast;                                                                                                      \
            mask |= (uint32_t)(cond) << l;                                                                             \
        }                                                                                                              \
        *poison = a.lo | a.hi | b.lo | b.hi;                                                                           \
        return mask;                                                                                                   \
    }                                                                                                                  \
    INTO_BOTH(name)

/* x, y: the two sides. */
/* clang-format off */
#define AS_F32 float x = f_of(a.v[l]); float y = f_of(b.v[l])
#define AS_U32 uint32_t x = a.v[l]; uint32_t y = b.v[l]
#define AS_I32 int32_t x = (int32_t)a.v[l]; int32_t y = (int32_t)b.v[l]
#define AS_F16 float x = half_float(a.v[l]); float y = half_float(b.v[l])
#define AS_U16 uint32_t x = a.v[l] & 0xffff; uint32_t y = b.v[l] & 0xffff
#define AS_I16 int16_t x = (int16_t)(uint16_t)a.v[l]; int16_t y = (int16_t)(uint16_t)b.v[l]

#define INTEGER(t, source, as)         \
    COMPARE(lt_##t, source, as, x < y) \
    COMPARE(eq_##t, source, as, x == y) \
    COMPARE(le_##t, source, as, x <= y) \
    COMPARE(gt_##t, source, as, x > y) \
    COMPARE(ne_##t, source, as, x != y) \
    COMPARE(ge_##t, source, as, x >= y)
#define FLOAT(t, source, as)           \
    COMPARE(lt_##t, source, as, x < y) \
    COMPARE(eq_##t, source, as, x == y) \
    COMPARE(le_##t, source, as, x <= y) \
    COMPARE(gt_##t, source, as, x > y) \
    COMPARE(lg_##t, source, as, x < y || x > y) \
    COMPARE(ge_##t, source, as, x >= y) \
    COMPARE(o_##t, source, as, !isnan(x) && !isnan(y)) \
    COMPARE(u_##t, source, as, isnan(x) || isnan(y)) \
    COMPARE(nge_##t, source, as, !(x >= y)) \
    COMPARE(nlg_##t, source, as, !(x < y || x > y)) \
    COMPARE(ngt_##t, source, as, !(x > y)) \
    COMPARE(nle_##t, source, as, !(x <= y)) \
    COMPARE(neq_##t, source, as, !(x == y)) \
    COMPARE(nlt_##t, source, as, !(x < y))
/* clang-format on */

INTEGER(u32, src, AS_U32)
INTEGER(i32, src, AS_I32)
INTEGER(u16, src16, AS_U16)
INTEGER(i16, src16, AS_I16)
FLOAT(f32, src, AS_F32)
FLOAT(f16, src16, AS_F16)

#define COMPARE_64(c, t, type, operator)                                                                               \
    static uint32_t cmp_##c##_##t(struct wave *w, const struct ins *i, int k, uint32_t *poison)                        \
    {                                                                                                                  \
        struct values a[2], b[2];                                                                                      \
        uint32_t mask = 0;                                                                                             \
        *poison = 0;                                                                                                   \
        for (int word = 0; word < 2; word++) {                                                                         \
            raw_word(w, &i->o[k], word, &a[word]);                                                                     \
            raw_word(w, &i->o[k + 1], word, &b[word]);                                                                 \
            *poison |= a[word].lo | a[word].hi | b[word].lo | b[word].hi;                                              \
        }                                                                                                              \
        for (int l = 0; l < N_LANES; l++) {                                                                            \
            const type x = (type)(a[0].v[l] | (uint64_t)a[1].v[l] << 32);                                              \
            const type y = (type)(b[0].v[l] | (uint64_t)b[1].v[l] << 32);                                              \
            mask |= (uint32_t)(x operator y) << l;                                                                     \
        }                                                                                                              \
        return mask;                                                                                                   \
    }                                                                                                                  \
    INTO_BOTH(c##_##t)
/* clang-format off */
#define INTEGER_64(t, type) \
    COMPARE_64(lt, t, type, <) \
    COMPARE_64(eq, t, type, ==) \
    COMPARE_64(le, t, type, <=) \
    COMPARE_64(gt, t, type, >) \
    COMPARE_64(ne, t, type, !=) \
    COMPARE_64(ge, t, type, >=)
/* clang-format on */

INTEGER_64(u64, uint64_t)
INTEGER_64(i64, int64_t)

/* Into a mask, and into EXEC. */
#define BOTH(c, t) ENTRY(v_cmp_##c##_##t, C_VALU, 1, 0), ENTRY(v_cmpx_##c##_##t, C_VALU, 0, F_CMPX)
#define CMP_I(t) BOTH(lt, t), BOTH(eq, t), BOTH(le, t), BOTH(gt, t), BOTH(ne, t), BOTH(ge, t)
#define CMP_F(t)                                                                                                       \
    BOTH(lt, t), BOTH(eq, t), BOTH(le, t), BOTH(gt, t), BOTH(lg, t), BOTH(ge, t), BOTH(o, t), BOTH(u, t),              \
        BOTH(nge, t), BOTH(nlg, t), BOTH(ngt, t), BOTH(nle, t), BOTH(neq, t), BOTH(nlt, t)

const struct op_entry isa_ops_compare[] = {
    CMP_I(u32), CMP_I(i32), CMP_I(u16), CMP_I(i16), CMP_I(u64), CMP_I(i64), CMP_F(f32), CMP_F(f16), {.name = NULL},
};
