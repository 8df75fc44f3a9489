/* test_doctor_report.c: what findings become on paper, whatever is in them; the program's options and exit status; and
 * that docs/DOCTOR.md knows every check.
 */
#include <errno.h>
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

#include "checks/checks.h"
#include "sysroot.h"

/* ---- text ---- */

static void text_is_fit_for_a_line(void **state)
{
    struct halo_doctor_finding f;
    halo_doctor_finding_init(&f, "id\n", "ti\ttle");
    assert_string_equal(f.id, "id ");
    assert_string_equal(f.title, "ti tle");
    halo_doctor_finding_read(&f, "%s", "a\nb\x1b[31m\x7f");
    halo_doctor_finding_read(&f, "%s", "\xff\xc3(\xe2\x82 \xf0\x9f\x98\x80 \xed\xa0\x80 \xc2\x9b");
    assert_string_equal(f.read, "a b?[31m?; ?\?(?\? \xf0\x9f\x98\x80 ?\?? ?\?");
}

static void text_that_is_too_long_ends_at_a_character(void **state)
{
    struct halo_doctor_finding f;
    char text[4096];
    for (size_t shift = 0; shift < 4; shift++) {
        size_t n = shift;
        memset(text, 'x', shift);
        for (; n + 3 < sizeof text; n += 3)
            memcpy(text + n, "\xe2\x82\xac", 3); /* the sign of the euro */
        text[n] = '\0';
        halo_doctor_finding_init(&f, "id", "title");
        halo_doctor_finding_say(&f, HALO_DOCTOR_WARN, "%s", text);
        size_t kept = strlen(f.advice);
        assert_true(kept < sizeof f.advice && kept >= sizeof f.advice - 4);
        assert_int_equal((kept - shift) % 3, 0);
        assert_memory_equal(f.advice, text, kept);
        for (int i = 0; i < 100; i++)
            halo_doctor_finding_read(&f, "%s", text);
        assert_true(strlen(f.read) < sizeof f.read);
    }
}

/* ---- forms ---- */

/* A report of three findings, one of them hostile, in a form. The caller frees. */
static char *write_report(enum halo_doctor_form form)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    struct halo_doctor_report report;
    halo_doctor_report_init(&report, form, out);
    halo_doctor_report_open(&report, "/a tree");
    struct halo_doctor_finding *f = halo_doctor_report_begin(&report, "good", "a good thing");
    halo_doctor_finding_say(f, HALO_DOCTOR_PASS, "Well.");
    snprintf(f->source, sizeof f->source, "https://example.org/good");
    halo_doctor_report_end(&report, f);
    f = halo_doctor_report_begin(&report, "bad", "a bad thing");
    f->stages = HALO_DOCTOR_STAGE_OPEN | HALO_DOCTOR_STAGE_STEP;
    halo_doctor_finding_read(f, "/x = %s", "\"quoted\" |pipe| `tick` <b> \\ \xff\n");
    halo_doctor_finding_say(f, HALO_DOCTOR_FAIL, "Mend it.");
    snprintf(f->source, sizeof f->source, "https://example.org/bad");
    halo_doctor_report_end(&report, f);
    f = halo_doctor_report_begin(&report, "none", "nothing");
    halo_doctor_finding_say(f, HALO_DOCTOR_SKIP, "Nobody knows.");
    halo_doctor_report_end(&report, f);
    halo_doctor_report_close(&report);
    assert_int_equal(report.error, 0);
    assert_int_equal(halo_doctor_report_exit(&report), 1);
    halo_doctor_report_finish(&report);
    fclose(out);
    return text;
}

