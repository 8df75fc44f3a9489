/* op_scalar.c: scalar instructions. */
#include "numbers.h"
#include "values.h"

/* Scalars. */
#define SCALAR2(name, expr, scc_expr)                                                                                  \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q), r = (expr);                     \
        uint32_t z = p || q ? UINT32_MAX : 0;                                                                          \
        w->scc = (scc_expr);                                                                                           \
        w->sccp = z;                                                                                                   \
        put_s(w, i, &i->o[0], r, z);                                                                                   \
    }
#define SCALAR2_(name, expr)                                                                                           \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q), r = (expr);                     \
        put_s(w, i, &i->o[0], r, p || q ? UINT32_MAX : 0);                                                             \
    }
SCALAR2(s_add_u32, a + b, r < a)
SCALAR2(s_add_i32, a + b, ((a ^ r) & (b ^ r)) >> 31)
SCALAR2(s_sub_u32, a - b, a < b)
SCALAR2(s_sub_i32, a - b, ((a ^ b) & (a ^ r)) >> 31)
SCALAR2(s_lshl_b32, a << (b & 31), r != 0)
SCALAR2(s_lshr_b32, a >> (b & 31), r != 0)
SCALAR2(s_ashr_i32, (uint32_t)((int32_t)a >> (b & 31)), r != 0)
SCALAR2(s_min_u32, a < b ? a : b, a < b)
SCALAR2(s_max_u32, a >= b ? a : b, a >= b)
SCALAR2(s_min_i32, (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b)
SCALAR2(s_max_i32, (int32_t)a >= (int32_t)b ? a : b, (int32_t)a >= (int32_t)b)
SCALAR2(s_bfe_u32,
        (b >> 16 & 127) ? (a >> (b & 31)) & ((b >> 16 & 127) >= 32 ? UINT32_MAX : (1u << (b >> 16 & 127)) - 1) : 0,
        r != 0)
SCALAR2_(s_mul_i32, a *b)
SCALAR2_(s_mul_hi_u32, (uint32_t)((uint64_t)a *b >> 32))
SCALAR2_(s_add_f32, u_of(f_of(a) + f_of(b)))
SCALAR2_(s_sub_f32, u_of(f_of(a) - f_of(b)))
SCALAR2_(s_max_f32, u_of(max_float(f_of(a), f_of(b))))
SCALAR2_(s_min_f32, u_of(min_float(f_of(a), f_of(b))))
SCALAR2_(s_mul_f32, u_of(f_of(a) * f_of(b)))
OP(s_fma_f32)
{
    uint32_t p, q, z, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q), c = scalar_of(w, &i->o[3], &z);
    put_s(w, i, &i->o[0], u_of(fmaf(f_of(a), f_of(b), f_of(c))), p || q || z ? UINT32_MAX : 0);
}
/* The destination is the third operand too. */
OP(s_fmac_f32)
{
    uint32_t p, q, z, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q), c = scalar_of(w, &i->o[0], &z);
    put_s(w, i, &i->o[0], u_of(fmaf(f_of(a), f_of(b), f_of(c))), p || q || z ? UINT32_MAX : 0);
}
OP(s_addc_u32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q);
    uint64_t s = (uint64_t)a + b + w->scc;
    uint32_t z = p || q || w->sccp ? UINT32_MAX : 0;
    w->scc = (uint32_t)(s >> 32);
    w->sccp = z;
    put_s(w, i, &i->o[0], (uint32_t)s, z);
}

OP(s_subb_u32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q),
                   z = p || q || w->sccp ? UINT32_MAX : 0;
    uint64_t s = (uint64_t)a - b - w->scc;
    w->scc = (uint64_t)b + w->scc > a;
    w->sccp = z;
    put_s(w, i, &i->o[0], (uint32_t)s, z);
}

/* Poison by bits: a known 0 hides in an AND, a known 1 in an OR. */
static void bits(struct wave *w, const struct ins *i, uint32_t r, uint32_t p)
{
    w->scc = r != 0;
    w->sccp = p && !(r & ~p) ? UINT32_MAX : 0;
    put_s(w, i, &i->o[0], r, p);
}

static uint32_t and_poison(uint32_t a, uint32_t p, uint32_t b, uint32_t q)
{
    return (p | q) & ~(~a & ~p) & ~(~b & ~q);
}

