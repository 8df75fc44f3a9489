/* op_lanes.c: what crosses lanes. */
#include "numbers.h"
#include "values.h"

/* Across lanes. */
OP(v_permlanex16_b32)
{
    struct values a;
    uint32_t r[32], lo = 0, hi = 0, exec = w->s[EXEC], p1, p2;
    raw_word(w, &i->o[1], 0, &a);
    uint64_t sel = scalar_of(w, &i->o[2], &p1) | (uint64_t)scalar_of(w, &i->o[3], &p2) << 32;
    const bool fetch = i->op_sel[0], zero = i->op_sel[1];
    for (int l = 0; l < N_LANES; l++) {
        int from = (l < 16 ? 16 : 0) + (int)(sel >> 4 * (l & 15) & 15);
        bool on = exec >> from & 1;
        if (!on && exec >> l & 1)
            isa_report(w, i, ISA_LANE_OFF, "lane %d takes %s of lane %d", l,
                       fetch  ? "what is left"
                       : zero ? "0"
                              : "its own old",
                       from);
        r[l] = on || fetch ? a.v[from] : zero ? 0 : w->v[i->o[0].reg][l];
        if (on || fetch) {
            lo |= (a.lo >> from & 1) << l;
            hi |= (a.hi >> from & 1) << l;
        } else if (!zero) {
            lo |= w->vp[i->o[0].reg][0] & 1u << l;
            hi |= w->vp[i->o[0].reg][1] & 1u << l;
        }
    }
    uint32_t p = p1 || p2 ? UINT32_MAX : 0;
    put(w, &i->o[0], 0, r, lo | p, hi | p);
}

OP(v_readfirstlane_b32)
{
    struct values a;
    raw_word(w, &i->o[1], 0, &a);
    uint32_t exec = w->s[EXEC];
    int l = exec ? __builtin_ctz(exec) : 0;
    if (!exec)
        isa_report(w, i, ISA_EXEC_ZERO, "lane 0");
    put_s(w, i, &i->o[0], a.v[l], ((a.lo | a.hi) >> l & 1) ? UINT32_MAX : 0);
}

OP(v_readlane_b32)
{
    struct values a;
    raw_word(w, &i->o[1], 0, &a);
    uint32_t p, l = scalar_of(w, &i->o[2], &p) & 31;
    put_s(w, i, &i->o[0], a.v[l], p || ((a.lo | a.hi) >> l & 1) ? UINT32_MAX : 0);
}

OP(ds_bpermute_b32)
{
    struct values a, b;
    uint32_t r[32], lo = 0, hi = 0, exec = w->s[EXEC];
    isa_totals.n_lds++;
    raw_word(w, &i->o[1], 0, &a);
    raw_word(w, &i->o[2], 0, &b);
    for (int l = 0; l < N_LANES; l++) {
        int from = (int)((a.v[l] + (uint32_t)i->offset) >> 2 & 31);
        bool on = exec >> from & 1;
        if (!on && exec >> l & 1)
            isa_report(w, i, ISA_LANE_OFF, "lane %d takes 0 from lane %d", l, from);
        r[l] = on ? b.v[from] : 0;
        lo |= (on ? b.lo >> from & 1 : 0) << l;
        hi |= (on ? b.hi >> from & 1 : 0) << l;
    }
    uint32_t p = a.lo | a.hi;
    put(w, &i->o[0], 0, r, lo | p, hi | p);
    isa_pend(w, i, P_LGKM, T_LDS, false, (struct registers){i->o[0].reg, 1}, false, 0);
}

const struct op_entry isa_ops_lanes[] = {
    VALU(v_permlanex16_b32), VALU(v_readfirstlane_b32), VALU(v_readlane_b32), ENTRY(ds_bpermute_b32, C_LDS, 1, 0),
    {.name = NULL},
};