static void json_is_an_object_a_line(void **state)
{
    char *text = write_report(HALO_DOCTOR_JSON), *rest = text, *line;
    size_t n = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(object);
        if (n == 1) {
            assert_string_equal(json_string_value(json_object_get(object, "id")), "bad");
            assert_string_equal(json_string_value(json_object_get(object, "verdict")), "FAIL");
            assert_string_equal(json_string_value(json_object_get(object, "read")),
                                "/x = \"quoted\" |pipe| `tick` <b> \\ ? ");
            assert_string_equal(json_string_value(json_object_get(object, "advice")), "Mend it.");
            assert_string_equal(json_string_value(json_object_get(object, "source")), "https://example.org/bad");
            json_t *stages = json_object_get(object, "stages");
            assert_int_equal(json_array_size(stages), 2);
            assert_string_equal(json_string_value(json_array_get(stages, 1)), "step");
            assert_true(json_is_real(json_object_get(object, "took_ms")));
        }
        if (n == 3) {
            assert_string_equal(json_string_value(json_object_get(object, "summary")), "FAIL");
            assert_int_equal(json_integer_value(json_object_get(object, "pass")), 1);
            assert_int_equal(json_integer_value(json_object_get(object, "fail")), 1);
            assert_int_equal(json_integer_value(json_object_get(object, "skip")), 1);
            assert_int_equal(json_integer_value(json_object_get(object, "warn")), 0);
        }
        json_decref(object);
        n++;
    }
    assert_int_equal(n, 4);
    free(text);
}

static void text_and_page_say_what_to_do(void **state)
{
    char *text = write_report(HALO_DOCTOR_TEXT);
    assert_non_null(strstr(text, "FAIL  bad "));
    assert_non_null(strstr(text, "\n             Mend it.\n      read   /x = "));
    assert_non_null(strstr(text, "\n      source https://example.org/bad\n"));
    assert_null(strstr(text, "https://example.org/good")); /* of interest only where something is wrong */
    assert_non_null(strstr(text, "FAIL (bad): 1 passed, 0 warned, 1 failed, 1 skipped"));
    free(text);
    text = write_report(HALO_DOCTOR_MARKDOWN);
    assert_non_null(strstr(text, "| bad | a bad thing | **FAIL** | "));
    assert_non_null(strstr(text, "| /x = \"quoted\" \\|pipe\\| \\`tick\\` \\<b\\> \\\\ ?"));
    assert_non_null(strstr(text, "Read below `/a tree`."));
    free(text);
}

static void the_exit_status_is_the_worst(void **state)
{
    static const struct {
        enum halo_doctor_verdict verdicts[3];
        int status;
    } cases[] = {
        {{HALO_DOCTOR_PASS, HALO_DOCTOR_PASS, HALO_DOCTOR_SKIP}, 0},
        {{HALO_DOCTOR_PASS, HALO_DOCTOR_WARN, HALO_DOCTOR_SKIP}, 0},
        {{HALO_DOCTOR_WARN, HALO_DOCTOR_SKIP, HALO_DOCTOR_SKIP}, 0},
        {{HALO_DOCTOR_FAIL, HALO_DOCTOR_WARN, HALO_DOCTOR_PASS}, 1},
        {{HALO_DOCTOR_SKIP, HALO_DOCTOR_SKIP, HALO_DOCTOR_SKIP}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct halo_doctor_report report;
        halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
        for (int k = 0; k < 3; k++)
            halo_doctor_finding_say(halo_doctor_report_begin(&report, "x", "x"), cases[i].verdicts[k], "x");
        assert_int_equal(halo_doctor_report_exit(&report), cases[i].status);
        halo_doctor_report_finish(&report);
    }
}

static bool no_memory;

void *__real_reallocarray(void *at, size_t n, size_t size);
void *__wrap_reallocarray(void *at, size_t n, size_t size);
void *__wrap_reallocarray(void *at, size_t n, size_t size)
{
    return no_memory ? NULL : __real_reallocarray(at, n, size);
}

/* What there is no memory for is written all the same, and the whole is no success. */
static void no_memory_is_no_success(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    struct halo_doctor_report report;
    halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, out);
    for (int i = 0; i < 100; i++) {
        no_memory = i >= 50; /* the list grows before and after */
        struct halo_doctor_finding *f = halo_doctor_report_begin(&report, i < 99 ? "first" : "last", "x");
        halo_doctor_finding_say(f, HALO_DOCTOR_PASS, "x");
        halo_doctor_report_end(&report, f);
    }
    no_memory = false;
    fclose(out);
    assert_true(report.n >= 50 && report.n < 100);
    assert_int_equal(report.error, -ENOMEM);
    assert_int_equal(halo_doctor_report_exit(&report), 2);
    assert_non_null(strstr(text, "PASS  last"));
    halo_doctor_report_finish(&report);
    free(text);
}

