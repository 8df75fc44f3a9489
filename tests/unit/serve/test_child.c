/* test_child.c: a child process and the engine's object against fake ops: lines, signs of the end, deaths and their
 * reasons. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include <serve/child/engine.h>

static uv_loop_t loop;
static char told[1024]; /* what the ops heard */
static bool is_gone;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    size_t len = strlen(told);
    va_list args;
    va_start(args, format);
    vsnprintf(told + len, sizeof(told) - len, format, args);
    va_end(args);
}

static void run_until_gone(void)
{
    for (int i = 0; i < 60000 && !is_gone; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_true(is_gone);
}

static int begin(void **state)
{
    told[0] = '\0';
    is_gone = false;
    halo_log_set_level((enum halo_log_level) - 1);
    return uv_loop_init(&loop);
}

static int end(void **state)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

/* ---- any child ---- */

static void child_heard(struct halo_child *child, size_t n_bytes)
{
}

static void child_line(struct halo_child *child, const char *line, size_t len, bool whole)
{
    if (whole)
        tell("[%.*s]", (int)len, line);
    else
        tell("(%.4s...)", line);
    if (len == 4 && memcmp(line, "stop", 4) == 0) {
        halo_child_kill(child);
        halo_child_cut(child);
    }
}

static void child_err_line(struct halo_child *child, const char *line, size_t len)
{
    tell("<%.*s>", (int)len, line);
}

static void child_ended(struct halo_child *child)
{
    if (!child->exited || !child->link_ended)
        return;
    tell(" %lld/%d", (long long)child->exit_status, child->exit_signal);
    halo_child_cut(child);
}

static void child_gone(struct halo_child *child)
{
    is_gone = true;
}

static const struct halo_child_ops ops = {child_heard, child_line, child_err_line, child_ended, child_gone};

static struct halo_child *start(const char *script, bool duplex)
{
    char *args[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    const struct halo_child_spec spec = {
        .file = "/bin/sh", .args = args, .fd = duplex ? 3 : 1, .duplex = duplex, .line_bytes = 100, .read_bytes = 4096};
    struct halo_child *child;
    assert_int_equal(halo_child_create(&loop, &spec, &ops, NULL, &child), 0);
    return child;
}

static void tells_lines_and_the_end(void **state)
{
    static const struct {
        const char *script, *told;
    } cases[] = {
        {"echo one; echo two", "[one][two] 0/0"},
        {"echo one; exit 3", "[one] 3/0"},
        {"echo one; kill -9 $$", "[one] 0/9"},
        {"echo cut; printf 'no newline'", "[cut] 0/0"},
        {"exec 1>&-; sleep 0.05; exit 4", " 4/0"},
        {"sleep 0.05 & exit 5", " 5/0"}, /* the end of its output comes later */
        {"printf '%0101d\\n' 7; echo next", "(0000...)[next] 0/0"},
        {"echo stop; echo more; sleep 1000", "[stop]"}, /* cut: no more lines, no more signs */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        told[0] = '\0';
        is_gone = false;
        start(cases[i].script, false);
        run_until_gone();
        assert_string_equal(told, cases[i].told);
    }
}

static void is_written_to(void **state)
{
    struct halo_child *child = start("read line <&3; echo \"got $line\" >&3; echo note >&2; exec 3>&- 2>&-", true);
    halo_json_i64(halo_child_out(child), 42);
    assert_int_equal(halo_json_line_end(halo_child_out(child)), 0);
    halo_child_flush(child);
    run_until_gone();
    assert_true(strcmp(told, "[got 42]<note> 0/0") == 0 || strcmp(told, "<note>[got 42] 0/0") == 0);
}

static void one_that_cannot_be_started(void **state)
{
    char *args[] = {(char *)"x", NULL};
    struct halo_child_spec spec = {.file = "/nowhere/x", .args = args, .fd = 3, .line_bytes = 100, .read_bytes = 100};
    struct halo_child *child;
    assert_int_equal(halo_child_create(&loop, &spec, &ops, NULL, &child), UV_ENOENT);
    assert_null(halo_child_out(child));
    halo_child_flush(child);
    halo_child_kill(child);
    halo_child_cut(child);
    halo_child_cut(child);
    run_until_gone();
    assert_string_equal(told, "");
}

/* ---- the engine ---- */

static struct halo_config config;
static struct halo_engine engine;
static const char *refuse_at; /* an event that on_line calls garbage */

static int on_line(struct halo_engine *self, const struct halo_event_line *line, struct halo_fault *fault)
{
    tell("%s ", halo_ev_type_name(line->type));
    if (refuse_at && strcmp(refuse_at, halo_ev_type_name(line->type)) == 0)
        return halo_event_line_refuse(fault, "as told");
    if (line->type == HALO_EV_DONE)
        halo_engine_kill(self);
    return 0;
}

static void on_ready(struct halo_engine *self)
{
    struct halo_msg msg;
    tell("ready ");
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    msg.id = halo_id_of(7);
    msg.generate.has_prompt = msg.generate.has_seed = msg.generate.has_user = true;
    msg.generate.user = geteuid();
    msg.generate.prompt = halo_str_of(getenv("TEST_SCRIPT"));
    assert_int_equal(halo_msg_encode(halo_engine_out(self), &msg), 0);
    halo_engine_flush(self);
}

static void on_died(struct halo_engine *self, const char *reason)
{
    tell("died: %s ", reason);
}

static void on_gone(struct halo_engine *self)
{
    tell("gone");
    is_gone = true;
}

static const struct halo_engine_ops engine_ops = {on_line, on_ready, on_died, on_gone};

static int begin_engine(void **state)
{
    const char *path = getenv("HALO_TEST_ENGINE");
    assert_non_null(path);
    assert_int_equal(begin(state), 0);
    assert_int_equal(halo_config_init(&config), 0);
    assert_int_equal(halo_config_set_string(&config.engine_path, path), 0);
    halo_engine_init(&engine, &loop, &config, &engine_ops, NULL);
    refuse_at = NULL;
    return 0;
}

static int end_engine(void **state)
{
    halo_engine_stop(&engine);
    halo_engine_close(&engine);
    assert_int_equal(end(state), 0);
    halo_config_finish(&config);
    return 0;
}

/* One engine's life with this script: what the ops heard. */
static void live(const char *script, const char *wanted)
{
    setenv("TEST_SCRIPT", script, 1);
    told[0] = '\0';
    is_gone = false;
    halo_engine_start(&engine, 3);
    halo_engine_flush(&engine);
    run_until_gone();
    assert_string_equal(told, wanted);
    assert_int_equal(engine.state, HALO_ENGINE_DOWN);
    assert_int_equal(halo_engine_pid(&engine), 0);
    assert_null(halo_engine_out(&engine));
}

static void dies_for_a_reason(void **state)
{
    live("n=1", "ready started committed token done died: was killed by signal 9 (Killed) gone");
    live("n=1 exit=2", "ready started committed died: exited with status 3 (last words: told to exit) gone");
    live("n=1 garbage=1", "ready started died: wrote garbage: no JSON object at byte 12 of '{\"type\":\"tok' gone");
    refuse_at = "committed";
    live("n=1", "ready started committed died: wrote garbage: as told gone");
    assert_false(halo_engine_has_gpu(&engine));
    setenv("FAKE_GPU", "1", 1);
    live("n=1 exit=1", "ready started died: exited with status 3 (last words: told to exit) gone");
    unsetenv("FAKE_GPU");
    assert_true(halo_engine_has_gpu(&engine));
}

/* The log gets a limited number of an engine's lines in a second, and the number of those that were dropped. */
static void does_not_flood_the_log(void **state)
{
    char path[] = "/tmp/halo-noise-XXXXXX", line[4096];
    long n_lines = 0, n_dropped = 0, n;
    int own = dup(STDERR_FILENO), fd = mkstemp(path);
    assert_true(own >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    halo_log_set_level(HALO_LOG_WARN);
    uint64_t begun_ms = halo_clock_ms();
    live("noise=20000 n=1 exit=1", "ready started died: exited with status 3 (last words: told to exit) gone");
    sleep(1); /* the number is told by the first line of a later second */
    live("noise=1 n=1 exit=1", "ready started died: exited with status 3 (last words: told to exit) gone");
    uint64_t took_s = (halo_clock_ms() - begun_ms) / 1000;
    halo_log_set_level((enum halo_log_level) - 1);
    dup2(own, STDERR_FILENO);
    close(own);
    FILE *file = fdopen(fd, "r");
    rewind(file);
    while (fgets(line, sizeof(line), file)) {
        const char *count = strstr(line, "warn  ");
        n_lines += strstr(line, "engine: noise") != NULL;
        if (count && sscanf(count, "warn  %ld log lines were dropped: the limit is 200 in a second", &n) == 1)
            n_dropped += n;
    }
    fclose(file);
    unlink(path);
    assert_in_range(n_lines, 200, 200 * (took_s + 2));
    assert_true(n_dropped > 0 && n_lines + n_dropped >= 20000);
}

static void is_given_up(void **state)
{
    config.heartbeat_ms = config.ready_ms = 500;
    setenv("FAKE_MUTE", "1", 1);
    setenv("TEST_SCRIPT", "", 1);
    halo_engine_start(&engine, 3);
    halo_engine_flush(&engine);
    run_until_gone();
    unsetenv("FAKE_MUTE");
    assert_non_null(strstr(told, "died: did not answer hello within "));
    config.step_ms = 1000;
    config.ready_ms = 30000;
    live("n=5 stuck=1", "ready started died: hung for 60000 ms in a decode step: step of 8 rows gone");
}

static void is_told_to_go(void **state)
{
    setenv("TEST_SCRIPT", "n=1 never=1", 1);
    halo_engine_start(&engine, 3);
    halo_engine_flush(&engine);
    while (!strstr(told, "token") && !is_gone)
        uv_run(&loop, UV_RUN_ONCE);
    halo_engine_stop(&engine);
    assert_null(halo_engine_out(&engine));
    run_until_gone();
    assert_string_equal(told, "ready started committed token gone"); /* it was not a death */
}

static void a_program_that_is_not_there(void **state)
{
    assert_int_equal(halo_config_set_string(&config.engine_path, "/nowhere/engine"), 0);
    live("", "died: cannot be started (/nowhere/engine): No such file or directory gone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tells_lines_and_the_end, begin, end),
        cmocka_unit_test_setup_teardown(is_written_to, begin, end),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_started, begin, end),
        cmocka_unit_test_setup_teardown(dies_for_a_reason, begin_engine, end_engine),
        cmocka_unit_test_setup_teardown(does_not_flood_the_log, begin_engine, end_engine),
        cmocka_unit_test_setup_teardown(is_given_up, begin_engine, end_engine),
        cmocka_unit_test_setup_teardown(is_told_to_go, begin_engine, end_engine),
        cmocka_unit_test_setup_teardown(a_program_that_is_not_there, begin_engine, end_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
