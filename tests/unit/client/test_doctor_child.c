/* test_doctor_child.c: children with a deadline: results, phases, every way to end, and one that cannot be reaped. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "child.h"

#define AMPLE_MS 60000

static bool never_ends;
int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);

/* A process in an uninterruptible wait cannot be made here; this is what its parent sees. */
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    return never_ends ? 0 : __real_waitid(type, id, info, options);
}

static struct halo_child_outcome call(int (*fn)(struct halo_child_port *, void *), void *ud, uint32_t deadline_ms,
                                      void *result, size_t room)
{
    struct halo_child_outcome outcome;
    const struct halo_child_options options = {.deadline_ms = deadline_ms, .result = result, .room = room};
    assert_int_equal(halo_child_call(&options, fn, ud, &outcome), 0);
    return outcome;
}

static struct halo_child_outcome run(const char *script, const char *const *env, uint32_t deadline_ms, void *result,
                                     size_t room)
{
    char shell[] = "sh", c[] = "-c", *text = strdup(script);
    char *const argv[] = {shell, c, text, NULL};
    struct halo_child_outcome outcome;
    const struct halo_child_options options = {.deadline_ms = deadline_ms, .result = result, .room = room, .env = env};
    assert_int_equal(halo_child_run(&options, argv, &outcome), 0);
    free(text);
    return outcome;
}

static int speaks(struct halo_child_port *port, void *ud)
{
    halo_child_phase(port, "first of %d", 2);
    halo_child_result(port, "ab", 2);
    printf("to standard output\n");
    fflush(stdout);
    fprintf(stderr, "to standard error\x01\n");
    halo_child_phase(port, "%0300d", 7); /* longer than is kept */
    halo_child_result(port, ud, 10000);
    return 7;
}

static void a_function_is_heard(void **state)
{
    char sent[10000], got[10002];
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (char)(i * 7);
    struct halo_child_outcome outcome = call(speaks, sent, AMPLE_MS, got, sizeof(got));
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    assert_int_equal(outcome.status, 7);
    assert_int_equal(outcome.n_result, sizeof(got));
    assert_false(outcome.cut);
    assert_memory_equal(got, "ab", 2);
    assert_memory_equal(got + 2, sent, sizeof(sent));
    assert_int_equal(strlen(outcome.phase), HALO_CHILD_PHASE_BYTES - 1);
    assert_non_null(strstr(outcome.errors, "to standard output\n"));
    assert_non_null(strstr(outcome.errors, "to standard error?\n"));
    outcome = call(speaks, sent, AMPLE_MS, got, 100);
    assert_int_equal(outcome.n_result, 100);
    assert_true(outcome.cut);
    outcome = call(speaks, sent, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.n_result, 0);
}

static int reads_input(struct halo_child_port *port, void *ud)
{
    char byte;
    (void)port;
    (void)ud;
    return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}

static int crashes(struct halo_child_port *port, void *ud)
{
    (void)ud;
    halo_child_phase(port, "crashing");
    raise(SIGKILL);
    return 0;
}

static int talks_nonsense(struct halo_child_port *port, void *ud)
{
    (void)ud;
    halo_child_phase(port, "before");
    return write(port->fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) == 8 ? 3 : 4;
}

