/* wave.c: a wave: its registers at the start, one instruction after the other, and what is checked before each. */
#include "isa_priv.h"

#define UNDEFINED_V 0x7fc0dead /* a NaN; and an index far out */
#define UNDEFINED_S 0xdeadbeef
#define N_WGPS 4 /* blocks go round */

/* ---- the start ---- */

static void set_scalar(struct wave *w, uint32_t reg, uint32_t value)
{
    w->s[reg] = value;
    w->sp[reg] = 0;
}

void isa_wave_begin(struct wave *w, const struct isa_kernel *k, struct block *b, uint32_t index, uint32_t threads,
                    uint64_t args)
{
    uint32_t n_threads = threads - index * N_LANES;
    memset(w, 0, offsetof(struct wave, notes));
    w->n_notes = 0;
    w->trace = isa_run.record == b->linear + 1 ? isa_trace_wave(index) : NULL;
    w->k = k;
    w->b = b;
    w->index = index;
    w->uid = b->linear * 64 + index;
    w->wgp = b->linear % N_WGPS;
    w->cu = w->wgp * 2 + index % 2;
    for (int r = 0; r < N_VREG; r++) {
        for (int l = 0; l < N_LANES; l++)
            w->v[r][l] = UNDEFINED_V;
        w->vp[r][0] = w->vp[r][1] = UINT32_MAX;
    }
    for (int r = 0; r < N_SREG; r++) {
        w->s[r] = UNDEFINED_S;
        w->sp[r] = UINT32_MAX;
    }
    for (uint32_t l = 0; l < N_LANES; l++)
        w->v[0][l] = index * N_LANES + l; /* y and z are 0 */
    w->vp[0][0] = w->vp[0][1] = 0;
    set_scalar(w, EXEC, n_threads >= N_LANES ? UINT32_MAX : (1u << n_threads) - 1);
    w->sccp = UINT32_MAX;
    w->scc = 1;
    if (k->properties & 8) {
        set_scalar(w, 0, (uint32_t)args);
        set_scalar(w, 1, (uint32_t)(args >> 32));
    }
    for (uint32_t d = 0, s = k->user_sgprs; d < 3; d++)
        if (k->rsrc2 >> (7 + d) & 1)
            set_scalar(w, s++, b->id[d]);
}

/* ---- registers ---- */

static void check_reads(const struct wave *w, const struct ins *i)
{
    for (int j = 0; j < i->n_vr; j++)
        for (uint32_t r = i->vr[j].first, end = r + i->vr[j].n; r < end; r++) {
            if (w->vpend[r])
                isa_report(w, i, ISA_NO_WAIT, "reads v%u", r);
            if (r >= w->k->vgprs)
                isa_report(w, i, ISA_REGISTERS, "v%u", r);
        }
    for (int j = 0; j < i->n_sr; j++)
        for (uint32_t r = i->sr[j].first, end = r + i->sr[j].n; r < end && r < N_SREG; r++)
            if (w->spend[r])
                isa_report(w, i, ISA_NO_WAIT, "reads s%u", r);
}

/* Loads of one kind come back in order: the second one to a register may follow at once. */
static bool overtakes(const struct wave *w, const struct ins *i, uint32_t r)
{
    int counter = i->cls == C_LDS ? P_LGKM : P_VM;
    enum pending_type type = i->cls == C_LDS ? T_LDS : i->flat ? T_FLAT : T_VMEM;
    uint32_t same = 0;
    if (i->cls != C_VMEM && i->cls != C_LDS)
        return true;
    for (uint32_t p = 0; p < w->n_pend[counter]; p++) {
        const struct pending *pend = &w->pend[counter][p];
        same += pend->type == type && !pend->scalar && r - pend->regs.first < pend->regs.n;
    }
    return same != w->vpend[r];
}

