/* test_log.c: one line for each call, on stderr, whatever the text holds; levels; the journal's prefix. */
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

/* Nobody reads: a full pipe takes no more lines, and the program goes on. What got through counts what did not. */
static void test_never_waits(void **state)
{
    static char text[1 << 20];
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unsetenv("JOURNAL_STREAM");
        dup2(ends[1], STDERR_FILENO);
        alarm(120);
        halo_log_set_prefix();
        for (int i = 0; i < 3000; i++)
            halo_log(HALO_LOG_INFO, "%0100d", i);
        kill(getpid(), SIGSTOP); /* the parent reads all of it */
        halo_log(HALO_LOG_INFO, "the last one");
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    unsigned n_lines = 0, n_dropped = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        n_lines++;
    assert_true(n_lines > 10 && n_lines < 3000);
    fcntl(ends[0], F_SETFL, 0);
    kill(pid, SIGCONT);
    n = 0;
    while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    assert_int_equal(sscanf(text, "<4>%u log lines were dropped because stderr was full", &n_dropped), 1);
    assert_int_equal(n_lines + n_dropped, 3000);
    assert_string_equal(strchr(text, '\n'), "\n<6>the last one\n");
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_limit(void **state)
{
    struct halo_log_limit limit = {.n_per_s = 3};
    uint32_t n_dropped;
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(halo_log_limit_take(&limit, 5000 + 10 * i, &n_dropped), i < 3);
        assert_int_equal(n_dropped, 0);
    }
    assert_true(halo_log_limit_take(&limit, 6000, &n_dropped));
    assert_int_equal(n_dropped, 7);
    assert_true(halo_log_limit_take(&limit, 6999, &n_dropped)); /* said once */
    assert_int_equal(n_dropped, 0);
    limit.n_per_s = 0;
    assert_false(halo_log_limit_take(&limit, 7000, &n_dropped));
}

static void come_later(void)
{
    struct halo_log_limit limit = {.n_per_s = 3, .n = 3, .n_dropped = 7}; /* of a second long ago */
    halo_log_set_prefix();
    halo_log_limited(&limit, HALO_LOG_WARN, "later");
}

static void test_says_how_many_a_limit_dropped(void **state)
{
    assert_string_equal(listen_to(come_later, 0),
                        "<4>7 log lines were dropped: the limit is 3 in a second\n<4>later\n");
}

static void test_parse(void **state)
{
    enum halo_log_level level;
    assert_int_equal(halo_log_level_parse("error", &level), 0);
    assert_int_equal(level, HALO_LOG_ERROR);
    assert_int_equal(halo_log_level_parse("debug", &level), 0);
    assert_int_equal(level, HALO_LOG_DEBUG);
    assert_string_equal(halo_log_level_word(HALO_LOG_WARN), "warn");
    assert_int_equal(halo_log_level_parse("Debug", &level), -EINVAL);
    assert_int_equal(halo_log_level_parse("", &level), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal_prefix), cmocka_unit_test(test_time_stamp),
        cmocka_unit_test(test_one_line_each),  cmocka_unit_test(test_never_waits),
        cmocka_unit_test(test_limit),          cmocka_unit_test(test_says_how_many_a_limit_dropped),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
