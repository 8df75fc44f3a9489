/* child.c: children with a deadline (contract in child.h).
 *
 * Two pipes: one for what the child speaks (records of a kind, a length and bytes, or the raw output of a program), one
 * for its standard error. The child leads a process group of its own, so that all of it can be killed, and dies with
 * its parent.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <client/clock.h>

#define REAP_MS 2000 /* from SIGKILL to giving up */
#define TICK_MS 10   /* between two looks where the kernel has no pidfd */
#define NOT_RUN 127

enum { RECORD_PHASE = 1, RECORD_RESULT = 2 };
struct record {
    uint16_t kind, n_bytes;
};
#define RECORD_BYTES_MAX 2048 /* with its head below PIPE_BUF: written at once */

struct child {
    pid_t pid;
    int pid_fd, port_fd, error_fd; /* -1: not there, or at its end */
    bool raw;
    struct record head;
    size_t n_head, n_body; /* read of the record that is under way */
    char body[RECORD_BYTES_MAX];
    const struct halo_child_options *options;
    struct halo_child_outcome *outcome;
    size_t n_errors;
};

/* ---- in the child ---- */

static void write_all(int fd, const void *data, size_t n_bytes)
{
    const char *at = data;
    while (n_bytes > 0) {
        ssize_t n = write(fd, at, n_bytes);
        if (n < 0 && errno != EINTR)
            return;
        at += n > 0 ? n : 0;
        n_bytes -= n > 0 ? (size_t)n : 0;
    }
}

static void speak(const struct halo_child_port *port, uint16_t kind, const void *data, size_t n_bytes)
{
    char buffer[sizeof(struct record) + RECORD_BYTES_MAX];
    const struct record head = {kind, (uint16_t)n_bytes};
    memcpy(buffer, &head, sizeof(head));
    memcpy(buffer + sizeof(head), data, n_bytes);
    write_all(port->fd, buffer, sizeof(head) + n_bytes);
}

void halo_child_phase(struct halo_child_port *port, const char *format, ...)
{
    char text[HALO_CHILD_PHASE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n >= 0)
        speak(port, RECORD_PHASE, text, strlen(text));
}

void halo_child_result(struct halo_child_port *port, const void *data, size_t n_bytes)
{
    const char *at = data;
    while (n_bytes > 0) {
        size_t n = n_bytes < RECORD_BYTES_MAX ? n_bytes : RECORD_BYTES_MAX;
        speak(port, RECORD_RESULT, at, n);
        at += n;
        n_bytes -= n;
    }
}

struct halo_child_port halo_child_port_inherited(void)
{
    return (struct halo_child_port){HALO_CHILD_PORT_FD};
}

static void change_environment(const char *const *env)
{
    for (; env && *env; env++) {
        char name[128];
        size_t n = strcspn(*env, "=");
        if (n >= sizeof(name))
            continue;
        memcpy(name, *env, n);
        name[n] = '\0';
        if ((*env)[n])
            setenv(name, *env + n + 1, 1);
        else
            unsetenv(name);
    }
}

/* Standard streams and limits of the child. */
static void settle(const struct halo_child_options *options, int port_fd, int error_fd, pid_t parent, bool raw)
{
    const struct rlimit no_core = {0, 0};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(NOT_RUN);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGPIPE, SIG_DFL);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    dup2(error_fd, STDERR_FILENO);
    dup2(raw ? port_fd : error_fd, STDOUT_FILENO);
    change_environment(options->env);
}

static void run_program(const struct halo_child_options *options, int port_fd, char *const *argv)
{
    if (options->speaks)
        dup2(port_fd, HALO_CHILD_PORT_FD);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(NOT_RUN);
}

/* ---- in the parent ---- */

static void take_result(struct child *child, const char *data, size_t n_bytes)
{
    struct halo_child_outcome *outcome = child->outcome;
    size_t room = child->options->result ? child->options->room - outcome->n_result : 0;
    size_t n = n_bytes < room ? n_bytes : room;
    if (n > 0)
        memcpy((char *)child->options->result + outcome->n_result, data, n);
    outcome->n_result += n;
    outcome->cut |= n < n_bytes;
}

static void take_record(struct child *child)
{
    if (child->head.kind == RECORD_RESULT)
        take_result(child, child->body, child->n_body);
    if (child->head.kind == RECORD_PHASE) {
        size_t n = child->n_body < HALO_CHILD_PHASE_BYTES - 1 ? child->n_body : HALO_CHILD_PHASE_BYTES - 1;
        memcpy(child->outcome->phase, child->body, n);
        child->outcome->phase[n] = '\0';
    }
    child->n_head = child->n_body = 0;
}

