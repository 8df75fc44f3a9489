/* test_doctor_bringup.c: the decision table of `halo-doctor bringup`, each conclusion from a matrix of outcomes; its
 * two forms; and the program over the emulated GPU. Argument: the program.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "bringup/bringup_priv.h"

#define AMPLE_MS 600000
#define HANG_MS "8000"
#define SLOW_MS "60000" /* of a stage that does not come to its place within HANG_MS */

static const char *program;

/* ---- the table ---- */

/* Rows as in HALO_BRINGUP_VARIANTS, a letter for each of HALO_BRINGUP_STAGES: open, pageable, pinned, zero-copy,
 * launch, decode, graph, graph-decode. o OK, h hang, e error, w wrong, c crash, s stuck, - not tried. Missing rows: not
 * tried. */
struct matrix_case {
    const char *id, *rows[HALO_BRINGUP_N_VARIANTS];
};

#define GOOD "oooooooo"
static const struct matrix_case cases[] = {
    {"all_good", {GOOD, GOOD, GOOD, GOOD, GOOD}},
    {"all_good", {GOOD}},
    {"all_good", {GOOD, "ooohoooo", "oeeeoooo", "e-------", "e-------"}},
    {"stuck", {"ooosoooo"}},
    {"stuck", {"oooohhss", GOOD}},
    {"stuck", {GOOD, "ooos----"}},
    {"pageable", {"ohoooooo", "ohoooooo", "ohoooooo"}},
    {"pageable", {"ohoooooo", GOOD, "ohoooooo"}},
    {"pageable", {"owoooooo"}},
    {"override", {"e-------", "e-------", "e-------", "e-------", GOOD}},
    {"override", {"ooooe---", "ooooe---", "ooooe---", "ooooe---", GOOD}},
    {"no_runtime", {"e-------", "e-------", "h-------", "c-------", "e-------"}},
    {"no_runtime", {"h-------"}},
    {"copy_engine_wrong", {"owwooooo", "owwooooo", GOOD, GOOD}},
    {"wrong", {"owwooooo", "owwooooo", "owwooooo", "owwooooo"}},
    {"wrong", {"oooow---", GOOD, GOOD, GOOD}},
    {"wrong", {"ooooowoo"}},
    {"graphs", {"ooooooe-", "ooooooe-", "ooooooe-", "ooooooe-"}},
    {"graphs", {"oooooooh", GOOD}},
    {"graphs", {"ooooooow"}},
    {"graphs", {"ohoooohh"}},
    {"lost_completion", {"ohhh----", GOOD, "ohhh----", GOOD}},
    {"lost_completion", {"ooooohoo", "oooooooo", "ooooohoo"}},
    {"lost_completion", {"oohooooo", "ohoooooo"}},
    {"copy_engine", {"ohhooooo", "ohhooooo", GOOD, GOOD}},
    {"copy_engine", {"oeeeoooo", "oeeeoooo", "oeoooooo"}},
    {"both", {"ohhh----", "ohhh----", "oooohhhh", GOOD}},
    {"pinned", {"ooeeoooo", "ooeeoooo", "ooeeoooo", "ooeeoooo"}},
    {"pinned", {"oooeoooo", "oooeoooo"}},
    {"zero_copy", {"oeoeoooo", "oeoeoooo", "oeoeoooo", "oeoeoooo"}},
    {"uploads", {"ohhhoooo", "ohhhoooo", "ohhhoooo", "ohhhoooo", "ohhhoooo"}},
    {"uploads", {"occc----"}},
    {"first_launch", {"oooohh--", "oooohhhh", "oooohhhh", "oooohhhh"}},
    {"first_launch", {"ooooc---"}},
    {"decode", {"ooooohhh", "ooooohhh", "ooooohhh", "ooooohhh"}},
    {"decode", {"ooooocoo"}},
    {"unclear", {"--------", GOOD}},
    {"unclear", {NULL}},
};

