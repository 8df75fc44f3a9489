/* supervisor.c: listens, checks who connects, starts a child for each connection, ends with all of them.
 *
 * A child is a fresh program: HIP does not survive a fork. It is killed when the supervisor dies (PR_SET_PDEATHSIG),
 * and its own death frees what it held. One thread.
 */
#include "supervisor_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/log.h>
#include <listen/listen.h>

#include "tcp_priv.h"

#define SESSION_FD 3
#define SOCKET_MODE 0600

struct supervisor {
    const struct halo_worker_options *options;
    char **child_argv; /* of this process, with --session */
    struct halo_listen unix_socket;
    int tcp_fd, signal_fd;
    sigset_t signals_before;
    pid_t *children; /* [n_sessions] */
    uint32_t n_children;
};

/* ---- children ---- */

/* In the child, between fork and exec. */
static _Noreturn void become_session(const struct supervisor *s, int fd, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, &s->signals_before, NULL);
    if (fd == SESSION_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, SESSION_FD) < 0)
        _exit(1);
    execv("/proc/self/exe", s->child_argv);
    _exit(127);
}

static void start_session(struct supervisor *s, int fd)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_session(s, fd, parent);
    if (pid < 0) {
        halo_log(HALO_LOG_ERROR, "cannot start a session: %s", strerror(errno));
        return;
    }
    s->children[s->n_children++] = pid;
    halo_log(HALO_LOG_INFO, "session %d begins (%u of %u)", (int)pid, s->n_children, s->options->n_sessions);
}

static void reap(struct supervisor *s)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (uint32_t i = 0; i < s->n_children; i++)
            if (s->children[i] == pid)
                s->children[i] = s->children[--s->n_children];
        if (WIFSIGNALED(status))
            halo_log(HALO_LOG_WARN, "session %d was killed by signal %d", (int)pid, WTERMSIG(status));
    }
}

static void kill_all(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n_children; i++)
        kill(s->children[i], SIGKILL);
    for (uint32_t i = 0; i < s->n_children; i++)
        waitpid(s->children[i], NULL, 0);
    s->n_children = 0;
}

/* ---- connections ---- */

static int peer_uid(int fd, bool is_tcp, uid_t *ret)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    if (is_tcp)
        return halo_tcp_peer_uid(fd, ret);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return -errno;
    *ret = peer.uid;
    return 0;
}

/* Who may use the GPU: this user, and root, who can anyway. */
static bool is_welcome(const struct supervisor *s, int fd, bool is_tcp)
{
    uid_t uid;
    int r = peer_uid(fd, is_tcp, &uid);
    if (r < 0)
        halo_log(HALO_LOG_WARN, "refused a connection: cannot tell whose it is: %s", strerror(-r));
    else if (uid != geteuid() && uid != 0)
        halo_log(HALO_LOG_WARN, "refused a connection of user %u: this worker serves user %u", (unsigned)uid,
                 (unsigned)geteuid());
    else if (s->n_children == s->options->n_sessions)
        halo_log(HALO_LOG_WARN, "refused a connection: all %u sessions are in use (--max-sessions)", s->n_children);
    else
        return true;
    return false;
}

static void take_connections(struct supervisor *s, int listening, bool is_tcp)
{
    int fd;
    while ((fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        reap(s);
        if (is_welcome(s, fd, is_tcp))
            start_session(s, fd);
        close(fd);
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        halo_log(HALO_LOG_ERROR, "cannot accept a connection: %s", strerror(errno));
        poll(NULL, 0, 100); /* it is still there; not in a busy loop */
    }
}

/* ---- lifecycle ---- */

static int open_sockets(struct supervisor *s, struct halo_fault *fault)
{
    char name[96];
    if (s->options->socket[0]) {
        int r = halo_listen_open(&s->unix_socket, s->options->socket, SOCKET_MODE, fault);
        if (r < 0)
            return r;
        halo_log(HALO_LOG_INFO, "listening on %s", s->options->socket);
    }
    if (s->options->listen) {
        s->tcp_fd = halo_tcp_listen(s->options->listen, fault);
        if (s->tcp_fd < 0)
            return s->tcp_fd;
        halo_tcp_name(s->tcp_fd, name, sizeof(name));
        halo_log(HALO_LOG_INFO, "listening on %s", name);
    }
    return 0;
}

static int take_signals(struct supervisor *s, struct halo_fault *fault)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, &s->signals_before);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot take signals") : 0;
}

/* False: it is time to end. */
static bool take_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            return false;
    reap(s);
    return true;
}

static void serve(struct supervisor *s)
{
    for (;;) {
        struct pollfd states[] = {{.fd = s->signal_fd, .events = POLLIN},
                                  {.fd = s->unix_socket.fd, .events = POLLIN},
                                  {.fd = s->tcp_fd, .events = POLLIN}};
        if (poll(states, 3, -1) < 0)
            continue;
        if (states[0].revents && !take_signal(s))
            return;
        if (states[1].revents)
            take_connections(s, s->unix_socket.fd, false);
        if (states[2].revents)
            take_connections(s, s->tcp_fd, true);
    }
}

int halo_supervisor_run(const struct halo_worker_options *options, int argc, char **argv, struct halo_fault *fault)
{
    static char flag[] = "--session", value[] = "3";
    struct supervisor s = {
        .options = options,
        .child_argv = calloc((size_t)argc + 3, sizeof(*s.child_argv)),
        .unix_socket = {.fd = -1, .lock_fd = -1},
        .tcp_fd = -1,
        .signal_fd = -1,
        .children = calloc(options->n_sessions, sizeof(*s.children)),
    };
    int r = s.child_argv && s.children ? 0 : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory");
    if (r == 0) {
        memcpy(s.child_argv, argv, (size_t)argc * sizeof(*argv));
        s.child_argv[argc] = flag;
        s.child_argv[argc + 1] = value;
        r = take_signals(&s, fault);
    }
    if (r == 0)
        r = open_sockets(&s, fault);
    if (r == 0)
        serve(&s);
    kill_all(&s);
    halo_listen_finish(&s.unix_socket);
    if (s.tcp_fd >= 0)
        close(s.tcp_fd);
    if (s.signal_fd >= 0)
        close(s.signal_fd);
    free(s.child_argv);
    free(s.children);
    return r;
}
