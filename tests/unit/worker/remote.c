/* remote.c: starts hip-worker and speaks to it. */
#include "remote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PATIENCE_MS 60000

void worker_start(struct worker *w, const char *hip_lib, const char *const *args)
{
    const char *argv[32] = {getenv("HALO_TEST_WORKER"), "--hip-lib", hip_lib ? hip_lib : getenv("HALO_HIP_LIB"),
                            "--socket"};
    char path[96];
    int log[2], n = 4;
    *w = (struct worker){.folder = "/tmp/hip-worker-test-XXXXXX"};
    assert_non_null(mkdtemp(w->folder));
    snprintf(path, sizeof(path), "%s/s", w->folder);
    argv[n++] = path;
    for (; args && *args; args++)
        argv[n++] = *args;
    assert_int_equal(pipe(log), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed does not stop it */
        dup2(log[1], STDERR_FILENO);
        close(log[0]);
        close(log[1]);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(log[1]);
    w->log_fd = log[0];
    worker_await(w, "listening on ");
}

const char *worker_await(struct worker *w, const char *text)
{
    for (;;) {
        const char *found = strstr(w->log, text);
        if (found && strchr(found, '\n'))
            return found + strlen(text);
        struct pollfd state = {.fd = w->log_fd, .events = POLLIN};
        if (poll(&state, 1, PATIENCE_MS) <= 0)
            fail_msg("no message with '%s' within %d s; there were: %s", text, PATIENCE_MS / 1000, w->log);
        ssize_t n = read(w->log_fd, w->log + w->n_log, sizeof(w->log) - 1 - w->n_log);
        if (n <= 0)
            fail_msg("no message with '%s' before the end; there were: %s", text, w->log);
        w->n_log += (size_t)n;
    }
}

int worker_stop(struct worker *w, int signal_number)
{
    char path[96];
    int status;
    kill(w->pid, signal_number);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    close(w->log_fd);
    snprintf(path, sizeof(path), "%s/s", w->folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/s.lock", w->folder);
    unlink(path);
    rmdir(w->folder);
    return status;
}

int connect_unix(const struct worker *w)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", w->folder);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

int connect_tcp(const struct worker *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(w->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* One byte or more; 0 at the end of the connection. */
static size_t receive(int fd, uint8_t *at, size_t n)
{
    struct pollfd state = {.fd = fd, .events = POLLIN};
    if (poll(&state, 1, PATIENCE_MS) <= 0)
        fail_msg("no answer within %d s", PATIENCE_MS / 1000);
    ssize_t got = recv(fd, at, n, 0);
    return got > 0 ? (size_t)got : 0;
}

bool ends(int fd)
{
    uint8_t byte;
    return receive(fd, &byte, 1) == 0;
}

static bool receive_all(int fd, uint8_t *at, size_t n)
{
    while (n > 0) {
        size_t got = receive(fd, at, n);
        if (got == 0)
            return false;
        at += got;
        n -= got;
    }
    return true;
}

int ask(int fd, enum halo_remote_op op, const void *request, union halo_remote_reply *ret)
{
    static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];
    static uint32_t id;
    struct halo_remote_header h = {.op = (uint16_t)op, .id = ++id, .device = HALO_REMOTE_DEVICE_CURRENT};
    int n = halo_remote_request_encode(frame, sizeof(frame), &h, request, true);
    assert_true(n > 0);
    if (send(fd, frame, (size_t)n, MSG_NOSIGNAL) != n || !receive_all(fd, frame, HALO_REMOTE_HEADER_BYTES))
        return -EPIPE;
    assert_int_equal(halo_remote_header_decode(frame, &h), 0);
    assert_int_equal(h.id, id);
    if (!receive_all(fd, frame + HALO_REMOTE_HEADER_BYTES, h.payload_bytes))
        return -EPIPE;
    assert_int_equal(halo_remote_reply_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, ret, NULL), 0);
    return ret->status.error;
}

int ask_init(int fd)
{
    union halo_remote_reply a;
    return ask(fd, HIP_OP_INIT, &(struct halo_remote_init){.hip_major = 7}, &a);
}
