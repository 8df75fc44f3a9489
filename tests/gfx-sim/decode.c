/* decode.c: a kernel's instructions from llvm-objdump's text. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "isa_priv.h"

#define NAME_BYTES 40

static const struct op_entry *find_op(const char *name)
{
    static const struct op_entry *const tables[] = {isa_ops_valu,    isa_ops_bits,  isa_ops_wide,   isa_ops_half,
                                                    isa_ops_compare, isa_ops_lanes, isa_ops_scalar, isa_ops_flow,
                                                    isa_ops_vector,  isa_ops_lds};
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const struct op_entry *op = tables[t]; op->name; op++)
            if (strcmp(op->name, name) == 0)
                return op;
    return NULL;
}

static void strip_encoding(const char *name, char to[NAME_BYTES])
{
    static const char *const ends[] = {"_e32", "_e64", "_dpp"};
    int n = snprintf(to, NAME_BYTES, "%s", name);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (n > 4 && n < NAME_BYTES && strcmp(to + n - 4, ends[i]) == 0)
            to[n - 4] = '\0';
}

/* ---- which registers it uses ---- */

static void add(struct registers *list, uint8_t *n, uint8_t most, uint16_t first, uint8_t n_registers)
{
    if (*n < most)
        list[(*n)++] = (struct registers){first, n_registers};
}

/* written, rmw: bits by operand. */
static void note_registers(struct ins *i, unsigned written, unsigned rmw, bool reads_vcc)
{
    for (unsigned k = 0; k < i->n; k++) {
        const struct operand *o = &i->o[k];
        bool is_written = written >> k & 1, is_read = !is_written || (rmw >> k & 1);
        if (o->kind == O_V) {
            if (is_written)
                add(i->vw, &i->n_vw, 4, o->reg, o->n);
            if (is_read)
                add(i->vr, &i->n_vr, MOST_OPERANDS, o->reg, o->n);
        } else if (o->kind == O_S && o->reg != NUL) {
            if (is_written)
                add(i->sw, &i->n_sw, 4, o->reg, o->n);
            if (is_read)
                add(i->sr, &i->n_sr, 8, o->reg, o->n);
        }
    }
    if (reads_vcc)
        add(i->sr, &i->n_sr, 8, VCC, 1);
}

/* ---- one instruction ---- */

static void decode_wait(struct ins *i, const char *args)
{
    const char *vm = strstr(args, "vmcnt("), *lgkm = strstr(args, "lgkmcnt(");
    if (vm)
        i->vm = (uint16_t)strtol(vm + strlen("vmcnt("), NULL, 10);
    if (lgkm)
        i->lgkm = (uint16_t)strtol(lgkm + strlen("lgkmcnt("), NULL, 10);
    if (strncmp(args, "null, ", 6) == 0) /* s_waitcnt_vscnt */
        i->vs = (uint16_t)strtol(args + 6, NULL, 0);
}

/* v_dual_a d, s, s :: v_dual_b d, s, s. Both read before either writes. */
static void decode_dual(struct ins *i, const struct op_entry *x, char *args, char *second)
{
    char *y_args = strchr(second, ' ');
    if (!y_args)
        return;
    *y_args++ = '\0';
    const struct op_entry *y = find_op(second);
    if (!y || !isa_read_operands(i, args))
        return;
    i->x_n = i->n;
    if (!isa_read_operands(i, y_args))
        return;
    bool reads_vcc = strstr(x->name, "cndmask") || strstr(second, "cndmask");
    note_registers(i, 1u | 1u << i->x_n, (x->flags & F_RMW) | (unsigned)(y->flags & F_RMW) << i->x_n, reads_vcc);
    for (int h = 0; h < 2; h++) {
        struct ins *half = i->half[h] = isa_zeros(1, sizeof(*half));
        *half = *i;
        half->fn = h ? y->fn : x->fn;
        half->n_dst = 1;
        if (h)
            memmove(half->o, i->o + i->x_n, (MOST_OPERANDS - i->x_n) * sizeof(half->o[0]));
        else
            half->o[0].reg = X_TMP;
    }
    i->fn2 = y->fn;
    i->fn = x->fn;
}

static void decode_plain(struct ins *i, const struct op_entry *op, char *args)
{
    if (!isa_read_operands(i, args))
        return;
    i->x_n = i->n;
    i->trans = op->flags & F_TRANS;
    i->dot = op->flags & F_DOT;
    i->quarter = op->flags & F_QUARTER;
    i->wmma = op->flags & F_WMMA;
    i->flat = strncmp(op->name, "flat_", 5) == 0;
    i->n_dst = op->flags & F_CMPX ? 0 : op->n_dst;
    if (strstr(op->name, "atomic"))
        i->n_dst = i->glc;
    note_registers(i, (1u << i->n_dst) - 1, op->flags & F_RMW, strncmp(op->name, "v_div_fmas", 10) == 0);
    i->fn = op->fn;
}