static enum halo_bringup_outcome outcome_of(char letter)
{
    switch (letter) {
    case 'o': return HALO_BRINGUP_OK;
    case 'h': return HALO_BRINGUP_HANG;
    case 'e': return HALO_BRINGUP_ERROR;
    case 'w': return HALO_BRINGUP_WRONG;
    case 'c': return HALO_BRINGUP_CRASH;
    case 's': return HALO_BRINGUP_STUCK;
    default: return HALO_BRINGUP_SKIP;
    }
}

static void fill(struct halo_bringup_matrix *matrix, const char *const rows[HALO_BRINGUP_N_VARIANTS])
{
    memset(matrix, 0, sizeof(*matrix));
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++)
            matrix->cell[v][s].outcome = outcome_of(rows[v] ? rows[v][s] : '-');
}

static void every_conclusion_is_reached(void **state)
{
    static struct halo_bringup_matrix matrix;
    bool reached[64] = {false};
    size_t n = halo_bringup_rule_count();
    assert_in_range(n, 10, 64);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fill(&matrix, cases[i].rows);
        const struct halo_bringup_rule *rule = halo_bringup_decide(&matrix);
        if (strcmp(rule->id, cases[i].id) != 0)
            fail_msg("case %zu, %s: the conclusion is %s, wanted %s", i,
                     cases[i].rows[0] ? cases[i].rows[0] : "nothing", rule->id, cases[i].id);
        for (size_t k = 0; k < n; k++)
            reached[k] |= rule == halo_bringup_rule_at(k);
    }
    for (size_t k = 0; k < n; k++)
        if (!reached[k])
            fail_msg("no case reaches the conclusion %s", halo_bringup_rule_at(k)->id);
}

/* What is proposed exists: a key of halod.conf, a variable that is documented or tried; and it fits the verdict. */
static void proposals_exist(void **state)
{
    char path[512], *text;
    snprintf(path, sizeof(path), "%s/docs/CONFIG.md", getenv("HALO_SOURCE_ROOT"));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 1000);
    fclose(file);
    for (size_t i = 0; i < halo_bringup_rule_count(); i++) {
        const struct halo_bringup_rule *rule = halo_bringup_rule_at(i);
        assert_string_equal(rule->conf, rule->works ? "[engine]\ndevice = hip" : "[engine]\ndevice = cpu");
        assert_true(rule->works || !rule->environment[0]);
        assert_null(strstr(rule->environment, "OVERRIDE")); /* a diagnosis only */
        if (strstr(rule->environment, "HALO_"))
            assert_non_null(strstr(text, "`HALO_HIP_GRAPHS`"));
        assert_true(strlen(rule->says) > 60 && strlen(rule->source) > 5);
    }
    assert_non_null(strstr(text, "| `[engine]` | `device` | auto, cpu, hip |"));
    free(text);
}

/* ---- the forms ---- */

static char *written(int (*write)(FILE *, const struct halo_bringup_matrix *, const struct halo_bringup_rule *),
                     const struct halo_bringup_matrix *matrix)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(write(out, matrix, halo_bringup_decide(matrix)), 0);
    fclose(out);
    return text;
}

static void forms_say_the_same(void **state)
{
    static struct halo_bringup_matrix matrix;
    const char *const rows[HALO_BRINGUP_N_VARIANTS] = {"ohhh----", GOOD, "ohhh----"};
    fill(&matrix, rows);
    snprintf(matrix.cell[0][2].says, sizeof(matrix.cell[0][2].says), "did not end | \"so\"");
    char *page = written(halo_bringup_write_markdown, &matrix), *json = written(halo_bringup_write_json, &matrix);
    assert_non_null(
        strstr(page, "| nothing set | OK, 0.0 s | HANG, 0.0 s | HANG, 0.0 s | HANG, 0.0 s | - | - | - | - |"));
    assert_non_null(strstr(page, "- default, upload, pinned: HANG: did not end / \"so\""));
    assert_non_null(strstr(page, "## lost_completion"));
    assert_non_null(strstr(page, "Environment=HSA_ENABLE_INTERRUPT=0"));
    assert_non_null(strstr(page, "device = hip"));
    json_t *root = json_loads(json, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "conclusion")), "lost_completion");
    assert_string_equal(json_string_value(json_object_get(root, "environment")), "HSA_ENABLE_INTERRUPT=0");
    assert_true(json_is_true(json_object_get(root, "works")));
    json_t *cells = json_object_get(root, "cells");
    assert_int_equal(json_array_size(cells), HALO_BRINGUP_N_VARIANTS * HALO_BRINGUP_N_STAGES);
    json_t *cell = json_array_get(cells, 2);
    assert_string_equal(json_string_value(json_object_get(cell, "stage")), "pinned");
    assert_string_equal(json_string_value(json_object_get(cell, "outcome")), "HANG");
    assert_string_equal(json_string_value(json_object_get(cell, "says")), "did not end | \"so\"");
    json_decref(root);
    free(page);
    free(json);
}