/* ---- the program ---- */

/* Runs it with its output going to `out_path`; its exit status. */
static int run_program(const char *arguments, const char *out_path)
{
    char command[1024];
    snprintf(command, sizeof command, "exec '%s' %s > '%s' 2> /dev/null", getenv("HALO_TEST_HALO_DOCTOR"), arguments,
             out_path);
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void wrong_usage_is_2(void **state)
{
    static const char *const wrong[] = {
        "--tier 8",     "--tier x",  "--tier -1", "--tier ''", "--wait-ms 1s",        "--nonsense",
        "--sysroot ''", "--sysroot", "argument",  "bring",     "--sysroot /dev/null", "--sysroot /nowhere",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (run_program(wrong[i], "/dev/null") != 2)
            fail_msg("%s", wrong[i]);
    assert_int_equal(run_program("--version", "/dev/null"), 0);
    assert_int_equal(run_program("--help", "/dev/null"), 0);
}

static size_t count_lines(const char *path, const char *with)
{
    char line[8192];
    size_t n = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        n += strstr(line, with) != NULL;
    fclose(file);
    return n;
}

/* Handles that are closed are not taken for pipes; without an output it cannot be run. */
static void closed_handles_do_no_harm(void **state)
{
    char command[512], out[64], path[128];
    sysroot_dir_create(out);
    snprintf(path, sizeof path, "%s/out", out);
    snprintf(command, sizeof command, "'%s' --json --quick --sysroot %s --wait-ms 120000 > %s <&- 2>&-",
             getenv("HALO_TEST_HALO_DOCTOR"), out, path);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
    assert_int_equal(count_lines(path, "This check broke"), 0);
    assert_true(count_lines(path, "\"verdict\":") >= halo_doctor_n_checks);
    snprintf(command, sizeof command, "'%s' --json --quick >&- <&- 2>&-", getenv("HALO_TEST_HALO_DOCTOR"));
    assert_int_equal(WEXITSTATUS(system(command)), 2);
    sysroot_dir_remove(out);
}

static void machines_have_their_exit_status(void **state)
{
    static const struct {
        const char *name;
        int status;
    } cases[] = {{"healthy", 0}, {"no GPU", 1}, {"firmware 0x83", 1}, {"clocks are held", 0}};
    char *root = getenv("HALO_SOURCE_ROOT"), path[4096], dir[64], out[64], arguments[256];
    snprintf(path, sizeof path, "%s/tests/doctor/cases.txt", root ? root : ".");
    struct sysroot_file *file = sysroot_file_read(path);
    sysroot_dir_create(out);
    strcat(out, "/out");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sysroot_dir_create(dir);
        sysroot_make(file, sysroot_file_find(file, cases[i].name), dir);
        snprintf(arguments, sizeof arguments, "--sysroot %s/// --json --checks-only --wait-ms 120000", dir);
        int status = run_program(arguments, out);
        if (status != cases[i].status)
            fail_msg("%s: exit status %d", cases[i].name, status);
        assert_int_equal(count_lines(out, "\"verdict\":"), halo_doctor_n_checks);
        assert_int_equal(count_lines(out, "\"summary\":"), 1);
        assert_int_equal(run_program(arguments, "/dev/full"), cases[i].status == 1 ? 1 : 2);
        sysroot_dir_remove(dir);
    }
    *strrchr(out, '/') = '\0';
    sysroot_dir_remove(out);
    sysroot_file_close(file);
}

/* ---- the page ---- */

/* "| `cwsr` | ... | PASS WARN FAIL SKIP | ... |" */
static void the_page_has_every_check(void **state)
{
    char *root = getenv("HALO_SOURCE_ROOT"), path[4096], line[4096];
    size_t n_rows = 0;
    snprintf(path, sizeof path, "%s/docs/DOCTOR.md", root ? root : ".");
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file)) {
        char start[64], verdicts[64] = "|";
        if (n_rows == halo_doctor_n_checks || strncmp(line, "| `", 3) != 0)
            continue;
        const struct halo_doctor_check *check = &halo_doctor_checks[n_rows];
        snprintf(start, sizeof start, "| `%s` | %s |", check->id, check->title);
        for (int v = 0; v < HALO_DOCTOR_N_VERDICTS; v++)
            if (check->verdicts & 1u << v) {
                strcat(verdicts, " ");
                strcat(verdicts, halo_doctor_verdict_name((enum halo_doctor_verdict)v));
            }
        strcat(verdicts, " |");
        if (strncmp(line, start, strlen(start)) != 0 || !strstr(line, verdicts))
            fail_msg("the row should be \"%s%s ...\", is %s", start, verdicts + 1, line);
        n_rows++;
    }
    fclose(file);
    assert_int_equal(n_rows, halo_doctor_n_checks);
}

