/* golden_mutants_run.c: runs a table of mutants. */
#include "golden_mutants.h"

#include <stdio.h>
#include <string.h>

bool halo_golden_each_op(struct halo_golden_host *host, enum halo_op_kind kind, bool (*change)(struct halo_op *op))
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == kind)
            changed = change(&host->ops[i]) || changed;
    return changed;
}

bool halo_golden_drop_ops(struct halo_golden_host *host,
                          bool (*drop)(const struct halo_golden_host *host, const struct halo_op *op))
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (!drop(host, &host->ops[i]))
            host->ops[n++] = host->ops[i];
    bool changed = n < host->plan.n_ops;
    host->plan.n_ops = n;
    return changed;
}

static bool is_qk_norm(const struct halo_golden_host *host, const struct halo_op *op)
{
    return op->kind == HALO_OP_QK_NORM;
}

bool halo_mutant_qk_norm_dropped(struct halo_golden_host *host)
{
    return halo_golden_drop_ops(host, is_qk_norm);
}

/* Runs the prompts; whether the gate judged as it must. */
static bool mutant_judged(const struct halo_golden_data *data, const struct halo_golden_mutant *mutant)
{
    const struct halo_golden_settings settings = {.kv = HALO_KV_F32, .mutate = mutant->mutate};
    const struct halo_golden_model *model = halo_golden_data_find(data, mutant->stem);
    unsigned prompts = mutant->prompts ? mutant->prompts : HALO_GOLDEN_SHORT;
    struct halo_golden_verdict verdict;
    struct halo_fault fault = {0};
    bool right;

    if (halo_golden_gate_run(&verdict, data, model, prompts, &settings, &fault) < 0) {
        fprintf(stderr, "%s, %s: %s: %s\n", mutant->stem, mutant->what, halo_fault_name(fault.code), fault.text);
        return false;
    }
    right = verdict.passed == (!mutant->mutate);
    printf("%-18s %-28s figure %9.2e bound %9.2e: %s%s\n", mutant->stem, mutant->what, verdict.figure, verdict.bound,
           verdict.passed ? "passed" : "refused", right ? "" : ", WRONG");
    halo_golden_gate_finish(&verdict);
    return right;
}

int halo_golden_mutants_run(int argc, char **argv, const struct halo_golden_mutant *mutants, size_t n)
{
    struct halo_golden_data data;
    bool in_tree = argc == 2 && strcmp(argv[1], "--in-tree") == 0;
    unsigned n_run = 0, n_wrong = 0;

    if (in_tree ? !halo_golden_data_in_tree(&data) : !halo_golden_data_full(&data))
        return in_tree ? 1 : 77;
    for (size_t i = 0; i < n; i++) {
        if (!halo_golden_data_find(&data, mutants[i].stem))
            continue;
        n_run++;
        n_wrong += !mutant_judged(&data, &mutants[i]);
    }
    printf("%u run, %u judged wrongly\n", n_run, n_wrong);
    return n_run == 0 || n_wrong > 0;
}