/* ---- the program ---- */

/* Its JSON; `ret_status` its exit status. The caller gives it back. */
static json_t *run_program(const char *script, char *const *more, int *ret_status)
{
    static char output[1 << 17];
    char path[512], word[] = "bringup", json[] = "--json", lib_flag[] = "--hip-lib", lib[512], *argv[20];
    char script_text[256], decode[] = "--decode-ms", decode_ms[] = "100", quiet[] = "--quiet";
    struct halo_child_outcome outcome;
    int n = 0;
    snprintf(path, sizeof(path), "%s", program);
    snprintf(lib, sizeof(lib), "%s", getenv("HALO_HIP_LIB"));
    snprintf(script_text, sizeof(script_text), "HALO_HIP_EMU_SCRIPT=%s", script);
    char *const first[] = {path, word, json, quiet, lib_flag, lib, decode, decode_ms};
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        argv[n++] = first[i];
    for (; more && *more && n < 19; more++)
        argv[n++] = *more;
    argv[n] = NULL;
    const char *const env[] = {script_text, "HALO_HIP_EMU_MEMORY_MIB=64", "HSA_ENABLE_SDMA=0", NULL};
    memset(output, 0, sizeof(output));
    const struct halo_child_options options = {
        .deadline_ms = AMPLE_MS, .result = output, .room = sizeof(output) - 1, .env = env};
    assert_int_equal(halo_child_run(&options, argv, &outcome), 0);
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    *ret_status = outcome.status;
    json_t *root = json_loads(output, 0, NULL);
    if (!root)
        fail_msg("no JSON: %s %s", output, outcome.errors);
    return root;
}

static const char *outcome_in(json_t *root, size_t variant, size_t stage, const char *key)
{
    json_t *cell = json_array_get(json_object_get(root, "cells"), variant * HALO_BRINGUP_N_STAGES + stage);
    return json_string_value(json_object_get(cell, key));
}