/* Records come in any pieces. False: not a record; the child speaks no longer. */
static bool take_records(struct child *child, const char *data, size_t n_bytes)
{
    while (n_bytes > 0) {
        size_t n;
        if (child->n_head < sizeof(child->head)) {
            n = sizeof(child->head) - child->n_head;
            n = n < n_bytes ? n : n_bytes;
            memcpy((char *)&child->head + child->n_head, data, n);
            child->n_head += n;
            if (child->n_head == sizeof(child->head) && child->head.n_bytes > RECORD_BYTES_MAX)
                return false;
        } else {
            n = child->head.n_bytes - child->n_body;
            n = n < n_bytes ? n : n_bytes;
            memcpy(child->body + child->n_body, data, n);
            child->n_body += n;
        }
        data += n;
        n_bytes -= n;
        if (child->n_head == sizeof(child->head) && child->n_body == child->head.n_bytes)
            take_record(child);
    }
    return true;
}

/* The last bytes are kept, in which the reason stands. */
static void take_errors(struct child *child, const char *data, size_t n_bytes)
{
    char *kept = child->outcome->errors;
    const size_t room = HALO_CHILD_ERRORS_BYTES - 1;
    if (n_bytes > room) {
        data += n_bytes - room;
        n_bytes = room;
    }
    if (child->n_errors + n_bytes > room) {
        size_t drop = child->n_errors + n_bytes - room;
        memmove(kept, kept + drop, child->n_errors - drop);
        child->n_errors -= drop;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)data[i];
        kept[child->n_errors++] = (char)(c == '\n' || (c >= ' ' && c < 127) ? c : '?');
    }
    kept[child->n_errors] = '\0';
}

/* What is there now. Closes at the end, or at nonsense. */
static void read_port(struct child *child)
{
    char buffer[4096];
    ssize_t n = read(child->port_fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0 && child->raw)
        take_result(child, buffer, (size_t)n);
    if (n <= 0 || (!child->raw && !take_records(child, buffer, (size_t)n))) {
        close(child->port_fd);
        child->port_fd = -1;
    }
}

static void read_errors(struct child *child)
{
    char buffer[4096];
    ssize_t n = read(child->error_fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0)
        take_errors(child, buffer, (size_t)n);
    if (n <= 0) {
        close(child->error_fd);
        child->error_fd = -1;
    }
}

/* Waits up to wait_ms for anything and takes it. False: there was nothing. */
static bool step(struct child *child, int wait_ms)
{
    struct pollfd fds[] = {
        {child->port_fd, POLLIN, 0}, {child->error_fd, POLLIN, 0}, {wait_ms > 0 ? child->pid_fd : -1, POLLIN, 0}};
    if (child->pid_fd < 0 && wait_ms > TICK_MS)
        wait_ms = TICK_MS;
    if (poll(fds, 3, wait_ms) <= 0)
        return false;
    if (fds[0].revents)
        read_port(child);
    if (fds[1].revents)
        read_errors(child);
    return fds[0].revents || fds[1].revents;
}

/* Whether it has ended. It stays a zombie, so that its number is not another's while the group is killed. */
static bool ended(const struct child *child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child->pid;
}

static bool wait_until(struct child *child, int64_t deadline_ms)
{
    bool is_ended;
    int64_t left;
    while (!(is_ended = ended(child)) && (left = deadline_ms - halo_client_now_ms()) > 0)
        step(child, left < 1000 ? (int)left : 1000);
    return is_ended;
}

/* "D in amdgpu_mes_submit": of a process that does not go away. */
static void look_where(const struct child *child)
{
    char path[64], text[512] = "", place[40] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)child->pid);
    FILE *file = fopen(path, "re");
    const char *state = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
    char letter = state && state[1] ? state[2] : '?';
    if (file)
        fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/wchan", (int)child->pid);
    file = fopen(path, "re");
    if (file && fgets(place, sizeof(place), file) && strcmp(place, "0") != 0)
        snprintf(child->outcome->stuck_in, sizeof(child->outcome->stuck_in), "%c in %s", letter, place);
    else
        snprintf(child->outcome->stuck_in, sizeof(child->outcome->stuck_in), "%c", letter);
    if (file)
        fclose(file);
}

