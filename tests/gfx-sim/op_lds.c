/* op_lds.c: LDS. */
#include "numbers.h"
#include "values.h"

/* LDS. */
static bool lds_check(struct wave *w, const struct ins *i, int l, uint32_t at, uint32_t n, bool store)
{
    struct block *b = w->b;
    if (at > w->k->lds_bytes || n > w->k->lds_bytes - at) {
        isa_report(w, i, ISA_BOUNDS, "LDS %s of %u bytes at %#x of %#x, lane %d", store ? "store" : "load", n, at,
                   w->k->lds_bytes, l);
        return false;
    }
    uint32_t want = n >= 16 ? 16 : n == 12 ? 4 : n;
    if (at & (want - 1))
        isa_report(w, i, ISA_MISALIGNED, "LDS: %u bytes at %#x, lane %d", n, at, l);
    for (uint32_t k = 0; k < n; k++) {
        struct lds_cell *c = &b->cells[at + k];
        if (c->wr_wave && c->wr_wave != (int16_t)(w->index + 1) && c->wr_epoch >= w->epoch)
            isa_report(w, i, ISA_LDS_RACE, "lane %d %s byte %#x that wave %d wrote after the same barrier", l,
                       store ? "writes" : "reads", at + k, c->wr_wave - 1);
        if (store) {
            if (c->rd_wave && c->rd_epoch >= w->epoch && c->rd_wave != (int16_t)(w->index + 1))
                isa_report(w, i, ISA_LDS_RACE, "lane %d writes byte %#x that wave %d read after the same barrier", l,
                           at + k, c->rd_wave - 1);
            c->wr_wave = (int16_t)(w->index + 1);
            c->wr_epoch = w->epoch;
        } else {
            int16_t me = (int16_t)(w->index + 1);
            if (c->rd_wave && c->rd_epoch == w->epoch && c->rd_wave != me)
                me = 100; /* several */
            c->rd_wave = me;
            c->rd_epoch = w->epoch;
        }
    }
    return true;
}

static bool lds_addresses(struct wave *w, const struct ins *i, int k)
{
    uint32_t p = (w->vp[i->o[k].reg][0] | w->vp[i->o[k].reg][1]) & w->s[EXEC];
    isa_totals.n_lds++;
    if (p)
        isa_report(w, i, ISA_UNDEFINED, "an LDS address, lanes %#x", p);
    return p == 0;
}

/* Which banks the addresses of a register fall on. */
static void lds_trace(const struct wave *w, uint16_t reg, uint32_t n, uint32_t offset)
{
    uint32_t at[N_LANES];
    if (!w->trace)
        return;
    for (int l = 0; l < N_LANES; l++)
        at[l] = w->v[reg][l] + offset;
    isa_trace_lds(w->trace, at, w->s[EXEC], n);
}

static void lds_load_words(struct wave *w, const struct ins *i, int first_word, uint32_t n, uint32_t offset)
{
    uint32_t exec = w->s[EXEC], words = n < 4 ? 1 : n / 4, r[4][32], lo[4] = {0}, hi[4] = {0};
    lds_trace(w, i->o[1].reg, n, offset);
    for (int l = 0; l < N_LANES; l++) {
        uint32_t at = w->v[i->o[1].reg][l] + offset, data[4] = {0};
        if (!(exec >> l & 1))
            continue;
        if (lds_check(w, i, l, at, n, false)) {
            memcpy(data, w->b->lds + at, n);
            for (uint32_t k = 0; k < n; k++)
                if (!w->b->lds_defined[at + k])
                    *(k % 4 < 2 ? &lo[k / 4] : &hi[k / 4]) |= 1u << l;
        }
        for (uint32_t k = 0; k < words; k++)
            r[k][l] = data[k];
    }
    for (uint32_t k = 0; k < words; k++)
        put(w, &i->o[0], first_word + (int)k, r[k], lo[k], hi[k]);
}

static void lds_store_words(struct wave *w, const struct ins *i, int operand, uint32_t n, uint32_t offset)
{
    uint32_t exec = w->s[EXEC];
    const struct operand *d = &i->o[operand];
    lds_trace(w, i->o[0].reg, n, offset);
    for (int l = 0; l < N_LANES; l++) {
        uint32_t at = w->v[i->o[0].reg][l] + offset, data[4];
        if (!(exec >> l & 1) || !lds_check(w, i, l, at, n, true))
            continue;
        for (uint32_t k = 0; k < (n + 3) / 4; k++)
            data[k] = w->v[d->reg + k][l];
        memcpy(w->b->lds + at, data, n);
        for (uint32_t k = 0; k < n; k++)
            w->b->lds_defined[at + k] = !(w->vp[d->reg + k / 4][k % 4 / 2] >> l & 1);
    }
}