OP(s_and_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q);
    bits(w, i, a & b, and_poison(a, p, b, q));
}

OP(s_and_not1_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = ~scalar_of(w, &i->o[2], &q);
    bits(w, i, a & b, and_poison(a, p, b, q));
}

OP(s_or_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q);
    bits(w, i, a | b, (p | q) & ~(a & ~p) & ~(b & ~q));
}

OP(s_or_not1_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = ~scalar_of(w, &i->o[2], &q);
    bits(w, i, a | b, (p | q) & ~(a & ~p) & ~(b & ~q));
}

OP(s_xor_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q);
    bits(w, i, a ^ b, p | q);
}

OP(s_not_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p);
    bits(w, i, ~a, p);
}

OP(s_mov_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p);
    put_s(w, i, &i->o[0], a, p);
}

OP(s_movk_i32)
{
    put_s(w, i, &i->o[0], (uint32_t)(int32_t)(int16_t)(uint16_t)i->o[1].imm, 0);
}

OP(s_brev_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p), r = 0;
    for (int k = 0; k < 32; k++)
        r |= (a >> k & 1) << (31 - k);
    put_s(w, i, &i->o[0], r, p ? UINT32_MAX : 0);
}

OP(s_bcnt1_i32_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p), z = p ? UINT32_MAX : 0;
    uint32_t r = (uint32_t)__builtin_popcount(a);
    w->scc = r != 0;
    w->sccp = z;
    put_s(w, i, &i->o[0], r, z);
}

OP(s_cvt_f32_u32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p);
    put_s(w, i, &i->o[0], u_of((float)a), p ? UINT32_MAX : 0);
}

OP(s_cvt_f32_i32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p);
    put_s(w, i, &i->o[0], u_of((float)(int32_t)a), p ? UINT32_MAX : 0);
}

OP(s_cvt_u32_f32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p);
    put_s(w, i, &i->o[0], to_u32(f_of(a)), p ? UINT32_MAX : 0);
}

OP(s_mov_b64)
{
    struct operand lo = i->o[0], hi = i->o[0];
    hi.reg++;
    bool p;
    uint64_t a = scalar64_of(w, &i->o[1], &p);
    put_s(w, i, &lo, (uint32_t)a, p ? UINT32_MAX : 0);
    put_s(w, i, &hi, (uint32_t)(a >> 32), p ? UINT32_MAX : 0);
}

/* Of the next instruction. */
OP(s_getpc_b64)
{
    struct operand lo = i->o[0], hi = i->o[0];
    hi.reg++;
    const uint64_t at = isa_address(w->k, i->pc + 4);
    put_s(w, i, &lo, (uint32_t)at, 0);
    put_s(w, i, &hi, (uint32_t)(at >> 32), 0);
}

OP(s_lshl_b64)
{
    struct operand lo = i->o[0], hi = i->o[0];
    hi.reg++;
    bool p;
    uint32_t q, n = scalar_of(w, &i->o[2], &q);
    uint64_t a = scalar64_of(w, &i->o[1], &p) << (n & 63);
    uint32_t z = p || q ? UINT32_MAX : 0;
    put_s(w, i, &lo, (uint32_t)a, z);
    put_s(w, i, &hi, (uint32_t)(a >> 32), z);
    w->scc = a != 0;
    w->sccp = z;
}

OP(s_cselect_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[1], &p), b = scalar_of(w, &i->o[2], &q);
    put_s(w, i, &i->o[0], w->scc ? a : b, w->sccp ? (a == b && !p && !q ? 0 : UINT32_MAX) : w->scc ? p : q);
}

OP(s_addk_i32)
{
    uint32_t p, a = scalar_of(w, &i->o[0], &p), b = (uint32_t)(int32_t)(int16_t)(uint16_t)i->o[1].imm, r = a + b;
    w->scc = ((a ^ r) & (b ^ r)) >> 31;
    w->sccp = p ? UINT32_MAX : 0;
    put_s(w, i, &i->o[0], r, w->sccp);
}

OP(s_bitset1_b32)
{
    uint32_t p, q, a = scalar_of(w, &i->o[0], &p), b = scalar_of(w, &i->o[1], &q);
    put_s(w, i, &i->o[0], a | 1u << (b & 31), p || q ? UINT32_MAX : 0);
}

