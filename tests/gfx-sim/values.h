/* values.h: operands of an instruction, and where its results go: words of 32 lanes with what of them is undefined. */
#ifndef HALO_TEST_GFX_SIM_VALUES_H
#define HALO_TEST_GFX_SIM_VALUES_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "isa_priv.h"

#define OP(name) static void op_##name(struct wave *w, const struct ins *i)

/* A word of each lane; lo, hi: lanes whose low, high half is undefined. */
struct values {
    const uint32_t *v; /* in a register, or t */
    uint32_t lo, hi;
    uint32_t t[N_LANES];
};

static inline uint32_t scalar_of(struct wave *w, const struct operand *o, uint32_t *ret_poison)
{
    *ret_poison = 0;
    if (o->kind == O_IMM)
        return o->imm;
    if (o->reg == NUL)
        return 0;
    *ret_poison = w->sp[o->reg];
    return w->s[o->reg];
}

static inline uint64_t scalar64_of(struct wave *w, const struct operand *o, bool *ret_poison)
{
    if (o->kind == O_IMM) {
        *ret_poison = false;
        return (uint64_t)(int64_t)(int32_t)o->imm;
    }
    *ret_poison = w->sp[o->reg] || w->sp[o->reg + 1];
    return w->s[o->reg] | (uint64_t)w->s[o->reg + 1] << 32;
}

static inline void broadcast(struct values *x, uint32_t u, uint32_t poison)
{
    for (int l = 0; l < N_LANES; l++)
        x->t[l] = u;
    x->v = x->t;
    x->lo = x->hi = poison ? UINT32_MAX : 0;
}

/* Word `k` of an operand, without modifiers. */
static inline void raw_word(struct wave *w, const struct operand *o, int k, struct values *x)
{
    if (o->kind == O_V) {
        x->v = w->v[o->reg + k];
        x->lo = w->vp[o->reg + k][0];
        x->hi = w->vp[o->reg + k][1];
    } else if (o->kind == O_S && o->reg != NUL) {
        broadcast(x, w->s[o->reg + k], w->sp[o->reg + k]);
    } else if (o->kind == O_IMM) {
        broadcast(x, k == 0 ? o->imm : (int32_t)o->imm < 0 ? UINT32_MAX : 0, 0);
    } else {
        broadcast(x, 0, 0);
    }
}

/* The one DPP that the kernels use: row_xmask with bound_ctrl. */
static inline void dpp(struct wave *w, const struct ins *i, struct values *x)
{
    uint32_t m = i->xmask, exec = w->s[EXEC], lo = 0, hi = 0;
    uint32_t t[32];
    for (int l = 0; l < N_LANES; l++) {
        int from = l ^ (int)m;
        bool on = exec >> from & 1;
        t[l] = on ? x->v[from] : 0; /* bound_ctrl: 0 of a lane that is off */
        if (on) {
            lo |= (x->lo >> from & 1) << l;
            hi |= (x->hi >> from & 1) << l;
        } else if (exec >> l & 1) {
            isa_report(w, i, ISA_LANE_OFF, "lane %d takes 0 from lane %d", l, from);
        }
    }
    if (!i->bound_ctrl)
        isa_report(w, i, ISA_UNKNOWN, "DPP without bound_ctrl");
    memcpy(x->t, t, sizeof(t));
    x->v = x->t;
    x->lo = lo;
    x->hi = hi;
}

static inline void src(struct wave *w, const struct ins *i, int k, struct values *x)
{
    const struct operand *o = &i->o[k];
    raw_word(w, o, 0, x);
    if (i->dpp && k == i->n_dst)
        dpp(w, i, x);
    if (o->abs || o->neg) {
        uint32_t and = o->abs ? 0x7fffffff : UINT32_MAX, xor = o->neg ? 0x80000000 : 0;
        if (x->v != x->t)
            memcpy(x->t, x->v, sizeof(x->t));
        for (int l = 0; l < N_LANES; l++)
            x->t[l] = (x->t[l] & and) ^ xor;
        x->v = x->t;
    }
}

