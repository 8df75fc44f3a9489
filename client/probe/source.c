/* source.c: lines of events from standard input, a daemon's socket, or an engine that is started for it.
 *
 * Every read has a deadline. A child is asked to end by the end of its input, then told to; it is always reaped.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <client/socket.h>

#include "probe_priv.h"

#define LINE_BYTES ((size_t)1 << 28)
#define END_MS 5000

extern char **environ;

void probe_source_stdin(struct probe_source *source)
{
    *source = (struct probe_source){.in_fd = STDIN_FILENO, .out_fd = -1};
    halo_line_init(&source->lines, LINE_BYTES);
}

int probe_source_socket(struct probe_source *source, const char *path)
{
    int fd = halo_client_connect(path);
    if (fd < 0)
        return fd;
    *source = (struct probe_source){.in_fd = fd, .out_fd = fd};
    halo_line_init(&source->lines, LINE_BYTES);
    return 0;
}

int probe_source_spawn(struct probe_source *source, const char *engine, const char *device)
{
    const char *const argv[] = {engine, "--stdio", "--device", device, NULL};
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(from, O_CLOEXEC) < 0) {
        int error = -errno;
        close(to[0]);
        close(to[1]);
        return error;
    }
    *source = (struct probe_source){.in_fd = from[0], .out_fd = to[1]};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    int r = -posix_spawnp(&source->child, engine, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    halo_line_init(&source->lines, LINE_BYTES);
    if (r < 0) {
        source->child = 0;
        probe_source_close(source);
    }
    return r;
}

int probe_source_send(struct probe_source *source, const struct halo_msg *msg)
{
    struct halo_json w;
    halo_json_init(&w);
    int r = halo_msg_encode(&w, msg);
    for (size_t at = 0; r == 0 && at < w.len;) {
        ssize_t n = write(source->out_fd, w.at + at, w.len - at);
        if (n < 0 && errno != EINTR)
            r = -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    halo_json_finish(&w);
    return r;
}

static int read_more(struct probe_source *source, int wait_ms)
{
    struct pollfd ready = {.fd = source->in_fd, .events = POLLIN};
    char *at;
    size_t room;
    int r = poll(&ready, 1, wait_ms);
    if (r == 0)
        return -ETIME;
    if (r < 0)
        return errno == EINTR ? 0 : -errno;
    r = halo_line_reserve(&source->lines, 65536, &at, &room);
    if (r < 0)
        return r;
    ssize_t n = read(source->in_fd, at, room);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    halo_line_commit(&source->lines, (size_t)n);
    return n == 0 ? PROBE_E_END : 0;
}

int probe_source_next(struct probe_source *source, int wait_ms, const char **ret_line, size_t *ret_len)
{
    for (;;) {
        int r = halo_line_next(&source->lines, ret_line, ret_len);
        if (r == 0)
            return 0;
        if (r == HALO_LINE_E_MORE)
            r = read_more(source, wait_ms);
        else
            r = -EMSGSIZE;
        if (r != 0)
            return r;
    }
}

void probe_source_close(struct probe_source *source)
{
    if (source->out_fd >= 0 && source->out_fd != source->in_fd)
        close(source->out_fd);
    for (int waited = 0; source->child > 0; waited += 20) {
        pid_t pid = waitpid(source->child, NULL, waited > END_MS ? 0 : WNOHANG);
        if (pid == source->child || (pid < 0 && errno != EINTR))
            break;
        if (waited == END_MS)
            kill(source->child, SIGKILL);
        poll(NULL, 0, 20);
    }
    if (source->in_fd > STDIN_FILENO)
        close(source->in_fd);
    halo_line_finish(&source->lines);
    *source = (struct probe_source){.in_fd = -1, .out_fd = -1};
}
