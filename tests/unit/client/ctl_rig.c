/* ctl_rig.c: see ctl_rig.h. */
#include "ctl_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#define PATIENCE_MS 60000
#define MAX_ARGS 24

/* ---- the client ---- */

static void become_haloctl(const struct ctl_rig *rig, const struct ctl_setup *setup)
{
    const char *argv[MAX_ARGS] = {getenv("HALO_TEST_HALOCTL"), "--socket", rig->socket_path};
    for (size_t i = 0; setup->args[i]; i++)
        argv[3 + i] = setup->args[i];
    for (int fd = 0; fd < 3; fd++)
        if (setup->closed & 1 << fd)
            close(fd);
    setenv("TERM", setup->term ? setup->term : "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("HOME", rig->dir, 1); /* no .editrc of whoever runs the test */
    signal(SIGPIPE, setup->ignores_sigpipe ? SIG_IGN : SIG_DFL);
    if (setup->folder && chdir(setup->folder) != 0)
        _exit(126);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void start_on_pipes(struct ctl_rig *rig, const struct ctl_setup *setup)
{
    int in[2], out[2], err[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    rig->pid = fork();
    if (rig->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        become_haloctl(rig, setup);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    rig->in_fd = in[1];
    rig->out_fd = out[0];
    rig->err_fd = err[0];
}

static void start_on_terminal(struct ctl_rig *rig, const struct ctl_setup *setup)
{
    int master;
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    rig->pid = forkpty(&master, NULL, NULL, &size);
    if (rig->pid == 0)
        become_haloctl(rig, setup);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    rig->in_fd = rig->out_fd = master;
}

void ctl_listen(struct ctl_rig *rig)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, rig->socket_path);
    rig->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(rig->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(rig->listen_fd, 4), 0);
}

void ctl_start(struct ctl_rig *rig, const struct ctl_setup *setup)
{
    *rig = (struct ctl_rig){.listen_fd = -1, .peer_fd = -1, .in_fd = -1, .out_fd = -1, .err_fd = -1};
    signal(SIGPIPE, SIG_IGN);
    strcpy(rig->dir, "/tmp/halo-ctl.XXXXXX");
    assert_non_null(getenv("HALO_TEST_HALOCTL"));
    assert_non_null(mkdtemp(rig->dir));
    snprintf(rig->socket_path, sizeof(rig->socket_path), "%s/s", rig->dir);
    rig->out.at = calloc(1, 1);
    rig->err.at = calloc(1, 1);
    halo_line_init(&rig->lines, 1 << 24);
    halo_msg_init(&rig->msg, HALO_MSG_HELLO);
    if (!setup->no_daemon)
        ctl_listen(rig);
    if (setup->terminal)
        start_on_terminal(rig, setup);
    else
        start_on_pipes(rig, setup);
    assert_true(rig->pid > 0);
    if (setup->input) {
        if (write(rig->in_fd, setup->input, setup->n_input) != (ssize_t)setup->n_input)
            assert_int_equal(errno, EPIPE); /* it has ended already, over its arguments */
        ctl_close_input(rig);
    }
}

/* ---- what it prints ---- */

static void append(struct ctl_text *text, const char *bytes, size_t n)
{
    text->at = realloc(text->at, text->n + n + 1);
    memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

/* Reads one of its outputs; closes it at its end, which of a terminal is an error. */
static void read_output(struct ctl_rig *rig, int *fd, struct ctl_text *text)
{
    char bytes[4096];
    ssize_t n = read(*fd, bytes, sizeof(bytes));
    if (n > 0) {
        append(text, bytes, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        if (rig->in_fd == *fd)
            rig->in_fd = -1;
        close(*fd);
        *fd = -1;
    }
}

/* Waits for anything of the client, and takes what it prints. True: `fd` (-1: none) is ready. */
static bool wait_any(struct ctl_rig *rig, int fd, uint64_t until_ms)
{
    struct pollfd fds[] = {{rig->out_fd, POLLIN, 0}, {rig->err_fd, POLLIN, 0}, {fd, POLLIN, 0}};
    int64_t left_ms = (int64_t)(until_ms - halo_clock_ms());
    if (left_ms <= 0 || poll(fds, 3, (int)left_ms) == 0)
        fail_msg("waited in vain; printed so far:\n%s\n%s", rig->out.at, rig->err.at);
    if (fds[0].revents)
        read_output(rig, &rig->out_fd, &rig->out);
    if (fds[1].revents)
        read_output(rig, &rig->err_fd, &rig->err);
    return fds[2].revents != 0;
}

static bool is_shown(struct ctl_text *text, const char *wanted)
{
    const char *at = strstr(text->at + text->seen, wanted);
    if (at)
        text->seen = (size_t)(at - text->at) + strlen(wanted);
    return at != NULL;
}

void ctl_wait_shown(struct ctl_rig *rig, const char *text)
{
    for (uint64_t until = halo_clock_ms() + PATIENCE_MS; !is_shown(&rig->out, text) && !is_shown(&rig->err, text);) {
        if (rig->out_fd < 0 && rig->err_fd < 0)
            fail_msg("ended without '%s'; printed:\n%s\n%s", text, rig->out.at, rig->err.at);
        wait_any(rig, -1, until);
    }
}

void ctl_type(struct ctl_rig *rig, const char *bytes)
{
    assert_int_equal(write(rig->in_fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

void ctl_close_input(struct ctl_rig *rig)
{
    if (rig->in_fd >= 0 && rig->in_fd != rig->out_fd)
        close(rig->in_fd);
    rig->in_fd = -1;
}

int ctl_wait_end(struct ctl_rig *rig)
{
    int status;
    if (rig->in_fd != rig->out_fd)
        ctl_close_input(rig);
    for (uint64_t until = halo_clock_ms() + PATIENCE_MS; rig->out_fd >= 0 || rig->err_fd >= 0;)
        wait_any(rig, -1, until);
    assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
    rig->pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ctl_finish(struct ctl_rig *rig)
{
    const int fds[] = {rig->listen_fd, rig->peer_fd, rig->out_fd, rig->err_fd};
    if (rig->pid > 0) {
        kill(rig->pid, SIGKILL);
        waitpid(rig->pid, NULL, 0);
    }
    ctl_close_input(rig);
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    halo_msg_finish(&rig->msg);
    halo_line_finish(&rig->lines);
    free(rig->out.at);
    free(rig->err.at);
    unlink(rig->socket_path);
    rmdir(rig->dir);
}

/* ---- the daemon ---- */

void ctl_hang_up(struct ctl_rig *rig)
{
    close(rig->peer_fd);
    rig->peer_fd = -1;
}

const struct halo_msg *ctl_request(struct ctl_rig *rig)
{
    struct halo_refusal refusal;
    const char *line;
    size_t n;
    uint64_t until = halo_clock_ms() + PATIENCE_MS;
    halo_msg_finish(&rig->msg);
    halo_msg_init(&rig->msg, HALO_MSG_HELLO);
    if (rig->peer_fd < 0) {
        while (!wait_any(rig, rig->listen_fd, until))
            ;
        rig->peer_fd = accept4(rig->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        assert_true(rig->peer_fd >= 0);
    }
    while (halo_line_next(&rig->lines, &line, &n) != 0) {
        char bytes[65536];
        if (!wait_any(rig, rig->peer_fd, until))
            continue;
        ssize_t got = read(rig->peer_fd, bytes, sizeof(bytes));
        if (got <= 0)
            fail_msg("the client went away without a request; it printed:\n%s\n%s", rig->out.at, rig->err.at);
        assert_int_equal(halo_line_feed(&rig->lines, bytes, (size_t)got), 0);
    }
    if (halo_msg_decode(&rig->msg, line, n, HALO_ROLE_CLIENT, &refusal) != 0)
        fail_msg("the client sent what is no request: %s: %.*s", refusal.message, (int)n, line);
    return &rig->msg;
}

bool ctl_sent_nothing(struct ctl_rig *rig)
{
    struct pollfd fd = {rig->listen_fd, POLLIN, 0};
    char byte;
    assert_int_equal(rig->pid, 0);
    if (rig->peer_fd >= 0)
        return halo_line_pending(&rig->lines) == 0 && read(rig->peer_fd, &byte, 1) == 0;
    if (poll(&fd, 1, 0) == 0)
        return true;
    rig->peer_fd = accept4(rig->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    return rig->peer_fd >= 0 && read(rig->peer_fd, &byte, 1) == 0;
}

void ctl_answer(struct ctl_rig *rig, const char *type, const char *rest, ...)
{
    char body[8192], line[8400];
    va_list args;
    va_start(args, rest);
    vsnprintf(body, sizeof(body), rest, args);
    va_end(args);
    int n = snprintf(line, sizeof(line), "{\"type\":\"%s\",\"id\":%lld%s%s}\n", type, (long long)rig->msg.id.num,
                     body[0] ? "," : "", body);
    if (write(rig->peer_fd, line, (size_t)n) != n)
        assert_int_equal(errno, EPIPE); /* it went away */
}

void ctl_started(struct ctl_rig *rig)
{
    ctl_answer(rig, "started",
               "\"model\":\"m\",\"prompt_tokens\":2,\"cached_tokens\":0,\"prompt_md5\":\"x\",\"effective_md5\":\"x\","
               "\"newline_runs\":0,\"seed\":7,\"context\":64,\"changes\":[]");
}

void ctl_token(struct ctl_rig *rig, const char *text)
{
    ctl_answer(rig, "token", "\"text\":\"%s\"", text);
}

void ctl_done(struct ctl_rig *rig, const char *finish_reason, int n_tokens)
{
    ctl_answer(rig, "done",
               "\"finish_reason\":\"%s\",\"tokens\":%d,\"prefill_tokens\":2,\"cached_tokens\":0,\"prefill_ms\":1.0,"
               "\"prefill_tok_s\":null,\"ttft_ms\":1.0,\"decode_tok_s\":null,\"tok_s\":null,\"queue_ms\":0.0",
               finish_reason, n_tokens);
}