/* For 16-bit operations: the low half. */
static inline void src16(struct wave *w, const struct ins *i, int k, struct values *x)
{
    const struct operand *o = &i->o[k];
    if (o->kind == O_IMM)
        broadcast(x, o->imm16, 0);
    else
        raw_word(w, o, 0, x);
    if (i->op_sel[k - i->n_dst])
        isa_report(w, i, ISA_UNKNOWN, "op_sel of a 16-bit operation");
    if (o->abs || o->neg) {
        uint32_t and = o->abs ? 0x7fff : 0xffff, xor = o->neg ? 0x8000 : 0;
        if (x->v != x->t)
            memcpy(x->t, x->v, sizeof(x->t));
        for (int l = 0; l < N_LANES; l++)
            x->t[l] = (x->t[l] & and) ^ xor;
        x->v = x->t;
    }
    x->hi = x->lo;
}

static inline void put(struct wave *w, const struct operand *o, int k, const uint32_t *r, uint32_t lo, uint32_t hi)
{
    uint32_t exec = w->s[EXEC], *d = w->v[o->reg + k];
    if (exec == UINT32_MAX)
        memcpy(d, r, 128);
    else
        for (int l = 0; l < N_LANES; l++)
            d[l] = exec >> l & 1 ? r[l] : d[l];
    w->vp[o->reg + k][0] = (w->vp[o->reg + k][0] & ~exec) | (lo & exec);
    w->vp[o->reg + k][1] = (w->vp[o->reg + k][1] & ~exec) | (hi & exec);
}

static inline void put16(struct wave *w, const struct operand *o, const uint32_t *r, uint32_t lo)
{
    uint32_t exec = w->s[EXEC], *d = w->v[o->reg];
    for (int l = 0; l < N_LANES; l++)
        d[l] = exec >> l & 1 ? (d[l] & 0xffff0000) | (r[l] & 0xffff) : d[l];
    w->vp[o->reg][0] = (w->vp[o->reg][0] & ~exec) | (lo & exec);
}

static inline void put_mask(struct wave *w, const struct operand *o, uint32_t mask, uint32_t poison)
{
    if (o->reg == NUL)
        return;
    w->s[o->reg] = mask & w->s[EXEC];
    w->sp[o->reg] = poison & w->s[EXEC];
}

static inline void put_s(struct wave *w, const struct ins *i, const struct operand *o, uint32_t value, uint32_t poison)
{
    if (o->reg == NUL)
        return;
    w->s[o->reg] = value;
    w->sp[o->reg] = poison;
    if (o->reg == EXEC && poison) {
        isa_report(w, i, ISA_UNDEFINED, "EXEC of undefined bits %#x", poison);
        w->sp[EXEC] = 0;
    }
}

/* Of a load or a store: "global_load_i16", "ds_store_b128". */
static inline uint32_t bytes_of(const struct ins *i, bool *ret_signed)
{
    const char *load = strstr(i->name, "_load_"), *store = strstr(i->name, "_store_");
    const char *type = load ? load + strlen("_load_") : store + strlen("_store_");
    uint32_t n = (uint32_t)strtoul(type + 1, NULL, 10) / 8;
    assert(n > 0 && n <= 16);
    *ret_signed = type[0] == 'i';
    return n;
}

/* Entries of the tables of mnemonics. */
/* clang-format off */
#define ENTRY(name, cls, n_dst, flags) {#name, op_##name, cls, n_dst, flags}
#define VALU(name) ENTRY(name, C_VALU, 1, 0)
#define SALU(name) ENTRY(name, C_SALU, 1, 0)
#define DUAL(name) {"v_dual_" #name, op_v_##name, C_VALU, 1, 0}
#define NAMED(name, fn, cls, n_dst, flags) {name, fn, cls, n_dst, flags}
/* clang-format on */

#endif