static void a_healthy_gpu_needs_nothing(void **state)
{
    int status;
    json_t *root = run_program("", NULL, &status);
    for (size_t v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (size_t s = 0; s < HALO_BRINGUP_N_STAGES; s++)
            if (strcmp(outcome_in(root, v, s, "outcome"), "OK") != 0)
                fail_msg("%s, %s: %s", halo_bringup_variant_name((unsigned)v), halo_bringup_stage_name((unsigned)s),
                         outcome_in(root, v, s, "says"));
    assert_string_equal(json_string_value(json_object_get(root, "conclusion")), "all_good");
    assert_non_null(strstr(json_string_value(json_object_get(root, "runtime")), "emulated GPU 0"));
    assert_int_equal(status, 0);
    json_decref(root);
}

/* Faults whose conclusion needs the default row alone. */
static const struct fault {
    const char *script, *conclusion;
    int stage;
    const char *outcome, *says;
    int status;
} faults[] = {
    {"hipGraphLaunch:1:hang", "graphs", HALO_BRINGUP_STAGE_GRAPH, "HANG", "in the phase \"replaying a step\"", 0},
    {"hipGraphLaunch:1:error=719", "graphs", HALO_BRINGUP_STAGE_GRAPH, "ERROR", "replaying a step: launch failed", 0},
    {"hipGraphLaunch:2:drop", "graphs", HALO_BRINGUP_STAGE_GRAPH, "WRONG", "the host computes", 0},
    {"hipStreamBeginCapture:*:error=801", "graphs", HALO_BRINGUP_STAGE_GRAPH, "ERROR", "graphs cannot be recorded", 0},
    {"hipHostGetDevicePointer:1:crash", "pinned", HALO_BRINGUP_STAGE_ZERO_COPY, "CRASH", "taking", 1},
    {"hipMemcpyAsync:1:drop", "wrong", HALO_BRINGUP_STAGE_PAGEABLE, "WRONG", "changed from the GPU, through pageable",
     1},
    {"hipInit:1:error=100", "no_runtime", HALO_BRINGUP_STAGE_OPEN, "ERROR", "hipInit: no device (100)", 1},
};

static bool play(const struct fault *fault, const char *given_ms)
{
    char variant[] = "--variant", name[] = "default", stage_ms[] = "--stage-ms", ms[16];
    char *const more[] = {variant, name, stage_ms, ms, NULL};
    int status;
    snprintf(ms, sizeof(ms), "%s", given_ms);
    json_t *root = run_program(fault->script, more, &status);
    const char *outcome = outcome_in(root, 0, (size_t)fault->stage, "outcome");
    const char *says = outcome_in(root, 0, (size_t)fault->stage, "says");
    const char *conclusion = json_string_value(json_object_get(root, "conclusion"));
    bool good = strcmp(outcome, fault->outcome) == 0 && strstr(says, fault->says) &&
                strcmp(conclusion, fault->conclusion) == 0 && status == fault->status &&
                strcmp(outcome_in(root, 1, 0, "outcome"), "SKIP") == 0;
    if (!good)
        fprintf(stderr, "%s: %s (%s), %s, status %d\n", fault->script, outcome, says, conclusion, status);
    json_decref(root);
    return good;
}

static pid_t hang; /* the first fault, whose deadline passes while the others are played */

static void a_hang_begins(void **state)
{
    hang = fork();
    assert_true(hang >= 0);
    if (hang == 0)
        _exit(play(&faults[0], HANG_MS) || play(&faults[0], SLOW_MS) ? 0 : 1);
}

static void a_hang_is_concluded(void **state)
{
    int status = 1;
    assert_int_equal(waitpid(hang, &status, 0), hang);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void faults_are_concluded(void **state)
{
    for (size_t i = 1; i < sizeof(faults) / sizeof(faults[0]); i++)
        assert_true(play(&faults[i], SLOW_MS));
}

static void usage_is_refused(void **state)
{
    static const char *const wrong[] = {"--variant=none", "--stage-ms=0", "--stage-ms=x",
                                        "--nothing",      "word",         "--stage=none"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char path[512], word[] = "bringup", given[64];
        struct halo_child_outcome outcome;
        const struct halo_child_options options = {.deadline_ms = AMPLE_MS};
        snprintf(path, sizeof(path), "%s", program);
        snprintf(given, sizeof(given), "%s", wrong[i]);
        char *const argv[] = {path, word, given, NULL};
        assert_int_equal(halo_child_run(&options, argv, &outcome), 0);
        assert_int_equal(outcome.end, HALO_CHILD_EXITED);
        assert_int_equal(outcome.status, 2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_conclusion_is_reached),
        cmocka_unit_test(proposals_exist),
        cmocka_unit_test(forms_say_the_same),
        cmocka_unit_test(usage_is_refused),
        cmocka_unit_test(a_hang_begins),
        cmocka_unit_test(a_healthy_gpu_needs_nothing),
        cmocka_unit_test(faults_are_concluded),
        cmocka_unit_test(a_hang_is_concluded),
    };
    if (!getenv("HALO_HIP_LIB") || argc < 2) {
        printf("HALO_HIP_LIB names no runtime, or the program is not given\n");
        return 77;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
