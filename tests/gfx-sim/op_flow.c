/* op_flow.c: branches, barriers, waits. */
#include "numbers.h"
#include "values.h"

#define COUNTER_MAX 63

/* Branches. `ip` has gone on already. */
static void jump(struct wave *w, const struct ins *i, bool taken, uint32_t poison)
{
    if (poison)
        isa_report(w, i, ISA_UNDEFINED, "a branch");
    if (!taken)
        return;
    w->ip = i->target;
    if (w->trace)
        isa_trace_jump(w->trace);
}

OP(s_branch)
{
    jump(w, i, true, 0);
}

OP(s_cbranch_scc0)
{
    jump(w, i, !w->scc, w->sccp);
}

OP(s_cbranch_scc1)
{
    jump(w, i, w->scc, w->sccp);
}

/* A mask with an undefined bit and a defined 1 is known not to be zero. */
OP(s_cbranch_vccz)
{
    jump(w, i, w->s[VCC] == 0, w->sp[VCC] && !(w->s[VCC] & ~w->sp[VCC]));
}

OP(s_cbranch_vccnz)
{
    jump(w, i, w->s[VCC] != 0, w->sp[VCC] && !(w->s[VCC] & ~w->sp[VCC]));
}

OP(s_cbranch_execz)
{
    jump(w, i, w->s[EXEC] == 0, 0);
}

OP(s_cbranch_execnz)
{
    jump(w, i, w->s[EXEC] != 0, 0);
}

OP(s_endpgm)
{
    w->done = true;
}

OP(s_barrier)
{
    for (uint32_t j = 0; j < w->n_pend[P_LGKM]; j++)
        if (w->pend[P_LGKM][j].type == T_LDS)
            isa_report(w, i, ISA_BARRIER, "an LDS %s of +%#x is under way", w->pend[P_LGKM][j].store ? "store" : "load",
                       w->pend[P_LGKM][j].pc);
    if (w->n_pend[P_VS])
        isa_report(w, i, ISA_BARRIER, "the global store of +%#x is under way", w->pend[P_VS][0].pc);
    w->at_barrier = true;
}

OP(nothing)
{
    (void)w;
    (void)i;
}

OP(buffer_gl0_inv)
{
    (void)i;
    isa_drop_l0(w);
}

OP(buffer_gl1_inv)
{
    (void)i;
    isa_drop_gl1(w);
}

static void release(struct wave *w, const struct pending *pend)
{
    for (uint32_t r = pend->regs.first; r < (uint32_t)pend->regs.first + pend->regs.n; r++)
        if (pend->scalar)
            w->spend[r]--;
        else
            w->vpend[r]--;
}

/* Until `keep` are left. Vector and LDS come back in order, the oldest first; scalar loads in any order, so none is
 * known to be there until all are. */
static void complete(struct wave *w, int counter, uint32_t keep)
{
    struct pending *pend = w->pend[counter];
    uint32_t n = w->n_pend[counter], n_kept = 0, n_ordered = 0, n_seen = 0;
    if (n <= keep)
        return;
    for (uint32_t j = 0; j < n; j++)
        n_ordered += pend[j].type != T_SMEM;
    uint32_t n_over = n_ordered > keep ? n_ordered - keep : 0;
    for (uint32_t j = 0; j < n; j++) {
        bool is_over = pend[j].type == T_SMEM ? keep == 0 : n_seen++ < n_over;
        if (!is_over) {
            pend[n_kept++] = pend[j];
            continue;
        }
        release(w, &pend[j]);
        if (counter == P_VS)
            isa_stored(w, pend[j].id);
    }
    w->n_pend[counter] = n_kept;
}

OP(s_waitcnt)
{
    if (i->vm != NO_COUNT) {
        isa_totals.n_vm_waits += w->n_pend[P_VM] > i->vm;
        isa_totals.n_vm_drains += w->n_pend[P_VM] > i->vm && i->vm == 0;
        if (i->at_barrier && i->vm == 0 && w->n_pend[P_VM]) {
            isa_totals.n_barrier_drains++;
            isa_totals.n_barrier_loads += w->n_pend[P_VM];
        }
        complete(w, P_VM, i->vm);
    }
    if (i->lgkm != NO_COUNT)
        complete(w, P_LGKM, i->lgkm);
    if (i->vs != NO_COUNT)
        complete(w, P_VS, i->vs);
}

void isa_pend(struct wave *w, const struct ins *i, int counter, enum pending_type type, bool scalar,
              struct registers regs, bool store, uint32_t id)
{
    if (w->n_pend[counter] == COUNTER_MAX) /* the hardware waits for the oldest */
        complete(w, counter, type == T_SMEM ? 0 : COUNTER_MAX - 1);
    w->pend[counter][w->n_pend[counter]++] =
        (struct pending){.type = type, .scalar = scalar, .store = store, .regs = regs, .pc = i->pc, .id = id};
    for (uint32_t r = regs.first; r < (uint32_t)regs.first + regs.n; r++)
        if (scalar)
            w->spend[r]++;
        else
            w->vpend[r]++;
}

#define NOTHING(name) NAMED(name, op_nothing, C_MISC, 0, 0)

const struct op_entry isa_ops_flow[] = {
    ENTRY(s_branch, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_scc0, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_scc1, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_vccz, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_vccnz, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_execz, C_BRANCH, 0, 0),
    ENTRY(s_cbranch_execnz, C_BRANCH, 0, 0),
    ENTRY(s_endpgm, C_BRANCH, 0, 0),
    ENTRY(s_barrier, C_MISC, 0, 0),
    NOTHING("s_delay_alu"),
    NOTHING("s_nop"),
    NOTHING("s_clause"),
    NOTHING("s_sendmsg"),
    NOTHING("s_set_inst_prefetch_distance"),
    NOTHING("s_waitcnt_depctr"),
    NOTHING("s_code_end"),
    ENTRY(buffer_gl0_inv, C_MISC, 0, 0),
    ENTRY(buffer_gl1_inv, C_MISC, 0, 0),
    ENTRY(s_waitcnt, C_WAIT, 0, 0),
    {"s_waitcnt_vscnt", op_s_waitcnt, C_WAIT, 0, 0},
    {.name = NULL},
};
