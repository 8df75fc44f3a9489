/* test_doctor_checks.c: every verdict of every check, on machines made for it; and checks that hang, crash or shout. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
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

#define WAIT_MS 120000 /* nothing here waits for it */

static struct sysroot_file *cases;

static struct halo_doctor_options options_for(const char *sysroot)
{
    return (struct halo_doctor_options){.sysroot = sysroot, .wait_ms = WAIT_MS, .checks_only = true};
}

static const struct halo_doctor_finding *find(const struct halo_doctor_report *report, const char *id)
{
    for (size_t i = 0; i < report->n; i++)
        if (strcmp(report->at[i].id, id) == 0)
            return &report->at[i];
    return NULL;
}

/* ---- the machines ---- */

/* Those of the checks that a case expects something of. */
static size_t pick(const struct sysroot_case *c, struct halo_doctor_check *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < halo_doctor_n_checks; i++) {
        bool is_named = false;
        for (size_t e = 0; e < c->n_expects; e++)
            is_named = is_named || strcmp(c->expects[e].check, halo_doctor_checks[i].id) == 0 ||
                       strcmp(c->expects[e].check, "*") == 0;
        if (is_named)
            ret[n++] = halo_doctor_checks[i];
    }
    return n;
}

static void compare(const struct sysroot_case *c, const struct sysroot_expect *e,
                    const struct halo_doctor_finding *finding)
{
    if (strcmp(e->verdict, halo_doctor_verdict_name(finding->verdict)) != 0 ||
        (!strstr(finding->read, e->text) && !strstr(finding->advice, e->text)))
        fail_msg("%s: %s should be %s (%s), is %s: read \"%s\", advice \"%s\"", c->name, finding->id, e->verdict,
                 e->text, halo_doctor_verdict_name(finding->verdict), finding->read, finding->advice);
    assert_true(finding->advice[0]);
    assert_non_null(strstr(finding->source, "https://"));
}

/* Runs one case; adds the verdicts that it expected and got to `seen`, a word of bits for each check. */
static void run_case(const struct sysroot_case *c, size_t index, unsigned *seen)
{
    struct halo_doctor_check checks[64];
    struct halo_doctor_report report;
    char dir[64];
    size_t n = pick(c, checks);
    assert_true(n > 0);
    sysroot_dir_create(dir);
    sysroot_make(cases, index, dir);
    struct halo_doctor_options options = options_for(dir);
    halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
    halo_doctor_checks_run_list(checks, n, &options, &report);
    assert_int_equal(report.n, n);
    for (size_t e = 0; e < c->n_expects; e++)
        for (size_t i = 0; i < halo_doctor_n_checks; i++) {
            bool is_all = strcmp(c->expects[e].check, "*") == 0;
            if (!is_all && strcmp(c->expects[e].check, halo_doctor_checks[i].id) != 0)
                continue;
            const struct halo_doctor_finding *finding = find(&report, halo_doctor_checks[i].id);
            compare(c, &c->expects[e], finding);
            seen[i] |= 1u << finding->verdict;
        }
    halo_doctor_report_finish(&report);
    sysroot_dir_remove(dir);
}

/* An expectation of a check that there is none of would never be looked at. */
static void know_names(const struct sysroot_case *c)
{
    for (size_t e = 0; e < c->n_expects; e++) {
        bool is_known = strcmp(c->expects[e].check, "*") == 0;
        for (size_t i = 0; i < halo_doctor_n_checks; i++)
            is_known = is_known || strcmp(c->expects[e].check, halo_doctor_checks[i].id) == 0;
        if (!is_known)
            fail_msg("%s: no check \"%s\"", c->name, c->expects[e].check);
    }
}

static void every_verdict_has_a_machine(void **state)
{
    unsigned seen[64] = {0};
    size_t n = sysroot_file_n_cases(cases), n_missing = 0;
    assert_true(n > 0 && halo_doctor_n_checks > 0 && halo_doctor_n_checks <= 64);
    for (size_t i = 0; i < n; i++) {
        struct sysroot_case c;
        sysroot_file_case(cases, i, &c);
        know_names(&c);
        run_case(&c, i, seen);
    }
    for (size_t i = 0; i < halo_doctor_n_checks; i++) {
        if (seen[i] & ~halo_doctor_checks[i].verdicts)
            fail_msg("%s came to a verdict that check.def does not name", halo_doctor_checks[i].id);
        for (int v = 0; v < HALO_DOCTOR_N_VERDICTS; v++)
            if (halo_doctor_checks[i].verdicts & ~seen[i] & 1u << v) {
                print_error("%s: no machine for %s\n", halo_doctor_checks[i].id,
                            halo_doctor_verdict_name((enum halo_doctor_verdict)v));
                n_missing++;
            }
    }
    print_message("%zu machines, %zu checks\n", n, halo_doctor_n_checks);
    assert_int_equal(n_missing, 0);
}

