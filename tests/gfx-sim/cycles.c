/* cycles.c: replays a recorded block on the units of a WGP, clock by clock. */
#include "cycles.h"

#include <errno.h>
#include <stdlib.h>

#include "isa_priv.h"

#define NEVER UINT64_MAX
#define IS_BUSY 0.8

enum { N_SIMDS = 4, N_CUS = 2, N_L0 = 4096, N_QUEUE = 64 };

/* Latencies are those of LLVM's scheduling model of gfx11 for VALU, transcendental and scalar instructions; assumed for
 * LDS, caches, jumps and barriers. 50 bytes of L2 a clock: 16 channels of 64 for 20 WGPs. */
const struct isa_machine isa_gfx1151 = {
    .n_wgps = 20,
    .n_simds = N_SIMDS,
    .n_cus = N_CUS,
    .mhz = 2900,
    .waves = 16,
    .vgprs = 1536,
    .vgpr_granule = 24,
    .lds_bytes = 128 * 1024,
    .lds_granule = 512,
    .blocks = 32,
    .wmma_clocks = 32,
    .quarter_clocks = 4,
    .trans_clocks = 4,
    .valu_latency = 5,
    .trans_latency = 10,
    .salu_latency = 2,
    .smem_latency = 100,
    .jump_latency = 16,
    .barrier_latency = 8,
    .lds_latency = 60,
    .l0_latency = 120,
    .far_latency = 500,
    .line_bytes = 128,
    .l0_lines = 256,
    .far_bytes = 50,
};

/* A load or store under way. */
struct access {
    uint64_t done;
    bool scalar;
};

struct queue { /* oldest first */
    struct access items[N_QUEUE];
    uint32_t n;
    uint64_t last; /* vector and LDS accesses come back in order */
};

struct sim_block {
    uint32_t number, n_arrived, n_done;
};

struct sim_wave {
    const struct wave_trace *trace;
    struct sim_block *block;
    size_t at;
    uint32_t simd, cu;
    uint64_t next, issued; /* from when it may issue, and when it last did */
    enum isa_stall why;    /* it waits until `next` */
    bool at_barrier, done;
    uint64_t v_ready[N_VREG], s_ready[N_SREG];
    struct queue queue[N_COUNTERS];
};

struct l0_line {
    uint64_t tag, used, ready; /* tag 0: none */
};

struct sim {
    const struct isa_machine *m;
    const struct isa_trace *trace;
    struct isa_cycles *out;
    struct sim_block *blocks;
    struct sim_wave *waves; /* [block][wave] */
    uint32_t n_live, n_begun;
    uint64_t now;
    uint64_t pipe_free[N_SIMDS], trans_free[N_SIMDS], lds_free[N_CUS], l0_free[N_CUS];
    double far_free;
    struct l0_line l0[N_CUS][N_L0];
};

/* ---- blocks ---- */

static uint32_t round_up(uint32_t n, uint32_t granule)
{
    return (n + granule - 1) / granule * granule;
}

uint32_t isa_resident(const struct isa_machine *m, const struct isa_kernel *k, uint32_t n_waves)
{
    uint32_t waves = m->vgprs / round_up(k->vgprs, m->vgpr_granule), n = m->blocks;
    waves = (waves < m->waves ? waves : m->waves) * m->n_simds;
    const uint32_t by_waves = waves / n_waves;
    const uint32_t by_lds = k->lds_bytes > 0 ? m->lds_bytes / round_up(k->lds_bytes, m->lds_granule) : n;
    n = by_waves < n ? by_waves : n;
    return by_lds < n ? by_lds : n;
}

static void begin_block(struct sim *s, struct sim_block *b)
{
    const uint32_t n = s->trace->n_waves, at = (uint32_t)(b - s->blocks);
    *b = (struct sim_block){.number = ++s->n_begun};
    for (uint32_t i = 0; i < n; i++) {
        struct sim_wave *w = &s->waves[at * n + i];
        const uint32_t place = at * n + i; /* waves go round the SIMDs */
        memset(w, 0, sizeof(*w));
        w->trace = &s->trace->waves[i];
        w->block = b;
        w->simd = place % N_SIMDS;
        w->cu = w->simd / (N_SIMDS / N_CUS);
        w->next = s->now;
        w->why = ISA_STALL_JUMP;
    }
}

