/* test_activate.c: halod and its engine as systemd would run them, without systemd.
 *
 * systemd-socket-activate makes the socket and becomes halod at the first connection; the manager's side of sd_notify
 * is a socket of this test, which checks each message and its sender. The engine is killed once meanwhile: the
 * watchdog is fed through the change. Skipped, aloud, where systemd-socket-activate is not installed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include "daemon_fixture.h"

#define PROGRAM "/usr/bin/systemd-socket-activate"
#define GENERATE                                                                                                       \
    "\"model\":\"fable-Q4_K_M\",\"prompt\":\"Once\",\"max_tokens\":5,\"temperature\":0,\"emit_token_ids\":true"
#define WAIT_MS 60000

static struct daemon_fixture fixture;

static struct {
    char path[300];
    int fd;
    int n_ready, n_watchdog, n_stopping, n_extend, n_status, n_down;
} manager;

static void manager_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;
    snprintf(manager.path, sizeof manager.path, "%s/notify", fixture.dir);
    assert_true(strlen(manager.path) < sizeof address.sun_path);
    memcpy(address.sun_path, manager.path, strlen(manager.path));
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager.fd >= 0);
    assert_int_equal(setsockopt(manager.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    assert_int_equal(bind(manager.fd, (const struct sockaddr *)&address, sizeof address), 0);
}

static void check_message(const char *text)
{
    bool known = true;
    if (strcmp(text, "READY=1") == 0)
        assert_int_equal(manager.n_ready++, 0);
    else if (strcmp(text, "WATCHDOG=1") == 0)
        manager.n_watchdog++;
    else if (strcmp(text, "STOPPING=1") == 0)
        assert_int_equal(manager.n_stopping++, 0);
    else if (strncmp(text, "EXTEND_TIMEOUT_USEC=", 20) == 0 && atoll(text + 20) > 0)
        manager.n_extend++;
    else if (strncmp(text, "STATUS=engine is down: it ", 26) == 0)
        manager.n_down++;
    else if (strncmp(text, "STATUS=", 7) == 0 && text[7])
        manager.n_status++;
    else
        known = false;
    if (!known)
        fail_msg("halod told its manager: %s", text);
    assert_true(manager.n_ready == 1 || strncmp(text, "STATUS=", 7) == 0); /* nothing else before READY */
}

/* Takes every message that is there. Each comes from halod itself. */
static void manager_read(void)
{
    char text[4096], control[CMSG_SPACE(sizeof(struct ucred))];
    for (;;) {
        struct iovec at = {text, sizeof text - 1};
        struct msghdr message = {
            .msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(manager.fd, &message, 0);
        if (n < 0) {
            assert_true(errno == EAGAIN);
            return;
        }
        struct ucred sender;
        const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        assert_true(header && header->cmsg_type == SCM_CREDENTIALS);
        memcpy(&sender, CMSG_DATA(header), sizeof sender);
        assert_int_equal(sender.pid, fixture.pid);
        text[n] = '\0';
        check_message(text);
    }
}

static void wait_for(const int *count, int wanted)
{
    for (int64_t end = (int64_t)halo_clock_ms() + WAIT_MS; *count < wanted; manager_read()) {
        struct pollfd fd = {.fd = manager.fd, .events = POLLIN};
        if ((int64_t)halo_clock_ms() > end)
            fail_msg("%d ready, %d watchdog, %d stopping, %d status, %d down: something is missing", manager.n_ready,
                     manager.n_watchdog, manager.n_stopping, manager.n_status, manager.n_down);
        poll(&fd, 1, 100);
    }
}

static void start(void)
{
    const char *build = getenv("HALO_BUILD_ROOT"), *source = getenv("HALO_SOURCE_ROOT");
    char halod[512], engine[512], models[512], notify[320];
    assert_non_null(build);
    assert_non_null(source);
    snprintf(fixture.dir, sizeof fixture.dir, "/tmp/halod-e2e-XXXXXX");
    assert_non_null(mkdtemp(fixture.dir));
    snprintf(fixture.socket_path, sizeof fixture.socket_path, "%s/s", fixture.dir);
    snprintf(fixture.log_path, sizeof fixture.log_path, "%s/log", fixture.dir);
    manager_open();
    snprintf(halod, sizeof halod, "%s/daemon/serve/halod", build);
    snprintf(engine, sizeof engine, "%s/daemon/engine/halod-engine", build);
    snprintf(models, sizeof models, "%s/tests/models", source);
    snprintf(notify, sizeof notify, "NOTIFY_SOCKET=%s", manager.path);
    const char *argv[] = {PROGRAM,
                          "--listen",
                          fixture.socket_path,
                          "-E",
                          notify,
                          "-E",
                          "WATCHDOG_USEC=400000",
                          halod,
                          "--engine",
                          engine,
                          "--model-dir",
                          models,
                          "--device",
                          "cpu",
                          NULL};
    fixture.pid = fork();
    assert_true(fixture.pid >= 0);
    if (fixture.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(fixture.log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 2);
        close(fd);
        execv(PROGRAM, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    for (int64_t end = (int64_t)halo_clock_ms() + WAIT_MS; access(fixture.socket_path, F_OK) != 0; usleep(5000))
        if ((int64_t)halo_clock_ms() > end || waitpid(fixture.pid, NULL, WNOHANG) != 0)
            fail_msg("systemd-socket-activate did not open %s", fixture.socket_path);
}

static void generate(void)
{
    struct client client;
    client_open(&client, &fixture);
    size_t i = client_send(&client, "generate", "%s", GENERATE);
    assert_true(client_wait(&client, 0, WAIT_MS));
    if (client.requests[i].terminal != HALO_EV_DONE)
        fail_msg("generate: %s", client.requests[i].message);
    assert_int_equal(client.requests[i].n_ids, 5);
    client_close(&client);
}

static void stop(void)
{
    int status = 0;
    int64_t end = (int64_t)halo_clock_ms() + WAIT_MS;
    assert_int_equal(kill(fixture.pid, SIGTERM), 0);
    for (; waitpid(fixture.pid, &status, WNOHANG) == 0; usleep(5000))
        if ((int64_t)halo_clock_ms() > end)
            fail_msg("halod did not end within %d ms of SIGTERM", WAIT_MS);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    manager_read();
}

static void as_systemd_runs_it(void **state)
{
    (void)state;
    start();
    generate(); /* this connection starts the daemon */
    wait_for(&manager.n_watchdog, 3);
    assert_int_equal(manager.n_ready, 1);
    pid_t engine = daemon_engine_pid(&fixture);
    assert_true(engine > 0);
    assert_int_equal(kill(engine, SIGKILL), 0);
    wait_for(&manager.n_down, 1);
    generate();
    wait_for(&manager.n_watchdog, manager.n_watchdog + 3);
    assert_true(manager.n_status > 0);
    assert_int_equal(manager.n_stopping, 0);
    stop();
    assert_int_equal(manager.n_stopping, 1);
    assert_true(manager.n_extend > 0);
    assert_int_equal(access(fixture.socket_path, F_OK), 0); /* it is the manager's */
    close(manager.fd);
    daemon_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_systemd_runs_it)};
    if (access(PROGRAM, X_OK) != 0) {
        fputs("skipped: " PROGRAM " is not installed\n", stderr);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