/* The runtime that was named is judged, not the one that is installed. */
static void a_named_runtime_is_the_one_that_counts(void **state)
{
    static const struct {
        const char *path, *text;
        enum halo_doctor_verdict verdict;
    } named[] = {
        {"/opt/rocm/lib/libamdhip64.so.7", "/opt/rocm/lib/libamdhip64.so.7: 7.2.3", HALO_DOCTOR_PASS},
        {"/elsewhere/libamdhip64.so.6.3.60302", "6.3.2", HALO_DOCTOR_FAIL},
        {"/elsewhere/libamdhip64.so", "/elsewhere/libamdhip64.so", HALO_DOCTOR_SKIP},
    };
    struct halo_doctor_report report;
    char dir[64];
    sysroot_dir_create(dir);
    sysroot_make(cases, sysroot_file_find(cases, "healthy"), dir);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        struct halo_doctor_options options = options_for(dir);
        options.hip_lib = named[i].path;
        halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
        halo_doctor_checks_run(&options, &report);
        const struct halo_doctor_finding *finding = find(&report, "runtime");
        assert_int_equal(finding->verdict, named[i].verdict);
        assert_non_null(strstr(finding->read, named[i].text));
        halo_doctor_report_finish(&report);
    }
    sysroot_dir_remove(dir);
}

/* ---- checks that misbehave ---- */

static void hang(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    signal(SIGTERM, SIG_IGN);
    halo_doctor_finding_read(finding, "/sys/first = 1");
    strcpy(probe->at, "/sys/second");
    for (;;)
        pause();
}

static void crash(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void shout(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    /* Standard handles are nothing here, and nothing else is open but the one that tells of the end. */
    printf("noise\n");
    fflush(stdout);
    for (int fd = 4; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return;
    halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "quiet");
}

static struct halo_doctor_finding run_one(void (*look)(struct halo_doctor_probe *, struct halo_doctor_finding *),
                                          int wait_ms)
{
    const struct halo_doctor_check check = {"one", "one", "https://example.org", 0, 0, look};
    struct halo_doctor_options options = options_for("");
    struct halo_doctor_report report;
    options.wait_ms = wait_ms;
    halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
    halo_doctor_checks_run_list(&check, 1, &options, &report);
    assert_int_equal(report.n, 1);
    struct halo_doctor_finding finding = report.at[0];
    halo_doctor_report_finish(&report);
    return finding;
}

/* With as much time as the machine needs to get it to where it hangs. */
static struct halo_doctor_finding run_hang(int *ret_wait_ms)
{
    struct halo_doctor_finding finding;
    *ret_wait_ms = 250;
    do {
        *ret_wait_ms *= 2;
        finding = run_one(hang, *ret_wait_ms);
    } while (!strstr(finding.read, "/sys/second") && *ret_wait_ms < WAIT_MS);
    return finding;
}

static void one_that_hangs_is_killed_and_named(void **state)
{
    int wait_ms;
    char within[32];
    struct halo_doctor_finding finding = run_hang(&wait_ms);
    snprintf(within, sizeof within, "within %d ms", wait_ms);
    assert_int_equal(finding.verdict, HALO_DOCTOR_WARN);
    assert_string_equal(finding.read, "/sys/first = 1; /sys/second: no answer");
    assert_non_null(strstr(finding.advice, within));
}

static bool unreapable;

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (unreapable)
        return 0; /* as of one that waits inside the kernel */
    return __real_waitpid(pid, status, options);
}

static void one_that_cannot_be_killed_is_left_behind(void **state)
{
    int wait_ms;
    unreapable = true;
    struct halo_doctor_finding finding = run_hang(&wait_ms);
    unreapable = false;
    while (waitpid(-1, NULL, 0) > 0)
        ;
    assert_int_equal(finding.verdict, HALO_DOCTOR_FAIL);
    assert_non_null(strstr(finding.read, "/sys/second: no answer"));
    assert_non_null(strstr(finding.advice, "cannot be killed"));
    assert_true(finding.stages & HALO_DOCTOR_STAGE_OPEN && finding.stages & HALO_DOCTOR_STAGE_STEP);
}

static void one_that_crashes_is_told(void **state)
{
    struct halo_doctor_finding finding = run_one(crash, WAIT_MS);
    assert_int_equal(finding.verdict, HALO_DOCTOR_WARN);
    assert_non_null(strstr(finding.advice, "This check broke"));
}

static void one_that_shouts_is_not_heard(void **state)
{
    int fd = open("/dev/null", O_RDONLY); /* one more that must not be handed down */
    struct halo_doctor_finding finding = run_one(shout, WAIT_MS);
    close(fd);
    assert_int_equal(finding.verdict, HALO_DOCTOR_PASS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_has_a_machine),
        cmocka_unit_test(a_named_runtime_is_the_one_that_counts),
        cmocka_unit_test(one_that_hangs_is_killed_and_named),
        cmocka_unit_test(one_that_cannot_be_killed_is_left_behind),
        cmocka_unit_test(one_that_crashes_is_told),
        cmocka_unit_test(one_that_shouts_is_not_heard),
    };
    char path[4096];
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/doctor/cases.txt", root ? root : ".");
    cases = sysroot_file_read(path);
    /* Root reads everything: what a plain user may not read would not be seen to matter. */
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sysroot_file_close(cases);
    return failed;
}
