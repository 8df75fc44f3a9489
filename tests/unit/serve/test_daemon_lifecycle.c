/* test_daemon_lifecycle.c: start, socket, signals, the end; what a service manager sees. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client;

static bool is_alive(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] != 'Z';
}

static void expect_dead(pid_t pid)
{
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; is_alive(pid); rig_sleep_ms(2))
        assert_true(rig_now_ms() < until);
}

static bool socket_exists(void)
{
    struct stat st;
    return lstat(rig.socket_path, &st) == 0;
}

/* Runs a program to its end; its exit status. What it wrote to stderr goes to `ret_text`. */
static int run(char *const argv[], char *ret_text, size_t room)
{
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execv(argv[0], argv);
        _exit(99);
    }
    close(fds[1]);
    size_t at = 0;
    for (ssize_t n; at + 1 < room && (n = read(fds[0], ret_text + at, room - 1 - at)) > 0;)
        at += (size_t)n;
    ret_text[at] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void sigterm_lets_requests_finish(void **state)
{
    struct halo_ev ev;
    const char *line;
    size_t len;
    rig_start(&rig, "[daemon]\ndrain_ms = 60000\n", NULL);
    client_connect(&client, &rig);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=50 us=15000\"}");
    client_event(&client, &ev);
    halo_ev_finish(&ev);
    pid_t engine = rig_engine_pid(&rig);
    assert_int_equal(kill(rig.pid, SIGTERM), 0);
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; socket_exists(); rig_sleep_ms(1))
        assert_true(rig_now_ms() < until);
    client_send(&client, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"\"}");
    client_terminal(&client, 2, &ev);
    assert_int_equal(ev.error.code, HALO_ERROR_SHUTTING_DOWN);
    halo_ev_finish(&ev);
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    assert_int_equal(ev.done.finish_reason, HALO_WIRE_FINISH_LENGTH);
    halo_ev_finish(&ev);
    assert_false(client_line(&client, &line, &len));
    assert_int_equal(rig_wait(&rig), 0);
    expect_dead(engine);
    client_close(&client);
    rig_remove(&rig);
}

static void drain_time_is_kept(void **state)
{
    struct halo_ev ev;
    rig_start(&rig, "[daemon]\ndrain_ms = 200\n", NULL);
    client_connect(&client, &rig);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=0 never=1\"}");
    client_send(&client, "{\"type\":\"load\",\"id\":2,\"model\":\"slow-60000\"}");
    while (rig_engine_starts(&rig) == 0)
        rig_sleep_ms(2);
    rig_sleep_ms(100);
    uint64_t before = rig_now_ms();
    assert_int_equal(kill(rig.pid, SIGINT), 0);
    for (int i = 0; i < 2; i++) {
        client_event(&client, &ev);
        assert_int_equal(ev.type, HALO_EV_ERROR);
        assert_int_equal(ev.error.code, HALO_ERROR_SHUTTING_DOWN);
        assert_true(ev.error.retryable);
        halo_ev_finish(&ev);
    }
    assert_int_equal(rig_wait(&rig), 0);
    assert_true(rig_now_ms() - before >= 200);
    client_close(&client);
    rig_remove(&rig);
}

/* The engine ignores SIGTERM and the end of its socket: SIGKILL after kill_ms, and a client that does not read holds up
 * nothing. */
static void stubborn_engine_and_deaf_client(void **state)
{
    static const char *const env[] = {"FAKE_STUBBORN=1", NULL};
    struct client deaf;
    rig_start(&rig, "[daemon]\ndrain_ms = 100\n[engine]\nkill_ms = 300\n", env);
    client_connect(&client, &rig);
    client_connect(&deaf, &rig);
    client_send(&deaf, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100000 size=1000\"}");
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    rig_sleep_ms(300);
    pid_t engine = rig_engine_pid(&rig);
    assert_int_equal(kill(rig.pid, SIGTERM), 0);
    assert_int_equal(rig_wait(&rig), 0);
    expect_dead(engine);
    client_close(&client);
    client_close(&deaf);
    rig_remove(&rig);
}

static void second_signal_leaves_at_once(void **state)
{
    static const char *const env[] = {"FAKE_STUBBORN=1", NULL};
    rig_start(&rig, "[daemon]\ndrain_ms = 3600000\n", env);
    client_connect(&client, &rig);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=5 never=1\"}");
    struct halo_ev ev;
    client_event(&client, &ev);
    halo_ev_finish(&ev);
    pid_t engine = rig_engine_pid(&rig);
    assert_int_equal(kill(rig.pid, SIGTERM), 0);
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; socket_exists(); rig_sleep_ms(1))
        assert_true(rig_now_ms() < until);
    assert_int_equal(kill(rig.pid, SIGTERM), 0);
    int status = rig_wait(&rig);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM); /* it did not wait for the request, which never ends */
    expect_dead(engine);
    assert_false(socket_exists());
    client_close(&client);
    rig_remove(&rig);
}