static void finish(struct child *child, bool in_time)
{
    struct halo_child_outcome *outcome = child->outcome;
    int status = 0;
    if (!ended(child)) {
        outcome->end = HALO_CHILD_STUCK;
        look_where(child);
        return;
    }
    kill(-child->pid, SIGKILL); /* whatever it started */
    waitpid(child->pid, &status, WNOHANG);
    outcome->end = !in_time ? HALO_CHILD_DEADLINE : WIFSIGNALED(status) ? HALO_CHILD_KILLED : HALO_CHILD_EXITED;
    outcome->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* Supervises the child to its end. */
static void supervise(struct child *child)
{
    const int64_t begin = halo_client_now_ms(), deadline = begin + child->options->deadline_ms;
    bool in_time = wait_until(child, deadline);
    child->outcome->took_ms = (uint32_t)(halo_client_now_ms() - begin);
    if (!in_time) {
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL);
        wait_until(child, halo_client_now_ms() + REAP_MS);
    }
    finish(child, in_time);
    for (int i = 0; i < 4096 && step(child, 0); i++) /* bounded: others may hold the pipes and go on writing */
        ;
    const int fds[] = {child->port_fd, child->error_fd, child->pid_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A pipe whose ends are none of the standard streams, which may have been closed. */
static int make_pipe(int ret[2])
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        ret[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, HALO_CHILD_PORT_FD + 1);
        error = ret[i] < 0 ? -errno : error;
        close(ends[i]);
    }
    if (error) {
        for (int i = 0; i < 2; i++)
            if (ret[i] >= 0)
                close(ret[i]);
        return error;
    }
    fcntl(ret[0], F_SETFL, O_NONBLOCK);
    return 0;
}

static int start(const struct halo_child_options *options, int (*fn)(struct halo_child_port *, void *), void *ud,
                 char *const *argv, struct halo_child_outcome *ret)
{
    int port[2], errors[2];
    *ret =
        (struct halo_child_outcome){.end = HALO_CHILD_EXITED, .status = NOT_RUN, .deadline_ms = options->deadline_ms};
    int r = make_pipe(port);
    if (r)
        return r;
    r = make_pipe(errors);
    if (r) {
        close(port[0]);
        close(port[1]);
        return r;
    }
    signal(SIGCHLD, SIG_DFL); /* who started this program may have had it ignored: then nothing could be waited for */
    const bool raw = argv && !options->speaks;
    const pid_t parent = getpid();
    fflush(NULL); /* or the child has it to print as well */
    pid_t pid = fork();
    if (pid == 0) {
        struct halo_child_port speaks = {port[1]};
        settle(options, port[1], errors[1], parent, raw);
        if (argv)
            run_program(options, port[1], argv);
        _exit(fn(&speaks, ud));
    }
    r = pid < 0 ? -errno : 0;
    close(port[1]);
    close(errors[1]);
    if (r) {
        close(port[0]);
        close(errors[0]);
        return r;
    }
    setpgid(pid, pid); /* in both, so that neither has to wait for the other */
    struct child child = {.pid = pid,
                          .pid_fd = (int)syscall(SYS_pidfd_open, pid, 0),
                          .port_fd = port[0],
                          .error_fd = errors[0],
                          .raw = raw,
                          .options = options,
                          .outcome = ret};
    ret->pid = pid;
    supervise(&child);
    return 0;
}

int halo_child_call(const struct halo_child_options *options, int (*fn)(struct halo_child_port *port, void *ud),
                    void *ud, struct halo_child_outcome *ret)
{
    return start(options, fn, ud, NULL, ret);
}

int halo_child_run(const struct halo_child_options *options, char *const *argv, struct halo_child_outcome *ret)
{
    return start(options, NULL, NULL, argv, ret);
}

const char *halo_child_describe(const struct halo_child_outcome *outcome, char *text, size_t n_bytes)
{
    const char *during = outcome->phase[0] ? " while " : "";
    switch (outcome->end) {
    case HALO_CHILD_EXITED:
        if (outcome->status == NOT_RUN)
            snprintf(text, n_bytes, "could not be run");
        else
            snprintf(text, n_bytes, "ended with status %d", outcome->status);
        break;
    case HALO_CHILD_KILLED:
        snprintf(text, n_bytes, "was killed by signal %d (%s)%s%s", outcome->status, strsignal(outcome->status), during,
                 outcome->phase);
        break;
    case HALO_CHILD_DEADLINE:
        snprintf(text, n_bytes, "did not end within %u ms%s%s; it was killed", outcome->deadline_ms, during,
                 outcome->phase);
        break;
    case HALO_CHILD_STUCK:
        snprintf(text, n_bytes,
                 "did not end within %u ms%s%s, and process %d cannot be killed (%s): it waits inside the kernel and "
                 "ends only with a driver reset or a reboot",
                 outcome->deadline_ms, during, outcome->phase, (int)outcome->pid, outcome->stuck_in);
        break;
    }
    return text;
}