/* ---- queues and caches ---- */

static void push(struct queue *q, uint64_t done, bool scalar)
{
    if (!scalar) {
        done = done > q->last ? done : q->last;
        q->last = done;
    }
    if (q->n == N_QUEUE) /* the interpreter waits before it gets there */
        memmove(q->items, q->items + 1, (--q->n) * sizeof(q->items[0]));
    q->items[q->n++] = (struct access){done, scalar};
}

static void retire(struct queue *q, uint64_t now)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->n; i++)
        if (q->items[i].done > now)
            q->items[n++] = q->items[i];
    q->n = n;
}

/* When no more than `keep` are under way; scalar loads come back in any order, so `keep` counts the others. */
static uint64_t when_left(const struct queue *q, uint32_t keep, bool *ret_scalar)
{
    uint64_t when = 0;
    uint32_t behind = 0;
    *ret_scalar = false;
    for (uint32_t i = q->n; i-- > 0;) {
        const struct access *a = &q->items[i];
        if (a->scalar ? keep > 0 : behind++ < keep)
            continue;
        if (a->done > when) {
            when = a->done;
            *ret_scalar = a->scalar;
        }
    }
    return when;
}

static double fetch_far(struct sim *s, double from, uint32_t bytes)
{
    const double begin = from > s->far_free ? from : s->far_free, clocks = (double)bytes / s->m->far_bytes;
    s->far_free = begin + clocks;
    s->out->busy[ISA_UNIT_FAR] += bytes; /* bytes until the end, then clocks */
    return s->far_free;
}

/* When a line is there that L0 looks up at `at`. */
static uint64_t load_line(struct sim *s, uint32_t cu, uint64_t tag, uint64_t at)
{
    struct l0_line *oldest = &s->l0[cu][0];
    for (uint32_t i = 0; i < s->m->l0_lines; i++) {
        struct l0_line *line = &s->l0[cu][i];
        if (line->tag == tag) {
            line->used = at;
            return (line->ready > at ? line->ready : at) + s->m->l0_latency;
        }
        if (line->used < oldest->used)
            oldest = line;
    }
    const uint64_t there = (uint64_t)fetch_far(s, (double)at, s->m->line_bytes) + s->m->far_latency;
    *oldest = (struct l0_line){.tag = tag, .used = at, .ready = there - s->m->l0_latency};
    s->out->far_bytes += s->m->line_bytes;
    return there;
}

static void access_memory(struct sim *s, struct sim_wave *w, const struct trace_event *e)
{
    const bool is_load = e->ins->n_vw > 0;
    uint64_t at = s->now + 1 > s->l0_free[w->cu] ? s->now + 1 : s->l0_free[w->cu], done = at;
    for (uint32_t i = 0; i < e->n_lines; i++, at++) {
        const uint64_t tag = w->trace->lines[e->first_line + i] + 1 + ((uint64_t)w->block->number << 48);
        const uint64_t there = is_load ? load_line(s, w->cu, tag, at)
                                       : (uint64_t)fetch_far(s, (double)at, s->m->line_bytes) + s->m->far_latency;
        done = there > done ? there : done;
    }
    s->out->load_bytes += (uint64_t)e->n_lines * s->m->line_bytes;
    s->out->busy[ISA_UNIT_L0] += e->n_lines;
    s->l0_free[w->cu] = at;
    push(&w->queue[is_load ? P_VM : P_VS], done, false);
    if (e->ins->flat)
        push(&w->queue[P_LGKM], done, false);
}

