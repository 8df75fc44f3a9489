/* op_vector.c: scalar loads, vector loads and stores, atomics. */
#include "numbers.h"
#include "values.h"

/* Scalar loads. */
OP(s_load)
{
    bool pb;
    uint64_t base = scalar64_of(w, &i->o[1], &pb);
    uint32_t p, offset = scalar_of(w, &i->o[2], &p), data[16];
    uint32_t n = i->o[0].n;
    if (pb || p) {
        isa_report(w, i, ISA_UNDEFINED, "an address");
        return;
    }
    if (i->o[2].kind == O_IMM)
        base += (uint64_t)(int64_t)(int32_t)offset;
    else
        base += offset;
    base += (uint64_t)(int64_t)i->offset;
    base &= ~3ull;
    isa_totals.n_smem++;
    if (!isa_load_scalar(w, i, base, 4 * n, data))
        return;
    for (uint32_t k = 0; k < n; k++) {
        w->s[i->o[0].reg + k] = data[k];
        w->sp[i->o[0].reg + k] = 0;
    }
    isa_pend(w, i, P_LGKM, T_SMEM, true, (struct registers){i->o[0].reg, (uint16_t)n}, false, 0);
}

/* Vector memory. The address of a lane: VGPR pair, or SGPR pair plus VGPR, or a VGPR pair alone (flat). */
static uint64_t address(struct wave *w, const struct ins *i, int k, int l, uint64_t base)
{
    const struct operand *o = &i->o[k];
    uint64_t at = o->n == 2 ? w->v[o->reg][l] | (uint64_t)w->v[o->reg + 1][l] << 32 : base + w->v[o->reg][l];
    return at + (uint64_t)(int64_t)i->offset;
}

static bool address_poison(struct wave *w, const struct ins *i, int k, int base_operand, uint64_t *ret_base)
{
    const struct operand *o = &i->o[k];
    bool pb = false;
    *ret_base = 0;
    if (base_operand && i->o[base_operand].kind == O_S)
        *ret_base = scalar64_of(w, &i->o[base_operand], &pb);
    uint32_t p = w->vp[o->reg][0] | w->vp[o->reg][1] | (o->n == 2 ? w->vp[o->reg + 1][0] | w->vp[o->reg + 1][1] : 0);
    p &= w->s[EXEC];
    if (p || (pb && w->s[EXEC]))
        isa_report(w, i, ISA_UNDEFINED, "an address, lanes %#x", p);
    return p || pb;
}

/* Extends a byte or half to a word. */
static uint32_t extend(uint32_t data, uint32_t n, bool is_signed)
{
    if (!is_signed)
        return data;
    return n == 1 ? (uint32_t)(int8_t)data : n == 2 ? (uint32_t)(int16_t)data : data;
}

static void vector_load(struct wave *w, const struct ins *i, bool flat)
{
    bool is_signed;
    uint32_t n = bytes_of(i, &is_signed), words = n < 4 ? 1 : n / 4, r[4][N_LANES] = {{0}};
    struct registers to = {i->o[0].reg, (uint16_t)words};
    uint64_t base;
    isa_totals.n_vmem++;
    isa_totals.n_flat += flat;
    if (!address_poison(w, i, 1, flat ? 0 : 2, &base)) {
        for (int l = 0; l < N_LANES; l++) {
            uint32_t data[4] = {0};
            if (!(w->s[EXEC] >> l & 1) || !isa_load(w, i, l, address(w, i, 1, l, base), n, data))
                continue;
            data[0] = extend(data[0], n, is_signed);
            for (uint32_t k = 0; k < words; k++)
                r[k][l] = data[k];
        }
        if (strstr(i->name, "_d16_")) /* the upper half stays */
            put16(w, &i->o[0], r[0], 0);
        else
            for (uint32_t k = 0; k < words; k++)
                put(w, &i->o[0], (int)k, r[k], 0, 0);
    }
    isa_pend(w, i, P_VM, flat ? T_FLAT : T_VMEM, false, to, false, 0);
    if (flat)
        isa_pend(w, i, P_LGKM, T_FLAT, false, to, false, 0);
}

OP(global_load)
{
    vector_load(w, i, false);
}

OP(flat_load)
{
    vector_load(w, i, true);
}