static void every_end_is_told(void **state)
{
    char text[400];
    struct halo_child_outcome outcome = call(reads_input, NULL, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.status, 0);
    outcome = call(crashes, NULL, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.end, HALO_CHILD_KILLED);
    assert_int_equal(outcome.status, SIGKILL);
    assert_string_equal(halo_child_describe(&outcome, text, sizeof(text)),
                        "was killed by signal 9 (Killed) while crashing");
    outcome = call(talks_nonsense, NULL, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    assert_string_equal(outcome.phase, "before");
    outcome = run("exit 5", NULL, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.status, 5);
    assert_string_equal(halo_child_describe(&outcome, text, sizeof(text)), "ended with status 5");
    char path[] = "/nonexistent/program", *const argv[] = {path, NULL};
    const struct halo_child_options options = {.deadline_ms = AMPLE_MS};
    assert_int_equal(halo_child_run(&options, argv, &outcome), 0);
    assert_int_equal(outcome.status, 127);
    assert_non_null(strstr(outcome.errors, "/nonexistent/program: No such file"));
}

static void a_program_has_its_environment(void **state)
{
    char got[64] = "";
    const char *const env[] = {"HALO_T_SET=x y", "HALO_T_GONE", NULL};
    setenv("HALO_T_GONE", "1", 1);
    struct halo_child_outcome outcome =
        run("echo \"$HALO_T_SET.${HALO_T_GONE-gone}\"; echo why >&2", env, AMPLE_MS, got, sizeof(got) - 1);
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    assert_string_equal(got, "x y.gone\n");
    assert_string_equal(outcome.errors, "why\n");
    assert_string_equal(getenv("HALO_T_GONE"), "1");
    assert_null(getenv("HALO_T_SET"));
}

static void the_end_of_the_errors_is_kept(void **state)
{
    struct halo_child_outcome outcome =
        run("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done", NULL, AMPLE_MS, NULL, 0);
    size_t n = strlen(outcome.errors);
    assert_int_equal(n, HALO_CHILD_ERRORS_BYTES - 1);
    assert_string_equal(outcome.errors + n - 10, "line 1999\n");
}

static int hangs(struct halo_child_port *port, void *ud)
{
    sigset_t all;
    (void)ud;
    sigfillset(&all); /* a thread in the runtime's wait takes no SIGTERM either */
    sigprocmask(SIG_BLOCK, &all, NULL);
    halo_child_phase(port, "waiting for %s", "ever");
    halo_child_result(port, "partly", 6);
    while (pause() != 0)
        ;
    return 0;
}

/* With as much time as the machine needs to have the child come to where it hangs. */
static struct halo_child_outcome call_hang(char *got, size_t room, uint32_t *ret_deadline_ms)
{
    struct halo_child_outcome outcome;
    *ret_deadline_ms = 250;
    do {
        *ret_deadline_ms *= 2;
        outcome = call(hangs, NULL, *ret_deadline_ms, got, room);
    } while (outcome.n_result == 0 && *ret_deadline_ms < AMPLE_MS);
    return outcome;
}

static void a_hang_ends_at_the_deadline(void **state)
{
    char got[16], text[400], wanted[100];
    uint32_t deadline_ms;
    struct halo_child_outcome outcome = call_hang(got, sizeof(got), &deadline_ms);
    assert_int_equal(outcome.end, HALO_CHILD_DEADLINE);
    assert_int_equal(outcome.n_result, 6);
    snprintf(wanted, sizeof(wanted), "did not end within %u ms while waiting for ever; it was killed", deadline_ms);
    assert_string_equal(halo_child_describe(&outcome, text, sizeof(text)), wanted);
    assert_true(kill(outcome.pid, 0) == -1 && errno == ESRCH);
}

/* What a child started holds its pipes and outlives it: nobody waits for that, and it is killed. */
static void what_a_child_started_is_killed(void **state)
{
    char got[32] = "";
    struct halo_child_outcome outcome = run("sleep 1000 & echo $!", NULL, AMPLE_MS, got, sizeof(got) - 1);
    int pid = atoi(got), status = 0;
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    assert_true(pid > 1);
    for (int i = 0; i < 3000 && status == 0; i++) {
        char path[64], stat[256] = "", *end;
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        FILE *file = fopen(path, "re"); /* gone, or a zombie that some init has yet to reap */
        end = file && fgets(stat, sizeof(stat), file) ? strrchr(stat, ')') : NULL;
        status = !end || end[2] == 'Z';
        if (file)
            fclose(file);
        usleep(10000);
    }
    assert_int_equal(status, 1);
}

static void a_child_that_stays_is_left(void **state)
{
    char got[16], text[400];
    uint32_t deadline_ms;
    never_ends = true;
    struct halo_child_outcome outcome = call_hang(got, sizeof(got), &deadline_ms);
    never_ends = false;
    assert_int_equal(outcome.end, HALO_CHILD_STUCK);
    assert_true(outcome.stuck_in[0] != '\0');
    halo_child_describe(&outcome, text, sizeof(text));
    assert_non_null(strstr(text, "while waiting for ever, and process"));
    assert_non_null(strstr(text, "cannot be killed"));
    assert_int_equal(waitpid(outcome.pid, NULL, 0), outcome.pid);
}

static int prints(struct halo_child_port *port, void *ud)
{
    (void)ud;
    halo_child_phase(port, "said");
    printf("a word\n");
    return fflush(stdout) ? 1 : 0;
}

/* Standard streams that are closed must not become the child's pipes. */
static int without_streams(struct halo_child_port *port, void *ud)
{
    struct halo_child_outcome outcome;
    const struct halo_child_options options = {.deadline_ms = AMPLE_MS};
    (void)port;
    (void)ud;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    signal(SIGCHLD, SIG_IGN);
    return halo_child_call(&options, prints, NULL, &outcome) == 0 && outcome.end == HALO_CHILD_EXITED &&
                   outcome.status == 0 && strcmp(outcome.phase, "said") == 0 && strcmp(outcome.errors, "a word\n") == 0
               ? 0
               : 1;
}

static void closed_streams_do_no_harm(void **state)
{
    struct halo_child_outcome outcome = call(without_streams, NULL, AMPLE_MS, NULL, 0);
    assert_int_equal(outcome.end, HALO_CHILD_EXITED);
    assert_int_equal(outcome.status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_is_heard),           cmocka_unit_test(every_end_is_told),
        cmocka_unit_test(a_program_has_its_environment), cmocka_unit_test(the_end_of_the_errors_is_kept),
        cmocka_unit_test(a_hang_ends_at_the_deadline),   cmocka_unit_test(what_a_child_started_is_killed),
        cmocka_unit_test(a_child_that_stays_is_left),    cmocka_unit_test(closed_streams_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