static void access_lds(struct sim *s, struct sim_wave *w, const struct trace_event *e)
{
    const uint64_t at = s->now + 1 > s->lds_free[w->cu] ? s->now + 1 : s->lds_free[w->cu];
    s->lds_free[w->cu] = at + e->passes;
    s->out->busy[ISA_UNIT_LDS] += e->passes;
    s->out->lds_passes += e->passes;
    s->out->lds_least += e->least_passes;
    push(&w->queue[P_LGKM], at + e->passes - 1 + s->m->lds_latency, false);
}

/* ---- instructions ---- */

static bool takes_slot(const struct ins *i)
{
    return i->cls != C_WAIT && (i->cls != C_MISC || strcmp(i->name, "s_barrier") == 0);
}

static void later(uint64_t when, enum isa_stall why, uint64_t *ret_when, enum isa_stall *ret_why)
{
    if (when <= *ret_when)
        return;
    *ret_when = when;
    *ret_why = why;
}

/* When the wave's next instruction can issue, and what it waits for until then. */
static uint64_t when_ready(const struct sim *s, const struct sim_wave *w, enum isa_stall *why)
{
    const struct ins *i = w->trace->events[w->at].ins;
    uint64_t when = w->next;
    bool scalar;
    *why = w->why;
    if (w->at_barrier) {
        *why = ISA_STALL_BARRIER;
        return NEVER;
    }
    if (i->cls == C_WAIT) {
        if (i->vm != NO_COUNT)
            later(when_left(&w->queue[P_VM], i->vm, &scalar), ISA_STALL_LOADS, &when, why);
        if (i->vs != NO_COUNT)
            later(when_left(&w->queue[P_VS], i->vs, &scalar), ISA_STALL_STORES, &when, why);
        if (i->lgkm != NO_COUNT) {
            const uint64_t left = when_left(&w->queue[P_LGKM], i->lgkm, &scalar);
            later(left, scalar ? ISA_STALL_SCALAR : ISA_STALL_LDS, &when, why);
        }
    }
    for (int j = 0; j < i->n_vr; j++)
        for (uint32_t r = i->vr[j].first; r < (uint32_t)i->vr[j].first + i->vr[j].n; r++)
            later(w->v_ready[r], ISA_STALL_RESULT, &when, why);
    for (int j = 0; j < i->n_sr; j++)
        for (uint32_t r = i->sr[j].first; r < (uint32_t)i->sr[j].first + i->sr[j].n && r < N_SREG; r++)
            later(w->s_ready[r], ISA_STALL_RESULT, &when, why);
    if (i->cls == C_VALU)
        later(s->pipe_free[w->simd], ISA_STALL_SLOT, &when, why);
    if (i->trans)
        later(s->trans_free[w->simd], ISA_STALL_SLOT, &when, why);
    return when;
}

static void set_ready(struct sim_wave *w, const struct ins *i, uint64_t when)
{
    for (int j = 0; j < i->n_vw; j++)
        for (uint32_t r = i->vw[j].first; r < (uint32_t)i->vw[j].first + i->vw[j].n; r++)
            w->v_ready[r] = when;
    for (int j = 0; j < i->n_sw; j++)
        for (uint32_t r = i->sw[j].first; r < (uint32_t)i->sw[j].first + i->sw[j].n && r < N_SREG; r++)
            w->s_ready[r] = when;
}

static void run_valu(struct sim *s, struct sim_wave *w, const struct ins *i)
{
    const struct isa_machine *m = s->m;
    const uint32_t clocks = i->wmma ? m->wmma_clocks : i->quarter ? m->quarter_clocks : 1;
    s->pipe_free[w->simd] = s->now + clocks;
    s->out->busy[i->wmma ? ISA_UNIT_WMMA : ISA_UNIT_VALU] += clocks;
    s->out->n_wmma += i->wmma;
    if (i->trans) {
        s->trans_free[w->simd] = s->now + m->trans_clocks;
        s->out->busy[ISA_UNIT_TRANS] += m->trans_clocks;
    }
    /* A sum of matrix products is ready for the next product when its own leaves the pipe. */
    set_ready(w, i, s->now + (i->wmma ? clocks : clocks - 1 + (i->trans ? m->trans_latency : m->valu_latency)));
}