/* Text of a file without backslashes; the caller frees. */
static char *read_plain(const char *path)
{
    char *text = NULL, *to;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_true(getdelim(&text, &room, '\0', file) > 0);
    fclose(file);
    to = text;
    for (const char *at = text; *at; at++)
        if (*at != '\\')
            *to++ = *at;
    *to = '\0';
    return text;
}

/* What --help names stands in the man page. */
static void the_man_page_has_every_option(void **state)
{
    static const char *const helps[] = {"--help", "bringup --help"};
    char *root = getenv("HALO_SOURCE_ROOT"), path[4096], dir[64], out[96], option[64];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/client/doctor/halo-doctor.1", root ? root : ".");
    char *page = read_plain(path);
    sysroot_dir_create(dir);
    snprintf(out, sizeof out, "%s/out", dir);
    for (size_t i = 0; i < 2; i++) {
        if (run_program(helps[i], out) != 0)
            continue; /* a build without the HIP device has no bringup */
        char *help = read_plain(out);
        for (const char *at = strstr(help, "--"); at; at = strstr(at + 2, "--"), n++) {
            snprintf(option, sizeof option, "%.*s", (int)(2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-")), at);
            if (!strstr(page, option))
                fail_msg("the man page does not know %s", option);
        }
        free(help);
    }
    free(page);
    sysroot_dir_remove(dir);
    assert_true(n >= 10);
}

static void help_and_version_have_every_spelling(void **state)
{
    static const char *const spellings[][2] = {{"help", "usage: halo-doctor"},
                                               {"--help", "usage: halo-doctor"},
                                               {"-h", "usage: halo-doctor"},
                                               {"version", "halo-doctor " HALO_VERSION},
                                               {"--version", "halo-doctor " HALO_VERSION},
                                               {"-V", "halo-doctor " HALO_VERSION}};
    char dir[64], out[96];
    sysroot_dir_create(dir);
    snprintf(out, sizeof(out), "%s/out", dir);
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        assert_int_equal(run_program(spellings[i][0], out), 0);
        char *text = read_plain(out);
        assert_memory_equal(text, spellings[i][1], strlen(spellings[i][1]));
        free(text);
    }
    sysroot_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_fit_for_a_line),
        cmocka_unit_test(text_that_is_too_long_ends_at_a_character),
        cmocka_unit_test(json_is_an_object_a_line),
        cmocka_unit_test(text_and_page_say_what_to_do),
        cmocka_unit_test(the_exit_status_is_the_worst),
        cmocka_unit_test(no_memory_is_no_success),
        cmocka_unit_test(wrong_usage_is_2),
        cmocka_unit_test(closed_handles_do_no_harm),
        cmocka_unit_test(machines_have_their_exit_status),
        cmocka_unit_test(the_page_has_every_check),
        cmocka_unit_test(the_man_page_has_every_option),
        cmocka_unit_test(help_and_version_have_every_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
