/* findings.c: what launches found and counted, and how much of the code ran. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "isa_priv.h"

#define TEXT_BYTES 160

struct isa_stats isa_totals;

static struct isa_finding *findings;
static size_t n_findings, cap_findings;

void *isa_grow(void *items, size_t n, size_t *cap, size_t item_bytes)
{
    if (n < *cap)
        return items;
    *cap = n > 0 ? 2 * n : 64;
    void *grown = realloc(items, *cap * item_bytes);
    if (!grown)
        abort();
    return grown;
}

void *isa_zeros(size_t n, size_t item_bytes)
{
    void *p = calloc(n > 0 ? n : 1, item_bytes);
    if (!p)
        abort();
    return p;
}

const char *isa_kind_name(enum isa_kind kind)
{
    static const char *const names[ISA_N_KINDS] = {
#define X(id, name) [ISA_##id] = name,
        ISA_DEFECT_LIST(X) ISA_FACT_LIST(X)
#undef X
    };
    return names[kind];
}

void isa_report(const struct wave *w, const struct ins *i, enum isa_kind kind, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    for (size_t j = 0; j < n_findings; j++)
        if (findings[j].kind == kind && findings[j].kernel == w->k && findings[j].pc == i->pc) {
            findings[j].count++;
            return;
        }
    findings = isa_grow(findings, n_findings, &cap_findings, sizeof(*findings));
    struct isa_finding *finding = &findings[n_findings++];
    *finding = (struct isa_finding){.kind = kind, .kernel = w->k, .pc = i->pc, .count = 1};
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(finding->text, sizeof(finding->text), "%s: %s; block %u,%u,%u wave %u", i->text, text, w->b->id[0],
             w->b->id[1], w->b->id[2], w->index);
}

void isa_reset(void)
{
    n_findings = 0;
    isa_totals = (struct isa_stats){0};
}

size_t isa_n_findings(void)
{
    return n_findings;
}

const struct isa_finding *isa_finding_at(size_t i)
{
    return &findings[i];
}

size_t isa_n_defects(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_findings; i++)
        n += findings[i].kind < ISA_N_DEFECTS;
    return n;
}

struct isa_stats isa_stats(void)
{
    return isa_totals;
}

/* Marks what can be reached: behind the end of a kernel there is padding. */
static void reach(const struct isa_kernel *k, bool *seen)
{
    int32_t *stack = isa_zeros(k->n_ins + 2, sizeof(*stack)), n = 1;
    while (n > 0) {
        int32_t at = stack[--n];
        while (at < (int32_t)k->n_ins && !seen[at]) {
            const struct ins *i = &k->ins[at++];
            seen[at - 1] = true;
            if (i->cls != C_BRANCH)
                continue;
            if (strcmp(i->name, "s_endpgm") == 0)
                break;
            if (strcmp(i->name, "s_branch") == 0)
                at = i->target;
            else if (!seen[i->target])
                stack[n++] = i->target;
        }
    }
    free(stack);
}

void isa_coverage(const struct isa_kernel *k, uint32_t *ret_run, uint32_t *ret_all)
{
    bool *seen = isa_zeros(k->n_ins, sizeof(*seen));
    *ret_run = *ret_all = 0;
    if (k->n_ins > 0)
        reach(k, seen);
    for (uint32_t i = 0; i < k->n_ins; i++) {
        *ret_all += seen[i];
        *ret_run += seen[i] && k->ran[i] > 0;
    }
    free(seen);
}