static void arrive(struct sim *s, struct sim_wave *w)
{
    struct sim_block *b = w->block;
    struct sim_wave *first = &s->waves[(size_t)(b - s->blocks) * s->trace->n_waves];
    if (b->n_arrived == 0 || b->n_arrived + b->n_done < s->trace->n_waves)
        return;
    b->n_arrived = 0;
    for (uint32_t i = 0; i < s->trace->n_waves; i++) {
        if (!first[i].at_barrier)
            continue;
        first[i].at_barrier = false;
        first[i].next = s->now + s->m->barrier_latency;
        first[i].why = ISA_STALL_BARRIER;
    }
}

static void end_wave(struct sim *s, struct sim_wave *w, uint32_t n_blocks)
{
    struct sim_block *b = w->block;
    w->done = true;
    if (++b->n_done < s->trace->n_waves)
        arrive(s, w);
    else if (s->n_begun < n_blocks)
        begin_block(s, b);
    else
        s->n_live--;
}

static void issue(struct sim *s, struct sim_wave *w, uint32_t n_blocks)
{
    const struct trace_event *e = &w->trace->events[w->at++];
    const struct ins *i = e->ins;
    w->next = s->now + (e->jumps ? s->m->jump_latency : 1);
    w->why = ISA_STALL_JUMP;
    s->out->n_ins++;
    if (takes_slot(i)) {
        w->issued = s->now;
        s->out->busy[ISA_UNIT_ISSUE]++;
    }
    for (int c = 0; c < N_COUNTERS; c++)
        retire(&w->queue[c], s->now);
    if (i->cls == C_VALU) {
        run_valu(s, w, i);
    } else if (i->cls == C_SALU) {
        set_ready(w, i, s->now + s->m->salu_latency);
    } else if (i->cls == C_SMEM) {
        push(&w->queue[P_LGKM], s->now + s->m->smem_latency, true);
    } else if (i->cls == C_LDS) {
        access_lds(s, w, e);
    } else if (i->cls == C_VMEM) {
        access_memory(s, w, e);
    } else if (strcmp(i->name, "s_barrier") == 0) {
        w->at_barrier = true;
        w->block->n_arrived++;
        arrive(s, w);
    }
    if (w->at == w->trace->n)
        end_wave(s, w, n_blocks);
}

/* ---- time ---- */

struct turn { /* of a SIMD in a clock */
    bool pipe_idle;
    uint64_t soonest;
    enum isa_stall why; /* of the wave that goes on first */
};

/* Issues what the SIMD can at this clock. */
static bool run_simd(struct sim *s, uint32_t simd, uint32_t n_blocks, struct turn *turn)
{
    const uint32_t n = s->out->n_resident * s->trace->n_waves;
    struct sim_wave *best = NULL;
    bool is_busy = false;
    *turn = (struct turn){.soonest = NEVER, .why = ISA_STALL_EMPTY};
    for (uint32_t j = 0; j < n; j++) {
        struct sim_wave *w = &s->waves[j];
        enum isa_stall why;
        if (w->done || w->simd != simd)
            continue;
        const uint64_t when = when_ready(s, w, &why);
        if (when <= s->now && !takes_slot(w->trace->events[w->at].ins)) {
            issue(s, w, n_blocks);
            is_busy = true;
            if (w->next < turn->soonest)
                *turn = (struct turn){.soonest = w->next, .why = ISA_STALL_JUMP};
        } else if (when <= s->now) {
            best = !best || w->issued < best->issued ? w : best;
        } else if (when < turn->soonest || turn->why == ISA_STALL_EMPTY) {
            *turn = (struct turn){.soonest = when, .why = why};
        }
    }
    if (best) {
        const bool is_valu = best->trace->events[best->at].ins->cls == C_VALU;
        issue(s, best, n_blocks);
        if (!is_valu)
            turn->why = ISA_STALL_SLOT;
        turn->soonest = s->now + 1;
        is_busy = true;
    }
    turn->pipe_idle = s->pipe_free[simd] <= s->now;
    return is_busy;
}