OP(s_mulk_i32)
{
    uint32_t p, a = scalar_of(w, &i->o[0], &p);
    put_s(w, i, &i->o[0], a * (uint32_t)(int32_t)(int16_t)(uint16_t)i->o[1].imm, p ? UINT32_MAX : 0);
}

OP(s_and_saveexec_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p), old = w->s[EXEC];
    if (p & old)
        isa_report(w, i, ISA_UNDEFINED, "EXEC of undefined lanes %#x", p & old);
    put_s(w, i, &i->o[0], old, 0);
    w->s[EXEC] = a & old;
    w->scc = w->s[EXEC] != 0;
    w->sccp = 0;
}

OP(s_or_saveexec_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p), old = w->s[EXEC];
    if (p & ~old)
        isa_report(w, i, ISA_UNDEFINED, "EXEC of undefined lanes %#x", p & ~old);
    put_s(w, i, &i->o[0], old, 0);
    w->s[EXEC] = a | old;
    w->scc = w->s[EXEC] != 0;
    w->sccp = 0;
}

OP(s_and_not1_saveexec_b32)
{
    uint32_t p, a = scalar_of(w, &i->o[1], &p), old = w->s[EXEC];
    if (p & old)
        isa_report(w, i, ISA_UNDEFINED, "EXEC of undefined lanes %#x", p & old);
    put_s(w, i, &i->o[0], old, 0);
    w->s[EXEC] = a & ~old;
    w->scc = w->s[EXEC] != 0;
    w->sccp = 0;
}

#define SCALAR_COMPARE(name, type, extend, cond)                                                                       \
    OP(name)                                                                                                           \
    {                                                                                                                  \
        uint32_t p, q;                                                                                                 \
        type a = (type)scalar_of(w, &i->o[0], &p), b = (type)extend(scalar_of(w, &i->o[1], &q));                       \
        w->scc = (cond);                                                                                               \
        w->sccp = p || q ? UINT32_MAX : 0;                                                                             \
    }