OP(ds_load)
{
    bool is_signed;
    uint32_t n = bytes_of(i, &is_signed);
    if (lds_addresses(w, i, 1))
        lds_load_words(w, i, 0, n, (uint32_t)i->offset);
    isa_pend(w, i, P_LGKM, T_LDS, false, (struct registers){i->o[0].reg, (uint16_t)(n < 4 ? 1 : n / 4)}, false, 0);
}

OP(ds_store)
{
    bool is_signed;
    if (lds_addresses(w, i, 0))
        lds_store_words(w, i, 1, bytes_of(i, &is_signed), (uint32_t)i->offset);
    isa_pend(w, i, P_LGKM, T_LDS, false, (struct registers){0, 0}, true, 0);
}

/* n bytes from each of two addresses. */
static void ds_load_2(struct wave *w, const struct ins *i, uint32_t n, uint32_t scale)
{
    if (lds_addresses(w, i, 1)) {
        /* the address may be one of the destinations */
        uint32_t keep[32], keep_p[2];
        memcpy(keep, w->v[i->o[1].reg], 128);
        memcpy(keep_p, w->vp[i->o[1].reg], 8);
        struct ins j = *i;
        memcpy(w->v[X_TMP + 1], keep, 128);
        j.o[1].reg = X_TMP + 1;
        lds_load_words(w, &j, 0, n, (uint32_t)i->offset0 * scale);
        lds_load_words(w, &j, (int)n / 4, n, (uint32_t)i->offset1 * scale);
    }
    isa_pend(w, i, P_LGKM, T_LDS, false, (struct registers){i->o[0].reg, (uint16_t)(n / 2)}, false, 0);
}

OP(ds_load_2addr_b32)
{
    ds_load_2(w, i, 4, 4);
}

OP(ds_load_2addr_b64)
{
    ds_load_2(w, i, 8, 8);
}

OP(ds_load_2addr_stride64_b32)
{
    ds_load_2(w, i, 4, 256);
}

OP(ds_load_2addr_stride64_b64)
{
    ds_load_2(w, i, 8, 512);
}

/* n bytes to each of two addresses. */
static void ds_store_2(struct wave *w, const struct ins *i, uint32_t n, uint32_t scale)
{
    if (lds_addresses(w, i, 0)) {
        lds_store_words(w, i, 1, n, (uint32_t)i->offset0 * scale);
        lds_store_words(w, i, 2, n, (uint32_t)i->offset1 * scale);
    }
    isa_pend(w, i, P_LGKM, T_LDS, false, (struct registers){0, 0}, true, 0);
}

OP(ds_store_2addr_b32)
{
    ds_store_2(w, i, 4, 4);
}

OP(ds_store_2addr_b64)
{
    ds_store_2(w, i, 8, 8);
}

OP(ds_store_2addr_stride64_b32)
{
    ds_store_2(w, i, 4, 256);
}

OP(ds_store_2addr_stride64_b64)
{
    ds_store_2(w, i, 8, 512);
}

#define DS(t) NAMED("ds_load_" t, op_ds_load, C_LDS, 1, 0)
#define DS_(t) NAMED("ds_store_" t, op_ds_store, C_LDS, 0, F_STORE)

const struct op_entry isa_ops_lds[] = {
    DS("b32"),
    DS("b64"),
    DS("b96"),
    DS("b128"),
    DS("u8"),
    DS("u16"),
    DS_("b8"),
    DS_("b16"),
    DS_("b32"),
    DS_("b64"),
    DS_("b96"),
    DS_("b128"),
    ENTRY(ds_load_2addr_b32, C_LDS, 1, 0),
    ENTRY(ds_load_2addr_b64, C_LDS, 1, 0),
    ENTRY(ds_load_2addr_stride64_b32, C_LDS, 1, 0),
    ENTRY(ds_load_2addr_stride64_b64, C_LDS, 1, 0),
    ENTRY(ds_store_2addr_b32, C_LDS, 0, 0),
    ENTRY(ds_store_2addr_b64, C_LDS, 0, 0),
    ENTRY(ds_store_2addr_stride64_b32, C_LDS, 0, 0),
    ENTRY(ds_store_2addr_stride64_b64, C_LDS, 0, 0),
    {.name = NULL},
};