/* One clock, or many in which nothing happens. False: nothing ever will. */
static bool run_clock(struct sim *s, uint32_t n_blocks)
{
    struct turn turns[N_SIMDS];
    uint64_t next = NEVER;
    bool is_busy = false;
    for (uint32_t i = 0; i < N_SIMDS; i++)
        is_busy |= run_simd(s, i, n_blocks, &turns[i]);
    for (uint32_t i = 0; i < N_SIMDS; i++)
        next = turns[i].soonest < next ? turns[i].soonest : next;
    if (is_busy)
        next = s->now + 1;
    if (next == NEVER)
        return s->n_live == 0;
    for (uint32_t i = 0; i < N_SIMDS; i++) {
        const uint64_t from = turns[i].pipe_idle ? s->now : s->pipe_free[i];
        if (from < next)
            s->out->idle[turns[i].why] += next - from;
    }
    s->now = next;
    return true;
}

int isa_cycles(const struct isa_machine *m, uint32_t n_resident, uint32_t n_rounds, struct isa_cycles *ret)
{
    const struct isa_trace *trace = isa_trace();
    if (!trace->kernel || trace->n_waves == 0)
        return -ENOENT;
    const uint32_t fits = isa_resident(m, trace->kernel, trace->n_waves);
    *ret = (struct isa_cycles){.n_resident = n_resident > 0 ? n_resident : fits};
    if (fits == 0)
        return -E2BIG;
    const uint32_t n_blocks = ret->n_resident * n_rounds;
    struct sim *s = isa_zeros(1, sizeof(*s));
    *s = (struct sim){.m = m, .trace = trace, .out = ret, .n_live = ret->n_resident};
    s->blocks = isa_zeros(ret->n_resident, sizeof(*s->blocks));
    s->waves = isa_zeros((size_t)ret->n_resident * trace->n_waves, sizeof(*s->waves));
    for (uint32_t i = 0; i < ret->n_resident; i++)
        begin_block(s, &s->blocks[i]);
    while (s->n_live > 0 && run_clock(s, n_blocks))
        ;
    int r = s->n_live > 0 ? -EDEADLK : 0;
    ret->clocks = s->now;
    ret->n_blocks = n_blocks;
    ret->busy[ISA_UNIT_FAR] /= m->far_bytes;
    free(s->blocks);
    free(s->waves);
    free(s);
    return r;
}

/* ---- what it says ---- */

double isa_busy(const struct isa_machine *m, const struct isa_cycles *c, enum isa_unit unit)
{
    const uint32_t n = unit == ISA_UNIT_FAR ? 1 : unit == ISA_UNIT_LDS || unit == ISA_UNIT_L0 ? m->n_cus : m->n_simds;
    return c->clocks > 0 ? (double)c->busy[unit] / (double)c->clocks / n : 0;
}

const char *isa_limit(const struct isa_machine *m, const struct isa_cycles *c)
{
    static const char *const units[] = {
#define X(id, name) [ISA_UNIT_##id] = name,
        ISA_UNIT_LIST(X)
#undef X
    };
    static const char *const stalls[] = {
#define X(id, name) [ISA_STALL_##id] = name,
        ISA_STALL_LIST(X)
#undef X
    };
    const double valu = isa_busy(m, c, ISA_UNIT_VALU), wmma = isa_busy(m, c, ISA_UNIT_WMMA);
    double most = valu + wmma; /* one pipe */
    uint32_t best = wmma >= valu ? ISA_UNIT_WMMA : ISA_UNIT_VALU;
    for (uint32_t u = 0; u < ISA_N_UNITS; u++)
        if (isa_busy(m, c, u) > most) {
            most = isa_busy(m, c, u);
            best = u;
        }
    if (most >= IS_BUSY)
        return units[best];
    best = 0;
    for (uint32_t i = 0; i < ISA_N_STALLS; i++)
        best = c->idle[i] > c->idle[best] ? i : best;
    return stalls[best];
}