#define SAME(x) (x)
#define K_I(x) (int32_t)(int16_t)(uint16_t)(x)
#define K_U(x) ((x)&0xffff)
#define SCALAR_COMPARES(op, cond)                                                                                      \
    SCALAR_COMPARE(s_cmp_##op##_u32, uint32_t, SAME, cond)                                                             \
    SCALAR_COMPARE(s_cmp_##op##_i32, int32_t, SAME, cond)                                                              \
    SCALAR_COMPARE(s_cmpk_##op##_u32, uint32_t, K_U, cond) SCALAR_COMPARE(s_cmpk_##op##_i32, int32_t, K_I, cond)
SCALAR_COMPARES(eq, a == b)
SCALAR_COMPARES(lg, a != b)
SCALAR_COMPARES(gt, a > b)
SCALAR_COMPARES(ge, a >= b)
SCALAR_COMPARES(lt, a < b)
SCALAR_COMPARES(le, a <= b)
SCALAR_COMPARE(s_bitcmp0_b32, uint32_t, SAME, !(a >> (b & 31) & 1))
SCALAR_COMPARE(s_bitcmp1_b32, uint32_t, SAME, a >> (b & 31) & 1)
OP(s_cmp_eq_u64)
{
    bool p, q;
    uint64_t a = scalar64_of(w, &i->o[0], &p), b = scalar64_of(w, &i->o[1], &q);
    w->scc = a == b;
    w->sccp = p || q ? UINT32_MAX : 0;
}

OP(s_cmp_lg_u64)
{
    bool p, q;
    uint64_t a = scalar64_of(w, &i->o[0], &p), b = scalar64_of(w, &i->o[1], &q);
    w->scc = a != b;
    w->sccp = p || q ? UINT32_MAX : 0;
}

#define SCALAR_COMPARE_F32(name, cond)                                                                                 \
    OP(s_cmp_##name##_f32)                                                                                             \
    {                                                                                                                  \
        uint32_t p, q;                                                                                                 \
        const float a = f_of(scalar_of(w, &i->o[0], &p)), b = f_of(scalar_of(w, &i->o[1], &q));                        \
        w->scc = (cond);                                                                                               \
        w->sccp = p || q ? UINT32_MAX : 0;                                                                             \
    }

SCALAR_COMPARE_F32(lt, a < b)
SCALAR_COMPARE_F32(eq, a == b)
SCALAR_COMPARE_F32(le, a <= b)
SCALAR_COMPARE_F32(gt, a > b)
SCALAR_COMPARE_F32(lg, a<b || a> b)
SCALAR_COMPARE_F32(ge, a >= b)
SCALAR_COMPARE_F32(o, !isnan(a) && !isnan(b))
SCALAR_COMPARE_F32(u, isnan(a) || isnan(b))
SCALAR_COMPARE_F32(nge, !(a >= b))
SCALAR_COMPARE_F32(nlg, !(a < b || a > b))
SCALAR_COMPARE_F32(ngt, !(a > b))
SCALAR_COMPARE_F32(nle, !(a <= b))
SCALAR_COMPARE_F32(neq, !(a == b))
SCALAR_COMPARE_F32(nlt, !(a < b))

#define SCMP(c)                                                                                                        \
    ENTRY(s_cmp_##c##_u32, C_SALU, 0, 0), ENTRY(s_cmp_##c##_i32, C_SALU, 0, 0), ENTRY(s_cmpk_##c##_u32, C_SALU, 0, 0), \
        ENTRY(s_cmpk_##c##_i32, C_SALU, 0, 0)

const struct op_entry isa_ops_scalar[] = {
    SALU(s_add_u32),
    SALU(s_add_i32),
    SALU(s_sub_u32),
    SALU(s_sub_i32),
    SALU(s_lshl_b32),
    SALU(s_lshr_b32),
    SALU(s_ashr_i32),
    SALU(s_min_u32),
    SALU(s_max_u32),
    SALU(s_min_i32),
    SALU(s_max_i32),
    SALU(s_bfe_u32),
    SALU(s_mul_i32),
    SALU(s_mul_hi_u32),
    SALU(s_mul_f32),
    SALU(s_add_f32),
    SALU(s_sub_f32),
    SALU(s_max_f32),
    SALU(s_min_f32),
    ENTRY(s_fmac_f32, C_SALU, 1, F_RMW),
    NAMED("s_fmaak_f32", op_s_fma_f32, C_SALU, 1, 0),
    NAMED("s_fmamk_f32", op_s_fma_f32, C_SALU, 1, 0),
    ENTRY(s_bitcmp0_b32, C_SALU, 0, 0),
    ENTRY(s_bitcmp1_b32, C_SALU, 0, 0),
    ENTRY(s_cmp_lt_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_eq_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_le_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_gt_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_lg_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_ge_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_o_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_u_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_nge_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_nlg_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_ngt_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_nle_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_neq_f32, C_SALU, 0, 0),
    ENTRY(s_cmp_nlt_f32, C_SALU, 0, 0),

    SALU(s_addc_u32),
    SALU(s_subb_u32),
    SALU(s_and_b32),
    SALU(s_and_not1_b32),
    SALU(s_or_b32),
    SALU(s_or_not1_b32),
    SALU(s_xor_b32),
    SALU(s_not_b32),
    SALU(s_mov_b32),
    SALU(s_movk_i32),
    SALU(s_brev_b32),
    SALU(s_bcnt1_i32_b32),
    SALU(s_cvt_f32_u32),
    SALU(s_cvt_f32_i32),
    SALU(s_cvt_u32_f32),
    SALU(s_mov_b64),
    SALU(s_getpc_b64),
    SALU(s_lshl_b64),
    SALU(s_cselect_b32),
    ENTRY(s_addk_i32, C_SALU, 1, F_RMW),
    ENTRY(s_mulk_i32, C_SALU, 1, F_RMW),
    ENTRY(s_bitset1_b32, C_SALU, 1, F_RMW),
    SALU(s_and_saveexec_b32),
    SALU(s_or_saveexec_b32),
    SALU(s_and_not1_saveexec_b32),
    SCMP(eq),
    SCMP(lg),
    SCMP(gt),
    SCMP(ge),
    SCMP(lt),
    SCMP(le),
    ENTRY(s_cmp_eq_u64, C_SALU, 0, 0),
    ENTRY(s_cmp_lg_u64, C_SALU, 0, 0),
    {.name = NULL},
};