/* Signals while the engine waits for its next start, and while it is starting. */
static void ends_in_every_state(void **state)
{
    static const char *const failing[] = {"FAKE_FAIL_STARTS=1000", NULL}, *const mute[] = {"FAKE_MUTE=1", NULL};
    for (int i = 0; i < 6; i++) {
        rig_start(&rig, "", i % 3 == 0 ? failing : i % 3 == 1 ? mute : NULL);
        client_connect(&client, &rig);
        client_send(&client, "{\"type\":\"hello\",\"id\":1}\n{\"type\":\"models\",\"id\":2}");
        rig_sleep_ms(i * 20);
        client_close(&client);
        rig_stop(&rig); /* asserts exit status 0: the loop closed with nothing left on it */
    }
}

/* Whoever can connect can also send the signal: it ends the daemon in order, the socket is removed. */
static void ends_as_soon_as_it_listens(void **state)
{
    for (int i = 0; i < 40; i++) {
        rig_start(&rig, "", NULL);
        rig_stop(&rig);
    }
}

/* SIGKILL leaves socket and engine behind: the engine ends by itself, the socket is replaced. */
static void recovers_from_its_own_death(void **state)
{
    rig_start(&rig, "", NULL);
    pid_t engine = rig_engine_pid(&rig);
    assert_int_equal(kill(rig.pid, SIGKILL), 0);
    rig_wait(&rig);
    assert_true(socket_exists());
    expect_dead(engine);
    rig_restart(&rig, "", NULL);
    client_connect(&client, &rig);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    client_close(&client);
    rig_stop(&rig);
}

static void live_daemon_is_not_displaced(void **state)
{
    char text[4096], pid_text[32];
    rig_start(&rig, "", NULL);
    char *argv[] = {getenv("HALO_TEST_HALOD"), (char *)"--socket", rig.socket_path, NULL};
    assert_int_equal(run(argv, text, sizeof(text)), 1);
    snprintf(pid_text, sizeof(pid_text), "pid %ld", (long)rig.pid);
    assert_non_null(strstr(text, pid_text));
    client_connect(&client, &rig);
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    client_close(&client);
    rig_stop(&rig);
}

static void exit_statuses(void **state)
{
    char text[8192], *halod = getenv("HALO_TEST_HALOD");
    char *version[] = {halod, (char *)"--version", NULL}, *help[] = {halod, (char *)"--help", NULL};
    char *unknown[] = {halod, (char *)"--frobnicate", NULL};
    char *no_config[] = {halod, (char *)"--config", (char *)"/nonexistent/c", NULL};
    char *no_dir[] = {halod, (char *)"--socket", (char *)"/nonexistent/s", NULL};
    char *bad_device[] = {halod, (char *)"--device", (char *)"tpu", NULL};
    assert_int_equal(run(version, text, sizeof(text)), 0);
    assert_true(strncmp(text, "halod ", 6) == 0);
    assert_int_equal(run(help, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "--model-dir"));
    assert_int_equal(run(unknown, text, sizeof(text)), 2);
    assert_non_null(strstr(text, "--frobnicate"));
    assert_int_equal(run(bad_device, text, sizeof(text)), 2);
    assert_int_equal(run(no_config, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "/nonexistent/c"));
    assert_int_equal(run(no_dir, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "/nonexistent/s"));
}

static void a_group_that_is_not_there(void **state)
{
    char path[] = "/tmp/halo-group-XXXXXX", text[1024], *halod = getenv("HALO_TEST_HALOD");
    static const char config[] = "[daemon]\nadmin_group = no-such-group\n";
    char *argv[] = {halod, (char *)"--config", path, (char *)"--socket", (char *)"/tmp/never", NULL};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, config, sizeof(config) - 1), sizeof(config) - 1);
    close(fd);
    assert_int_equal(run(argv, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "halod: admin_group: there is no group 'no-such-group'\n"));
    unlink(path);
}