static void check_writes(const struct wave *w, const struct ins *i)
{
    for (int j = 0; j < i->n_vw; j++)
        for (uint32_t r = i->vw[j].first, end = r + i->vw[j].n; r < end; r++) {
            if (r >= w->k->vgprs)
                isa_report(w, i, ISA_REGISTERS, "v%u", r);
            if (w->vpend[r] && overtakes(w, i, r))
                isa_report(w, i, ISA_NO_WAIT, "writes v%u", r);
        }
    for (int j = 0; j < i->n_sw; j++)
        for (uint32_t r = i->sw[j].first, end = r + i->sw[j].n; r < end && r < N_SREG; r++)
            if (w->spend[r])
                isa_report(w, i, ISA_NO_WAIT, "writes s%u", r);
}

static bool overlaps(const struct operand *o, struct registers regs)
{
    return o->kind == O_V && o->reg < regs.first + regs.n && regs.first < o->reg + o->n;
}

/* The matrix unit's result may not be an operand of the next one. */
static void check_wmma(struct wave *w, const struct ins *i)
{
    if (i->cls != C_VALU)
        return;
    for (int k = 1; i->wmma && w->last_wmma.n > 0 && k <= 2; k++)
        if (overlaps(&i->o[k], w->last_wmma))
            isa_report(w, i, ISA_HAZARD, "operand %d is what the v_wmma just before makes", k);
    w->last_wmma = (struct registers){i->o[0].reg, i->wmma ? 8 : 0};
}

/* ---- one instruction ---- */

static void count(const struct ins *i)
{
    struct isa_stats *totals = &isa_totals;
    totals->n_ins++;
    totals->n_valu += i->cls == C_VALU;
    totals->n_salu += i->cls == C_SALU;
    totals->n_wait += i->cls == C_WAIT;
    totals->n_branch += i->cls == C_BRANCH;
    totals->n_wmma += i->wmma;
    totals->n_dot += i->dot;
    totals->n_trans += i->trans;
}

static void stop(const struct wave *w, const struct ins *i, enum isa_kind kind, const char *why)
{
    isa_report(w, i, kind, "%s", why);
    isa_run.stop = true;
}

static void run_dual(struct wave *w, const struct ins *i)
{
    uint16_t d = i->o[0].reg;
    memcpy(w->v[X_TMP], w->v[d], sizeof(w->v[d]));
    memcpy(w->vp[X_TMP], w->vp[d], sizeof(w->vp[d]));
    i->half[0]->fn(w, i->half[0]);
    i->half[1]->fn(w, i->half[1]);
    memcpy(w->v[d], w->v[X_TMP], sizeof(w->v[d]));
    memcpy(w->vp[d], w->vp[X_TMP], sizeof(w->vp[d]));
}

static void step(struct wave *w)
{
    const struct isa_kernel *k = w->k;
    if (w->ip < 0 || w->ip >= (int32_t)k->n_ins) {
        stop(w, &k->ins[k->n_ins - 1], ISA_HANG, "the end of the code");
        return;
    }
    const struct ins *i = &k->ins[w->ip];
    k->ran[w->ip]++;
    isa_run.time++;
    if (!i->fn) {
        stop(w, i, ISA_UNKNOWN, "no such instruction");
        return;
    }
    count(i);
    if (w->trace)
        isa_trace_ins(w->trace, i);
    check_reads(w, i);
    check_writes(w, i);
    check_wmma(w, i);
    w->ip++;
    if (i->fn2)
        run_dual(w, i);
    else
        i->fn(w, i);
    if (++isa_run.n_ins > isa_run.limit)
        stop(w, i, ISA_HANG, "more instructions than the limit");
}

void isa_wave_run(struct wave *w, uint32_t budget)
{
    struct block *b = w->b;
    while (!w->at_barrier && !w->done && !isa_run.stop && budget-- > 0)
        step(w);
    if (w->done) {
        isa_stored(w, w->next_id);
        b->n_done++;
    } else if (w->at_barrier) {
        b->n_arrived++;
        isa_totals.n_barrier++;
    }
    if (b->n_arrived == 0 || b->n_arrived + b->n_done < b->n_waves)
        return;
    b->n_arrived = 0;
    for (uint32_t i = 0; i < b->n_waves; i++) {
        b->waves[i].epoch += b->waves[i].at_barrier;
        b->waves[i].at_barrier = false;
    }
}
