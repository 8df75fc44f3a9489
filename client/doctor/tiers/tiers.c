/* tiers.c: what is tried rather than read (contract in tiers.h).
 *
 * Every tier runs in a child of its own: a wedged GPU takes that child with it, not the report. The first tier that
 * fails ends the climb, because those above need what it could not do.
 */
#include "tiers.h"

#include <stdio.h>
#include <string.h>

#include <hip/hip.h>

#include "tier_priv.h"

static const struct tier_row {
    const char *title;
    enum halo_doctor_failure (*run)(struct halo_doctor_tier *tier);
    unsigned stages;
    uint32_t deadline_ms;
} rows[] = {
    {"the kernel's driver and its devices", halo_doctor_tier_driver, HALO_DOCTOR_STAGE_OPEN, 2000},
    {"the runtime sees the GPU", halo_doctor_tier_sees, HALO_DOCTOR_STAGE_OPEN, 20000},
    {"the runtime initializes", halo_doctor_tier_initialises, HALO_DOCTOR_STAGE_OPEN, 30000},
    {"memory round trips", halo_doctor_tier_memory, HALO_DOCTOR_STAGE_LOAD, 30000},
    {"a kernel runs and gives the right results", halo_doctor_tier_kernel, HALO_DOCTOR_STAGE_LAUNCH, 30000},
    {"matrix products match the host's", halo_doctor_tier_matmul, HALO_DOCTOR_STAGE_LAUNCH | HALO_DOCTOR_STAGE_STEP,
     30000},
    {"bandwidth and arithmetic", halo_doctor_tier_speed, HALO_DOCTOR_STAGE_STEP, 60000},
    {"a model answers with the golden logits", halo_doctor_tier_engine, HALO_DOCTOR_STAGE_STEP, 120000},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == HALO_DOCTOR_LAST_TIER + 1, "a row for each tier");

/* What a child sends back. */
struct verdict {
    enum halo_doctor_failure failure;
    struct halo_doctor_finding finding;
    char what[HALO_DOCTOR_WHAT_BYTES];
};

struct call {
    const struct halo_doctor_options *options;
    const struct tier_row *row;
    struct verdict verdict; /* its finding: as begun */
};

static int run_in_child(struct halo_child_port *port, void *ud)
{
    struct call *call = ud;
    struct halo_doctor_tier tier = {.options = call->options, .port = port, .finding = &call->verdict.finding};
    call->verdict.failure = call->row->run(&tier);
    memcpy(call->verdict.what, tier.what, sizeof(tier.what));
    halo_child_result(port, &call->verdict, sizeof(call->verdict));
    return 0;
}

/* The last line of what the child printed, which is where a runtime that aborts says why. */
static void note_errors(struct halo_doctor_finding *finding, const struct halo_child_outcome *outcome)
{
    size_t n = strlen(outcome->errors);
    while (n > 0 && (outcome->errors[n - 1] == '\n' || outcome->errors[n - 1] == ' '))
        n--;
    size_t begin = n;
    while (begin > 0 && outcome->errors[begin - 1] != '\n')
        begin--;
    if (n > begin)
        halo_doctor_finding_read(finding, "it printed: %.*s", (int)(n - begin), outcome->errors + begin);
}

static void say_failure(struct halo_doctor_finding *finding, unsigned tier, enum halo_doctor_failure failure,
                        const char *phase, const char *what)
{
    const struct halo_doctor_cause *cause = halo_doctor_cause_find(tier, failure, phase, what);
    halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL, "%s. %s", what, cause->says);
    snprintf(finding->source, sizeof(finding->source), "%s", cause->source);
}

/* Sorts out how the child ended. Whether the tiers above may be tried. */
static bool judge(struct halo_doctor_finding *finding, unsigned tier, const struct verdict *verdict,
                  const struct halo_child_outcome *outcome)
{
    char what[HALO_DOCTOR_WHAT_BYTES + HALO_CHILD_PHASE_BYTES];
    bool told = outcome->n_result == sizeof(*verdict);
    if (told) { /* whatever became of the child after it had said all it had to say, but for one that stays */
        snprintf(finding->read, sizeof(finding->read), "%s", verdict->finding.read);
        snprintf(finding->source, sizeof(finding->source), "%s", verdict->finding.source);
    }
    if (told && outcome->end == HALO_CHILD_STUCK)
        halo_doctor_finding_read(finding, "process %d cannot be killed afterwards (%s)", (int)outcome->pid,
                                 outcome->stuck_in);
    if (told && verdict->failure == HALO_DOCTOR_UNFIT) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "%s", verdict->what);
        return true;
    }
    if (told && verdict->failure == HALO_DOCTOR_FINE && outcome->end != HALO_CHILD_STUCK) {
        halo_doctor_finding_say(finding, verdict->finding.verdict, "%s", verdict->finding.advice);
        return finding->verdict != HALO_DOCTOR_FAIL;
    }
    if (told && verdict->failure != HALO_DOCTOR_FINE) {
        say_failure(finding, tier, verdict->failure, outcome->phase, verdict->what);
        return false;
    }
    enum halo_doctor_failure failure =
        outcome->end == HALO_CHILD_DEADLINE || outcome->end == HALO_CHILD_STUCK ? HALO_DOCTOR_HANG : HALO_DOCTOR_CRASH;
    note_errors(finding, outcome);
    char how[HALO_DOCTOR_WHAT_BYTES + HALO_CHILD_PHASE_BYTES];
    snprintf(what, sizeof(what), "The tier's process %s", halo_child_describe(outcome, how, sizeof(how) - 32));
    say_failure(finding, tier, failure, outcome->phase, what);
    return false;
}

static bool run_tier(const struct halo_doctor_options *options, struct halo_doctor_finding *finding, unsigned tier)
{
    /* The device's own deadline is out of the way: the tier's is the one that counts, and knows the phase. */
    static const char *const env[] = {"HALO_HIP_DEADLINE_MS=3600000", NULL};
    struct call call = {.options = options, .row = &rows[tier], .verdict.finding = *finding};
    struct verdict verdict;
    struct halo_child_outcome outcome;
    const struct halo_child_options child = {.deadline_ms = options->tier_ms > 0 ? (uint32_t)options->tier_ms
                                                                                 : rows[tier].deadline_ms,
                                             .result = &verdict,
                                             .room = sizeof(verdict),
                                             .env = env};
    int r = halo_child_call(&child, run_in_child, &call, &outcome);
    if (r) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL, "Could not start a process for it: %s.", strerror(-r));
        return false;
    }
    return judge(finding, tier, &verdict, &outcome);
}

void halo_doctor_tiers_run(const struct halo_doctor_options *options, struct halo_doctor_report *report)
{
    int stopped_at = -1;
    halo_hip_limit_queues(); /* as halod-engine does */
    for (int tier = options->first_tier; tier <= options->last_tier; tier++) {
        char id[16];
        snprintf(id, sizeof(id), "tier%d", tier);
        struct halo_doctor_finding *finding = halo_doctor_report_begin(report, id, rows[tier].title);
        finding->stages = rows[tier].stages;
        if (stopped_at >= 0)
            halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "Not tried: it needs tier %d, which failed.",
                                    stopped_at);
        else if (!run_tier(options, finding, (unsigned)tier))
            stopped_at = tier;
        halo_doctor_report_end(report, finding);
    }
}
