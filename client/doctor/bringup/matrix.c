/* matrix.c: runs the cells, one after the other: two processes on the GPU would disturb each other. */
#include <errno.h>
#include <string.h>

#include "bringup_priv.h"

#define ENV_MAX 16

static const struct {
    const char *name, *set[2];
} variants[] = {
#define X(id, name, set1, set2) {name, {set1, set2}},
    HALO_BRINGUP_VARIANTS(X)
#undef X
};

static const struct {
    const char *name, *title;
} stages[] = {
#define X(id, name, title) {name, title},
    HALO_BRINGUP_STAGES(X)
#undef X
};

const char *halo_bringup_variant_name(unsigned variant)
{
    return variants[variant].name;
}
const char *halo_bringup_stage_name(unsigned stage)
{
    return stages[stage].name;
}
const char *halo_bringup_stage_title(unsigned stage)
{
    return stages[stage].title;
}

const char *halo_bringup_outcome_name(enum halo_bringup_outcome outcome)
{
    switch (outcome) {
    case HALO_BRINGUP_OK: return "OK";
    case HALO_BRINGUP_HANG: return "HANG";
    case HALO_BRINGUP_ERROR: return "ERROR";
    case HALO_BRINGUP_WRONG: return "WRONG";
    case HALO_BRINGUP_CRASH: return "CRASH";
    case HALO_BRINGUP_STUCK: return "STUCK";
    case HALO_BRINGUP_SKIP: return "-";
    }
    return "?";
}

const char *halo_bringup_variant_text(unsigned variant, char *text, size_t n_bytes)
{
    const char *first = variants[variant].set[0], *second = variants[variant].set[1];
    snprintf(text, n_bytes, "%s%s%s", first ? first : "-", second ? " " : "", second ? second : "");
    return text;
}

/* What the owner's shell has set is out of the way in every row, so that rows differ in what they name alone. */
static void fill_environment(unsigned variant, unsigned stage, const char *env[ENV_MAX])
{
    static const char *const unset[] = {
        "HSA_ENABLE_INTERRUPT", "HSA_ENABLE_SDMA",    "HSA_OVERRIDE_GFX_VERSION", "HIP_LAUNCH_BLOCKING", "HSA_XNACK",
        "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY", "GPU_PINNED_MIN_XFER_SIZE"};
    /* Stages before the graphs do without them: recording them is what the graph stage looks at. */
    const char *graphs = stage == HALO_BRINGUP_STAGE_GRAPH || stage == HALO_BRINGUP_STAGE_DECODE ? "HALO_HIP_GRAPHS"
                                                                                                 : "HALO_HIP_GRAPHS=0";
    size_t n = 0;
    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        env[n++] = unset[i];
    env[n++] = graphs;
    env[n++] = "HALO_HIP_DEADLINE_MS=3600000"; /* the cell's own is the one that counts */
    for (int i = 0; i < 2 && variants[variant].set[i]; i++)
        env[n++] = variants[variant].set[i];
    env[n] = NULL;
}

/* What a runtime says may be any bytes. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void judge(struct halo_bringup_cell *cell, const struct halo_child_outcome *outcome,
                  const struct halo_bringup_word *word)
{
    char how[320];
    cell->took_ms = outcome->took_ms;
    if (outcome->end == HALO_CHILD_STUCK || outcome->n_result != sizeof(*word)) {
        cell->outcome = outcome->end == HALO_CHILD_STUCK      ? HALO_BRINGUP_STUCK
                        : outcome->end == HALO_CHILD_DEADLINE ? HALO_BRINGUP_HANG
                                                              : HALO_BRINGUP_CRASH;
        snprintf(cell->says, sizeof(cell->says), "%s", halo_child_describe(outcome, how, sizeof(how)));
        make_printable(cell->says);
        return;
    }
    cell->outcome = word->outcome;
    snprintf(cell->says, sizeof(cell->says), "%.*s", (int)sizeof(word->says) - 1, word->says);
    make_printable(cell->says);
}

static int run_cell(const struct halo_bringup_options *options, struct halo_bringup_matrix *matrix, unsigned variant,
                    unsigned stage)
{
    char stage_word[24], decode_word[16], bringup[] = "bringup", stage_flag[] = "--stage",
                                          decode_flag[] = "--decode-ms", lib_flag[] = "--hip-lib", program[512],
                                          lib[512];
    struct halo_bringup_word word = {.outcome = HALO_BRINGUP_SKIP};
    struct halo_child_outcome outcome;
    const char *env[ENV_MAX];
    snprintf(program, sizeof(program), "%s", options->program);
    snprintf(stage_word, sizeof(stage_word), "%s", stages[stage].name);
    snprintf(decode_word, sizeof(decode_word), "%u", options->decode_ms);
    snprintf(lib, sizeof(lib), "%s", options->hip_lib ? options->hip_lib : "");
    char *const argv[] = {
        program, bringup, stage_flag, stage_word, decode_flag, decode_word, options->hip_lib ? lib_flag : NULL,
        lib,     NULL};
    fill_environment(variant, stage, env);
    const struct halo_child_options child = {
        .deadline_ms = options->stage_ms, .result = &word, .room = sizeof(word), .env = env, .speaks = true};
    int r = halo_child_run(&child, argv, &outcome);
    if (r)
        return r;
    judge(&matrix->cell[variant][stage], &outcome, &word);
    if (stage == HALO_BRINGUP_STAGE_OPEN && !matrix->runtime[0])
        snprintf(matrix->runtime, sizeof(matrix->runtime), "%.*s", (int)sizeof(word.runtime) - 1, word.runtime);
    make_printable(matrix->runtime);
    return 0;
}

/* Which stage of the same row must be OK before this one is tried; itself: none. */
static unsigned needs(unsigned stage)
{
    switch (stage) {
    case HALO_BRINGUP_STAGE_OPEN: return stage;
    case HALO_BRINGUP_STAGE_PLAIN:
    case HALO_BRINGUP_STAGE_GRAPH: return HALO_BRINGUP_STAGE_LAUNCH;
    case HALO_BRINGUP_STAGE_DECODE: return HALO_BRINGUP_STAGE_GRAPH;
    default: return HALO_BRINGUP_STAGE_OPEN;
    }
}

int halo_bringup_matrix_run(const struct halo_bringup_options *options, struct halo_bringup_matrix *ret, FILE *progress)
{
    bool stuck = false;
    *ret = (struct halo_bringup_matrix){0};
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
            struct halo_bringup_cell *cell = &ret->cell[v][s];
            cell->outcome = HALO_BRINGUP_SKIP;
            bool asked = options->variants & 1u << v;
            bool ready = needs(s) == s || ret->cell[v][needs(s)].outcome == HALO_BRINGUP_OK;
            if (!asked || stuck || !ready) {
                snprintf(cell->says, sizeof(cell->says), "%s%s", !asked ? "not asked for" : "it needs ",
                         !asked  ? ""
                         : stuck ? "a GPU that answers"
                                 : stages[needs(s)].title);
                continue;
            }
            int r = run_cell(options, ret, v, s);
            if (r)
                return r;
            stuck = cell->outcome == HALO_BRINGUP_STUCK;
            if (progress)
                fprintf(progress, "%s, %s: %s%s%s\n", variants[v].name, stages[s].title,
                        halo_bringup_outcome_name(cell->outcome), cell->says[0] ? ": " : "", cell->says);
        }
    return 0;
}