/* A datagram socket in the place of the service manager's. */
static int open_notify(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    struct timeval patience = {5, 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

/* Reads until a message starts with `wanted`; how many came before it. */
static int expect_notify(int fd, const char *wanted)
{
    char text[1024];
    for (int i = 0; i < 100; i++) {
        ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
        if (n < 0)
            fail_msg("the manager was not told %s", wanted);
        text[n < 0 ? 0 : n] = '\0';
        if (strncmp(text, wanted, strlen(wanted)) == 0)
            return i;
    }
    fail_msg("the manager was told other things than %s", wanted);
    return -1;
}

/* A build without libsystemd has nothing to say to a manager. */
static bool has_manager(void)
{
    const char *value = getenv("HALO_TEST_SYSTEMD");
    return !value || strcmp(value, "0") != 0;
}

/* Within drain_ms the engine is asked to save prefixes, once the requests are through; whatever it does, the end comes.
 */
static void prefixes_are_saved_at_the_end(void **state)
{
    static const struct {
        const char *config, *how;
        const char *says, *asked;
    } rows[] = {
        {"", "FAKE_SAVE=well", "cached prefixes are saved: 5 pages of 1 model, 4321 bytes", "within 1750 ms"},
        {"", "FAKE_SAVE=die", "cached prefixes are not saved: the engine died", "asked to save"},
        {"[prefixes]\nsave_ms = 300\n", "FAKE_SAVE=never", "the engine did not answer in time", "within 263 ms"},
        {"[daemon]\ndrain_ms = 800\n", "FAKE_SAVE=never", "the engine did not answer in time", "asked to save"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const env[] = {rows[i].how, NULL};
        rig_start(&rig, rows[i].config, env);
        client_connect(&client, &rig);
        static const char load[] = "{\"type\":\"load\",\"id\":1,\"model\":\"a\"}";
        assert_int_equal(client_ask(&client, load, 1, NULL), HALO_EV_LOADED);
        client_close(&client);
        assert_int_equal(kill(rig.pid, SIGTERM), 0);
        assert_int_equal(rig_wait(&rig), 0);
        if (!rig_log_has(&rig, rows[i].says) || !rig_log_has(&rig, rows[i].asked))
            fail_msg("row %zu", i);
        assert_int_equal(rig_engine_starts(&rig), 1);
        rig_remove(&rig);
    }
}

static void nothing_is_saved_where_nothing_is_wanted(void **state)
{
    static const char *const configs[] = {"[prefixes]\nsave_bytes = 0\n", "[prefixes]\nsave_ms = 0\n", ""};
    for (int i = 0; i < 3; i++) {
        rig_start(&rig, configs[i], NULL);
        client_connect(&client, &rig);
        if (i < 2)
            client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"a\"}", 1, NULL);
        else /* no model, no prefixes */
            client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL);
        client_close(&client);
        assert_int_equal(kill(rig.pid, SIGTERM), 0);
        assert_int_equal(rig_wait(&rig), 0);
        assert_false(rig_log_has(&rig, "asked to save"));
        rig_remove(&rig);
    }
}

/* Readiness before the engine is up, watchdog, stopping. */
static void tells_the_manager(void **state)
{
    if (!has_manager())
        skip();
    char path[] = "/tmp/halo-notify-XXXXXX", variable[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    fd = open_notify(path);
    snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", path);
    const char *const env[] = {variable, "WATCHDOG_USEC=200000", "FAKE_MUTE=1", NULL};
    rig_start(&rig, "", env);
    char text[64];
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    if (n >= 0 && strncmp(text, "READY=1", 7) != 0)
        expect_notify(fd, "READY=1");
    for (int i = 0; i < 5; i++)
        expect_notify(fd, "WATCHDOG=1");
    kill(rig.pid, SIGTERM);
    expect_notify(fd, "STOPPING=1");
    assert_int_equal(rig_wait(&rig), 0);
    rig_remove(&rig);
    close(fd);
    unlink(path);
}

/* Socket activation: descriptor 3, LISTEN_PID, LISTEN_FDS. The file is the manager's and stays; a client that came
 * before the daemon is served. */
static void uses_a_passed_socket(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!has_manager())
        skip();
    snprintf(rig.dir, sizeof(rig.dir), "/tmp/halo-serve-XXXXXX");
    assert_non_null(mkdtemp(rig.dir));
    snprintf(rig.socket_path, sizeof(rig.socket_path), "%s/s", rig.dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig.socket_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    client_connect(&client, &rig);
    client_send(&client, "{\"type\":\"ping\",\"id\":1}");
    rig.pid = fork();
    if (rig.pid == 0) {
        char pid_text[32];
        snprintf(pid_text, sizeof(pid_text), "%ld", (long)getpid());
        setenv("LISTEN_PID", pid_text, 1);
        setenv("LISTEN_FDS", "1", 1);
        if (dup2(fd, 3) != 3)
            _exit(98);
        execl(getenv("HALO_TEST_HALOD"), "halod", "--socket", "/nonexistent/never-used", "--engine",
              getenv("HALO_TEST_ENGINE"), "--model-dir", rig.dir, (char *)NULL);
        _exit(99);
    }
    close(fd);
    struct halo_ev ev;
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_PONG);
    halo_ev_finish(&ev);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    client_close(&client);
    assert_int_equal(kill(rig.pid, SIGTERM), 0);
    assert_int_equal(rig_wait(&rig), 0);
    assert_true(socket_exists());
    rig_remove(&rig); /* fails if a lock file was left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_saved_at_the_end),
        cmocka_unit_test(nothing_is_saved_where_nothing_is_wanted),
        cmocka_unit_test(sigterm_lets_requests_finish),
        cmocka_unit_test(drain_time_is_kept),
        cmocka_unit_test(stubborn_engine_and_deaf_client),
        cmocka_unit_test(second_signal_leaves_at_once),
        cmocka_unit_test(ends_in_every_state),
        cmocka_unit_test(ends_as_soon_as_it_listens),
        cmocka_unit_test(recovers_from_its_own_death),
        cmocka_unit_test(live_daemon_is_not_displaced),
        cmocka_unit_test(exit_statuses),
        cmocka_unit_test(a_group_that_is_not_there),
        cmocka_unit_test(tells_the_manager),
        cmocka_unit_test(uses_a_passed_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
