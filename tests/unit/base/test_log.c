/* test_log.c: one line for each call, on stderr, whatever the text holds; levels; the journal's prefix. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/log.h>

/* Runs `talk` in a child whose stderr is a pipe, with JOURNAL_STREAM naming that pipe or another. Returns what it
 * wrote. */
static char *listen_to(void (*talk)(void), int journal)
{
    static char text[65536];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct stat st;
        char stream[64];
        dup2(ends[1], STDERR_FILENO);
        fstat(STDERR_FILENO, &st);
        snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
                 (unsigned long long)st.st_ino + (journal == 2));
        unsetenv("JOURNAL_STREAM");
        if (journal)
            setenv("JOURNAL_STREAM", stream, 1);
        talk();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    text[n] = '\0';
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return text;
}

static void talk_levels(void)
{
    halo_log(HALO_LOG_ERROR, "e %d", 1);
    halo_log(HALO_LOG_INFO, "i");
    halo_log(HALO_LOG_DEBUG, "hidden");
    halo_log_set_level(HALO_LOG_WARN);
    halo_log(HALO_LOG_WARN, "w");
    halo_log(HALO_LOG_INFO, "hidden");
}

static void test_journal_prefix(void **state)
{
    assert_string_equal(listen_to(talk_levels, 1), "<3>e 1\n<6>i\n<4>w\n");
}

static void test_time_stamp(void **state)
{
    /* Inherited from a parent that talks to the journal, but this stderr is something else. */
    const char *text = listen_to(talk_levels, 2);
    int year, month, day, hour, minute, second, ms, end = 0;
    assert_int_equal(sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d.%3d error e 1\n%n", &year, &month, &day, &hour, &minute,
                            &second, &ms, &end),
                     7);
    assert_true(end > 0 && year > 2020);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(listen_to(talk_levels, 0), "error e 1\n"));
}

static void talk_nasty(void)
{
    static char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    halo_log(HALO_LOG_ERROR, "a\nforged\r\x1b[31m%s", longer);
    halo_log(HALO_LOG_ERROR, "%s", "");
}

static void test_one_line_each(void **state)
{
    char *text = listen_to(talk_nasty, 1);
    assert_memory_equal(text, "<3>a forged  [31mxxx", 20);
    char *end = strchr(text, '\n');
    assert_non_null(end);
    assert_true(end - text < 2048 && end - text > 2000);
    assert_string_equal(end, "\n<3>\n");
}

static void test_parse(void **state)
{
    enum halo_log_level level;
    assert_int_equal(halo_log_level_parse("error", &level), 0);
    assert_int_equal(level, HALO_LOG_ERROR);
    assert_int_equal(halo_log_level_parse("debug", &level), 0);
    assert_int_equal(level, HALO_LOG_DEBUG);
    assert_int_equal(halo_log_level_parse("Debug", &level), -EINVAL);
    assert_int_equal(halo_log_level_parse("", &level), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal_prefix),
        cmocka_unit_test(test_time_stamp),
        cmocka_unit_test(test_one_line_each),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