/* `text` is cut into pieces. An instruction that is not known has no fn. */
static void decode_text(struct ins *i, char *text)
{
    char empty[1] = "", base[NAME_BYTES];
    snprintf(i->text, sizeof(i->text), "%s", text);
    i->vm = i->lgkm = i->vs = NO_COUNT;
    memset(i->op_sel_hi, 1, sizeof(i->op_sel_hi));
    char *args = strchr(text, ' ');
    if (args)
        *args++ = '\0';
    else
        args = empty;
    snprintf(i->name, sizeof(i->name), "%s", text);
    strip_encoding(text, base);
    const struct op_entry *op = find_op(base);
    if (!op)
        return;
    if (strncmp(base, "v_fma_mix", 9) == 0)
        memset(i->op_sel_hi, 0, sizeof(i->op_sel_hi));
    i->cls = op->cls;
    char *second = strstr(args, " :: ");
    if (second) {
        *second = '\0';
        decode_dual(i, op, args, second + 4);
        return;
    }
    if (op->cls != C_WAIT && op->cls != C_MISC && op->cls != C_BRANCH) {
        decode_plain(i, op, args);
        return;
    }
    if (op->cls == C_WAIT)
        decode_wait(i, args);
    else if (op->cls == C_BRANCH && *args != '\0')
        i->target = (int16_t)strtol(args, NULL, 0);
    i->fn = op->fn;
}

/* ---- a kernel ---- */

struct listing {
    struct isa_kernel *k;
    size_t cap;
};

/* "\tv_mov_b32_e32 v0, 0    // 000000001234: 7E000280" */
static void read_line(char *line, void *ud)
{
    struct listing *listing = ud;
    struct isa_kernel *k = listing->k;
    char *comment = strstr(line, "// ");
    uint64_t at;
    if (line[0] != '\t' || !comment || sscanf(comment, "// %" SCNx64 ":", &at) != 1)
        return;
    while (comment > line && (comment[-1] == ' ' || comment[-1] == '\t'))
        comment--;
    *comment = '\0';
    k->ins = isa_grow(k->ins, k->n_ins, &listing->cap, sizeof(*k->ins));
    struct ins *i = &k->ins[k->n_ins++];
    *i = (struct ins){.pc = (uint32_t)(at - k->at)};
    decode_text(i, line + 1);
}

/* The first instruction at `pc` or behind it. */
static uint32_t find_pc(const struct isa_kernel *k, uint32_t pc)
{
    uint32_t low = 0, high = k->n_ins;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (k->ins[middle].pc < pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void resolve_target(struct isa_kernel *k, struct ins *i)
{
    uint32_t pc = i->pc + 4 + 4 * (uint32_t)i->target, at = find_pc(k, pc);
    if (i->cls != C_BRANCH || strcmp(i->name, "s_endpgm") == 0)
        return;
    if (at == k->n_ins || k->ins[at].pc != pc)
        i->fn = NULL;
    i->target = (int32_t)at;
}

/* Nothing but waits and hints lie between it and a barrier. */
static bool is_at_barrier(const struct isa_kernel *k, uint32_t at)
{
    for (uint32_t i = at + 1; i < k->n_ins && i < at + 4; i++) {
        if (strcmp(k->ins[i].name, "s_barrier") == 0)
            return true;
        if (k->ins[i].cls != C_WAIT && k->ins[i].cls != C_MISC)
            return false;
    }
    return false;
}

int isa_decode(struct isa_kernel *k, struct halo_fault *fault)
{
    char args[128];
    struct listing listing = {.k = k};
    if (k->n_ins > 0)
        return 0;
    snprintf(args, sizeof(args), "-d --start-address=%#" PRIx64 " --stop-address=%#" PRIx64, k->at, k->at + k->bytes);
    int r = isa_read_tool(k->module, ISA_OBJDUMP, args, read_line, &listing, fault);
    if (r < 0)
        return r;
    if (k->n_ins == 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "llvm-objdump shows no instruction of %s", k->name);
    for (uint32_t i = 0; i < k->n_ins; i++) {
        resolve_target(k, &k->ins[i]);
        k->ins[i].at_barrier = k->ins[i].cls == C_WAIT && is_at_barrier(k, i);
    }
    k->ran = isa_zeros(k->n_ins, sizeof(*k->ran));
    return 0;
}