static void vector_store(struct wave *w, const struct ins *i, bool flat)
{
    bool is_signed;
    uint32_t n = bytes_of(i, &is_signed), exec = w->s[EXEC], id = ++w->next_id;
    const struct operand *d = &i->o[1];
    uint64_t base;
    isa_totals.n_vmem++;
    isa_totals.n_flat += flat;
    if (!address_poison(w, i, 0, flat ? 0 : 2, &base))
        for (int l = 0; l < N_LANES; l++) {
            uint32_t data[4], undefined = 0;
            if (!(exec >> l & 1))
                continue;
            for (uint32_t k = 0; k < (n + 3) / 4; k++) {
                data[k] = w->v[d->reg + k][l];
                undefined |= ((w->vp[d->reg + k][0] >> l & 1 ? 3u : 0) | (w->vp[d->reg + k][1] >> l & 1 ? 12u : 0))
                             << 4 * k;
            }
            undefined &= (1u << n) - 1;
            if (undefined)
                isa_report(w, i, ISA_UNDEFINED, "what lane %d stores: bytes %#x", l, undefined);
            isa_store(w, i, l, address(w, i, 0, l, base), n, data, id);
        }
    isa_pend(w, i, P_VS, flat ? T_FLAT : T_VMEM, false, (struct registers){0, 0}, true, id);
    if (flat)
        isa_pend(w, i, P_LGKM, T_FLAT, false, (struct registers){0, 0}, true, 0);
}

OP(global_store)
{
    vector_store(w, i, false);
}

OP(flat_store)
{
    vector_store(w, i, true);
}

OP(global_atomic_add_u32)
{
    int a = i->glc ? 1 : 0;
    uint64_t base;
    uint32_t exec = w->s[EXEC], r[32] = {0};
    const struct operand *d = &i->o[a + 1];
    isa_totals.n_vmem++;
    if (address_poison(w, i, a, a + 2, &base))
        return;
    for (int l = 0; l < N_LANES; l++) {
        uint32_t *p = exec >> l & 1 ? isa_atomic(w, i, l, address(w, i, a, l, base)) : NULL;
        if (!p)
            continue;
        r[l] = *p;
        *p += w->v[d->reg][l];
    }
    if (i->glc) {
        put(w, &i->o[0], 0, r, 0, 0);
        isa_pend(w, i, P_VM, T_VMEM, false, (struct registers){i->o[0].reg, 1}, false, 0);
    } else {
        isa_pend(w, i, P_VS, T_VMEM, false, (struct registers){0, 0}, true, ++w->next_id);
    }
}

#define LOAD(kind, fn, t) NAMED(kind "_load_" t, fn, C_VMEM, 1, 0)
#define STORE(kind, fn, t) NAMED(kind "_store_" t, fn, C_VMEM, 0, F_STORE)
#define LOADS(kind, fn)                                                                                                \
    LOAD(kind, fn, "u8"), LOAD(kind, fn, "i8"), LOAD(kind, fn, "u16"), LOAD(kind, fn, "i16"), LOAD(kind, fn, "b32"),   \
        LOAD(kind, fn, "b64"), LOAD(kind, fn, "b96"), LOAD(kind, fn, "b128"), LOAD(kind, fn, "d16_b16")
#define STORES(kind, fn)                                                                                               \
    STORE(kind, fn, "b8"), STORE(kind, fn, "b16"), STORE(kind, fn, "b32"), STORE(kind, fn, "b64"),                     \
        STORE(kind, fn, "b96"), STORE(kind, fn, "b128")

const struct op_entry isa_ops_vector[] = {
    {"s_load_b32", op_s_load, C_SMEM, 1, 0},
    {"s_load_b64", op_s_load, C_SMEM, 1, 0},
    {"s_load_b128", op_s_load, C_SMEM, 1, 0},
    {"s_load_b256", op_s_load, C_SMEM, 1, 0},
    {"s_load_b512", op_s_load, C_SMEM, 1, 0},
    LOADS("global", op_global_load),
    STORES("global", op_global_store),
    LOADS("flat", op_flat_load),
    STORES("flat", op_flat_store),
    ENTRY(global_atomic_add_u32, C_VMEM, 0, 0),
    {.name = NULL},
};
